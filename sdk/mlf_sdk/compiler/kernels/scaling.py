# SPDX-License-Identifier: Apache-2.0
"""C text from sums to stored values: requantisation in its forms, multipliers as in TFLM, and limits."""

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
    """Expression of a float within a range."""
    text = value
    if clamp[0] > -np.inf:
        text = f"fmaxf({text}, {clamp[0]!r}f)"
    if clamp[1] < np.inf:
        text = f"fminf({text}, {clamp[1]!r}f)"
    return text
