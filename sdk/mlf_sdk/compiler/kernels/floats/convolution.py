# SPDX-License-Identifier: Apache-2.0
"""Convolutions and matrix products of single-precision numbers: pairs of pixels times panels of channels.

Depthwise ones compute up to eight channels of a pixel at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.floats.panel import GUARD, Panels, limit, registers
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.pooling import taps_inside
from mlf_sdk.compiler.operators import Array


def dense(layer: Contraction) -> Kernel | None:
    """FULLY_CONNECTED: rows in pairs."""
    if not layer.is_real or not layer.is_constant:
        return None
    rows, run = layer.x.shape[2:]
    panels = Panels.of(layer.channels, pixels=min(rows, 2), lines=1, run=run)
    body = rows_body(panels, rows, run, layer.channels)
    return _kernel(layer, "real_dense", body, panels.helpers, panels.pack(layer.rows, layer.bias))


def _kernel(
    layer: Contraction,
    family: str,
    body: str,
    helpers: Mapping[str, str],
    stream: Array,
    buffer_bytes: int = 0,
) -> Kernel:
    body += limit(layer.y.elements, layer.clamp)
    return layer.kernel(family, body, helpers, (stream,), {}, workspace_bytes=buffer_bytes, workspace="float")


def rows_body(panels: Panels, rows: int, run: int, channels: int) -> str:
    """Loop over the rows of x0; an odd last one is computed together with the one before it."""
    if rows == 1:
        calls = panels.calls("w", "x0", "", "y0", skip="0", next_row="0", indent="    ")
        return f"    const float *w = p0;\n{calls}\n    (void)w;\n"
    calls = panels.calls(
        "w", f"x0 + r * {run}", f"x0 + (r + 1) * {run}", f"y0 + r * {channels}",
        skip="0", next_row=str(channels), indent="        ",
    )  # fmt: skip
    return f"""    for (int32_t t = 0; t < {rows}; t += 2) {{
        int32_t r = t < {rows - 2} ? t : {rows - 2};
        const float *w = p0;
{calls}
        (void)w;
    }}
"""


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D of any window, dilation and number of groups."""
    if not layer.is_real or not layer.is_constant:
        return None
    loops = _Loops(layer)
    if loops.pointwise:
        ic = layer.x.shape[3]
        body, workspace, helpers = rows_body(loops.panels, layer.x.elements // ic, ic, layer.channels), 0, {}
    else:
        body, copies = loops.body(), not loops.direct or loops.reaches_over
        workspace = 4 * loops.panels.pixels * loops.patch if copies else 0
        helpers = {loops.gather_name: loops.gather()} if copies else {}
    return _kernel(
        layer, "real_conv", body, {**loops.panels.helpers, **helpers}, loops.pack(layer), workspace
    )


class _Loops:
    """C text of the loops of a layer, and the numbers in it."""

    def __init__(self, layer: Contraction) -> None:
        self.batch, self.ih, self.iw, self.ic = layer.x.shape
        _, self.oh, self.ow, self.oc = layer.y.shape
        self.window = window = layer.window
        self.depth = layer.depth
        self.groups = self.ic // self.depth
        self.per_group = self.oc // self.groups
        kh, kw = window.size
        self.patch = kh * kw * self.depth
        self.direct = self.groups == 1 and window.dilation[1] == 1
        lines, run = (kh, kw * self.depth) if self.direct else (1, self.patch)
        self.pointwise = self.groups == 1 and window.is_pointwise(layer.x.shape, layer.y.shape)
        pixels = 2 if (self.batch * self.oh * self.ow if self.pointwise else self.ow) > 1 else 1
        self.panels = Panels.of(self.per_group, pixels=pixels, lines=lines, run=run)
        if lines > 1 and run == self.iw * self.ic and window.dilation[0] == 1:  # rows are neighbours
            self.panels = Panels.of(self.per_group, pixels=pixels, lines=1, run=lines * run)

    def pack(self, layer: Contraction) -> Array:
        """Streams of all groups, one behind the other."""
        groups = (slice(first, first + self.per_group) for first in range(0, self.oc, self.per_group))
        return np.concatenate([self.panels.pack(layer.rows[g], layer.bias[g]) for g in groups])

    @property
    def reaches_over(self) -> bool:
        """Some window reaches over the border of the input."""
        ends = (
            (out - 1) * stride - before + (size - 1) * dilation
            for out, stride, before, size, dilation in zip(
                (self.oh, self.ow),
                self.window.stride,
                self.window.before,
                self.window.size,
                self.window.dilation,
                strict=True,
            )
        )
        over = (end >= extent for end, extent in zip(ends, (self.ih, self.iw), strict=True))
        return any(self.window.before) or any(over)

    @property
    def gather_name(self) -> str:
        """Name of the function that copies a window."""
        kh, kw = self.window.size
        (dh, dw) = self.window.dilation
        return f"real_window_{kh}x{kw}x{self.depth}_of_{self.ih}x{self.iw}x{self.ic}_by_{dh}x{dw}"

    def gather(self) -> str:
        """A function that copies the window at (iy, ix), zeros where it reaches over the border."""
        kh, kw = self.window.size
        return f"""static void {self.gather_name}(const float *x, float *b, int32_t iy, int32_t ix)
{{
    for (int32_t i = 0; i < {kh}; ++i, iy += {self.window.dilation[0]}) {{
        int32_t inside = iy >= 0 && iy < {self.ih};
        const float *v = x + (iy * {self.iw} + ix) * {self.ic};
        for (int32_t j = 0, at = ix; j < {kw}; ++j, at += {self.window.dilation[1]}, v += {self.ic * self.window.dilation[1]}) {{
            int32_t here = inside && at >= 0 && at < {self.iw};
            for (int32_t k = 0; k < {self.depth}; ++k) {{
                *b++ = here ? v[k] : 0.0f;
            }}
        }}
    }}
}}
"""

    def body(self) -> str:
        """Loops over the pixels, in pairs along a row of the output."""
        window, pixels = self.window, self.panels.pixels
        kh, kw = window.size
        tail = self.ow - pixels
        lines = [
            f"    for (int32_t b = 0; b < {self.batch}; ++b)",
            f"    for (int32_t oy = 0; oy < {self.oh}; ++oy)",
            f"    for (int32_t t = 0; t < {self.ow}; t += {pixels}) {{",
            f"        int32_t ox = t < {tail} ? t : {tail};",
            f"        int32_t iy = oy * {window.stride[0]} - {window.before[0]};",
            f"        int32_t ix = ox * {window.stride[1]} - {window.before[1]};",
            f"        const float *x = x0 + b * {self.ih * self.iw * self.ic};",
            "        const float *w = p0;",
        ]
        out = f"y0 + ((b * {self.oh} + oy) * {self.ow} + ox) * {self.oc}"
        far = (pixels - 1) * window.stride[1]
        if self.direct:
            row_skip = (
                self.iw * self.ic * window.dilation[0] - self.panels.run if self.panels.lines > 1 else 0
            )
            last = (kh - 1) * window.dilation[0]
            lines += [
                f"        const float *v = x + (iy * {self.iw} + ix) * {self.ic};",
                f"        const float *u = v + {window.stride[1] * self.ic};",
                f"        int32_t skip = {row_skip};",
            ]
            border = [
                f"        if (iy < 0 || ix < 0 || iy + {last} >= {self.ih} || ix + {far + kw} > {self.iw}) {{",
                f"            {self.gather_name}(x, b0, iy, ix);",
                *self._second("            "),
                "            v = b0;",
                f"            u = b0 + {self.patch};",
                "            skip = 0;",
                "        }",
            ]
            lines += [
                *(border if self.reaches_over else ()),
                "        (void)u;",
                self.panels.calls("w", "v", "u", out, skip="skip", next_row=str(self.oc), indent="        "),
            ]
        else:
            lines += [
                f"        for (int32_t g = 0; g < {self.groups}; ++g) {{",
                f"            {self.gather_name}(x + g * {self.depth}, b0, iy, ix);",
                *(s.replace("(x,", f"(x + g * {self.depth},") for s in self._second("            ")),
                self.panels.calls(
                    "w", "b0", f"b0 + {self.patch}", f"{out} + g * {self.per_group}",
                    skip="0", next_row=str(self.oc), indent="            ",
                ),
                "        }",
            ]  # fmt: skip
        return "\n".join([*lines, "        (void)w;", "    }", ""])

    def _second(self, indent: str) -> list[str]:
        if self.panels.pixels == 1:
            return []
        return [f"{indent}{self.gather_name}(x, b0 + {self.patch}, iy, ix + {self.window.stride[1]});"]


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
    body += limit(layer.y.elements, layer.clamp)
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
