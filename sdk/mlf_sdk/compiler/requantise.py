# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of quantised multipliers, exactly as TFLM's reference kernels compute it.

A real factor d is held as a 31-bit multiplier q and a shift s with d = q * 2**(s - 31).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.graph import INT32, Graph, Value
from mlf_sdk.compiler.operators import Array, FullyConnected, Layer, Operator

INT32_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Multiplier:
    """A factor as ``value * 2**(shift - 31)``."""

    value: int
    shift: int

    @classmethod
    def of(cls, real: float) -> Multiplier:
        """The multiplier nearest to ``real``; the largest one where that is too large, or overflowed."""
        if real == 0:
            return cls(0, 0)
        if real == math.inf:
            return cls(INT32_MAX, 30)
        mantissa, shift = math.frexp(real)
        value = round_half_away(mantissa * (1 << 31))
        if value == 1 << 31:
            value, shift = value // 2, shift + 1
        if shift < -31:
            return cls(0, 0)
        if shift > 30:
            return cls(INT32_MAX, 30)
        return cls(value, shift)


def round_half_away(x: float) -> int:
    """Nearest integer, halves away from zero."""
    return math.floor(x + 0.5) if x >= 0 else math.ceil(x - 0.5)


def multiply(x: Array, by: Multiplier) -> Array:
    """``x`` (int64 that fits 32 bits) times a multiplier, rounded twice, as for 8-bit activations."""
    left, right = max(by.shift, 0), max(-by.shift, 0)
    return rounding_shift(doubling_high_product(wrap32(x << left), by.value), right)


def doubling_high_product(a: Array, b: int | Array) -> Array:
    """High half of 2ab, rounded to nearest with halves towards plus infinity for either sign's nudge."""
    product = a * np.int64(b) if isinstance(b, int) else a * b
    nudge = np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    total = product + nudge
    result = np.where(total >= 0, total >> 31, -((-total) >> 31))
    return np.minimum(result, INT32_MAX)


def rounding_shift(x: Array, bits: int | Array) -> Array:
    """``x / 2**bits``, to nearest, halves away from zero."""
    bits = np.asarray(bits, np.int64)
    mask = (np.int64(1) << bits) - 1
    remainder = x & mask
    threshold = (mask >> 1) + (x < 0)
    return (x >> bits) + (remainder > threshold)


def saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers in an integer type, its lowest or highest value where they lie outside of it."""
    info = np.iinfo(dtype)
    return np.clip(x, info.min, info.max).astype(dtype)


def wrap32(x: Array) -> Array:
    """The low 32 bits as a signed number, as the multiplication by a power of two wraps."""
    return ((x + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def multiply_wide(x: Array, by: Multiplier) -> Array:
    """``x`` (int64 that fits 48 bits) times a multiplier of 16 bits, rounded once, as for 16-bit ones."""
    reduced = (by.value + (1 << 15)) >> 16 if by.value < 0x7FFF0000 else 0x7FFF
    total = 15 - by.shift
    return (x * reduced + (np.int64(1) << (total - 1))) >> total


def channel_multipliers(x: Value, weights: Value, y: Value, channels: int) -> tuple[Multiplier, ...]:
    """One multiplier an output channel of a convolution."""
    scales = weights.scales
    result = tuple(Multiplier.of(x.scale * s / y.scale) for s in scales)
    return result * channels if len(result) == 1 else result


def layer_multipliers(
    operator: Layer, x: Value, weights: Value, y: Value, channels: int
) -> tuple[Multiplier, ...]:
    """One multiplier an output channel of a layer with weights, by TFLM's rule for its kind."""
    find = dense_multipliers if isinstance(operator, FullyConnected) else channel_multipliers
    return find(x, weights, y, channels)


def has_wide_sums(graph: Graph, operator: Operator) -> bool:
    """Return whether a layer with weights has sums of 64 bits: of int16 values, unless its bias is int32."""
    (y,) = graph.written(operator)
    bias = graph.read(operator)[2:]
    return y.dtype == np.int16 and not (bias and bias[0].dtype == INT32)


def dense_multipliers(x: Value, weights: Value, y: Value, channels: int) -> tuple[Multiplier, ...]:
    """One multiplier an output of a fully connected layer; the product of one scale is single precision."""
    scales = weights.scales
    if len(scales) > 1:
        return tuple(Multiplier.of(x.scale * s / y.scale) for s in scales)
    product = float(np.float32(x.scale) * np.float32(scales[0]))
    return (Multiplier.of(product / y.scale),) * channels


def sum_multipliers(
    function: str, a: Value, b: Value, y: Value
) -> tuple[int, Multiplier, Multiplier, Multiplier]:
    """Left shift and multipliers of the operands and the result of ADD and SUB.

    ADD divides the scales in double precision, SUB in single.
    """
    shift = 15 if y.dtype == np.int16 else 20
    twice = 2 * max(a.scale, b.scale)
    if function == "sub":
        single = np.float32(twice)
        return (
            shift,
            Multiplier.of(float(np.float32(a.scale) / single)),
            Multiplier.of(float(np.float32(b.scale) / single)),
            Multiplier.of(float(single / (np.float32(1 << shift) * np.float32(y.scale)))),
        )
    return (
        shift,
        Multiplier.of(a.scale / twice),
        Multiplier.of(b.scale / twice),
        Multiplier.of(twice / ((1 << shift) * y.scale)),
    )


def product_multiplier(a: Value, b: Value, y: Value) -> Multiplier:
    """Multiplier of the product of two values."""
    return Multiplier.of(a.scale * b.scale / y.scale)


def matrix_multiplier(a: Value, b: Value, y: Value) -> Multiplier:
    """Multiplier of sums of products of two values; the product of the scales is single precision."""
    return dense_multipliers(a, b, y, 1)[0]


def quotient_multiplier(a: Value, b: Value, y: Value) -> Multiplier:
    """Multiplier of the quotient of two values, in single precision."""
    with np.errstate(divide="ignore", over="ignore"):
        return Multiplier.of(float(np.float32(a.scale) / (np.float32(b.scale) * np.float32(y.scale))))


TOTAL_SHIFT = 20
"""Left shift of the terms of ADD_N and CUMSUM."""


def total_multipliers(x: Value, y: Value) -> tuple[Multiplier, Multiplier]:
    """Multipliers of the terms and of the results of ADD_N and CUMSUM."""
    twice = 2 * x.scale
    return Multiplier.of(x.scale / twice), Multiplier.of(twice / ((1 << TOTAL_SHIFT) * y.scale))


def single_ratio(x: Value, y: Value, factor: float = 1.0) -> Multiplier:
    """Multiplier from the scale of ``x`` to that of ``y``, divided in single precision."""
    return Multiplier.of(float(np.float32(x.scale) * np.float32(factor) / np.float32(y.scale)))


def ratio(x: Value, y: Value) -> Multiplier:
    """Multiplier from the scale of ``x`` to that of ``y``."""
    return Multiplier.of(x.scale / y.scale)


def mean_multiplier(x: Value, y: Value, count: int) -> Multiplier:
    """Multiplier from a sum of ``count`` elements of ``x`` to their mean in ``y``."""
    whole = ratio(x, y)
    shift = min(count.bit_length() - 1, 32, 31 + whole.shift)
    return Multiplier((whole.value << shift) // count, whole.shift - shift)


def difference_multipliers(a: Value, b: Value, y: Value) -> tuple[int, Multiplier, Multiplier, Multiplier]:
    """Left shift and multipliers of the operands and the result of SQUARED_DIFFERENCE."""
    shift = 7 if y.dtype.itemsize == 1 else 0
    twice = 2 * max(a.scale, b.scale)
    last = twice * twice / ((1 << 2 * shift) * y.scale)
    return shift, Multiplier.of(a.scale / twice), Multiplier.of(b.scale / twice), Multiplier.of(last)


COMPARED_SHIFT = 8
"""Left shift of operands before TFLM compares them."""

COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
SUMS = ("add", "sub")
