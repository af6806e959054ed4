# SPDX-License-Identifier: Apache-2.0
"""Reference of softmax and the fixed-point functions behind it and behind logistic and tanh."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Array, Softmax
from mlf_sdk.compiler.reference import States, reference
from mlf_sdk.compiler.reference.fixed import (
    exp_of_negative,
    high_product,
    interpolate,
    interpolated_table,
    leading_zeros,
    log_of_sum,
    reciprocal_of_one_plus,
)
from mlf_sdk.compiler.requantise import Multiplier, doubling_high_product, multiply, rounding_shift, wrap32

_INTEGER_BITS: Final = 5


def softmax_scaling(x: Value, beta: float) -> tuple[Multiplier, int]:
    """Multiplier of differences of stored values, and the smallest difference that counts."""
    real = min(beta * x.scale * (1 << (31 - _INTEGER_BITS)), (1 << 31) - 1.0)
    multiplier = Multiplier.of(real)
    largest = ((1 << _INTEGER_BITS) - 1) * (1 << (31 - _INTEGER_BITS)) / (1 << multiplier.shift)
    return multiplier, -math.floor(largest)


@reference(Softmax)
def softmax(graph: Graph, operator: Softmax, inputs: list[Array], _: States) -> list[Array]:
    """SOFTMAX over the last axis."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    if x.dtype.kind == "f":
        return [_softmax_of_reals(inputs[0], operator)]
    if x.dtype == np.uint8:
        return [_softmax_of_bytes(x, y, operator.beta, inputs[0])]
    if x.dtype == np.int16:
        return [_softmax_of_words(x, operator.beta, inputs[0])]
    data = inputs[0].astype(np.int64)
    multiplier, least = softmax_scaling(x, operator.beta)
    differences = data - data.max(axis=-1, keepdims=True)
    counted = differences >= least
    scaled = doubling_high_product(
        np.where(counted, differences, 0) * (1 << multiplier.shift), multiplier.value
    )
    powers = exp_of_negative(scaled, _INTEGER_BITS)
    total = np.where(counted, rounding_shift(powers, 12), 0).sum(axis=-1, keepdims=True)
    if operator.log:
        return [_log_softmax(scaled, counted, total, multiplier, least, differences)]
    bits = leading_zeros(total)
    mantissa = wrap32((total << bits) - (1 << 31))
    scale = reciprocal_of_one_plus(mantissa)
    output_bits = y.dtype.itemsize * 8
    result = rounding_shift(high_product(scale, powers), (12 - bits) + 31 - output_bits)
    low, high = np.iinfo(y.dtype).min, np.iinfo(y.dtype).max
    base = low if y.dtype.kind == "i" else 0
    return [np.where(counted, np.clip(result + base, low, high), low)]


def _softmax_of_reals(x: Array, operator: Softmax) -> Array:
    """Softmax of real numbers: 0 of minus infinity, and not a number where all are that."""
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = (x - x.max(axis=-1, keepdims=True)) * np.float32(operator.beta)
        powers = np.exp(shifted)
        total = powers.sum(axis=-1, keepdims=True)
        return shifted - np.log(total) if operator.log else powers / total


def log_limits(multiplier: Multiplier, least: int) -> tuple[Multiplier, int]:
    """Multiplier from logarithms to differences of stored values; the largest that is not counted."""
    return Multiplier.of((1 << (31 - multiplier.shift)) / multiplier.value), least - 1


def _log_softmax(
    scaled: Array, counted: Array, total: Array, multiplier: Multiplier, least: int, differences: Array
) -> Array:
    """LOG_SOFTMAX of int8 values: 1/16 a step, 127 for 0."""
    log = log_of_sum(total)
    back, limit = log_limits(multiplier, least)
    lowest = np.maximum(limit, multiply(log - (1 << 31), back))
    exact = doubling_high_product(differences * (1 << multiplier.shift), multiplier.value)
    result = rounding_shift(exact - log, 22) + 127
    return np.where(differences > lowest, np.clip(result, -128, 127), -128)


_RANGE: Final = np.float32(65535)


def word_tables() -> tuple[Array, Array]:
    """Exponentials of -10 to 0, and 1 / (1 + x) for x from 0 to 1, for 16-bit arguments."""
    unit = np.float32(2) / _RANGE
    output = (float(unit * np.float32(-32768)), float(unit * np.float32(32767)))
    step = np.float32(10) / _RANGE
    powers = interpolated_table(float(step * np.float32(-65535)), 0.0, output, np.exp)
    step = np.float32(1) / _RANGE
    inverses = interpolated_table(0.0, float(step * np.float32(65535)), output, lambda x: 1 / (1 + x))
    return powers, inverses


def word_multiplier(x: Value, beta: float) -> Multiplier:
    """Multiplier of differences of stored 16-bit values to arguments of the table of exponentials."""
    return Multiplier.of(x.scale * float(np.float32(beta)) / (10.0 / 65535.0))


def _softmax_of_words(x: Value, beta: float, data: Array) -> Array:
    """SOFTMAX of int16 values, by tables."""
    powers, inverses = word_tables()
    wide = data.astype(np.int64)
    scaled = multiply(wide - wide.max(axis=-1, keepdims=True), word_multiplier(x, beta))
    result = interpolate(powers, np.clip(scaled + 32767, -32768, 32767))
    total = result.sum(axis=-1, keepdims=True)
    headroom = leading_zeros(total)
    place = (((total << (headroom - 1)) + (1 << 13)) >> 14) - (1 << 15) - (1 << 16)
    inverse = interpolate(inverses, np.clip(place, -32768, 32767))
    right = 31 - headroom
    return np.clip((result * inverse + (np.int64(1) << (right - 1))) >> right, 0, 32767)


def powers_of_differences(x: Value, beta: float) -> Array:
    """Single-precision exponentials of 0, -1, ... -255 steps of ``x``."""
    scale = np.float32(-x.scale) * np.float32(beta)
    return np.exp((scale * np.arange(256, dtype=np.float32)).astype(np.float32)).astype(np.float32)


def _softmax_of_bytes(x: Value, y: Value, beta: float, data: Array) -> Array:
    """Softmax of uint8 values, as TFLite computes it: in single precision, through a table."""
    table = powers_of_differences(x, beta)
    wide = data.astype(np.int64)
    powers = table[wide.max(axis=-1, keepdims=True) - wide]
    total = np.add.accumulate(powers, axis=-1, dtype=np.float32)[..., -1:]
    inverse = np.float32(1) / (total * np.float32(y.scale))
    return np.clip(np.trunc(powers * inverse + np.float32(0.5)) + y.zero_point, 0, 255)
