# SPDX-License-Identifier: Apache-2.0
"""Makers of kernels of stored values, element by element and of few more: all kernels give what the reference does."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from kernel_checks import KernelCheck
from mlf_sdk.compiler.computed import UpdateSlice
from mlf_sdk.compiler.operators import UNLIMITED, AddN, Call, Convert, L2Normalise, Map, Rounding
from mlf_sdk.compiler.reals import Accumulate, MatMul
from mlf_sdk.compiler.requantise import COMPARISONS
from one_operator import Values, compare, fields

ZEROS = {"int8": 5, "uint8": 90, "int16": 0}
LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}


def test_tables(tmp_path: Path) -> None:
    v = Values()
    x, y = v.add("uint8", (3, 7), 0.1, 3), v.add("uint8", (3, 7), 0.1, 3)
    operator = Map(**fields((x,), y), expression=Call.of("tanh"), rounding=Rounding.TFLM)
    compare(v.checks(operator, np.arange(0, 252, 12, np.uint8).reshape(3, 7)), tmp_path)


# Type, scale and zero point of input and output.
CONVERSIONS = [
    ("int8", 0.1, 5, "int8", 0.13, -7), ("int8", 0.1, 5, "uint8", 0.1, 133), ("uint8", 0.1, 90, "int8", 0.1, -38),
    ("uint8", 0.1, 90, "int8", 0.1, -37), ("int8", 0.1, 5, "uint8", 0.2, 133), ("int16", 0.001, 0, "int8", 0.2, 5),
    ("int8", 0.1, -9, "int16", 0.002, 0), ("float32", 0.0, 0, "int8", 0.01, 5), ("float32", 0.0, 0, "uint8", 0.03, 90),
    ("int8", 0.1, 5, "float32", 0.0, 0), ("uint8", 0.1, 90, "float32", 0.0, 0), ("int32", 0.0, 0, "float32", 0.0, 0),
]  # fmt: skip


def test_conversions(tmp_path: Path) -> None:
    """Types of one byte that differ in the sign alone are turned over by four at a time."""
    checks: list[KernelCheck] = []
    for (dtype, scale, zero, other, to, at), count in product(CONVERSIONS, (4, 8, 11)):
        v = Values()
        x, y = v.add(dtype, (count,), scale, zero), v.add(other, (count,), to, at)
        checks += v.checks(Convert(**fields((x,), y)))
        only_sign = "four ^=" in checks[-1].kernel.body
        assert only_sign == ({dtype, other} == {"int8", "uint8"} and scale == to and abs(zero - at) == 128)
    compare(checks, tmp_path)


@pytest.mark.parametrize(
    "given", [[0.0, -0.0, 0.3, -0.2, 7.5, math.nan], [0, 1, 256, -256, 3]], ids=["float32", "int32"]
)
def test_everything_but_zero_is_true(given: list[float], tmp_path: Path) -> None:
    v = Values()
    data = np.array(given, np.int32 if isinstance(given[0], int) else np.float32)
    x, y = v.add(data.dtype.name, data.shape), v.add("bool", data.shape)
    compare(v.checks(Convert(**fields((x,), y)), data), tmp_path)


def operands(
    v: Values, dtype: str, shapes: tuple[tuple[int, ...], ...], *, constant: bool
) -> tuple[int, int]:
    """Two values of one type; the second is constant where that is asked for."""
    zero, low, high = ZEROS.get(dtype, 0), *LIMITS.get(dtype, (-1000, 1000))
    scales = (0.0, 0.0) if dtype in ("float32", "int32") else (0.02, 0.03)
    data = v.random.integers(max(low, zero - 100), min(high, zero + 100) + 1, shapes[1])
    data = np.where(data == zero, data + 1, data)
    first = v.add(dtype, shapes[0], scales[0], zero)
    return first, v.add(dtype, shapes[1], scales[1], zero, data if constant else None)


BROADCAST = [
    ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1)), ((2, 3, 4), (1,)), ((2, 3, 4), (3, 1)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "float32"])
def test_arithmetic(dtype: str, tmp_path: Path) -> None:
    """With broadcast, constants and limits; whole numbers that are no stored values wrap."""
    functions = ["add", "sub", "mul", "max", "min"]
    checks: list[KernelCheck] = []
    for function, (number, shapes) in product(functions, enumerate(BROADCAST)):
        constant = number % 2 == 1
        v = Values()
        inputs = operands(v, dtype, shapes, constant=constant)
        written = np.broadcast_shapes(*shapes)
        extreme = function in ("max", "min")
        whole = dtype in ("float32", "int32")
        scale = 0.0 if whole else v.all[0].scale if extreme else 0.04
        y = v.add(dtype, written, scale, ZEROS.get(dtype, 0))
        limits = {"int8": (-60, 50), "uint8": (20, 200), "int16": (-9000, 8000), "int32": (-(2**31), 900)}
        clamp = limits.get(dtype, (-1.5, 2.0)) if constant and not extreme else LIMITS.get(dtype, UNLIMITED)
        call = Call.of(function, 2)
        if whole:
            operator = Map(**fields(inputs, y), expression=call.limited(clamp))
        elif extreme:
            operator = Map(**fields(inputs, y), expression=call)
        else:
            operator = Map(**fields(inputs, y), expression=call, rounding=Rounding.TFLM, clamp=clamp)
        checks += v.checks(operator)
    compare(checks, tmp_path)


def test_quotients(tmp_path: Path) -> None:
    """By constants, none of which is zero."""
    checks: list[KernelCheck] = []
    for shapes in BROADCAST:
        v = Values()
        inputs = operands(v, "int8", shapes, constant=True)
        y = v.add("int8", np.broadcast_shapes(*shapes), 0.04, -9)
        held = {**fields(inputs, y), "rounding": Rounding.TFLM, "clamp": (-100, 90)}
        checks += v.checks(Map(**held, expression=Call.of("div", 2)))
    compare(checks, tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_slopes_differences_and_comparisons(dtype: str, tmp_path: Path) -> None:
    checks: list[KernelCheck] = []
    for function, shapes in product(("prelu", "squared_difference", *COMPARISONS), BROADCAST):
        v = Values()
        first, second = operands(v, dtype, shapes, constant=False)
        if function in COMPARISONS:  # of equal scales, so that values are equal
            second = v.add(dtype, shapes[1], 0.02, ZEROS[dtype])
            y = v.add("bool", np.broadcast_shapes(*shapes))
            same = tuple(np.resize(np.arange(-2, 3) + ZEROS[dtype], s).astype(dtype) for s in shapes)
        else:
            y = v.add(dtype, np.broadcast_shapes(*shapes), 0.04, ZEROS[dtype])
            same = tuple(np.full(s, ZEROS[dtype], dtype) for s in shapes)
        held = {**fields((first, second), y), "rounding": Rounding.TFLM, "clamp": LIMITS[dtype]}
        operator = Map(**held, expression=Call.of(function, 2))
        checks += v.checks(operator, same)
    compare(checks, tmp_path)


@pytest.mark.parametrize(
    ("dtype", "function"),
    [
        *product(("int8", "uint8", "int16"), ("relu", "leaky_relu", "abs")),
        *product(("int16",), ("sigmoid", "tanh")),
    ],
)
def test_functions_of_one_value(dtype: str, function: str, tmp_path: Path) -> None:
    """At other scales and at the same, which an absolute value keeps."""
    checks: list[KernelCheck] = []
    call = {
        "relu": Call.of("clip", 1, (0.0, math.inf)), "leaky_relu": Call.of("leaky_relu", 1, (0.3,))
    }.get(function, Call.of(function))  # fmt: skip
    for scale, to in [(0.1, 0.1), (0.1, 0.07), (0.07, 0.1), (0.00012, 2**-15)]:
        v = Values()
        x = v.add(dtype, (3, 7), scale, ZEROS.get(dtype, 0))
        y = v.add(dtype, (3, 7), to, ZEROS.get(dtype, 0) - (dtype == "uint8"))
        checks += v.checks(Map(**fields((x,), y), expression=call, rounding=Rounding.TFLM))
    compare(checks, tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_matrix_products(dtype: str, tmp_path: Path) -> None:
    """Four columns at a time and the rest, with zero points of either operand and batches."""
    shapes = [((3, 5), (5, 9)), ((2, 3, 5), (5, 4)), ((2, 1, 3, 5), (4, 5, 6))]
    zeros = [(0, 0), (7, 0), (0, -9), (7, -9)] if dtype == "int8" else [(0, 0)]
    checks: list[KernelCheck] = []
    for (a, b), (first, second) in product(shapes, zeros):
        v = Values()
        inputs = v.add(dtype, a, 0.02, first), v.add(dtype, b, 0.03, second)
        y = v.add(
            dtype, (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1]), 0.1 if dtype == "int8" else 20.0, 0
        )
        checks += v.checks(MatMul(**fields(inputs, y)))
    compare(checks, tmp_path)


def test_sums_of_many(tmp_path: Path) -> None:
    checks: list[KernelCheck] = []
    for count in (2, 3, 5):
        v = Values()
        inputs = tuple(v.add("int8", (3, 7), 0.1, 5) for _ in range(count))
        checks += v.checks(AddN(**fields(inputs, v.add("int8", (3, 7), 0.2, -9))))
    compare(checks, tmp_path)


def test_running_sums(tmp_path: Path) -> None:
    checks: list[KernelCheck] = []
    for axis, exclusive, reverse in product(range(3), (False, True), (False, True)):
        v = Values()
        x, y = v.add("int8", (2, 3, 4), 0.1, 5), v.add("int8", (2, 3, 4), 0.3, -9)
        checks += v.checks(Accumulate(**fields((x,), y), axis=axis, exclusive=exclusive, reverse=reverse))
    compare(checks, tmp_path)


def test_rows_of_unit_length(tmp_path: Path) -> None:
    v = Values()
    x, y = v.add("int8", (4, 6), 0.1, 5), v.add("int8", (4, 6), 2**-7, 0)
    zeros = np.full((4, 6), 5, np.int8)
    compare(v.checks(L2Normalise(**fields((x,), y)), zeros), tmp_path)


def test_slices_that_are_replaced(tmp_path: Path) -> None:
    """The place is moved into the input where the slice would reach beyond it."""
    v = Values()
    x, part = v.add("int8", (4, 5, 9), 0.1, 5), v.add("int8", (2, 3, 4), 0.1, 5)
    place = v.add("int32", (3,))
    y = v.add("int8", (4, 5, 9), 0.1, 5)
    data = [v.any(v.all[i]) for i in (x, part)]
    places = [(0, 0, 0), (1, 2, 1), (2, 2, 2), (3, 3, 3), (-1, 9, -9), (9, -1, 9)]
    runs = [(*data, np.array(p, np.int32)) for p in places]
    compare(v.checks(UpdateSlice(**fields((x, part, place), y)), *runs, random=False), tmp_path)
