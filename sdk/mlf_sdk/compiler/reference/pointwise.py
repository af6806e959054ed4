# SPDX-License-Identifier: Apache-2.0
"""References of elementwise operators and changes of type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Arithmetic, Array, Binary, Convert, Elementwise, Table
from mlf_sdk.compiler.reference import wide
from mlf_sdk.compiler.reference.fixed import quotient
from mlf_sdk.compiler.reference.table import States, reference
from mlf_sdk.compiler.requantise import Multiplier, multiply, saturated, wrap32
from mlf_sdk.compiler.scales import (
    COMPARED_SHIFT,
    COMPARISONS,
    SUMS,
    difference_multipliers,
    product_multiplier,
    quotient_multiplier,
    ratio,
    single_ratio,
    sum_multipliers,
)

_FLOAT = {
    Arithmetic.ADD: np.add,
    Arithmetic.SUB: np.subtract,
    Arithmetic.MUL: np.multiply,
    Arithmetic.DIV: np.divide,
    Arithmetic.MAXIMUM: np.maximum,
    Arithmetic.MINIMUM: np.minimum,
}
_COMPARED = {
    Arithmetic.EQUAL: np.equal,
    Arithmetic.NOT_EQUAL: np.not_equal,
    Arithmetic.GREATER: np.greater,
    Arithmetic.GREATER_EQUAL: np.greater_equal,
    Arithmetic.LESS: np.less,
    Arithmetic.LESS_EQUAL: np.less_equal,
}


@reference(Binary)
def binary(graph: Graph, operator: Binary, inputs: list[Array], _: States) -> list[Array]:
    """ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM, PRELU, SQUARED_DIFFERENCE and comparisons."""
    a, b = graph.read(operator)
    (y,) = graph.written(operator)
    function = operator.function
    if a.dtype.kind == "f":
        return [np.clip(_FLOAT[function](*inputs), *operator.clamp).astype(np.float32)]
    left, right = (x.astype(np.int64) for x in inputs)
    if function in (Arithmetic.MAXIMUM, Arithmetic.MINIMUM):
        return [_FLOAT[function](left, right)]
    if y.quantisation is None and function not in COMPARISONS:
        return [np.clip(_whole_numbers(function, left, right), *operator.clamp)]
    left, right = left - a.zero_point, right - b.zero_point
    if function in COMPARISONS:
        scaled = (multiply(v << COMPARED_SHIFT, Multiplier.of(x.scale)) for v, x in ((left, a), (right, b)))
        return [_COMPARED[function](*scaled)]
    if function is Arithmetic.PRELU:
        slopes = multiply(left * right, product_multiplier(a, b, y))
        result = np.where(left >= 0, multiply(left, ratio(a, y)), slopes)
    elif function is Arithmetic.SQUARED_DIFFERENCE:
        shift, first, second, last = difference_multipliers(a, b, y)
        difference = multiply(left << shift, first) - multiply(right << shift, second)
        result = multiply(difference * difference, last)
    elif function in SUMS:
        shift, first, second, last = sum_multipliers(function, a, b, y)
        left, right = multiply(left << shift, first), multiply(right << shift, second)
        result = multiply(left + right if function is Arithmetic.ADD else left - right, last)
    elif function is Arithmetic.DIV:
        result = quotient(left, right, quotient_multiplier(a, b, y))
    else:
        result = multiply(left * right, product_multiplier(a, b, y))
    return [np.clip(result + y.zero_point, *operator.clamp)]


def _whole_numbers(function: Arithmetic, a: Array, b: Array) -> Array:
    """Arithmetic of integers that are no quantised values; division truncates."""
    if function is Arithmetic.DIV:
        magnitude = np.abs(a) // np.abs(b)
        return wrap32(np.where((a < 0) == (b < 0), magnitude, -magnitude))
    return wrap32(_FLOAT[function](a, b))


@reference(Table)
def table(graph: Graph, operator: Table, inputs: list[Array], _: States) -> list[Array]:
    """A function of one byte."""
    (y,) = graph.written(operator)
    return [operator.table[inputs[0].view(np.uint8)].astype(y.dtype)]


@reference(Convert)
def convert(graph: Graph, operator: Convert, inputs: list[Array], _: States) -> list[Array]:
    """QUANTIZE, DEQUANTIZE and CAST."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    return [convert_values(x, y, inputs[0])]


def convert_values(x: Value, y: Value, data: Array) -> Array:
    """``data`` of the type and quantisation of ``x`` as those of ``y``."""
    if x.quantisation and y.quantisation and x.dtype.kind != "f" and y.dtype.kind != "f":
        moved = multiply(data.astype(np.int64) - x.zero_point, ratio(x, y))
        return saturated(moved + y.zero_point, y.dtype)
    if y.quantisation and x.dtype.kind == "f":
        return _quantise(y, data)
    if x.quantisation and y.dtype.kind == "f":
        return (np.float32(x.scale) * (data.astype(np.int64) - x.zero_point).astype(np.float32)).astype(
            np.float32
        )
    return data.astype(y.dtype)


def _quantise(y: Value, data: Array) -> Array:
    """Nearest stored value, halves away from zero, in single precision."""
    scaled = data.astype(np.float32) / np.float32(y.scale)
    rounded = np.trunc(scaled) + np.where(np.abs(scaled - np.trunc(scaled)) >= 0.5, np.sign(scaled), 0)
    wide = np.clip(np.nan_to_num(rounded.astype(np.float64)), -(1 << 31), (1 << 31) - 1)
    return saturated(wide + y.zero_point, y.dtype)


def leaky_relu(x: Value, y: Value, data: Array, alpha: float) -> Array:
    """LEAKY_RELU of stored values."""
    centred = data.astype(np.int64) - x.zero_point
    identity, slope = single_ratio(x, y), single_ratio(x, y, alpha)
    result = np.where(centred >= 0, multiply(centred, identity), multiply(centred, slope))
    return saturated(result + y.zero_point, y.dtype)


_ELEMENTWISE: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "logistic": lambda x: 1 / (1 + np.exp(-x.astype(np.float64))),
    "tanh": lambda x: np.tanh(x.astype(np.float64)),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "abs": np.abs,
    "neg": np.negative,
    "square": np.square,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}
FUNCTIONS = frozenset(_ELEMENTWISE) | {"leaky_relu"}


@reference(Elementwise)
def elementwise(graph: Graph, operator: Elementwise, inputs: list[Array], _: States) -> list[Array]:
    """Functions of one value."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    if x.dtype.kind != "f":
        return [_of_integers(operator, x, y, inputs[0])]
    if operator.function == "leaky_relu":
        return [np.where(inputs[0] >= 0, inputs[0], inputs[0] * np.float32(operator.alpha))]
    return [_ELEMENTWISE[operator.function](inputs[0]).astype(np.float32)]


def _of_integers(operator: Elementwise, x: Value, y: Value, data: Array) -> Array:
    """Functions of 16-bit values."""
    if operator.function == "leaky_relu":
        return leaky_relu(x, y, data, operator.alpha)
    if operator.function in WIDE:
        return WIDE[operator.function](data, *wide.argument_of(x, operator.function))
    return rectified(operator.function, x, y, data)


WIDE: dict[str, Callable[[Array, int, int], Array]] = {"logistic": wide.logistic, "tanh": wide.tanh}


def rectified(function: str, x: Value, y: Value, data: Array) -> Array:
    """ABS and RELU of stored values."""
    centred = data.astype(np.int64) - x.zero_point
    value = np.maximum(centred, 0) if function == "relu" else np.abs(centred)
    scaled = multiply(value, single_ratio(x, y)) if function == "relu" or x.scale != y.scale else value
    return saturated(scaled + y.zero_point, y.dtype)
