# SPDX-License-Identifier: Apache-2.0
"""Reference of softmax and the fixed-point functions behind it and behind logistic and tanh."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Array, Softmax
from mlf_sdk.compiler.reference.table import States, reference
from mlf_sdk.compiler.requantise import Multiplier, doubling_high_product, rounding_shift, wrap32

_INTEGER_BITS: Final = 5
_ONE: Final = (1 << 31) - 1


def high_product(a: Array, b: int | Array) -> Array:
    """Product of two numbers with 31 fractional bits."""
    return doubling_high_product(np.asarray(a, np.int64), b)


def saturating_shift(x: Array, bits: int) -> Array:
    """``x * 2**bits``; to the left it saturates, to the right it rounds."""
    if bits <= 0:
        return rounding_shift(x, -bits)
    return np.clip(x << bits, -(1 << 31), (1 << 31) - 1)


def exp_of_negative(x: Array, integer_bits: int) -> Array:
    """Exponential of x <= 0 with ``integer_bits``, as a number with 31 fractional bits."""
    fraction = 31 - integer_bits
    quarter = 1 << (fraction - 2)
    reduced = (x & (quarter - 1)) - quarter
    result = _exp_near_zero(saturating_shift(reduced, integer_bits))
    remainder = reduced - x
    factors = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
    for exponent, factor in zip(range(-2, 5), factors, strict=True):
        if integer_bits > exponent:
            bit = 1 << (fraction + exponent)
            result = np.where(remainder & bit, high_product(result, factor), result)
    if integer_bits > 5:
        result = np.where(x < -(1 << (fraction + 5)), 0, result)
    return np.where(x == 0, _ONE, result)


def _exp_near_zero(a: Array) -> Array:
    """Exponential on [-1/4, 0) by a polynomial around -1/8."""
    x = a + (1 << 28)
    square = high_product(x, x)
    cube = high_product(square, x)
    fourth = rounding_shift(high_product(square, square), 2)
    tail = rounding_shift(high_product(fourth + cube, 715827883) + square, 1)
    return 1895147668 + high_product(np.full_like(x, 1895147668), x + tail)


def reciprocal_of_one_plus(a: Array) -> Array:
    """1 / (1 + a) for a in [0, 1], both with 31 fractional bits, by three Newton steps."""
    total = a + _ONE
    half = np.where(total >= 0, (total + 1) // 2, -((-total + 1) // 2))
    x = 1515870810 + high_product(half, -1010580540)
    for _ in range(3):
        product = high_product(half, x)
        rest = (1 << 29) - product
        x = wrap32(x + np.clip(high_product(x, rest) << 2, -(1 << 31), _ONE))
    return np.clip(x << 1, -(1 << 31), _ONE)


def logistic_of_positive(a: Array, integer_bits: int) -> Array:
    """Logistic of a >= 0 with ``integer_bits``."""
    return reciprocal_of_one_plus(exp_of_negative(-a, integer_bits))


def tanh_of_positive(a: Array, integer_bits: int) -> Array:
    """Hyperbolic tangent of a >= 0 with ``integer_bits``."""
    x = exp_of_negative(-a, integer_bits + 1)
    total = x + _ONE
    half = (total + 1) // 2
    y = 1515870810 + high_product(half, -1010580540)
    for _ in range(3):
        rest = (1 << 29) - high_product(half, y)
        y = wrap32(y + np.clip(high_product(y, rest) << 2, -(1 << 31), _ONE))
    return np.clip((y - (1 << 29)) << 2, -(1 << 31), _ONE)


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
        if np.isneginf(inputs[0]).any():
            return [_softmax_with_nothing(inputs[0], operator)]
        shifted = (inputs[0] - inputs[0].max(axis=-1, keepdims=True)) * np.float32(operator.beta)
        powers = np.exp(shifted)
        if operator.log:
            return [shifted - np.log(powers.sum(axis=-1, keepdims=True))]
        return [powers / powers.sum(axis=-1, keepdims=True)]
    if x.dtype == np.uint8:
        return [_softmax_of_bytes(x, y, operator.beta, inputs[0])]
    data = inputs[0].astype(np.int64)
    multiplier, least = softmax_scaling(x, operator.beta)
    differences = data - data.max(axis=-1, keepdims=True)
    counted = differences >= least
    scaled = doubling_high_product(
        np.where(counted, differences, 0) * (1 << multiplier.shift), multiplier.value
    )
    powers = exp_of_negative(scaled, _INTEGER_BITS)
    total = np.where(counted, rounding_shift(powers, 12), 0).sum(axis=-1, keepdims=True)
    bits = np.frompyfunc(lambda t: 32 - int(t).bit_length(), 1, 1)(total).astype(np.int64)
    mantissa = wrap32((total << bits) - (1 << 31))
    scale = reciprocal_of_one_plus(mantissa)
    output_bits = y.dtype.itemsize * 8
    result = rounding_shift(high_product(scale, powers), (12 - bits) + 31 - output_bits)
    low, high = np.iinfo(y.dtype).min, np.iinfo(y.dtype).max
    base = low if y.dtype.kind == "i" else 0
    return [np.where(counted, np.clip(result + base, low, high), low)]


def _softmax_with_nothing(x: Array, operator: Softmax) -> Array:
    """Softmax of numbers of which some are minus infinity: nothing of those; not a number where all are."""
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = (x - x.max(axis=-1, keepdims=True)) * np.float32(operator.beta)
        powers = np.exp(shifted)
        total = powers.sum(axis=-1, keepdims=True)
        return shifted - np.log(total) if operator.log else powers / total


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
