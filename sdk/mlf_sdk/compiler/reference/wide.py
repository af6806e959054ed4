# SPDX-License-Identifier: Apache-2.0
"""References of functions of one 16-bit value; logistic and hyperbolic tangent by interpolation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.operators import Array, Call
from mlf_sdk.compiler.requantise import multiply, saturated, wrap32
from mlf_sdk.compiler.scales import single_ratio

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
