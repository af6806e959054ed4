# SPDX-License-Identifier: Apache-2.0
"""C text of scalar functions; exponentials and their like in single precision alone.

Those of C libraries for microcontrollers compute in double precision, which no Cortex-M4 has: some 200
instructions a call. The polynomials here are fitted to less than half a unit of the last place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mlf_sdk.compiler.functions import FUNCTIONS
from mlf_sdk.compiler.operators import Call
from mlf_sdk.tools.ctext import c_real

_OPERAND: Final = re.compile(r"\b[abc]\b")

EXP = """static inline float real_exp(float x)
{
    if (!(x < 88.722836f)) {
        return x != x ? x : INFINITY;
    }
    if (x < -87.336540f) {
        return 0.0f;
    }
    float k = x * 1.44269502f;
    int32_t n = (int32_t)(k + (k < 0.0f ? -0.5f : 0.5f));
    float r = x - (float)n * 0.693359375f;
    r = r + (float)n * 2.12194442e-4f;
    float p = 0.00139504869f;
    p = p * r + 0.00836888794f;
    p = p * r + 0.0416662060f;
    p = p * r + 0.166665182f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    int32_t bits;
    memcpy(&bits, &p, 4);
    if (n == 128) {
        p = p * 2.0f;
        memcpy(&bits, &p, 4);
        n = 127;
    }
    bits = (int32_t)((uint32_t)bits + ((uint32_t)n << 23));
    memcpy(&p, &bits, 4);
    return p;
}
"""
LOG = """static inline float real_log(float x)
{
    if (!(x > 0.0f) || x == INFINITY) {
        return x == 0.0f ? -INFINITY : x < 0.0f ? NAN : x;
    }
    int32_t n = 0;
    if (x < 1.17549435e-38f) {
        x *= 16777216.0f;
        n = -24;
    }
    int32_t bits;
    memcpy(&bits, &x, 4);
    int32_t k = (bits - 0x3f3504f3) >> 23;
    bits -= (int32_t)((uint32_t)k << 23);
    n += k;
    float m;
    memcpy(&m, &bits, 4);
    float s = (m - 1.0f) / (m + 1.0f);
    float z = s * s;
    float p = 0.222222222f;
    p = p * z + 0.285714286f;
    p = p * z + 0.4f;
    p = p * z + 0.666666667f;
    return (float)n * 0.693359375f + (s * (p * z + 2.0f) - (float)n * 2.12194442e-4f);
}
"""
SIGMOID = """static inline float real_sigmoid(float x)
{
    return 1.0f / (1.0f + real_exp(-x));
}
"""
TANH = """static inline float real_tanh(float x)
{
    float a = fabsf(x);
    if (a < 0.625f) {
        float z = x * x;
        float p = -0.00571703259f;
        p = p * z + 0.0206505750f;
        p = p * z - 0.0537434928f;
        p = p * z + 0.133314908f;
        p = p * z - 0.333332837f;
        return p * z * x + x;
    }
    float t = 1.0f - 2.0f / (real_exp(2.0f * a) + 1.0f);
    return x < 0.0f ? -t : t;
}
"""
ERF = """static inline float real_erf(float x)
{
    float a = fabsf(x);
    if (a < 1.0f) {
        float z = x * x;
        float p = -5.66015311e-4f;
        p = p * z + 0.00492478907f;
        p = p * z - 0.0267177075f;
        p = p * z + 0.112804115f;
        p = p * z - 0.376123548f;
        p = p * z + 1.12837911f;
        return p * x;
    }
    if (a != a) {
        return x;
    }
    float q = a < 4.0f ? a : 4.0f;
    float p = 1.85575176e-4f;
    p = p * q - 0.00293961866f;
    p = p * q + 0.0218053728f;
    p = p * q - 0.103037462f;
    p = p * q - 0.638225555f;
    p = p * q - 1.12704015f;
    p = p * q - 3.53703945e-4f;
    float t = 1.0f - real_exp(p);
    return x < 0.0f ? -t : t;
}
"""
SOFTPLUS = """static inline float real_softplus(float x)
{
    float e = real_exp(-fabsf(x));
    volatile float u = 1.0f + e;
    float t = u == 1.0f ? e : real_log(u) * (e / (u - 1.0f));
    return (x > 0.0f ? x : 0.0f) + t;
}
"""
ELU = """static inline float real_elu(float x)
{
    if (x < -0.34f) {
        return real_exp(x) - 1.0f;
    }
    float p = 0.00139504869f;
    p = p * x + 0.00836888794f;
    p = p * x + 0.0416662060f;
    p = p * x + 0.166665182f;
    p = p * x + 0.5f;
    return x > 0.0f ? x : p * x * x + x;
}
"""
ROUND = """static inline float real_round(float x)
{
    float a = fabsf(x);
    if (!(a < 8388608.0f)) {
        return x;
    }
    volatile float shifted = a + 8388608.0f;
    return copysignf(shifted - 8388608.0f, x);
}
"""

LIMIT = """static inline float real_limit(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}
"""
WHOLE_LIMIT = """static inline int64_t whole_limit(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}
"""
MODULO = """static inline float real_modulo(float a, float b)
{
    float rest = fmodf(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
"""

_TEXTS: Final = {
    "real_limit": LIMIT, "whole_limit": WHOLE_LIMIT, "real_modulo": MODULO,
    "real_exp": EXP, "real_log": LOG, "real_sigmoid": SIGMOID, "real_tanh": TANH, "real_erf": ERF,
    "real_softplus": SOFTPLUS, "real_elu": ELU, "real_round": ROUND,
}  # fmt: skip
_NEEDS: Final = {
    "real_sigmoid": ("real_exp",),
    "real_tanh": ("real_exp",),
    "real_erf": ("real_exp",),
    "real_softplus": ("real_exp", "real_log"),
    "real_elu": ("real_exp",),
}


def _whole(value: float) -> str:
    """A whole number in C."""
    if not -(1 << 63) < value < 1 << 63:
        return "INT64_MIN" if value < 0 else "INT64_MAX"
    return f"INT64_C({int(value)})"


def text_of(call: Call, names: Sequence[str], *, real: bool) -> str:
    """C expression of a call whose arguments are variables."""
    row = FUNCTIONS[call.function]
    text = (row.real if real else row.whole).format(*map(c_real if real else _whole, call.parameters))
    return _OPERAND.sub(lambda result: names["abc".index(result[0])], text)


def helpers_of(text: str) -> dict[str, str]:
    """Static functions that a C text calls, each behind those that it needs."""
    result: dict[str, str] = {}
    for name in _TEXTS:
        if f"{name}(" in text:
            for need in (*_NEEDS.get(name, ()), name):
                result[need] = _TEXTS[need]
    return result
