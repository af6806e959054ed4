# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of single-precision numbers: up to eight channels of a pixel at a time."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.floats.panel import GUARD, limit, registers
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.pooling import taps_inside

WIDTH = 8


def depthwise(layer: Contraction) -> Kernel | None:
    """DEPTHWISE_CONV_2D with one output a channel; taps over the border are left out."""
    if not layer.is_real or not layer.is_constant or layer.multiplier != 1:
        return None
    batch, ih, iw, ch = layer.x.shape
    _, oh, ow, _ = layer.y.shape
    window = layer.window
    (kh, kw), (dh, dw) = window.size, window.dilation
    parts = []
    for first in range(0, ch, WIDTH):
        block = slice(first, first + WIDTH)
        parts += [layer.bias[block], layer.rows[block].T.reshape(-1)]
    constants = (np.concatenate(parts),)
    whole, rest = divmod(ch, WIDTH)
    helpers = {}
    calls = []
    for width, count, first in ((WIDTH, whole, 0), (rest, min(rest, 1), whole * WIDTH)):
        if not count:
            continue
        name = f"real_taps_{width}_of_{ch}_{kh}x{kw}_by_{dw}"
        helpers[name] = _function(name, width, ch * dw, kw)
        calls.append(f"""        for (int32_t c = {first}; c < {first + count * width}; c += {width}, w += {(1 + kh * kw) * width}) {{
            {name}(v + c, w, w + {width} + ((top * {kw}) + left) * {width}, y0 + ((b * {oh} + oy) * {ow} + ox) * {ch} + c,
                {iw * ch * dh}, bottom - top, right - left);
        }}""")
    body = f"""    for (int32_t b = 0; b < {batch}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox) {{
{taps_inside(window, ih, iw)}        if (bottom <= top || right <= left) {{
            top = bottom = left = right = 0;
        }}
        const float *v = x0 + ((b * {ih} + iy + top * {dh}) * {iw} + ix + left * {dw}) * {ch};
        const float *w = p0;
{chr(10).join(calls)}
    }}
"""
    body += limit("y0", str(layer.y.elements), layer.clamp, "    ")
    return layer.kernel("real_depthwise", body, helpers, constants, {})


def _function(name: str, width: int, step: int, columns: int) -> str:
    """Sum of the taps of ``rows`` rows and ``across`` columns: bias at w, weights at t."""
    lines = [f"vldmia %[w], {registers(0, width)}", "cbz %[rows], 3f"]
    lines += ["1:", "mov %[n], %[across]", "mov %[p], %[v]", "2:"]
    lines += [
        f"vldmia %[p], {registers(8, width)}",
        f"vldmia %[t]!, {registers(16, width)}",
        "add %[p], %[p], %[step]",
    ]
    lines += [f"vfma.f32 s{i}, s{8 + i}, s{16 + i}" for i in range(width)]
    lines += ["subs %[n], %[n], #1", "bne 2b", "add %[v], %[v], %[line]", "add %[t], %[t], %[skip]"]
    lines += ["subs %[rows], %[rows], #1", "bne 1b", "3:", f"vstmia %[y], {registers(0, width)}"]
    text = "".join(f'        "{line}\\n"\n' for line in lines)
    clobbers = ", ".join(f'"s{i}"' for i in range(24))
    return f"""static void {name}(const float *v, const float *w, const float *t, float *y, int32_t line, int32_t rows, int32_t across)
{{
    int32_t skip = ({columns} - across) * {width};
#if {GUARD}
    int32_t n;
    const float *p;
    __asm__ volatile(
{text}        : [v] "+&l"(v), [t] "+&r"(t), [rows] "+&l"(rows), [n] "=&r"(n), [p] "=&r"(p)
        : [w] "r"(w), [y] "r"(y), [across] "r"(across), [line] "r"(4 * line), [skip] "r"(4 * skip), [step] "r"({4 * step})
        : {clobbers}, "cc", "memory");
#else
    float a[{width}];
    memcpy(a, w, {4 * width});
    for (int32_t i = 0; i < rows; ++i, v += line, t += skip) {{
        const float *p = v;
        for (int32_t j = 0; j < across; ++j, p += {step}, t += {width}) {{
            for (int32_t c = 0; c < {width}; ++c) {{
                a[c] += p[c] * t[c];
            }}
        }}
    }}
    memcpy(y, a, {4 * width});
#endif
}}
"""
