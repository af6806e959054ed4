# SPDX-License-Identifier: Apache-2.0
"""C text from sums to stored values: requantisation in its forms, multipliers as in TFLM, limits.

Also of fixed-point functions: reciprocals, logarithms, inverse roots, quotients, tables.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.kernels.rescale import Form, Rescale
from mlf_sdk.compiler.requantise import Multiplier

_RESCALE: Final = {
    Form.SPLIT: """static inline int32_t rescale_split(int32_t a, const int32_t *k, int32_t n)
{
    uint32_t low = (uint32_t)a << (32 - n) >> (32 - n);
    return ((a >> n) * k[0] + (int32_t)(low * (uint32_t)k[0] >> n) + k[1]) >> k[2];
}
""",
    Form.FINE: """static inline int32_t rescale_fine(int32_t a, const int32_t *k, int32_t n)
{
    return ((int32_t)(((int64_t)a * k[0]) >> 32) + k[1]) >> n;
}
""",
    Form.SIGNED: """static inline int32_t rescale_signed(int32_t a, const int32_t *k, int32_t n)
{
    return ((int32_t)(((int64_t)a * k[0]) >> 32) + (a < 0 ? k[2] : 0) + k[1]) >> n;
}
""",
    Form.SINGLE: """static inline int32_t rescale_single(int32_t a, const int32_t *k)
{
    return (high_word(a, k[0]) + k[1]) >> k[2];
}
""",
    Form.DOUBLE: """static inline int32_t rescale_double(int32_t a, const int32_t *k)
{
    int32_t h = high_word(a, k[0]);
    return (h + (h >> 31) + k[1]) >> k[2];
}
""",
}
HIGH_WORD: Final = """static inline int32_t high_word(int32_t a, int32_t m)
{
#if defined(__ARM_ARCH_6M__)
    uint32_t low = (uint32_t)a * 2 & 0xFFFF;
    int32_t high = a >> 15;
    uint32_t b = (uint32_t)m & 0xFFFF;
    int32_t c = m >> 16;
    int32_t first = high * (int32_t)b;
    uint32_t second = low * (uint32_t)c;
    uint32_t rest = ((uint32_t)first & 0xFFFF) + (second & 0xFFFF) + (low * b >> 16) + 0x8000;
    return high * c + (first >> 16) + (int32_t)(second >> 16) + (int32_t)(rest >> 16);
#else
    return (int32_t)(((int64_t)a * m + ((int64_t)1 << 30)) >> 31);
#endif
}
"""
SATURATE: Final = """#if defined(__ARM_FEATURE_SAT)
#include <arm_acle.h>
#endif
static inline int32_t saturate(int32_t v, int32_t low, int32_t high)
{
#if defined(__ARM_FEATURE_SAT)
    if (low == -128 && high == 127) {
#if defined(__GNUC__) && !defined(__clang__) /* whose macro __ssat is not free of warnings */
        return (int32_t)__builtin_arm_ssat(v, 8);
#else
        return __ssat(v, 8);
#endif
    }
#endif
    return v < low ? low : v > high ? high : v;
}
"""
RESCALE_INT32: Final = """static inline int32_t scale_sum(int32_t a, int32_t q, int32_t shift)
{
    int32_t left = shift > 0 ? shift : 0;
    int32_t right = shift < 0 ? -shift : 0;
    int64_t product = (int64_t)(int32_t)((uint32_t)a << left) * q;
    int32_t h = (int32_t)((product + ((int64_t)1 << 30)) >> 31);
    if (right > 0) {
        h = (int32_t)(((int64_t)h + (h >> 31) + ((int64_t)1 << (right - 1))) >> right);
    }
    return h;
}
"""
RESCALE_INT64: Final = """static inline int32_t scale_wide(int64_t a, int32_t q, int32_t shift)
{
    int64_t reduced = q < 0x7FFF0000 ? (q + (1 << 15)) >> 16 : 0x7FFF;
    int32_t total = 15 - shift;
    return (int32_t)((a * reduced + ((int64_t)1 << (total - 1))) >> total);
}
"""
SCALING: Final = {"saturate": SATURATE, "scale_sum": RESCALE_INT32}
"""Static functions of `scaled` and `saturated`."""


def helpers(form: Form) -> dict[str, str]:
    """Static functions that `expression` needs."""
    return {"high_word": HIGH_WORD, "saturate": SATURATE, f"rescale_{form.value}": _RESCALE[form]}


def expression(rescale: Rescale, sum_: str, row: str) -> str:
    """C expression of the stored value of a sum (FINE: times 256); ``row`` points to its words."""
    low, high = rescale.clamp
    shift = f", {rescale.shift}" if rescale.shift else ""
    return f"saturate(rescale_{rescale.form.value}({sum_}, {row}{shift}), {low}, {high})"


def scaled(value: str, by: Multiplier) -> str:
    """Expression of a 32-bit number times a multiplier."""
    return f"scale_sum({value}, {by.value}, {by.shift})"


def saturated(value: str, y: Value, clamp: tuple[float, float] | None = None) -> str:
    """Expression of a stored value: a scaled one plus the zero point, within limits or the type's range."""
    low, high = clamp or type_limits(y)
    return f"saturate({value} + ({y.zero_point}), {int(low)}, {int(high)})"


def type_limits(y: Value) -> tuple[int, int]:
    """Lowest and highest value of an integer type."""
    info = np.iinfo(y.dtype)
    return int(info.min), int(info.max)


def limited(value: str, clamp: tuple[float, float]) -> str:
    """Expression of a variable of floats within a range; NaN stays."""
    low, high = clamp
    text = value if high == np.inf else f"{value} > {high!r}f ? {high!r}f : {value}"
    text = text if low == -np.inf else f"{value} < {low!r}f ? {low!r}f : {text}"
    return f"({text})"


HIGH_PRODUCT: Final = """static inline int32_t high_product(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}
"""
RECIPROCAL: Final = """static int32_t reciprocal_of_one_plus(int32_t a)
{
    int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + high_product(half, -1010580540);
    for (int32_t i = 0; i < 3; ++i) {
        int32_t rest = (1 << 29) - high_product(half, x);
        x += high_product(x, rest) * 4;
    }
    return x >= 1 << 30 ? INT32_MAX : x * 2;
}
"""
DIVIDE: Final = """static inline int32_t divide_by_power(int32_t v, int32_t bits)
{
    int32_t mask = (int32_t)(((uint32_t)1 << bits) - 1);
    int32_t rest = v & mask;
    return (v >> bits) + (rest > (mask >> 1) + (v < 0));
}
"""
_LIMITED_SHIFT: Final = """static inline int32_t limited_shift(int32_t v, int32_t bits)
{
    int64_t wide = (int64_t)v * ((int64_t)1 << bits);
    return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}
"""
_LOG_OF_SUM: Final = """static int32_t log_of_sum(int32_t sum)
{
    int32_t over = leading_zeros((uint32_t)sum);
    int32_t less = high_product(sum, 1518500250);
    int32_t under = leading_zeros((uint32_t)less) - 1;
    int32_t first = limited_shift(high_product(limited_shift(sum, over - 1), 1518500250), 1);
    int32_t second = limited_shift(sum, under);
    int32_t one = (12 - over) * (1 << 25) + (1 << 23);
    int32_t other = (12 - under) * (1 << 25) - (1 << 23);
    int32_t r = first < second ? first : second;
    int32_t p = (int32_t)(((int64_t)r + 1805811301 + 1) / 2);
    int32_t q = 2 * (r - 1805811301);
    int32_t square = high_product(q, q);
    int32_t above = high_product(q, r) + high_product(high_product(q, square), 117049297);
    int32_t below = high_product(p, 1057819769 + q + high_product(square, 127690142)) + high_product(q, 638450708);
    int32_t part = high_product(divide_by_power(above, 6), reciprocal_of_one_plus(below));
    return limited_shift(high_product(one > other ? one : other, 1488522236) + part, 1);
}
"""
_INVERSE_ROOT: Final = """static int32_t inverse_root(int32_t v, int32_t *shift)
{
    *shift = 0;
    if (v <= 1) {
        return INT32_MAX;
    }
    int32_t right = 11;
    for (; v >= 1 << 29; ++right) {
        v /= 4;
    }
    int32_t pairs = (leading_zeros((uint32_t)v) - 1) / 2 - 1;
    right -= pairs;
    v = (int32_t)((uint32_t)v << 2 * pairs) >> 1;
    int32_t half = divide_by_power(v, 1);
    int32_t root = 1 << 28;
    for (int32_t i = 0; i < 5; ++i) {
        int32_t cube = limited_shift(high_product(high_product(root, root), root), 6);
        root = limited_shift(high_product(3 << 27, root) - high_product(half, cube), 3);
    }
    root = high_product(root, 1518500250);
    *shift = right < 0 ? 0 : -right;
    return right < 0 ? root * (1 << -right) : root;
}
"""
_QUOTIENT: Final = """static int32_t quotient(int32_t a, int32_t b, int32_t q, int32_t shift)
{
    if (b == 0) {
        return a == 0 ? 0 : a > 0 ? 1 << 20 : -(1 << 20);
    }
    a = b < 0 ? -a : a;
    uint32_t size = (uint32_t)(b < 0 ? -b : b);
    int32_t over = leading_zeros(size);
    int32_t inverse = reciprocal_of_one_plus((int32_t)((size << over) - ((uint32_t)1 << 31)));
    int32_t signs = a == 0 ? 31 : a > 0 ? leading_zeros((uint32_t)a) - 1 : leading_zeros((uint32_t)(2 * -a - 1));
    int32_t whole = high_product((int32_t)((uint32_t)a << signs), inverse);
    int32_t right = 31 - over + signs - shift;
    return right > 31 ? 0 : divide_by_power(high_product(whole, q), right);
}
"""
_INTERPOLATE: Final = """static inline int32_t interpolate(const int16_t *table, int32_t v)
{
    const int16_t *entry = table + 256 + (v >> 7);
    int16_t slope = (int16_t)(entry[1] - entry[0]);
    return entry[0] + ((slope * (v & 127) + 64) >> 7);
}
"""
_BASE: Final = {"divide_by_power": DIVIDE, "high_product": HIGH_PRODUCT, "reciprocal_of_one_plus": RECIPROCAL}
_SHIFTED: Final = {**_BASE, "limited_shift": _LIMITED_SHIFT}
# Static functions that each of these needs, in an order in which they can stand.
LOG_OF_SUM: Final = {**_SHIFTED, "log_of_sum": _LOG_OF_SUM}
INVERSE_ROOT: Final = {
    "divide_by_power": DIVIDE, "high_product": HIGH_PRODUCT, "limited_shift": _LIMITED_SHIFT,
    "inverse_root": _INVERSE_ROOT,
}  # fmt: skip
QUOTIENT: Final = {**_BASE, "quotient": _QUOTIENT}
INTERPOLATE: Final = {"interpolate": _INTERPOLATE}


WIDE_FUNCTIONS: Final = """static inline int32_t wide_logistic(int32_t v, const uint16_t *table)
{
    uint32_t size = (uint32_t)(v < 0 ? -v : v), at = size >> 9;
    uint32_t sum = at >= 255 ? 0x7FFFu << 10
                             : ((uint32_t)table[at] << 9) + (size & 511) * (uint32_t)(table[at + 1] - table[at]);
    return (int32_t)((v >= 0 ? sum + 512 : (1u << 25) - sum + 511) >> 10);
}
static inline int32_t wide_tanh(int32_t v, const uint16_t *table)
{
    uint32_t size = (uint32_t)(v < 0 ? -v : v), at = size >> 8;
    int32_t sum = at >= 255 ? 0xFFFF << 8
                            : (int32_t)(((uint32_t)table[at] << 8) + (size & 255) * (uint32_t)(table[at + 1] - table[at]));
    return (v >= 0 ? sum - (1 << 23) + 128 : (1 << 23) + 127 - sum) >> 8;
}
"""
