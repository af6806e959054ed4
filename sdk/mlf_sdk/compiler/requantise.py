# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of quantised multipliers, exactly as TFLM's reference kernels compute it.

A real factor d is held as a 31-bit multiplier q and a shift s with d = q * 2**(s - 31).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.operators import Array

INT32_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Multiplier:
    """A factor as ``value * 2**(shift - 31)``."""

    value: int
    shift: int

    @classmethod
    def of(cls, real: float) -> Multiplier:
        """The multiplier nearest to ``real``, which is finite."""
        if real == 0:
            return cls(0, 0)
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
