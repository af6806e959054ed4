# SPDX-License-Identifier: Apache-2.0
"""Each maker of kernels with every attribute of its operators: all kernels of all goals give what the reference does."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel_checks import KernelCheck
from mlf_sdk.compiler.kernels import compact, general
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.floats import convolution as real_convolution
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.operators import (
    UNLIMITED,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Pool2D,
    PoolKind,
    Rounding,
    Softmax,
    TransposeConv,
    Window,
)
from mlf_sdk.compiler.reals import Reduce, Reduction
from mlf_sdk.compiler.schedule import Choice, candidates
from one_operator import Values, compare, fields

# Types of input and output, scale and zero point of both, logarithm.
SOFTMAX = {
    "int8": ("int8", 0.11, 3, "int8", 2**-8, -128, False),
    "steep int8": ("int8", 4.7, 3, "int8", 2**-8, -128, False),
    "steep logarithm": ("int8", 4.7, 3, "int8", 2**-4, 127, True),
    "steep uint8": ("uint8", 0.9, 90, "uint8", 2**-8, 5, False),
    "steepest": ("int8", 8.021560668945312, 3, "int16", 2**-16, -32768, False),
    "int8 to int16": ("int8", 0.11, 3, "int16", 2**-16, -32768, False),
    "logarithm": ("int8", 0.09, 3, "int8", 2**-4, 127, True),
    "int16": ("int16", 0.0004, 0, "int16", 2**-15, 0, False),
    "uint8": ("uint8", 0.13, 90, "uint8", 2**-8, 5, False),
    "float": ("float32", 0.0, 0, "float32", 0.0, 0, False),
    "logarithm of floats": ("float32", 0.0, 0, "float32", 0.0, 0, True),
}


@pytest.mark.parametrize("kind", SOFTMAX)
def test_softmax(kind: str, tmp_path: Path) -> None:
    compare([check for beta in (1.0, 0.4) for check in softmax_checks(kind, beta)], tmp_path)


def softmax_checks(kind: str, beta: float) -> list[KernelCheck]:
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
    return v.checks(operator, *(run.reshape(2, 5, 9).astype(dtype) for run in runs))


def test_logarithms_that_end_at_a_stored_value(tmp_path: Path) -> None:
    """The largest difference that is not counted any more: its logarithm would have more than 32 bits."""
    v = Values()
    x, y = v.add("int8", (1, 9), 1.953, 3), v.add("int8", (1, 9), 2**-4, 127)
    operator = Softmax(**fields((x,), y), beta=1.0, log=True)
    compare(v.checks(operator, np.array([[127] * 4 + [111] * 5], np.int8)), tmp_path)


def test_constants_of_softmax() -> None:
    """An exponential for each of the 256 distances between bytes."""
    v = Values()
    for dtype, zero in (("int8", -128), ("uint8", 0)):
        x, y = v.add(dtype, (3, 9), 0.1, 0), v.add(dtype, (3, 9), 2**-8, zero)
        operator = Softmax(**fields((x,), y), beta=1.0)
        (kernel,) = candidates(v.graph(operator), operator, Choice())
        assert kernel.constants_bytes == 4 * 256


POOLS: dict[str, tuple[Any, ...]] = {
    "borders": ((2, 7, 7), (3, 3), (2, 3), (1, 1), (1, 1), (4, 3)),
    "dilation": ((1, 7, 8), (3, 2), (1, 2), (2, 3), (1, 2), (5, 4)),
    "whole": ((1, 3, 5), (3, 5), (3, 5), (1, 1), (0, 0), (1, 1)),
    "of 256": ((1, 16, 16), (16, 16), (1, 1), (1, 1), (0, 0), (1, 1)),
    "larger than 256": ((1, 17, 17), (17, 17), (1, 1), (1, 1), (0, 0), (1, 1)),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float32"])
def test_pooling(dtype: str, tmp_path: Path) -> None:
    checks: list[KernelCheck] = []
    for shape, function, channels in product(POOLS, (PoolKind.AVERAGE, PoolKind.MAX), (3, 8)):
        v = Values()
        operator = pooling(v, dtype, function, shape, channels)
        checks += v.checks(operator)
    compare(checks, tmp_path)


def pooling(v: Values, dtype: str, function: PoolKind, shape: str, channels: int) -> Pool2D:
    """A pooling operator between two new values."""
    (n, *space), size, stride, dilation, before, output = POOLS[shape]
    scale = 0.0 if dtype == "float32" else 0.1
    x = v.add(dtype, (n, *space, channels), scale, 4)
    y = v.add(dtype, (n, *output, channels), scale, 4)
    window = Window(size=size, stride=stride, dilation=dilation, before=before)
    clamp = {"float32": (-1.0, 2.0), "uint8": (20, 200), "int8": (-90, 100)}.get(dtype, (-20000, 25000))
    return Pool2D(**fields((x,), y), function=function, window=window, clamp=clamp)


@pytest.mark.parametrize(
    ("dtype", "function", "shape", "channels", "fast"),
    [
        ("int8", PoolKind.AVERAGE, "borders", 8, True),
        ("int8", PoolKind.AVERAGE, "borders", 6, False),
        ("int8", PoolKind.AVERAGE, "dilation", 8, False),
        ("int8", PoolKind.AVERAGE, "of 256", 8, True),
        ("int8", PoolKind.AVERAGE, "larger than 256", 8, False),
        ("int8", PoolKind.MAX, "borders", 8, False),
        ("uint8", PoolKind.AVERAGE, "borders", 8, False),
        ("int16", PoolKind.AVERAGE, "borders", 8, False),
    ],
)
def test_averages_of_four_bytes_at_a_time(
    dtype: str, function: PoolKind, shape: str, channels: int, fast: bool
) -> None:
    v = Values()
    operator = pooling(v, dtype, function, shape, channels)
    (kernel,) = candidates(v.graph(operator), operator, Choice())
    assert ("__sxtab16" in kernel.body) == fast


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
def test_means_and_sums(dtype: str, tmp_path: Path) -> None:
    checks: list[KernelCheck] = []
    rounding = None if dtype == "float32" else Rounding.TFLM
    for axes, function in product([(1, 2), (2,), (0, 3), (1,)], (Reduction.MEAN, Reduction.SUM)):
        v = Values()
        shape = (2, 3, 4, 5)
        scale = 0.0 if dtype == "float32" else 0.1
        x = v.add(dtype, shape, scale, 7)
        y = v.add(dtype, tuple(e for a, e in enumerate(shape) if a not in axes), scale * 1.3, -9)
        operator = Reduce(**fields((x,), y), axes=axes, function=function, rounding=rounding)
        checks += v.checks(operator)
        (kernel,) = candidates(v.graph(operator), operator, Choice())
        assert kernel.family == f"reduce_{function.value}"
    compare(checks, tmp_path)


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
    "one column of pixels": ((1, 3, 1, 7), 6, 7, (1, 1), (1, 1), (1, 1), (0, 0), (3, 1)),
    "a row of pixels": ((1, 1, 5, 7), 6, 7, (1, 1), (1, 1), (1, 1), (0, 0), (1, 5)),
    "grouped pixels": ((1, 3, 5, 6), 4, 3, (1, 1), (1, 1), (1, 1), (0, 0), (3, 5)),
    "rows apart, padded behind": ((1, 7, 5, 2), 3, 2, (3, 3), (1, 1), (3, 1), (0, 0), (2, 3)),
    "every second pixel": ((1, 5, 6, 3), 4, 3, (1, 1), (2, 2), (1, 1), (0, 0), (3, 3)),
    "padded pixels": ((1, 3, 4, 3), 4, 3, (1, 1), (1, 1), (1, 1), (1, 1), (5, 6)),
    "pixels padded behind": ((1, 3, 4, 3), 4, 3, (1, 1), (1, 1), (1, 1), (0, 0), (4, 6)),
    "padded behind": ((1, 5, 5, 2), 3, 2, (2, 2), (2, 2), (1, 1), (0, 0), (3, 3)),
    "padded above": ((1, 5, 5, 2), 3, 2, (2, 2), (1, 1), (1, 1), (1, 0), (5, 4)),
    "padded on the left": ((1, 5, 5, 2), 3, 2, (2, 2), (1, 1), (1, 1), (0, 1), (4, 5)),
    "one column": ((1, 6, 4, 3), 4, 3, (2, 4), (1, 1), (1, 1), (0, 0), (5, 1)),
}


@pytest.mark.parametrize("bias", [False, True])
def test_convolutions_of_floats(bias: bool, tmp_path: Path) -> None:
    compare([check for shape in CONVOLUTIONS for check in real_checks(shape, bias)], tmp_path)


def real_checks(shape: str, bias: bool) -> list[KernelCheck]:
    """Comparisons of a convolution of floats; one with a bias limits its results."""
    read, channels, depth, size, stride, dilation, before, output = CONVOLUTIONS[shape]
    v = Values()
    x = v.add("float32", read)
    inputs = [x, v.normal(channels, *size, depth), *([v.normal(channels)] if bias else [])]
    y = v.add("float32", (read[0], *output, channels))
    window = Window(size=size, stride=stride, dilation=dilation, before=before)
    clamp = (-1.5, 2.5) if bias else UNLIMITED
    return v.checks(Conv2D(**fields(tuple(inputs), y), window=window, clamp=clamp))


@pytest.mark.parametrize("shape", CONVOLUTIONS)
def test_windows_of_floats_that_are_copied(shape: str) -> None:
    """Only those over the border, of groups and with columns apart; pixels are rows of a matrix."""
    read, channels, depth, size, stride, dilation, before, output = CONVOLUTIONS[shape]
    v = Values()
    inputs = (v.add("float32", read), v.normal(channels, *size, depth))
    y = v.add("float32", (read[0], *output, channels))
    window = Window(size=size, stride=stride, dilation=dilation, before=before)
    operator = Conv2D(**fields(inputs, y), window=window, clamp=UNLIMITED)
    kernel = next(candidates(v.graph(operator), operator, Choice()))
    assert kernel.family == "real_conv"
    copied = "padded" in shape or shape in ("one image", "columns apart", "groups", "grouped pixels")
    assert bool(kernel.workspace_bytes) == copied
    rows = ("pixels", "one pixel", "one column of pixels", "a row of pixels")
    assert ("int32_t oy" in kernel.body) == (shape not in rows)
    pixels = 1 if shape == "one pixel" or (output[1] == 1 and shape not in rows) else 2
    assert kernel.workspace_bytes in (0, 4 * pixels * size[0] * size[1] * depth)
    together = shape in ("rows together", "one column")  # a window is one run
    if together:
        assert "int32_t skip = 0;" in kernel.body
    lines = 1 if together or shape in ("columns apart", "groups", "grouped pixels") else size[0]
    loops = [name for name in kernel.helpers if "window" not in name]
    assert loops and all(name.startswith(f"real_rows_{pixels}x") for name in loops)
    assert all(name.endswith(f"_{lines}x{size[0] * size[1] * depth // lines}") for name in loops)


def test_layers_that_are_no_floats_or_not_constant() -> None:
    v = Values()
    x, y = v.add("float32", (2, 7)), v.add("float32", (2, 5))
    computed = FullyConnected(**fields((x, v.add("float32", (5, 7))), y), clamp=UNLIMITED)
    assert real_convolution.dense(Contraction.of(v.graph(computed), computed)) is None
    constant = FullyConnected(**fields((x, v.normal(5, 7)), y), clamp=UNLIMITED)
    kernel = next(candidates(v.graph(constant), constant, Choice()))
    assert kernel.family == "real_dense"
    v = Values()
    inputs, y = stored_layer(v, "int8", "int32", (2, 7), (5, 7), (2, 5))
    stored = FullyConnected(**fields(inputs, y), clamp=CLAMPS["int8"])
    assert real_convolution.dense(Contraction.of(v.graph(stored), stored)) is None


def test_matrix_products_of_floats(tmp_path: Path) -> None:
    checks: list[KernelCheck] = []
    for rows, bias in product((1, 2, 3), (False, True)):
        v = Values()
        inputs = (v.add("float32", (rows, 7)), v.normal(5, 7), *([v.normal(5)] if bias else []))
        y = v.add("float32", (rows, 5))
        checks += v.checks(FullyConnected(**fields(inputs, y), clamp=(-1.5, 2.5) if bias else UNLIMITED))
    compare(checks, tmp_path)


# Type of the values and of the bias, which int16 layers may have in 32 or 64 bits.
STORED = [
    ("int8", "int32"), ("int8", ""), ("uint8", "int32"), ("int16", "int32"), ("int16", "int64"), ("int16", ""),
]  # fmt: skip
CLAMPS = {"int8": (-90, 100), "uint8": (20, 200), "int16": (-9000, 8000)}


def stored_layer(
    v: Values, dtype: str, bias: str, read: tuple[int, ...], shape: tuple[int, ...], written: tuple[int, ...]
) -> tuple[tuple[int, ...], int]:
    """Inputs and output of a layer with weights of a shape, around a zero point where they are uint8."""
    words = dtype == "int16"
    x = v.add(dtype, read, 0.05, 0 if words else 11)
    data = v.random.integers(1, 127, shape) * v.random.choice([1, 1 if dtype == "uint8" else -1], shape)
    weights = v.add("uint8" if dtype == "uint8" else "int8", shape, 0.02, 60 * (dtype == "uint8"), data)
    y = v.add(dtype, written, 0.3, 0 if words else 7)
    if not bias:
        return (x, weights), y
    return (x, weights, v.add(bias, written[-1:], data=v.random.integers(-9000, 9000, written[-1]))), y


@pytest.mark.parametrize(("dtype", "bias"), STORED)
def test_convolutions_of_stored_values(dtype: str, bias: str, tmp_path: Path) -> None:
    """General kernels, and those of one function for all layers, beside the others."""
    checks: list[KernelCheck] = []
    for shape in ("one image", "two images", "rows apart", "columns apart", "groups", "pixels"):
        read, channels, depth, size, stride, dilation, before, output = CONVOLUTIONS[shape]
        v = Values()
        written = (read[0], *output, channels)
        inputs, y = stored_layer(v, dtype, bias, read, (channels, *size, depth), written)
        window = Window(size=size, stride=stride, dilation=dilation, before=before)
        checks += v.checks(Conv2D(**fields(inputs, y), window=window, clamp=CLAMPS[dtype]))
    compare(checks, tmp_path)


@pytest.mark.parametrize(("dtype", "bias"), STORED)
def test_depthwise_layers_of_stored_values(dtype: str, bias: str, tmp_path: Path) -> None:
    checks: list[KernelCheck] = []
    for shape, multiplier in product(("one image", "two images", "columns apart"), (1, 2)):
        read, _, _, size, stride, dilation, before, output = CONVOLUTIONS[shape]
        v = Values()
        channels = read[3] * multiplier
        inputs, y = stored_layer(v, dtype, bias, read, (1, *size, channels), (read[0], *output, channels))
        window = Window(size=size, stride=stride, dilation=dilation, before=before)
        attributes = {"window": window, "multiplier": multiplier, "clamp": CLAMPS[dtype]}
        checks += v.checks(DepthwiseConv2D(**fields(inputs, y), **attributes))
    compare(checks, tmp_path)


def test_transposed_convolutions(tmp_path: Path) -> None:
    """Windows narrower than the stride, and wider: these reach beyond the last pixel."""
    checks: list[KernelCheck] = []
    wide = (5, 2, 9)  # width of the window, stride, width of the output
    for (dtype, bias), (across, step, width) in product(
        [*STORED, ("float32", "float32")], [(2, 3, 10), wide]
    ):
        v = Values()
        read, shape, written = (2, 3, 4, 3), (5, 3, across, 3), (2, 6, width, 5)
        if dtype == "float32":
            x, y = v.add(dtype, read), v.add(dtype, written)
            inputs: tuple[int, ...] = (x, v.normal(*shape), v.normal(5))
        else:
            inputs, y = stored_layer(v, dtype, bias, read, shape, written)
        window = Window(size=(3, across), stride=(2, step), before=(1, 1))
        clamp = CLAMPS.get(dtype, (-2.0, 3.0))
        checks += v.checks(TransposeConv(**fields(inputs, y), window=window, clamp=clamp))
    compare(checks, tmp_path)


def test_matrix_products_of_stored_values(tmp_path: Path) -> None:
    checks: list[KernelCheck] = []
    for (dtype, bias), rows in product(STORED, (1, 3)):
        v = Values()
        inputs, y = stored_layer(v, dtype, bias, (rows, 21), (6, 21), (rows, 6))
        checks += v.checks(FullyConnected(**fields(inputs, y), clamp=CLAMPS[dtype]))
    compare(checks, tmp_path)


def test_layers_that_one_function_computes() -> None:
    """Of one image without groups, whose numbers have 16 bits."""

    def kernel(read: tuple[int, ...], depth: int, clamp: tuple[int, int] = (-90, 100)) -> Kernel | None:
        v = Values()
        inputs, y = stored_layer(v, "int8", "int32", read, (6, 1, 1, depth), (*read[:3], 6))
        window = Window(size=(1, 1), stride=(1, 1), dilation=(1, 1), before=(0, 0))
        operator = Conv2D(**fields(inputs, y), window=window, clamp=clamp)
        return compact.compact(Contraction.of(v.graph(operator), operator))

    one = kernel((1, 3, 4, 5), 5)
    assert one is not None
    assert kernel((2, 3, 4, 5), 5) is None
    assert kernel((1, 3, 4, 6), 3) is None
    largest = (1 << 15) - 1
    assert kernel((1, 1, largest, 1), 1) is not None
    assert kernel((1, 1, largest + 1, 1), 1) is None
    assert kernel((1, 3, 4, 5), 5, (-largest - 1, largest)) is not None
    assert kernel((1, 3, 4, 5), 5, (-largest - 2, largest)) is None


@pytest.mark.parametrize(
    ("dtype", "outputs", "found"),
    [("int8", 2, True), ("int8", 3, False), ("uint8", 2, False), ("int16", 2, False)],
)
def test_matrix_products_of_few_outputs(dtype: str, outputs: int, found: bool) -> None:
    v = Values()
    inputs, y = stored_layer(v, dtype, "int32", (2, 21), (outputs, 21), (2, outputs))
    operator = FullyConnected(**fields(inputs, y), clamp=CLAMPS[dtype])
    assert (general.of_few_outputs(Contraction.of(v.graph(operator), operator)) is not None) == found
