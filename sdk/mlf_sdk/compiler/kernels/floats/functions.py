# SPDX-License-Identifier: Apache-2.0
"""C expressions of the functions of `Pointwise`; exponentials and their like in single precision alone.

Those of C libraries for microcontrollers compute in double precision, which no Cortex-M4 has: some 200
instructions a call. The polynomials here are fitted to less than half a unit of the last place.
"""

from __future__ import annotations

from typing import Final

import numpy as np

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
MODULO = """static inline float real_modulo(float a, float b)
{
    float rest = fmodf(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
"""

_TEXTS: Final = {
    "real_limit": LIMIT, "real_modulo": MODULO,
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

# By function: of real operands and of whole numbers. a, b, c are the operands, {0}, {1}... the parameters.
REAL: Final = {
    "abs": "fabsf(a)",
    "acos": "acosf(a)",
    "acosh": "acoshf(a)",
    "add": "a + b",
    "asin": "asinf(a)",
    "asinh": "asinhf(a)",
    "atan": "atanf(a)",
    "atanh": "atanhf(a)",
    "cast": "a",
    "ceil": "ceilf(a)",
    "clip": "real_limit(a, {0}, {1})",
    "cos": "cosf(a)",
    "cosh": "coshf(a)",
    "dequantise": "(float)((int32_t)a - (int32_t)b) * c",
    "div": "a / b",
    "elu": "a > 0.0f ? a : {0} * real_elu(a)",
    "equal": "a == b",
    "erf": "real_erf(a)",
    "exp": "real_exp(a)",
    "floor": "floorf(a)",
    "floor_div": "floorf(a / b)",
    "fmod": "fmodf(a, b)",
    "gelu": "0.5f * a * (1.0f + real_erf(a * 0.707106781f))",
    "gelu_tanh": "0.5f * a * (1.0f + real_tanh(0.797884561f * (a + 0.044715f * a * a * a)))",
    "greater": "a > b",
    "greater_equal": "a >= b",
    "hard_sigmoid": "real_limit({0} * a + {1}, 0.0f, 1.0f)",
    "hard_swish": "a * real_limit(a * 0.166666667f + 0.5f, 0.0f, 1.0f)",
    "is_inf": "(a == INFINITY && {0} > 0.0f) || (a == -INFINITY && {1} > 0.0f)",
    "is_nan": "a != a",
    "leaky_relu": "a >= 0.0f ? a : {0} * a",
    "less": "a < b",
    "less_equal": "a <= b",
    "log": "real_log(a)",
    "max": "a > b ? a : b",
    "min": "a < b ? a : b",
    "mish": "a * real_tanh(real_softplus(a))",
    "mod": "real_modulo(a, b)",
    "mul": "a * b",
    "neg": "-a",
    "not_equal": "a != b",
    "pow": "powf(a, b)",
    "prelu": "a >= 0.0f ? a : b * a",
    "real_cast": "a",
    "quantise": "real_limit(real_round(b / c) + (float)a, {0}, {1})",
    "reciprocal": "1.0f / a",
    "round": "real_round(a)",
    "scaled_swish": "a * real_sigmoid({0} * a)",
    "selu": "{1} * (a > 0.0f ? a : {0} * real_elu(a))",
    "shrink": "a < -{1} ? a + {0} : a > {1} ? a - {0} : 0.0f",
    "sigmoid": "real_sigmoid(a)",
    "sign": "(float)((a > 0.0f) - (a < 0.0f))",
    "sin": "sinf(a)",
    "sinh": "sinhf(a)",
    "softplus": "real_softplus(a)",
    "softsign": "a / (1.0f + fabsf(a))",
    "sqrt": "sqrtf(a)",
    "squared_difference": "(a - b) * (a - b)",
    "sub": "a - b",
    "swish": "a * real_sigmoid(a)",
    "tan": "tanf(a)",
    "tanh": "real_tanh(a)",
    "thresholded_relu": "a > {0} ? a : 0.0f",
    "truth": "a != 0.0f",
    "where": "a ? b : c",
}
WHOLE: Final = {
    "abs": "a < 0 ? -a : a",
    "add": "a + b",
    "and": "a && b",
    "bit_and": "a & b",
    "bit_not": "~a",
    "bit_or": "a | b",
    "bit_xor": "a ^ b",
    "cast": "a",
    "clip": "(int64_t)a < {0} ? {0} : (int64_t)a > {1} ? {1} : (int64_t)a",
    "div": "a / b",
    "equal": "a == b",
    "fmod": "a % b",
    "greater": "a > b",
    "greater_equal": "a >= b",
    "less": "a < b",
    "less_equal": "a <= b",
    "max": "a > b ? a : b",
    "min": "a < b ? a : b",
    "mod": "(a % b + b) % b",
    "mul": "a * b",
    "neg": "-a",
    "not": "!a",
    "not_equal": "a != b",
    "or": "a || b",
    "real_cast": "a",
    "shift_left": "b > 63 ? 0 : (uint64_t)a << b",
    "shift_right": "b > 63 ? 0 : (uint64_t)a >> b",
    "sign": "(a > 0) - (a < 0)",
    "sub": "a - b",
    "truth": "a != 0",
    "where": "a ? b : c",
    "xor": "!a != !b",
}


def number(value: float) -> str:
    """A single-precision number in C, exact."""
    if not np.isfinite(value):
        return "NAN" if np.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    return f"({literal(value)})"


def literal(value: float) -> str:
    """The single-precision number nearest to a finite one, in C."""
    return f"{float(np.float32(value)).hex()}f"


def _whole(value: float) -> str:
    """A whole number in C."""
    if not -(1 << 63) < value < 1 << 63:
        return "INT64_MIN" if value < 0 else "INT64_MAX"
    return f"INT64_C({int(value)})"


def expression(function: str, parameters: tuple[float, ...], *, real: bool) -> tuple[str, dict[str, str]]:
    """Expression of a function of ``a``, ``b``, ``c``, and the static functions that it calls."""
    if real:
        text = REAL[function].format(*(number(p) for p in parameters))
    else:
        text = WHOLE[function].format(*(_whole(p) for p in parameters))
    return text, helpers_of(text)


def helpers_of(text: str) -> dict[str, str]:
    """Static functions that a C text calls, each behind those that it needs."""
    found: dict[str, str] = {}
    for name in _TEXTS:
        if f"{name}(" in text:
            for need in (*_NEEDS.get(name, ()), name):
                found[need] = _TEXTS[need]
    return found
