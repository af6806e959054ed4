# SPDX-License-Identifier: Apache-2.0
"""Kernel of the Fourier transform of real 16-bit samples.

Even and odd samples are the parts of half as many complex numbers, which are transformed where the output will lie:
it needs no other memory. Every step divides, so that nothing is lost to overflow but the last bits.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.assembly import DSP
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.signals import SignalRfft


def rfft(graph: Graph, operator: SignalRfft) -> Kernel:
    """Transform of each row: the first step sorts, the next ones take four parts together, the last splits bins."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    samples, points = x.shape[-1], operator.length // 2
    first = 4 if points.bit_length() % 2 else 2  # what is left by steps of four
    steps = points // first
    constants = (_factors(points), _splitting(points))
    turn = f"""            int32_t step = {steps // 4};
            while (from >= 3 * step && step) {{
                from -= 3 * step;
                step /= 4;
            }}
            from += step;
"""
    body = f"""    for (int32_t r = 0; r < {x.elements // samples}; ++r) {{
        const int16_t *x = x0 + r * {samples};
        int16_t *y = y0 + r * {y.shape[-1]};
        int32_t from = 0;
        for (int32_t i = 0; i < {steps}; ++i) {{
            fft_first_{first}(x + 2 * from, {steps * 2}, {samples} - 2 * from, y + {2 * first} * i);
{turn if steps > 1 else ""}        }}
        for (int32_t size = {first}; size < {points}; size *= 4)
            fft_by_four(y, size, {points}, p0);
        fft_split(y, {points}, p1);
    }}
"""
    return Kernel.of(
        graph,
        operator,
        "rfft",
        body,
        constants,
        helpers={
            "fft_part": _PART,
            f"fft_first_{first}": _FIRST_4 if first == 4 else _FIRST_2,
            "fft_by_four": _BY_FOUR,
            "fft_split": _SPLIT,
        },
    )


def _factors(points: int) -> Array:
    """The roots of unity that steps of four multiply by: three quarters of all."""
    return _roots([-2 * math.pi * k / points for k in range(max(1, 3 * points // 4))])


def _splitting(points: int) -> Array:
    """The factors of bins 1 to the middle."""
    return _roots([-math.pi * (k / points + 0.5) for k in range(1, points // 2 + 1)])


def _roots(phases: list[float]) -> Array:
    parts = [f(phase) for phase in phases for f in (math.cos, math.sin)]
    return np.array([math.floor(0.5 + 32767 * part) for part in parts], np.int16)


_PART: Final = """static inline int32_t fft_part(int32_t v, int32_t divisor)
{
    return (v * (32767 / divisor) + (1 << 14)) >> 15;
}

static inline int32_t fft_sample(const int16_t *x, int32_t at, int32_t count, int32_t divisor)
{
    return at < count ? fft_part(x[at], divisor) : 0;
}
"""

# Factors are 1 in the first step, and a product with 32767 / 32768 is rounded to what it was.
_FIRST_4: Final = """static void fft_first_4(const int16_t *x, int32_t step, int32_t count, int16_t *y)
{
    for (int32_t part = 0; part < 2; ++part) {
        int32_t a = fft_sample(x, part, count, 4), b = fft_sample(x, part + step, count, 4);
        int32_t c = fft_sample(x, part + 2 * step, count, 4), d = fft_sample(x, part + 3 * step, count, 4);
        y[part] = (int16_t)(a + c + b + d);
        y[4 + part] = (int16_t)(a + c - b - d);
        y[2 + part] = (int16_t)(a - c);
        y[6 + part] = (int16_t)(b - d);
    }
    int32_t real = y[2], imaginary = y[3], turned = y[7], other = y[6];
    y[2] = (int16_t)(real + turned);
    y[3] = (int16_t)(imaginary - other);
    y[6] = (int16_t)(real - turned);
    y[7] = (int16_t)(imaginary + other);
}
"""
_FIRST_2: Final = """static void fft_first_2(const int16_t *x, int32_t step, int32_t count, int16_t *y)
{
    for (int32_t part = 0; part < 2; ++part) {
        int32_t a = fft_sample(x, part, count, 2), b = fft_sample(x, part + step, count, 2);
        y[part] = (int16_t)(a + b);
        y[2 + part] = (int16_t)(a - b);
    }
}
"""
# Both parts of a number in one word: two products, sums or differences by one instruction. The one that packs has
# no intrinsic, and GCC makes three instructions and a constant of its meaning in C.
_WORDS: Final = """#include <arm_acle.h>
static inline int32_t fft_load(const int16_t *x)
{
    int32_t z;
    memcpy(&z, x, 4);
    return z;
}

static inline int32_t fft_pack(int32_t imaginary, int32_t real)
{
    int32_t z;
    __asm__("pkhtb %0, %1, %2, asr #15" : "=r"(z) : "r"((uint32_t)imaginary << 1), "r"(real));
    return z;
}

static inline int32_t fft_quarter(const int16_t *x)
{
    int32_t z = fft_load(x);
    return fft_pack(__smlatb(z, 8191, 1 << 14), __smlabb(z, 8191, 1 << 14));
}

static inline int32_t fft_times(int32_t z, int32_t factor)
{
    return fft_pack(__smladx(z, factor, 1 << 14), __smlsd(z, factor, 1 << 14));
}

static void fft_by_four(int16_t *y, int32_t size, int32_t points, const int16_t *factors)
{
    int32_t step = points / size / 2;
    for (int32_t k = 0; k < size; ++k) {
        const int16_t *f = factors + k * step;
        int32_t first = fft_load(f), second = fft_load(f + k * step), third = fft_load(f + 2 * k * step);
        for (int16_t *z = y + 2 * k; z < y + 2 * points; z += 8 * size) {
            int16_t *u = z + 2 * size, *v = z + 4 * size, *w = z + 6 * size;
            int32_t a = fft_quarter(z), b = fft_times(fft_quarter(u), first);
            int32_t c = fft_times(fft_quarter(v), second), d = fft_times(fft_quarter(w), third);
            int32_t sum = __sadd16(a, c), other = __sadd16(b, d);
            a = __ssub16(a, c);
            b = __ssub16(b, d);
            c = __sadd16(sum, other);
            memcpy(z, &c, 4);
            c = __ssub16(sum, other);
            memcpy(v, &c, 4);
            c = __ssax(a, b);
            memcpy(u, &c, 4);
            c = __sasx(a, b);
            memcpy(w, &c, 4);
        }
    }
}
"""
_PLAIN: Final = """static void fft_by_four(int16_t *y, int32_t size, int32_t points, const int16_t *factors)
{
    int32_t step = points / size / 2;
    for (int32_t k = 0; k < size; ++k) {
        const int16_t *f = factors + k * step, *g = f + k * step, *h = g + k * step;
        int32_t fr = f[0], fi = f[1], gr = g[0], gi = g[1], hr = h[0], hi = h[1];
        for (int16_t *z = y + 2 * k; z < y + 2 * points; z += 8 * size) {
            int16_t *u = z + 2 * size, *v = z + 4 * size, *w = z + 6 * size;
            int32_t r = fft_part(u[0], 4), i = fft_part(u[1], 4);
            int32_t br = (r * fr - i * fi + (1 << 14)) >> 15, bi = (r * fi + i * fr + (1 << 14)) >> 15;
            r = fft_part(v[0], 4);
            i = fft_part(v[1], 4);
            int32_t cr = (r * gr - i * gi + (1 << 14)) >> 15, ci = (r * gi + i * gr + (1 << 14)) >> 15;
            r = fft_part(w[0], 4);
            i = fft_part(w[1], 4);
            int32_t dr = (r * hr - i * hi + (1 << 14)) >> 15, di = (r * hi + i * hr + (1 << 14)) >> 15;
            int32_t ar = fft_part(z[0], 4), ai = fft_part(z[1], 4);
            r = ar - cr;
            i = ai - ci;
            ar += cr;
            ai += ci;
            cr = br + dr;
            ci = bi + di;
            br -= dr;
            bi -= di;
            z[0] = (int16_t)(ar + cr);
            z[1] = (int16_t)(ai + ci);
            u[0] = (int16_t)(r + bi);
            u[1] = (int16_t)(i - br);
            v[0] = (int16_t)(ar - cr);
            v[1] = (int16_t)(ai - ci);
            w[0] = (int16_t)(r - bi);
            w[1] = (int16_t)(i + br);
        }
    }
}
"""
_BY_FOUR: Final = f"#if {DSP}\n{_WORDS}#else\n{_PLAIN}#endif\n"
_SPLIT: Final = """static void fft_split(int16_t *y, int32_t points, const int16_t *factors)
{
    int32_t even = fft_part(y[0], 2), odd = fft_part(y[1], 2);
    int16_t *z = y + 2 * points;
    y[0] = (int16_t)(even + odd);
    z[0] = (int16_t)(even - odd);
    y[1] = z[1] = 0;
    for (y += 2, z -= 2; y <= z; y += 2, z -= 2, factors += 2) {
        int32_t r = fft_part(y[0], 2), i = fft_part(y[1], 2);
        int32_t s = fft_part(z[0], 2), t = fft_part((int16_t)-z[1], 2);
        int32_t er = r + s, ei = i + t;
        r -= s;
        i -= t;
        s = (int16_t)((r * factors[0] - i * factors[1] + (1 << 14)) >> 15);
        t = (int16_t)((r * factors[1] + i * factors[0] + (1 << 14)) >> 15);
        y[0] = (int16_t)((er + s) >> 1);
        y[1] = (int16_t)((ei + t) >> 1);
        z[0] = (int16_t)((er - s) >> 1);
        z[1] = (int16_t)((t - ei) >> 1);
    }
}
"""
