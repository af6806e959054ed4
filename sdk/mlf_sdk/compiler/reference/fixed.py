# SPDX-License-Identifier: Apache-2.0
"""Fixed-point functions and interpolated tables, as TFLM's reference kernels compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.requantise import Multiplier, doubling_high_product, rounding_shift, wrap32

_ONE: Final = (1 << 31) - 1
SUM_BITS: Final = 12
"""Integer bits of a sum of exponentials."""
_HALF_ROOT: Final = 1518500250  # of 1/2, with 31 fractional bits
_FOURTH_ROOT: Final = 1805811301  # the square root of that
_LOG_2: Final = 1488522236


def high_product(a: Array, b: int | Array) -> Array:
    """Product of two numbers with 31 fractional bits."""
    return doubling_high_product(np.asarray(a, np.int64), b)


def saturating_shift(x: Array, bits: int) -> Array:
    """``x * 2**bits``; to the left it saturates, to the right it rounds."""
    if bits <= 0:
        return rounding_shift(x, -bits)
    return _limited(x << bits)


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
    return _limited(_reciprocal(half) << 1)


def _reciprocal(half: Array) -> Array:
    """1 / (2 * half) for half in [1/2, 1], with two integer bits."""
    x = 1515870810 + high_product(half, -1010580540)
    for _ in range(3):
        rest = (1 << 29) - high_product(half, x)
        x = wrap32(x + _limited(high_product(x, rest) << 2))
    return x


def logistic_of_positive(a: Array, integer_bits: int) -> Array:
    """Logistic of a >= 0 with ``integer_bits``."""
    return reciprocal_of_one_plus(exp_of_negative(-a, integer_bits))


def tanh_of_positive(a: Array, integer_bits: int) -> Array:
    """Hyperbolic tangent of a >= 0 with ``integer_bits``."""
    x = exp_of_negative(-a, integer_bits + 1)
    return _limited((_reciprocal((x + _ONE + 1) // 2) - (1 << 29)) << 2)


def leading_zeros(x: Array) -> Array:
    """Leading zero bits of non-negative 32-bit numbers."""
    return np.frompyfunc(lambda v: 32 - int(v).bit_length(), 1, 1)(x).astype(np.int64)


def log_of_sum(total: Array) -> Array:
    """Natural logarithm of numbers >= 1 with `SUM_BITS` integer bits, as numbers with five."""
    headroom = leading_zeros(total)
    quarter = 1 << 23
    first = saturating_shift(high_product(_shifted(total, headroom - 1), _HALF_ROOT), 1)
    first_exponent = _limited(_shifted(SUM_BITS - headroom, np.full_like(headroom, 25)) + quarter)
    second_headroom = leading_zeros(high_product(total, _HALF_ROOT)) - 1
    second = _shifted(total, second_headroom)
    second_exponent = _limited(_shifted(SUM_BITS - second_headroom, np.full_like(headroom, 25)) - quarter)
    r = np.minimum(first, second)
    exponent = np.maximum(first_exponent, second_exponent)
    p = (r + _FOURTH_ROOT + 1) // 2
    q = 2 * (r - _FOURTH_ROOT)
    square = high_product(q, q)
    numerator = high_product(q, r) + high_product(high_product(q, square), 117049297)
    inner = 1057819769 + q + high_product(square, 127690142)
    denominator = high_product(p, inner) + high_product(q, 638450708)
    quotient = high_product(rounding_shift(numerator, 6), reciprocal_of_one_plus(denominator))
    return saturating_shift(high_product(exponent, _LOG_2) + quotient, 1)


def _limited(x: Array) -> Array:
    return np.clip(x, -(1 << 31), (1 << 31) - 1)


def _shifted(x: Array, bits: Array) -> Array:
    """``x * 2**bits``, saturated; bits >= 0."""
    return _limited(x << bits)


def inverse_root(x: int) -> Multiplier:
    """1 / sqrt(x) of a whole number; 1 for 0 and 1."""
    if x <= 1:
        return Multiplier((1 << 31) - 1, 0)
    shift = 11
    while x >= 1 << 29:
        x //= 4
        shift += 1
    pairs = (31 - x.bit_length()) // 2 - 1
    shift -= pairs
    value = np.array(x << 2 * pairs, np.int64) >> 1
    half = rounding_shift(value, 1)
    root = np.array(1 << 28, np.int64)
    for _ in range(5):
        cube = saturating_shift(high_product(high_product(root, root), root), 6)
        step = high_product(np.array(3 << 27, np.int64), root) - high_product(half, cube)
        root = saturating_shift(step, 3)
    result = int(high_product(root, _HALF_ROOT))
    return Multiplier(result << max(-shift, 0), -max(shift, 0))


def quotient(a: Array, b: Array, by: Multiplier) -> Array:
    """``a / b`` times a multiplier; beyond every stored value where b is 0 and a is not.

    TFLM's kernel leaves shifts by more than 31 bits to the processor; nothing is left of the number here.
    """
    divided = b != 0
    a, size = np.where(b < 0, -a, a), np.where(divided, np.abs(b), 1)
    headroom = leading_zeros(size)
    inverse = reciprocal_of_one_plus((size << headroom) - (1 << 31))
    sign_bits = leading_zeros(np.where(a >= 0, a, -2 * a - 1)) - (a >= 0)
    result = high_product(high_product(a << sign_bits, inverse), by.value)
    right = 31 - headroom + sign_bits - by.shift
    result = np.where(right > 31, 0, rounding_shift(result, np.clip(right, 0, 31)))
    return np.where(divided, result, np.sign(a) << 20)


def interpolated_table(
    low: float, high: float, output: tuple[float, float], function: Callable[[Array], Array]
) -> Array:
    """Values of a function at 513 places as 16-bit numbers, made for linear interpolation between them.

    Half of the error in the middle of each interval is taken off the entry at its start.

    Args:
        low, high: range of the argument, in single precision.
        output: real numbers of the smallest and the largest result.
    """
    step = np.float32((np.float32(high) - np.float32(low)) / np.float32(512))
    inverse = np.float32(65536) / np.float32(np.float32(output[1]) - np.float32(output[0]))
    places = np.arange(513, dtype=np.float32)

    def at(x: Array) -> Array:
        return (function(x.astype(np.float64)).astype(np.float32) * inverse).astype(np.float32)

    start = np.float32(low) + places * step
    exact = at(start)
    middle = at(start[:512] + step / np.float32(2))
    sample = _nearest(exact)
    between = _nearest((exact[1:] + sample[:512]) / np.float32(2))
    bias = _nearest((between - _nearest(middle)) / np.float32(2))
    result = np.append(sample[:512] - bias, _nearest(at(np.array([high], np.float32))))
    return np.clip(result, -32768, 32767).astype(np.int16)


def _nearest(x: Array) -> Array:
    """Nearest whole numbers, halves away from zero."""
    return np.trunc(x + np.copysign(np.float32(0.5), x)).astype(np.float32)


def interpolate(table: Array, x: Array) -> Array:
    """Value of a table of 513 entries at 16-bit arguments."""
    at = 256 + (x >> 7)
    entries = table.astype(np.int64)
    slope = ((entries[at + 1] - entries[at] + (1 << 15)) & 0xFFFF) - (1 << 15)
    return entries[at] + ((slope * (x & 127) + 64) >> 7)
