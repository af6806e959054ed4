# SPDX-License-Identifier: Apache-2.0
"""Kernels of pooling and means."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.assembly import DSP
from mlf_sdk.compiler.kernels.kernel import Kernel, Role, arguments, c_type, of_windows
from mlf_sdk.compiler.kernels.scaling import SATURATE
from mlf_sdk.compiler.operators import Operator, Pool2D, PoolKind, Window


def pool_2d(graph: Graph, operator: Pool2D) -> Kernel | None:
    """AVERAGE_POOL_2D and MAX_POOL_2D of whole numbers; None for floats."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    if y.dtype.kind == "f":
        return None
    n, ih, iw, ch = x.shape
    _, oh, ow, _ = y.shape
    window = operator.window
    start, step, result = _steps(operator)
    near = window.dilation == (1, 1)
    row, column = ("i", "j") if near else (f"iy + i * {window.dilation[0]}", f"ix + j * {window.dilation[1]}")
    body = f"""    for (int32_t b = 0; b < {n}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox) {{
{taps_of_neighbours(window, ih, iw) if near else taps_inside(window, ih, iw)}        int32_t count = (bottom - top) * (right - left);
        (void)count;
        for (int32_t c = 0; c < {ch}; ++c) {{
            int32_t sum = {start};
            for (int32_t i = top; i < bottom; ++i)
            for (int32_t j = left; j < right; ++j) {{
                int32_t v = x0[((b * {ih} + {row}) * {iw} + {column}) * {ch} + c];
                {step}
            }}
            y0[((b * {oh} + oy) * {ow} + ox) * {ch} + c] = ({c_type(y.dtype)}){result};
        }}
    }}
"""
    if near and x.dtype == np.int8 and start == "0" and ch % 4 == 0 and math.prod(window.size) <= 256:
        start_of_channels = body.index("        for (int32_t c = 0;")
        body = body[:start_of_channels] + _average_of_four(ih, iw, ch, oh, ow, result)
    family = f"{operator.function.value}_pool"
    overlaps = of_windows(x, y, window, 0)  # a channel reads no other
    return Kernel.of(graph, operator, family, body, helpers={"saturate": SATURATE}, overlaps=overlaps)


def _steps(operator: Pool2D) -> tuple[str, str, str]:
    """C text of the start of ``sum``, of what ``v`` does to it, and of the result of ``count`` values."""
    largest = operator.function is PoolKind.MAX
    start = "INT32_MIN" if largest else "0"
    step = "if (v > sum) {\n                sum = v;\n            }" if largest else "sum += v;"
    value = "sum" if largest else "(sum > 0 ? sum + count / 2 : sum - count / 2) / count"
    low, high = operator.clamp
    return start, step, f"saturate({value}, {int(low)}, {int(high)})"


def pool_rows(graph: Graph, operator: Pool2D) -> tuple[Kernel, ...]:
    """Kernels of the rows of a map that one window covers: of the first, of those between, and of the last.

    Their workspace keeps a sum, or the largest value, of each channel from row to row. There are none for floats and
    for windows that leave a part of the map out.
    """
    (x,), (y,) = graph.read(operator), graph.written(operator)
    _, ih, iw, ch = x.shape
    window = operator.window
    ends = zip(window.before, window.size, (ih, iw), strict=True)
    covers = all(before >= 0 and size - before >= extent for before, size, extent in ends)
    if y.dtype.kind == "f" or (x.shape[0], y.elements) != (1, ch) or window.dilation != (1, 1) or not covers:
        return ()
    family = f"{operator.function.value}_pool"
    return sum_rows(graph, operator, _steps(operator), family, {"saturate": SATURATE})


def sum_rows(
    graph: Graph, operator: Operator, steps: tuple[str, str, str], family: str, helpers: Mapping[str, str]
) -> tuple[Kernel, ...]:
    """Kernels of the rows of a map of which each channel becomes one value: the first, those between, the last.

    Args:
        steps: C text of the start of ``sum``, of what ``v`` does to it, and of the result of ``count`` values.
        helpers: functions that the texts call.
    """
    (x,), (y,) = graph.read(operator), graph.written(operator)
    _, ih, iw, ch = x.shape
    start, step, result = steps
    begin = f"    for (int32_t c = 0; c < {ch}; ++c) {{\n        b0[c] = {start};\n    }}\n"
    add = f"""    for (int32_t i = 0; i < {iw}; ++i)
        for (int32_t c = 0; c < {ch}; ++c) {{
            int32_t sum = b0[c];
            int32_t v = x0[i * {ch} + c];
            {step}
            b0[c] = sum;
        }}
"""
    if x.dtype == np.int8 and start == "0" and ch % 4 == 0 and iw <= 256:
        add = _add_fours(iw, ch)
    finish = f"""    const int32_t count = {ih * iw};
    (void)count;
    for (int32_t c = 0; c < {ch}; ++c) {{
        int32_t sum = b0[c];
        y0[c] = ({c_type(y.dtype)}){result};
    }}
"""
    whole = arguments(graph, operator, workspace="int32_t")
    adding = tuple(p for p in whole if p.role is not Role.OUTPUT)
    return tuple(
        Kernel(family, parameters, body, helpers={"saturate": SATURATE, **helpers}, workspace_bytes=4 * ch)
        for body, parameters in ((begin + add, adding), (add, adding), (add + finish, whole))
    )


def taps_of_neighbours(window: Window, height: int, width: int) -> str:
    """C text of the rows and columns of the input under a window without dilation at (oy, ox)."""
    return f"""        int32_t top = oy * {window.stride[0]} - {window.before[0]};
        int32_t left = ox * {window.stride[1]} - {window.before[1]};
        int32_t bottom = top + {window.size[0]} < {height} ? top + {window.size[0]} : {height};
        int32_t right = left + {window.size[1]} < {width} ? left + {window.size[1]} : {width};
        top = top < 0 ? 0 : top;
        left = left < 0 ? 0 : left;
"""


def _add_fours(iw: int, ch: int) -> str:
    """Loop that adds a row to the sums of its channels, four at a time; those of a row fit 16 bits."""
    return f"""    for (int32_t c = 0; c < {ch}; c += 4) {{
        const int8_t *v = x0 + c;
{_four_sums(f"        for (int32_t j = 0; j < {iw}; ++j, v += {ch}) {{{chr(10)}", "        ")}        for (int32_t k = 0; k < 4; ++k) {{
            b0[c + k] += sums[k];
        }}
    }}
"""


def _four_sums(loops: str, indent: str) -> str:
    """C text of ``sums`` of four channels at ``v``, within loops over pixels."""
    text = f"""#if {DSP}
int32_t even = 0, odd = 0;
#else
int32_t sums[4] = {{0, 0, 0, 0}};
#endif
@#if {DSP}
    uint32_t word;
    memcpy(&word, v, 4);
    even = __sxtab16(even, (int32_t)word);
    odd = __sxtab16(odd, (int32_t)(word >> 8 | word << 24));
#else
    for (int32_t k = 0; k < 4; ++k) {{
        sums[k] += v[k];
    }}
#endif
}}
#if {DSP}
const int32_t sums[4] = {{(int16_t)even, (int16_t)odd, even >> 16, odd >> 16}};
#endif
"""
    lines = [line if line.startswith(("#", "@")) else indent + line for line in text.splitlines()]
    return "".join(f"{line}\n" for line in lines).replace("@", loops)


def _average_of_four(ih: int, iw: int, ch: int, oh: int, ow: int, result: str) -> str:
    """Loop over the channels of an average, four at a time; their sums fit 16 bits."""
    pixels = f"""            for (int32_t i = top; i < bottom; ++i, v += ({iw} - right + left) * {ch})
            for (int32_t j = left; j < right; ++j, v += {ch}) {{
"""
    return f"""        for (int32_t c = 0; c < {ch}; c += 4) {{
            const int8_t *v = x0 + ((b * {ih} + top) * {iw} + left) * {ch} + c;
{_four_sums(pixels, "            ")}            for (int32_t k = 0; k < 4; ++k) {{
                int32_t sum = sums[k];
                y0[((b * {oh} + oy) * {ow} + ox) * {ch} + c + k] = (int8_t){result};
            }}
        }}
    }}
"""


def taps_inside(window: Window, height: int, width: int) -> str:
    """C text of the place of the window at (oy, ox), and of its taps that lie inside of the input."""
    (kh, kw), (dh, dw) = window.size, window.dilation
    return f"""        int32_t iy = oy * {window.stride[0]} - {window.before[0]};
        int32_t ix = ox * {window.stride[1]} - {window.before[1]};
        int32_t top = iy < 0 ? (-iy + {dh - 1}) / {dh} : 0;
        int32_t left = ix < 0 ? (-ix + {dw - 1}) / {dw} : 0;
        int32_t bottom = iy + {(kh - 1) * dh} < {height} ? {kh} : ({height} - iy + {dh - 1}) / {dh};
        int32_t right = ix + {(kw - 1) * dw} < {width} ? {kw} : ({width} - ix + {dw - 1}) / {dw};
"""
