# SPDX-License-Identifier: Apache-2.0
"""Each maker of kernels with every attribute of its operators: all kernels of all goals give what the reference does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlf_sdk.compiler.operators import (
    UNLIMITED,
    Conv2D,
    FullyConnected,
    Mean,
    Pool2D,
    PoolKind,
    Softmax,
    Window,
)
from mlf_sdk.compiler.schedule import Choice, candidates
from one_operator import Values, fields

# Types of input and output, scale and zero point of both, logarithm.
SOFTMAX = {
    "int8": ("int8", 0.11, 3, "int8", 2**-8, -128, False),
    "steep int8": ("int8", 4.7, 3, "int8", 2**-8, -128, False),
    "steep logarithm": ("int8", 4.7, 3, "int8", 2**-4, 127, True),
    "steep uint8": ("uint8", 0.9, 90, "uint8", 2**-8, 5, False),
    "int8 to int16": ("int8", 0.11, 3, "int16", 2**-16, -32768, False),
    "logarithm": ("int8", 0.09, 3, "int8", 2**-4, 127, True),
    "int16": ("int16", 0.0004, 0, "int16", 2**-15, 0, False),
    "uint8": ("uint8", 0.13, 90, "uint8", 2**-8, 5, False),
    "float": ("float32", 0.0, 0, "float32", 0.0, 0, False),
    "logarithm of floats": ("float32", 0.0, 0, "float32", 0.0, 0, True),
}


@pytest.mark.parametrize("beta", [1.0, 0.4])
@pytest.mark.parametrize("kind", SOFTMAX)
def test_softmax(kind: str, beta: float, tmp_path: Path) -> None:
    """Rows of all that is equal, one that stands out, steps, values near each other beside far ones."""
    dtype, scale, zero, result, result_scale, result_zero, log = SOFTMAX[kind]
    v = Values()
    x, y = v.add(dtype, (2, 5, 9), scale, zero), v.add(result, (2, 5, 9), result_scale, result_zero)
    low, high = (-30, 30) if dtype == "float32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    rows = [np.full(9, low), np.full(9, high), np.linspace(low, high, 9), np.linspace(high, low, 9)]
    rows.append(np.array([low] * 4 + [high] + [low] * 4))
    operator = Softmax(**fields((x,), y), beta=beta, log=log)
    near = [np.full(9, 7) + np.arange(9) % step for step in (1, 2, 3, 5, 9)]
    wide = (high - low) / 30
    spread = [np.clip(v.random.normal((low, high)[row % 2], wide, 9), low, high) for row in range(10)]
    middle = v.random.normal((low + high) / 2, wide, (30, 9))
    runs = [np.array([*rows, *near]), np.array(spread), *np.split(middle, 3)]
    v.check(operator, tmp_path, *(run.reshape(2, 5, 9).astype(dtype) for run in runs))


def test_constants_of_softmax() -> None:
    """An exponential for each of the 256 distances between bytes."""
    v = Values()
    for dtype, zero in (("int8", -128), ("uint8", 0)):
        x, y = v.add(dtype, (3, 9), 0.1, 0), v.add(dtype, (3, 9), 2**-8, zero)
        operator = Softmax(**fields((x,), y), beta=1.0)
        (kernel,) = candidates(v.graph(operator), operator, Choice())
        assert kernel.constants_bytes == 4 * 256


POOLS: dict[str, tuple[Any, ...]] = {
    "borders": ((2, 7, 8), (3, 2), (2, 3), (1, 1), (1, 1), (4, 3)),
    "dilation": ((1, 7, 8), (3, 2), (1, 2), (2, 3), (1, 2), (5, 4)),
    "whole": ((1, 3, 5), (3, 5), (3, 5), (1, 1), (0, 0), (1, 1)),
    "larger than 256": ((1, 17, 17), (17, 17), (1, 1), (1, 1), (0, 0), (1, 1)),
}


@pytest.mark.parametrize("channels", [3, 8])
@pytest.mark.parametrize("function", [PoolKind.AVERAGE, PoolKind.MAX])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float32"])
@pytest.mark.parametrize("shape", POOLS)
def test_pooling(shape: str, dtype: str, function: PoolKind, channels: int, tmp_path: Path) -> None:
    (n, *space), size, stride, dilation, before, output = POOLS[shape]
    v = Values()
    scale = 0.0 if dtype == "float32" else 0.1
    x = v.add(dtype, (n, *space, channels), scale, 4)
    y = v.add(dtype, (n, *output, channels), scale, 4)
    window = Window(size=size, stride=stride, dilation=dilation, before=before)
    clamp = {"float32": (-1.0, 2.0), "uint8": (20, 200), "int8": (-90, 100)}.get(dtype, (-20000, 25000))
    v.check(Pool2D(**fields((x,), y), function=function, window=window, clamp=clamp), tmp_path)


@pytest.mark.parametrize(
    ("dtype", "function", "shape", "channels", "fast"),
    [
        ("int8", PoolKind.AVERAGE, "borders", 8, True),
        ("int8", PoolKind.AVERAGE, "borders", 6, False),
        ("int8", PoolKind.AVERAGE, "dilation", 8, False),
        ("int8", PoolKind.AVERAGE, "larger than 256", 8, False),
        ("int8", PoolKind.MAX, "borders", 8, False),
        ("uint8", PoolKind.AVERAGE, "borders", 8, False),
        ("int16", PoolKind.AVERAGE, "borders", 8, False),
    ],
)
def test_averages_of_four_bytes_at_a_time(
    dtype: str, function: PoolKind, shape: str, channels: int, fast: bool
) -> None:
    (n, *space), size, stride, dilation, before, output = POOLS[shape]
    v = Values()
    x, y = v.add(dtype, (n, *space, channels), 0.1), v.add(dtype, (n, *output, channels), 0.1)
    window = Window(size=size, stride=stride, dilation=dilation, before=before)
    operator = Pool2D(**fields((x,), y), function=function, window=window, clamp=(-9, 9))
    (kernel,) = candidates(v.graph(operator), operator, Choice())
    assert ("__sxtab16" in kernel.body) == fast


@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize("axes", [(1, 2), (2,), (0, 3), (1,)])
@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
def test_means_and_sums(dtype: str, axes: tuple[int, ...], total: bool, tmp_path: Path) -> None:
    v = Values()
    shape = (2, 3, 4, 5)
    scale = 0.0 if dtype == "float32" else 0.1
    x = v.add(dtype, shape, scale, 7)
    y = v.add(dtype, tuple(e for a, e in enumerate(shape) if a not in axes), scale * 1.3, -9)
    v.check(Mean(**fields((x,), y), axes=axes, total=total), tmp_path)


# Input, outputs, channels of one group, window, stride, dilation, padding before, height and width of the output.
CONVOLUTIONS: dict[str, tuple[Any, ...]] = {
    "one image": ((1, 6, 7, 4), 6, 4, (3, 3), (1, 1), (1, 1), (1, 1), (6, 7)),
    "two images": ((2, 6, 7, 3), 5, 3, (3, 2), (2, 2), (1, 1), (0, 0), (2, 3)),
    "rows apart": ((1, 7, 3, 4), 5, 4, (3, 3), (1, 1), (2, 1), (0, 0), (3, 1)),
    "rows together": ((2, 7, 3, 4), 5, 4, (3, 3), (2, 1), (1, 1), (0, 0), (3, 1)),
    "rows apart and padded": ((1, 7, 3, 4), 5, 4, (3, 3), (1, 1), (2, 1), (2, 1), (5, 2)),
    "columns apart": ((1, 5, 9, 3), 4, 3, (2, 3), (1, 2), (1, 2), (1, 2), (5, 4)),
    "groups": ((2, 5, 6, 6), 9, 2, (3, 3), (1, 2), (2, 1), (1, 1), (3, 3)),
    "pixels": ((2, 3, 5, 7), 6, 7, (1, 1), (1, 1), (1, 1), (0, 0), (3, 5)),
    "one pixel": ((1, 1, 1, 7), 6, 7, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    "every second pixel": ((1, 5, 6, 3), 4, 3, (1, 1), (2, 2), (1, 1), (0, 0), (3, 3)),
    "padded pixels": ((1, 3, 4, 3), 4, 3, (1, 1), (1, 1), (1, 1), (1, 1), (5, 6)),
    "pixels padded behind": ((1, 3, 4, 3), 4, 3, (1, 1), (1, 1), (1, 1), (0, 0), (4, 6)),
    "padded behind": ((1, 5, 5, 2), 3, 2, (2, 2), (2, 2), (1, 1), (0, 0), (3, 3)),
    "padded above": ((1, 5, 5, 2), 3, 2, (2, 2), (1, 1), (1, 1), (1, 0), (5, 4)),
    "padded on the left": ((1, 5, 5, 2), 3, 2, (2, 2), (1, 1), (1, 1), (0, 1), (4, 5)),
    "one column": ((1, 6, 4, 3), 4, 3, (2, 4), (1, 1), (1, 1), (0, 0), (5, 1)),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", CONVOLUTIONS)
def test_convolutions_of_floats(shape: str, bias: bool, tmp_path: Path) -> None:
    read, channels, depth, size, stride, dilation, before, output = CONVOLUTIONS[shape]
    v = Values()
    x = v.add("float32", read)
    inputs = [x, v.normal(channels, *size, depth), *([v.normal(channels)] if bias else [])]
    y = v.add("float32", (read[0], *output, channels))
    window = Window(size=size, stride=stride, dilation=dilation, before=before)
    clamp = (-1.5, 2.5) if bias else UNLIMITED
    v.check(Conv2D(**fields(tuple(inputs), y), window=window, clamp=clamp), tmp_path)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_matrix_products_of_floats(rows: int, bias: bool, tmp_path: Path) -> None:
    v = Values()
    x = v.add("float32", (rows, 7))
    inputs = [x, v.normal(5, 7), *([v.normal(5)] if bias else [])]
    y = v.add("float32", (rows, 5))
    clamp = (-1.5, 2.5) if bias else UNLIMITED
    v.check(FullyConnected(**fields(tuple(inputs), y), clamp=clamp), tmp_path)
