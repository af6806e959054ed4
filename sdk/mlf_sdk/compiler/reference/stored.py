# SPDX-License-Identifier: Apache-2.0
"""References of functions of one stored value of 8 or 16 bits, exactly as TFLM computes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Value, all_values
from mlf_sdk.compiler.operators import Array, Call
from mlf_sdk.compiler.reference.fixed import inverse_root, logistic_of_positive, tanh_of_positive
from mlf_sdk.compiler.requantise import (
    Multiplier,
    multiply,
    round_half_away,
    rounding_shift,
    saturated,
    single_ratio,
    wrap32,
)

_FIXED_INTEGER_BITS = 4
_FINE_BITS = 20  # of an inverse root before its scale is applied


def results_of(call: Call, x: Value, y: Value) -> Array:
    """Stored results for every stored value of ``x``, in the order of `all_values`.

    Args:
        call: a function of `BYTE_FUNCTIONS`.
    """
    return BYTE_FUNCTIONS[call.function](x, y, *call.parameters)


def _logistic(x: Value, y: Value) -> Array:
    if x.dtype == np.uint8:
        return _real(x, y, lambda r: 1 / (1 + np.exp(-r)))
    return _fixed_point(x, y, _signed_logistic, 8, -128)


def _tanh(x: Value, y: Value) -> Array:
    if x.dtype == np.uint8:
        return _real(x, y, np.tanh)
    return _fixed_point(x, y, _signed_tanh, 7, 0)


def _signed_logistic(a: Array) -> Array:
    positive = logistic_of_positive(np.abs(a), _FIXED_INTEGER_BITS)
    result = np.where(a > 0, positive, (1 << 31) - 1 - positive)
    return np.where(a == 0, 1 << 30, result)


def _signed_tanh(a: Array) -> Array:
    magnitude = tanh_of_positive(np.abs(a), _FIXED_INTEGER_BITS)
    return np.where(a == 0, 0, np.where(a > 0, magnitude, -magnitude))


def _real(x: Value, y: Value, function: Callable[[Array], Array]) -> Array:
    """A function computed in single precision, as TFLite does for uint8 values."""
    reals = np.float32(x.scale) * (all_values(x).astype(np.int64) - x.zero_point).astype(np.float32)
    scaled = function(reals).astype(np.float32) * (np.float32(1) / np.float32(y.scale))
    return saturated(np.floor(scaled + np.float32(0.5)) + y.zero_point, y.dtype)


def _fixed_point(x: Value, y: Value, function: Callable[[Array], Array], bits: int, zero: int) -> Array:
    """A fixed-point function of the real value, with ``bits`` fractional bits of result."""
    multiplier = Multiplier.of(x.scale * (1 << (31 - _FIXED_INTEGER_BITS)))
    shift = math.frexp(x.scale * (1 << (31 - _FIXED_INTEGER_BITS)))[1]  # of a multiplier without a bound
    radius = math.floor(((1 << _FIXED_INTEGER_BITS) - 1) * (1 << (31 - _FIXED_INTEGER_BITS)) / 2.0**shift)
    values = all_values(x).astype(np.int64) - x.zero_point
    inside = np.clip(values, -radius, radius)
    result = rounding_shift(function(multiply(inside, multiplier)), 31 - bits) + zero
    result = saturated(result, y.dtype)
    return np.where(values <= -radius, -128, np.where(values >= radius, 127, result)).astype(y.dtype)


def _clip(x: Value, y: Value, low: float, high: float) -> Array:
    """RELU and its like; TFLM limits int8 values of RELU6 in the quantisation of the input and keeps that."""
    if x.dtype == np.int8 and (low, high) == (0.0, 6.0):
        six = min(stored(6.0, x), 127)
        return np.clip(all_values(x), max(x.zero_point, -128), max(six, x.zero_point)).astype(y.dtype)
    info = np.iinfo(y.dtype)
    scaled = multiply(all_values(x).astype(np.int64) - x.zero_point, single_ratio(x, y)) + y.zero_point
    most = info.max if high == math.inf else min(info.max, stored(high, y))
    return np.clip(scaled, max(info.min, stored(low, y)), most).astype(y.dtype)


def stored(real: float, y: Value) -> int:
    """Stored value of a real one, without saturation."""
    return y.zero_point + round_half_away(float(np.float32(real) / np.float32(y.scale)))


def _abs(x: Value, y: Value) -> Array:
    return rectified("abs", x, y, all_values(x))


def _elu(x: Value, y: Value) -> Array:
    reals = np.float32(x.scale) * (all_values(x).astype(np.int64) - x.zero_point).astype(np.float32)
    result = np.where(reals < 0, np.exp(np.minimum(reals, 0)) - np.float32(1), reals).astype(np.float32)
    scaled = (result * (np.float32(1) / np.float32(y.scale))).astype(np.float64)
    rounded = np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)
    return saturated(rounded + y.zero_point, y.dtype)


def hard_swish_exponent(x: Value, y: Value) -> int:
    """Exponent of HARD_SWISH's output multiplier, which must not be positive."""
    return _narrow(float(np.float32(x.scale) * np.float32(1 / 128) / np.float32(y.scale)))[1]


def _narrow(real: float) -> tuple[int, int]:
    """A multiplier of 16 bits and its exponent."""
    result = Multiplier.of(real)
    return min((result.value + (1 << 15)) >> 16, 32767), result.shift


def _high16(a: Array, b: Array | int) -> Array:
    """Half of the high word of a product of 16-bit numbers, rounded half away from zero."""
    product = a * b
    nudged = np.where(product >= 0, product + (1 << 14), product + 1 - (1 << 14))
    result = np.where(nudged >= 0, nudged >> 15, -((-nudged) >> 15))
    return np.clip(result, -(1 << 15), (1 << 15) - 1)


def _shifted16(a: Array, bits: int) -> Array:
    return np.clip(a << bits, -(1 << 15), (1 << 15) - 1)


def _hard_swish(x: Value, y: Value) -> Array:
    fine = np.float32(x.scale) * np.float32(1 / 128)
    factor, exponent = _narrow(float(fine / np.float32(y.scale)))
    slope, steps = _narrow(float(fine / np.float32(3 / 32768)))
    values = (all_values(x).astype(np.int64) - x.zero_point) * 128
    gate = _shifted16(values, steps - 1) if steps > 0 else values
    gate = _high16(gate, slope)
    if steps > 0:
        gate = _shifted16(gate, 1)
    elif steps < 0:
        gate = rounding_shift(gate, -steps)
    gate = (gate + (1 << 15)) >> 1
    product = gate * _high16(values, factor)
    high = np.where(product >= 0, product >> 15, -((-product) >> 15))
    return saturated(rounding_shift(high, -exponent) + y.zero_point, y.dtype)


def _rsqrt(x: Value, y: Value) -> Array:
    """RSQRT: the largest result for 0, as in TFLM, and for values below, where that stops."""
    scale = Multiplier.of(1.0 / float(np.sqrt(np.float32(x.scale)) * np.float32(y.scale)))
    results = np.full(256, np.iinfo(y.dtype).max, np.int64)
    for place, value in enumerate(int(v) - x.zero_point for v in all_values(x)):
        if value > 0:
            root = inverse_root(value)
            fine = multiply(np.array(1, np.int64), Multiplier(root.value, root.shift + _FINE_BITS))
            result = multiply(fine, Multiplier(scale.value, scale.shift - _FINE_BITS))
            results[place] = int(result) + y.zero_point
    return saturated(results, y.dtype)


BYTE_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "abs": _abs,
    "clip": _clip,
    "elu": lambda x, y, _: _elu(x, y),
    "hard_swish": _hard_swish,
    "leaky_relu": lambda x, y, alpha: leaky_relu(x, y, all_values(x), alpha),
    "rsqrt": _rsqrt,
    "sigmoid": _logistic,
    "tanh": _tanh,
}
"""By function: of the values of input and output, and of the parameters."""


_STEPS: Final = 24
"""Entries of the table in a unit of the argument."""


def sigmoid_table() -> Array:
    """Logistic of i / 24 for 256 i with 16 fractional bits.

    Half of the error that linear interpolation makes in the middle of an interval is taken off each entry.
    """
    i = np.arange(-1, 257)
    exact = 65536 / (1 + np.exp(-i / _STEPS))
    bend = exact[2:] - 2 * exact[1:-1] + exact[:-2]
    result = np.rint(exact[1:-1] - bend / 16)
    result[255] = 65535
    return result.astype(np.uint16)


_TABLE: Final = sigmoid_table().astype(np.int64)


def scaled_argument(x: Array, multiplier: int, shift: int) -> Array:
    """Arguments as places in the table; a multiplier of 0 stands for 3 * 2**shift."""
    if multiplier == 0:
        multiplier, shift = 3 << shift, 0
    half = 1 << (shift - 1) if shift else 0
    return wrap32(x.astype(np.int64) * multiplier + half) >> shift


def _interpolated(magnitude: Array, bits: int) -> Array:
    """Table at ``magnitude / 2**bits``, with as many further bits; 0 where it lies behind the table."""
    at = np.minimum(magnitude >> bits, 254)
    part = magnitude & ((1 << bits) - 1)
    return (_TABLE[at] << bits) + part * (_TABLE[at + 1] - _TABLE[at])


def logistic(x: Array, multiplier: int, shift: int) -> Array:
    """Logistic with 15 fractional bits."""
    argument = scaled_argument(x, multiplier, shift)
    magnitude = np.abs(argument)
    result = np.where(magnitude >> 9 >= 255, 0x7FFF << 10, _interpolated(magnitude, 9))
    rounded = np.where(argument >= 0, result + (1 << 9), (1 << 25) - result + (1 << 9) - 1)
    return rounded >> 10


def tanh(x: Array, multiplier: int, shift: int) -> Array:
    """Hyperbolic tangent with 15 fractional bits."""
    argument = scaled_argument(x, multiplier, shift)
    magnitude = np.abs(argument)
    result = np.where(magnitude >> 8 >= 255, 0xFFFF << 8, _interpolated(magnitude, 8))
    signed = np.where(argument >= 0, result - (1 << 23) + 128, -result + (1 << 23) + 127)
    return signed >> 8


def argument_of(x: Value, function: str) -> tuple[int, int]:
    """Multiplier and shift that make places in the table of stored values of ``x``.

    A scale whose logarithm is within a thousandth of a whole number is taken for that power of two.
    """
    logarithm = np.log(np.float32(x.scale)) * (np.float32(1) / np.log(np.float32(2)))
    shift = 12 + round(float(logarithm))
    if abs(logarithm - np.rint(logarithm)) < np.float32(1e-3) and shift in (
        (0, 1) if function == "tanh" else (0,)
    ):
        return 0, shift
    multiplier, shift = x.scale * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2.0, shift + 1
    return int(multiplier), shift


def leaky_relu(x: Value, y: Value, data: Array, alpha: float) -> Array:
    """LEAKY_RELU of stored values."""
    centred = data.astype(np.int64) - x.zero_point
    identity, slope = single_ratio(x, y), single_ratio(x, y, alpha)
    result = np.where(centred >= 0, multiply(centred, identity), multiply(centred, slope))
    return saturated(result + y.zero_point, y.dtype)


def rectified(function: str, x: Value, y: Value, data: Array) -> Array:
    """ABS and RELU ('clip') of stored values."""
    centred = data.astype(np.int64) - x.zero_point
    value = np.maximum(centred, 0) if function == "clip" else np.abs(centred)
    scaled = multiply(value, single_ratio(x, y)) if function == "clip" or x.scale != y.scale else value
    return saturated(scaled + y.zero_point, y.dtype)


WIDE: Final[dict[str, Callable[[Array, int, int], Array]]] = {"sigmoid": logistic, "tanh": tanh}


def of_words(call: Call, x: Value, y: Value, data: Array) -> Array:
    """Stored results of a function of 16-bit values."""
    if call.function == "leaky_relu":
        return leaky_relu(x, y, data, *call.parameters)
    if call.function in WIDE:
        return WIDE[call.function](data, *argument_of(x, call.function))
    return rectified(call.function, x, y, data)
