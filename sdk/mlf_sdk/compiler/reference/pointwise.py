# SPDX-License-Identifier: Apache-2.0
"""References of elementwise operators and changes of type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Arithmetic, Array, Binary, Convert, Elementwise, Table
from mlf_sdk.compiler.reference.table import States, reference
from mlf_sdk.compiler.requantise import multiply, wrap32
from mlf_sdk.compiler.scales import SUMS, product_multiplier, ratio, single_ratio, sum_multipliers

_FLOAT = {
    Arithmetic.ADD: np.add,
    Arithmetic.SUB: np.subtract,
    Arithmetic.MUL: np.multiply,
    Arithmetic.DIV: np.divide,
    Arithmetic.MAXIMUM: np.maximum,
    Arithmetic.MINIMUM: np.minimum,
}


@reference(Binary)
def binary(graph: Graph, operator: Binary, inputs: list[Array], _: States) -> list[Array]:
    """ADD, SUB, MUL, DIV, MAXIMUM and MINIMUM."""
    a, b = graph.read(operator)
    (y,) = graph.written(operator)
    function = operator.function
    if a.dtype.kind == "f":
        return [np.clip(_FLOAT[function](*inputs), *operator.clamp).astype(np.float32)]
    left, right = (x.astype(np.int64) for x in inputs)
    if function in (Arithmetic.MAXIMUM, Arithmetic.MINIMUM):
        return [_FLOAT[function](left, right)]
    if y.quantisation is None:
        return [np.clip(_whole_numbers(function, left, right), *operator.clamp)]
    left, right = left - a.zero_point, right - b.zero_point
    if function in SUMS:
        shift, first, second, last = sum_multipliers(function, a, b, y)
        left, right = multiply(left << shift, first), multiply(right << shift, second)
        result = multiply(left + right if function is Arithmetic.ADD else left - right, last)
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
        low, high = np.iinfo(y.dtype).min, np.iinfo(y.dtype).max
        moved = multiply(data.astype(np.int64) - x.zero_point, ratio(x, y))
        return np.clip(moved + y.zero_point, low, high).astype(y.dtype)
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
    info = np.iinfo(y.dtype)
    wide = np.clip(np.nan_to_num(rounded.astype(np.float64)), -(1 << 31), (1 << 31) - 1)
    return np.clip(wide + y.zero_point, info.min, info.max).astype(y.dtype)


def leaky_relu(x: Value, y: Value, data: Array, alpha: float) -> Array:
    """LEAKY_RELU of stored values."""
    centred = data.astype(np.int64) - x.zero_point
    identity, slope = single_ratio(x, y), single_ratio(x, y, alpha)
    result = np.where(centred >= 0, multiply(centred, identity), multiply(centred, slope))
    info = np.iinfo(y.dtype)
    return np.clip(result + y.zero_point, info.min, info.max).astype(y.dtype)


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
        return [leaky_relu(x, y, inputs[0], operator.alpha)]
    if operator.function == "leaky_relu":
        return [np.where(inputs[0] >= 0, inputs[0], inputs[0] * np.float32(operator.alpha))]
    return [_ELEMENTWISE[operator.function](inputs[0]).astype(np.float32)]
