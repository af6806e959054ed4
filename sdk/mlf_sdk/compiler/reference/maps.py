# SPDX-License-Identifier: Apache-2.0
"""Reference of maps and conversions: of numbers as they are, and of what stored values stand for."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.functions import FUNCTIONS, evaluate
from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Array, Convert, Map, Rounding, Table
from mlf_sdk.compiler.reference import States, reference
from mlf_sdk.compiler.reference.fixed import quotient
from mlf_sdk.compiler.reference.stored import of_words, results_of
from mlf_sdk.compiler.requantise import (
    COMPARED_SHIFT,
    COMPARISONS,
    SUMS,
    Multiplier,
    difference_multipliers,
    multiply,
    product_multiplier,
    quotient_multiplier,
    ratio,
    saturated,
    sum_multipliers,
)


@reference(Map)
def map_(graph: Graph, operator: Map, inputs: list[Array], _: States) -> list[Array]:
    """Expressions."""
    values, (y,) = graph.read(operator), graph.written(operator)
    if operator.rounding is None:
        return [evaluate(operator.expression, inputs)]
    if len(values) == 2:
        return [_of_two(graph, operator, inputs)]
    if values[0].dtype.itemsize == y.dtype.itemsize == 1:
        return [results_of(operator.expression, values[0], y)[inputs[0].view(np.uint8)]]
    return [of_words(operator.expression, values[0], y, inputs[0])]


@reference(Table)
def table(_: Graph, operator: Table, inputs: list[Array], __: States) -> list[Array]:
    """Functions of one byte."""
    return [operator.results[inputs[0].view(np.uint8)]]


def _of_two(graph: Graph, operator: Map, inputs: list[Array]) -> Array:
    """Stored results of ADD, SUB, MUL, DIV, PRELU, SQUARED_DIFFERENCE and comparisons."""
    (a, b), (y,) = graph.read(operator), graph.written(operator)
    function = operator.expression.function
    left, right = inputs[0].astype(np.int64) - a.zero_point, inputs[1].astype(np.int64) - b.zero_point
    if function in COMPARISONS:
        scaled = (multiply(v << COMPARED_SHIFT, Multiplier.of(x.scale)) for v, x in ((left, a), (right, b)))
        return FUNCTIONS[function].numpy(*scaled)
    if function == "prelu":
        slopes = multiply(left * right, product_multiplier(a, b, y))
        result = np.where(left >= 0, multiply(left, ratio(a, y)), slopes)
    elif function == "squared_difference":
        shift, first, second, last = difference_multipliers(a, b, y)
        difference = multiply(left << shift, first) - multiply(right << shift, second)
        result = multiply(difference * difference, last)
    elif function in SUMS:
        shift, first, second, last = sum_multipliers(function, a, b, y)
        left, right = multiply(left << shift, first), multiply(right << shift, second)
        result = multiply(left + right if function == "add" else left - right, last)
    elif function == "div":
        result = quotient(left, right, quotient_multiplier(a, b, y))
    else:
        result = multiply(left * right, product_multiplier(a, b, y))
    return np.clip(saturated(result + y.zero_point, y.dtype), *operator.clamp)


@reference(Convert)
def convert(graph: Graph, operator: Convert, inputs: list[Array], _: States) -> list[Array]:
    """QUANTIZE, DEQUANTIZE and CAST."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    if operator.rounding is Rounding.CONCATENATION:
        return [_concatenated(x, y, inputs[0])]
    if operator.rounding is Rounding.NEAREST_EVEN:
        return [nearest_even(y, dequantised(x, inputs[0]))]
    return [convert_values(x, y, inputs[0])]


def convert_values(x: Value, y: Value, data: Array) -> Array:
    """``data`` of the type and quantisation of ``x`` as those of ``y``, as TFLM does."""
    if x.quantisation and y.quantisation and x.dtype.kind != "f" and y.dtype.kind != "f":
        moved = multiply(data.astype(np.int64) - x.zero_point, ratio(x, y))
        return saturated(moved + y.zero_point, y.dtype)
    if y.quantisation and x.dtype.kind == "f":
        return _quantise(y, data)
    return dequantised(x, data) if y.dtype.kind == "f" else data.astype(y.dtype)


def dequantised(x: Value, data: Array) -> Array:
    """Real numbers that stored values stand for, in single precision; others as they are."""
    if x.quantisation is None or x.dtype.kind == "f":
        return data.astype(np.float32)
    scale, zero_point = np.array(x.scales, np.float32), np.array(x.quantisation.zero_point, np.int64)
    if x.quantisation.axis is not None:
        rest = (1,) * (len(x.shape) - 1 - x.quantisation.axis)
        scale, zero_point = scale.reshape(-1, *rest), zero_point.reshape(-1, *rest)
    return (data.astype(np.int64) - zero_point).astype(np.float32) * scale


def _finite(data: Array) -> Array:
    """Numbers whose NaN became the lowest one, as the kernels' `fmaxf` makes it."""
    return np.nan_to_num(data, nan=np.finfo(data.dtype).min)


def nearest_even(y: Value, data: Array) -> Array:
    """Stored values of real numbers: quotients in single precision, rounded to nearest, halves to even."""
    with np.errstate(all="ignore"):
        scaled = _finite(np.rint(data.astype(np.float32) / np.float32(y.scale))).astype(np.float64)
    return saturated(scaled + y.zero_point, y.dtype)


def _quantise(y: Value, data: Array) -> Array:
    """Nearest stored value, halves away from zero, in single precision."""
    scaled = data.astype(np.float32) / np.float32(y.scale)
    rounded = np.trunc(scaled) + np.where(np.abs(scaled - np.trunc(scaled)) >= 0.5, np.sign(scaled), 0)
    wide = np.clip(_finite(rounded.astype(np.float64)), -(1 << 31), (1 << 31) - 1)
    return saturated(wide + y.zero_point, y.dtype)


def _concatenated(x: Value, y: Value, data: Array) -> Array:
    """A uint8 input of CONCATENATION in the quantisation of the output, in single precision."""
    scale = np.float32(x.scale) * (np.float32(1) / np.float32(y.scale))
    moved = (data.astype(np.float32) * scale + np.float32(-x.zero_point) * scale).astype(np.float64)
    return saturated(np.sign(moved) * np.floor(np.abs(moved) + 0.5) + y.zero_point, y.dtype)
