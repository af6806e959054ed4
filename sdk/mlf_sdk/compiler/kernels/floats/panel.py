# SPDX-License-Identifier: Apache-2.0
"""Inner loops of products of single-precision numbers: one or two rows times a few columns of weights.

Weights stand in panels: of up to 12 output channels, for each element of a row the weights of all of them,
behind their biases. So one instruction loads what the next 8 to 24 multiply with; all sums stay in registers.
The assembly is no microkernel's: it rounds once where C, which no compiler may fuse here, rounds twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from mlf_sdk.compiler.kernels.assembly import GNU
from mlf_sdk.compiler.operators import Array
from mlf_sdk.tools.ctext import c_exact

GUARD = f"{GNU} && defined(__ARM_FEATURE_FMA) && defined(__thumb__) && (__ARM_FP & 4)"
WIDTHS = {1: 12, 2: 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """A division of output channels into panels.

    Attributes:
        pixels: rows of the input that are computed together, 1 or 2.
        lines: runs of neighbours that a row consists of.
        run: elements of each.
        widths: channels of each panel.
    """

    pixels: int
    lines: int
    run: int
    widths: tuple[int, ...]

    @classmethod
    def of(cls, channels: int, *, pixels: int, lines: int, run: int) -> Panels:
        """Panels of nearly equal width."""
        count = -(-channels // WIDTHS[pixels])
        wide = channels % count
        width = channels // count
        widths = (width + 1,) * wide + (width,) * (count - wide)
        return cls(pixels=pixels, lines=lines, run=run, widths=widths)

    def pack(self, rows: Array, bias: Array | None) -> Array:
        """Stream of all panels.

        Args:
            rows: weights, (channels, lines * run).
            bias: of each channel; None leaves it out, for `call` with given sums.
        """
        parts, first = [], 0
        for width in self.widths:
            if bias is not None:
                parts.append(bias[first : first + width].reshape(-1))
            parts.append(rows[first : first + width].reshape(width, -1).T.reshape(-1))
            first += width
        return np.concatenate(parts).astype(np.float32)

    @property
    def helpers(self) -> dict[str, str]:
        """Static functions, one a width."""
        return {self._name(w): _function(self, self._name(w), w) for w in sorted(set(self.widths))}

    def _name(self, width: int) -> str:
        return f"real_rows_{self.pixels}x{width}_{self.lines}x{self.run}"

    def calls(
        self, weights: str, row: str, other: str, out: str, *, skip: str, next_row: str, indent: str
    ) -> str:
        """C text that computes all channels of one or two rows.

        Args:
            weights: variable of type ``const float *`` at the start of the stream; it moves along.
            row, other: places of the two rows; ``other`` is left out for one.
            out: place of the first channel.
            skip: elements from the end of a run to the start of the next.
            next_row: distance in elements of the two rows in the output.
        """
        lines, first = [], 0
        groups = [(width, len(list(same))) for width, same in groupby(self.widths)]
        pair = f"{row}, {other}" if self.pixels == 2 else row
        for position, (width, count) in enumerate(groups):
            if count == 1:
                target = f"{out} + {first}"
                second = f"{target}, {target} + {next_row}" if self.pixels == 2 else target
                lines.append(f"{indent}{weights} = {self._name(width)}({pair}, {weights}, {second}, {skip});")
            else:
                target = f"{out} + {first} + c{position}"
                second = f"{target}, {target} + {next_row}" if self.pixels == 2 else target
                lines.append(
                    f"{indent}for (int32_t c{position} = 0; c{position} < {width * count}; c{position} += {width}) {{\n"
                    f"{indent}    {weights} = {self._name(width)}({pair}, {weights}, {second}, {skip});\n{indent}}}"
                )
            first += width * count
        return "\n".join(lines)


def _function(panels: Panels, name: str, width: int) -> str:
    two = panels.pixels == 2
    head = f"static const float *{name}(const float *x, {'const float *u, ' if two else ''}const float *w, float *y, {'float *z, ' if two else ''}int32_t skip)"
    outputs = ['[x] "+&r"(x)', '[w] "+&r"(w)', '[n] "=&r"(n)', '[l] "=&r"(l)']
    if two:
        outputs.insert(1, '[u] "+&r"(u)')
    inputs = ['[y] "r"(y)', '[skip] "r"(4 * skip)'] + (['[z] "r"(z)'] if two else [])
    text = "".join(f'        "{line}\\n"\n' for line in _assembly(panels, width))
    clobbers = ", ".join(f'"s{i}"' for i in range(32))
    return f"""{head}
{{
#if {GUARD}
    int32_t n, l;
    __asm__ volatile(
{text}        : {", ".join(outputs)}
        : {", ".join(inputs)}
        : {clobbers}, "cc", "memory");
    (void)n;
    (void)l;
    return w;
#else
{_plain(panels, width)}#endif
}}
"""


def _assembly(panels: Panels, width: int) -> list[str]:
    """Instructions: sums from s0 on, weights behind them, four elements of each row last."""
    two = panels.pixels == 2
    sums = width * panels.pixels
    first = sums  # weights
    rows = [("x", 28)] if not two else [("x", 24), ("u", 28)]
    lines = [f"vldmia %[w]!, {registers(0, width)}"]
    if two:
        lines += [f"vmov.f32 s{width + i}, s{i}" for i in range(width)]

    def step(count: int) -> list[str]:
        result = [f"vldmia %[{row}]!, {registers(at, count)}" for row, at in rows]
        for k in range(count):
            result.append(f"vldmia %[w]!, {registers(first, width)}")
            for i in range(width):
                for number, (_, at) in enumerate(rows):
                    result.append(f"vfma.f32 s{number * width + i}, s{first + i}, s{at + k}")
        return result

    if panels.lines > 1:
        lines += [f"movw %[l], #{panels.lines}", "1:"]
    whole, rest = divmod(panels.run, 4)
    if whole == 1:
        lines += step(4)
    elif whole:
        lines += [f"movw %[n], #{whole & 0xFFFF}"] + ([f"movt %[n], #{whole >> 16}"] if whole >> 16 else [])
        lines += ["2:", *step(4), "subs %[n], %[n], #1", "bne 2b"]
    if rest:
        lines += step(rest)
    if panels.lines > 1:
        lines += [f"add %[{row}], %[{row}], %[skip]" for row, _ in rows]
        lines += ["subs %[l], %[l], #1", "bne 1b"]
    lines.append(f"vstmia %[y], {registers(0, width)}")
    if two:
        lines.append(f"vstmia %[z], {registers(width, width)}")
    return lines


def registers(first: int, count: int) -> str:
    """List of neighbouring registers of single-precision numbers, as an instruction takes it."""
    return f"{{s{first}-s{first + count - 1}}}" if count > 1 else f"{{s{first}}}"


def _plain(panels: Panels, width: int) -> str:
    two = panels.pixels == 2
    move = "x += skip;\n        u += skip;" if two else "x += skip;"
    lines = [f"    float a[{width}];", f"    float b[{width}];" if two else ""]
    lines += [f"    for (int32_t i = 0; i < {width}; ++i) {{", "        a[i] = w[i];"]
    lines += ["        b[i] = w[i];"] if two else []
    lines += [
        "    }",
        f"    w += {width};",
        f"    for (int32_t l = 0; l < {panels.lines}; ++l) {{",
        f"        for (int32_t k = 0; k < {panels.run}; ++k, w += {width}) {{",
        "            float v = *x++;",
    ]
    lines += ["            float s = *u++;"] if two else []
    lines += [f"            for (int32_t i = 0; i < {width}; ++i) {{", "                a[i] += w[i] * v;"]
    lines += ["                b[i] += w[i] * s;"] if two else []
    lines += ["            }", "        }", f"        {move}", "    }"]
    lines += [f"    memcpy(y, a, {4 * width});"]
    lines += [f"    memcpy(z, b, {4 * width});"] if two else []
    lines += ["    return w;", ""]
    return "\n".join(line for line in lines if line or line == "").replace("\n\n", "\n")


def limit(count: int, clamp: tuple[float, float]) -> str:
    """C text that limits ``count`` numbers of the output in place; empty where nothing limits them. NaN stays."""
    low, high = clamp
    if low == -math.inf and high == math.inf:
        return ""
    if (low, high) == (0.0, math.inf):  # negative numbers, as integers, lie up to -infinity's, NaN above it
        return f"""    for (int32_t i = 0; i < {count}; ++i) {{
        int32_t v;
        memcpy(&v, y0 + i, 4);
        v = v <= -0x800000 ? 0 : v;
        memcpy(y0 + i, &v, 4);
    }}
"""
    lines = [f"    for (int32_t i = 0; i < {count}; ++i) {{", "        float v = (y0)[i];"]
    if low > -math.inf:
        lines.append(f"        v = v < {c_exact(low)} ? {c_exact(low)} : v;")
    if high < math.inf:
        lines.append(f"        v = v > {c_exact(high)} ? {c_exact(high)} : v;")
    lines += ["        (y0)[i] = v;", "    }", ""]
    return "\n".join(lines)
