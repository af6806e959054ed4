# SPDX-License-Identifier: Apache-2.0
"""Makers of kernels of real numbers, each with every attribute: all kernels give what the reference does."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from kernel_checks import KernelCheck
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.floats.convolution import depthwise
from mlf_sdk.compiler.operators import (
    UNLIMITED,
    Call,
    Convert,
    DepthwiseConv2D,
    Map,
    Pool2D,
    PoolKind,
    Rounding,
    Softmax,
    Window,
)
from mlf_sdk.compiler.reals import (
    Accumulate,
    Lookup,
    MatMul,
    Normalise,
    Reduce,
    Reduction,
    Resample,
)
from mlf_sdk.compiler.schedule import Choice, candidates
from one_operator import Values, compare, fields

# Input, window, stride, dilation, padding before, height and width of the output.
WINDOWS = {
    "padded": ((2, 5, 6), (3, 3), (1, 1), (1, 1), (1, 1), (5, 6)),
    "strides": ((1, 6, 7), (3, 2), (2, 3), (1, 1), (0, 0), (2, 2)),
    "rows apart": ((1, 7, 5), (3, 2), (1, 1), (2, 1), (2, 0), (6, 4)),
    "columns apart": ((1, 4, 9), (2, 3), (1, 2), (1, 3), (0, 4), (3, 5)),
    "beyond the border": ((1, 2, 2), (2, 2), (1, 1), (3, 3), (4, 4), (7, 7)),
}


@pytest.mark.parametrize("channels", [3, 8, 21])
def test_depthwise_layers(channels: int, tmp_path: Path) -> None:
    checks: list[KernelCheck] = []
    for shape, bias in product(WINDOWS, (False, True)):
        (n, h, w), size, stride, dilation, before, output = WINDOWS[shape]
        v = Values()
        inputs = [v.add("float32", (n, h, w, channels)), v.normal(1, *size, channels)]
        inputs += [v.normal(channels)] if bias else []
        y = v.add("float32", (n, *output, channels))
        window = Window(size=size, stride=stride, dilation=dilation, before=before)
        clamp = (-1.5, 2.5) if bias else UNLIMITED
        checks += v.checks(
            DepthwiseConv2D(**fields(tuple(inputs), y), window=window, multiplier=1, clamp=clamp)
        )
    assert "real_depthwise" in {check.kernel.family for check in checks}
    compare(checks, tmp_path)


@pytest.mark.parametrize(("dtype", "multiplier"), [("float32", 2), ("int8", 1)])
def test_depthwise_layers_of_other_kernels(dtype: str, multiplier: int) -> None:
    v = Values()
    weights = v.add(dtype, (1, 1, 1, 3 * multiplier), data=np.ones((1, 1, 1, 3 * multiplier)))
    y = v.add("float32", (1, 2, 2, 3 * multiplier))
    window = Window(size=(1, 1), stride=(1, 1), dilation=(1, 1), before=(0, 0))
    given = {"window": window, "multiplier": multiplier, "clamp": UNLIMITED}
    operator = DepthwiseConv2D(**fields((v.add("float32", (1, 2, 2, 3)), weights), y), **given)
    assert depthwise(Contraction.of(v.graph(operator), operator)) is None


@pytest.mark.parametrize("function", PoolKind)
def test_pooling(function: PoolKind, tmp_path: Path) -> None:
    """Each window has an element inside: of none there is no average."""
    checks: list[KernelCheck] = []
    for shape, clamp in product([s for s in WINDOWS if s[0] != "b"], (UNLIMITED, (-0.5, 1.5))):
        (n, h, w), size, stride, dilation, before, output = WINDOWS[shape]
        v = Values()
        x, y = v.add("float32", (n, h, w, 5)), v.add("float32", (n, *output, 5))
        window = Window(size=size, stride=stride, dilation=dilation, before=before)
        checks += v.checks(Pool2D(**fields((x,), y), function=function, window=window, clamp=clamp))
    compare(checks, tmp_path)


def test_interpolation(tmp_path: Path) -> None:
    v = Values()
    x, y = v.add("float32", (2, 4, 5, 3)), v.add("float32", (2, 6, 3, 3))
    rows, columns = v.random.integers(0, 4, (6, 2)), v.random.integers(0, 5, (3, 4))
    weights = {"row_weights": v.random.random((6, 2)), "column_weights": v.random.random((3, 4))}
    compare(v.checks(Resample(**fields((x,), y), rows=rows, columns=columns, **weights)), tmp_path)


@pytest.mark.parametrize(("beta", "log"), [*product((1.0, 0.4), (False, True))])
def test_softmax(beta: float, log: bool, tmp_path: Path) -> None:
    v = Values()
    x, y = v.add("float32", (2, 3, 7)), v.add("float32", (2, 3, 7))
    far = v.random.normal(0, 40, (2, 3, 7)).astype(np.float32)
    compare(v.checks(Softmax(**fields((x,), y), beta=beta, log=log), far), tmp_path)


def test_normalisation(tmp_path: Path) -> None:
    checks: list[KernelCheck] = []
    for constants, centred, epsilon in product((0, 1, 2), (False, True), (1e-5, 0.5)):
        v = Values()
        x = v.add("float32", (3, 2, 5))
        inputs = (x, *(v.normal(5) for _ in range(constants)))
        y = v.add("float32", (3, 2, 5))
        checks += v.checks(Normalise(**fields(inputs, y), size=5, epsilon=epsilon, centred=centred))
    compare(checks, tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_reductions(dtype: str, tmp_path: Path) -> None:
    roots = (Reduction.L2, Reduction.LOG_SUM, Reduction.LOG_SUM_EXP)
    functions = [f for f in Reduction if dtype == "float32" or f not in roots]
    checks: list[KernelCheck] = []
    for function, (axes, kept) in product(functions, [((1,), (2, 4)), ((0, 2), (3,)), ((0, 1, 2), (1,))]):
        v = Values()
        x, y = v.add(dtype, (2, 3, 4)), v.add(dtype, kept)
        small = v.random.integers(-3, 4, (2, 3, 4)).astype(dtype)
        positive = (1 + np.abs(small)).astype(dtype)
        operator = Reduce(**fields((x,), y), function=function, axes=axes)
        checks += v.checks(operator, small, positive, random=dtype == "float32")  # sums of others wrap
    compare(checks, tmp_path)


def test_matrix_products(tmp_path: Path) -> None:
    """Four columns at a time and the rest; a batch of either operand, of both, of none; constants."""
    shapes = [((3, 5), (5, 9)), ((2, 3, 5), (5, 4)), ((4, 2), (3, 2, 3)), ((2, 1, 3, 5), (4, 5, 6))]
    checks: list[KernelCheck] = []
    for (a, b), constant in product(shapes, (False, True)):
        v = Values()
        batch = np.broadcast_shapes(a[:-2], b[:-2])
        inputs = (v.add("float32", a), v.normal(*b) if constant else v.add("float32", b))
        y = v.add("float32", (*batch, a[-2], b[-1]))
        checks += v.checks(MatMul(**fields(inputs, y)))
    v = Values()
    zero = v.add("int32", (1,), data=np.array([7]))
    x, other = v.add("uint8", (3, 5)), v.add("int8", (5, 6))
    checks += v.checks(MatMul(**fields((x, other, zero), v.add("int32", (3, 6)))))
    compare(checks, tmp_path)


def test_elementwise_functions(tmp_path: Path) -> None:
    """Operands of the output's shape, broadcast, constant, and one constant element."""
    checks: list[KernelCheck] = []
    for function, shape, data in product(
        ("add", "mul", "max", "less", "greater_equal"),
        ((2, 3, 4), (3, 1), (4,), (1,)),
        (False, True),
    ):
        v = Values()
        x = v.add("float32", (2, 3, 4))
        other = v.normal(*shape) if data else v.add("float32", shape)
        y = v.add("bool" if function in ("less", "greater_equal") else "float32", (2, 3, 4))
        operator = Map(**fields((x, other), y), expression=Call.of(function, 2))
        (kernel,) = candidates(v.graph(operator), operator, Choice())
        assert len(kernel.constants) == (data and shape != (1,))
        if function in ("add", "mul", "max"):
            assert {*kernel.overlaps} == ({0, 1} if shape == (2, 3, 4) and not data else {0})
        checks += v.checks(operator)
    for parameters in ((-1.0, 0.5), (0.25, 2.0)):
        v = Values()
        x, y = v.add("float32", (3, 5)), v.add("float32", (3, 5))
        checks += v.checks(Map(**fields((x,), y), expression=Call.of("clip", 1, parameters)))
    compare(checks, tmp_path)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", -7), ("uint8", 90), ("int16", 0)])
def test_rounding_to_stored_values(dtype: str, zero: int, tmp_path: Path) -> None:
    """Halves go to the even value; what is beyond the type becomes its limits."""
    v = Values()
    x, y = v.add("float32", (3, 8)), v.add(dtype, (3, 8), 0.25, zero)
    halves = (np.arange(24).reshape(3, 8) - 12.5).astype(np.float32) / 4
    far = (np.linspace(-1.0, 1.0, 24) * 20000).reshape(3, 8).astype(np.float32)
    limits = np.iinfo(dtype)
    near = np.concatenate([limits.min - 3 + np.arange(12), limits.max + 3 - np.arange(12)])
    near = ((near - zero) * 0.25).reshape(3, 8).astype(np.float32)
    operator = Convert(**fields((x,), y), rounding=Rounding.NEAREST_EVEN)
    compare(v.checks(operator, halves, far, near), tmp_path)


def test_lookups(tmp_path: Path) -> None:
    """Negative places count from the end; those outside are moved to the nearest slice."""
    checks: list[KernelCheck] = []
    for axis, dtype, constant in product((0, 1, 2), ("int32", "int64"), (False, True)):
        v = Values()
        shape, places = (2, 3, 4), (5, 2)
        table = v.normal(*shape) if constant else v.add("float32", shape)
        inputs = (table, v.add(dtype, places))
        y = v.add("float32", (*shape[:axis], *places, *shape[axis + 1 :]))
        extent = shape[axis]
        read = () if constant else (v.any(v.all[table]),)
        chosen = v.random.integers(-extent, extent, places), np.resize([-extent, -1, 0, extent - 1], places)
        outside = np.resize([extent, -extent - 1, 2 * extent, -9 * extent], places)
        runs = [(*read, one.astype(dtype)) for one in (*chosen, outside)]
        checks += v.checks(Lookup(**fields(inputs, y), axis=axis), *runs, random=False)
    compare(checks, tmp_path)


@pytest.mark.parametrize(("exclusive", "reverse"), [*product((False, True), repeat=2)])
def test_running_sums(exclusive: bool, reverse: bool, tmp_path: Path) -> None:
    checks: list[KernelCheck] = []
    for axis in range(3):
        v = Values()
        x, y = v.add("float32", (2, 3, 4)), v.add("float32", (2, 3, 4))
        checks += v.checks(Accumulate(**fields((x,), y), axis=axis, exclusive=exclusive, reverse=reverse))
    compare(checks, tmp_path)
