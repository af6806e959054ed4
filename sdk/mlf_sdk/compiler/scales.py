# SPDX-License-Identifier: Apache-2.0
"""Multipliers of layers from the scales of their tensors, as TFLM computes them when it prepares a model."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import INT32, Graph, Value
from mlf_sdk.compiler.operators import FullyConnected, Layer, Operator
from mlf_sdk.compiler.requantise import Multiplier


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


def ratio(x: Value, y: Value, factor: float = 1.0) -> Multiplier:
    """Multiplier from the scale of ``x`` to that of ``y``."""
    return Multiplier.of(x.scale * factor / y.scale)


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
