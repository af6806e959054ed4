# SPDX-License-Identifier: Apache-2.0
"""C text of fixed-point functions: rounding, reciprocals, logarithms, inverse roots, quotients, tables."""

from __future__ import annotations

from typing import Final

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
