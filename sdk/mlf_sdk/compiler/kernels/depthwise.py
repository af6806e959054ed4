# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution with 3x3 windows: pairs of rows, so that one SMLAD takes two rows of a window.

A pair row holds, for every column and channel, the values of two neighbouring rows as two int16. Two of
them, rows 0 and 1 and rows 2 and 3 of a window, give two rows of output at stride 1 (`blocks`) and one at
stride 2.
"""

from __future__ import annotations

from textwrap import indent
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, finish, function, label, unrolling
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.depthwise_3x3 import Rows
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.overlap import of_parts, window_starts
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.operators import Array, Window

MAX_CHANNELS: Final = 508  # two columns of pairs within the offset of a load
_PARAMETERS: Final = "const int32_t *u, const int32_t *l, const int32_t *w, int8_t *y"


def paired(layer: Contraction) -> Kernel | None:
    """DEPTHWISE_CONV_2D of 3x3 windows; None for a layer that this does not fit."""
    window, channels = layer.window, layer.channels
    stride = window.stride[0]
    if (
        not layer.is_int8(unsigned=True)
        or (window.size, window.dilation) != ((3, 3), (1, 1))
        or window.stride not in ((1, 1), (2, 2))
        or layer.multiplier != 1
        or channels % 4
        or channels > MAX_CHANNELS
    ):
        return None
    byte = layer.centred.min() >= -128 and layer.centred.max() <= 127  # times 256 in 16 bits
    rescale = layer.rescale(fine=bool(byte))
    if rescale is None:
        return None
    constants = (_stream(layer.centred, rescale.bias(layer.bias), rescale, stride),)
    zero_point = layer.x.zero_point
    _, ih, iw, _ = layer.x.shape
    _, oh, ow, _ = layer.y.shape
    columns = (ow - 1) * stride + 3
    left, right = window.before[1], columns - window.before[1] - iw
    inner = iw + min(right, 0)
    if stride == 1:  # one column beside the input on each side is left out
        rows = Rows(width=ow, channels=channels, left=left == 1, right=right == 1, rescale=rescale)
        columns -= rows.left + rows.right
        left -= rows.left
        loops, texts = _rows_of_blocks(rows, oh)
    else:
        loops, texts = _rows_of_columns(ow, channels, rescale)
    pair, texts[pair] = _pair_rows(zero_point, inner * channels // 4)
    row = columns * channels  # words of a pair row
    clear = f"    memset(b0, 0, {8 * row});\n" if columns > inner else ""
    body = f"""    int32_t *first = b0;
    int32_t *second = b0 + {row};
    int8_t *zeros = (int8_t *)(b0 + {2 * row});
    memset(zeros, {zero_point}, {inner * channels});
{clear}    int32_t iy = -{window.before[0]};
    {pair}({_row("iy", ih, iw * channels)}, {_row("iy + 1", ih, iw * channels)}, first + {left * channels}, {inner * channels // 4});
    for (int32_t oy = 0; oy < {oh}; oy += {2 if stride == 1 else 1}) {{
        iy += 2;
        {pair}({_row("iy", ih, iw * channels)}, {_row("iy + 1", ih, iw * channels)}, second + {left * channels}, {inner * channels // 4});
        int8_t *y = y0 + oy * {ow * channels};
{loops}        int32_t *swap = first;
        first = second;
        second = swap;
    }}
"""
    return layer.kernel(
        "depthwise_3x3",
        body,
        texts,
        constants,
        of_parts(layer.x, layer.y, *_progress(oh, ih, window, iw * channels, ow * channels)),
        workspace_bytes=8 * row + inner * channels,
    )


def _progress(oh: int, ih: int, window: Window, x_row: int, y_row: int) -> tuple[Array, Array]:
    """Start of what is still read, and end of what was written, before each row (or two) of output."""
    rows = np.arange(0, oh, 2 if window.stride[0] == 1 else 1)
    pairs = np.arange(len(rows)) * 2 + 2
    read_from = window_starts(pairs, 1, window.before[0], ih)
    read_from[0] = 0
    return read_from * x_row, rows * y_row


def _rows_of_blocks(rows: Rows, height: int) -> tuple[str, dict[str, str]]:
    """Statements for two rows of output, of which the last may be alone, and their functions."""
    found, texts = rows.calls(2) if height > 1 else ("", {})
    if height % 2:
        alone, more = rows.calls(1)
        texts = {**texts, **more}
        if not found:
            return indent(alone, "        "), texts
        found = f"if (oy + 1 < {height}) {{\n{indent(found, '    ')}}} else {{\n{indent(alone, '    ')}}}\n"
    return indent(found, "        "), texts


def _rows_of_columns(width: int, channels: int, rescale: Rescale) -> tuple[str, dict[str, str]]:
    """Statements for a row of output at stride 2, two columns at a time if loads reach them, and their functions."""
    column, texts = _column(channels, rescale)
    step = 2 * channels
    call = f"{{}}(first + ox * {step}, second + ox * {step}, p0, y + ox * {channels});"
    lines = ["int32_t ox = 0;"]
    pairs = width > 1 and 5 * 4 * channels <= MAX_OFFSET
    if pairs:
        name, text = _pair_of_columns(channels, rescale)
        texts = {**(texts if width % 2 else helpers(rescale.form)), name: text}
        lines += [f"for (; ox + 2 <= {width}; ox += 2) {{", f"    {call.format(name)}", "}"]
    if not pairs or width % 2:
        lines += [f"for (; ox < {width}; ++ox) {{", f"    {call.format(column)}", "}"]
    return indent("".join(f"{line}\n" for line in lines), "        "), texts


def _row(number: str, height: int, size: int) -> str:
    """Expression of a row of the input, or of zeros outside of it."""
    return f"(uint32_t)({number}) < {height}u ? x0 + ({number}) * {size} : zeros"


def _stream(weights: Array, bias: Array, rescale: Rescale, stride: int) -> Array:
    """Words of a channel: bias, pairs (0, 1) and (1, 2) of rows of the weights, requantisation.

    With stride 1 the pairs (0, 1) of columns 0, 1 and 2, then (1, 2); with stride 2 both of columns 2, 1 and 0.
    """
    scale = rescale.unit
    wide = weights.astype(np.int64).reshape(-1, 3, 3) * scale
    low, high = wide[:, :2].transpose(0, 2, 1), wide[:, 1:].transpose(0, 2, 1)
    words = [(p[..., 0] & 0xFFFF) | (p[..., 1] & 0xFFFF) << 16 for p in (low, high)]
    pairs = np.stack(words, axis=1) if stride == 1 else np.stack(words, axis=2)[:, ::-1]
    pairs = pairs.reshape(-1, 6).astype(np.uint32).view(np.int32)
    stream = np.concatenate([scale * bias[:, None].astype(np.int32), pairs, rescale.rows], axis=1)
    return np.ascontiguousarray(stream.reshape(-1))


def _pair_rows(zero_point: int, quads: int) -> tuple[str, str]:
    """Function ``(upper, lower, pairs, quads)`` for a number of quads that four divides if it divides ``quads``."""
    count = unrolling(quads, 4)
    name = f"pair_rows_{zero_point & 255}_{count}"
    offset = -zero_point & 0xFFFF
    lines = ["push {r4-r10, lr}", f"movw lr, #{offset}", f"movt lr, #{offset}", "1:"]
    lines += [
        "ldr r4, [r0], #4", "ldr r5, [r1], #4",
        "sxtab16 r6, lr, r4", "sxtab16 r8, lr, r4, ror #8", "sxtab16 r9, lr, r5", "sxtab16 r10, lr, r5, ror #8",
        "pkhbt r4, r6, r9, lsl #16", "pkhbt r5, r8, r10, lsl #16",
        "pkhtb r6, r9, r6, asr #16", "pkhtb r7, r10, r8, asr #16",
        "stmia r2!, {r4-r7}",
    ] * count  # fmt: skip
    lines += [f"subs r3, r3, #{count}", "bne.w 1b", "pop {r4-r10, pc}"]
    plain = f"""    int16_t *v = (int16_t *)b;
    for (int32_t i = 0; i < 4 * n; ++i) {{
        v[2 * i] = (int16_t)(u[i] - ({zero_point}));
        v[2 * i + 1] = (int16_t)(l[i] - ({zero_point}));
    }}
"""
    return name, function(name, "const int8_t *u, const int8_t *l, int32_t *b, int32_t n", lines, plain)


def _column(channels: int, rescale: Rescale) -> tuple[str, dict[str, str]]:
    """Function for all channels of one column of output at stride 2."""
    name = f"column_{channels}_{label(rescale)}"
    width = rescale.rows.shape[1]
    lines = ["push {r4-r11, lr}", f"movw lr, #{channels}", "1:", "ldmia r2!, {r5, r6, r7}"]
    for column, (first, second) in ((2, ("r6", "r7")), (1, ("r6", "r7")), (0, ("r10", "r11"))):
        if column == 1:
            lines.append("ldmia r2!, {r6, r7, r10, r11}")
        place = f"[r{{}}, #{4 * column * channels}]" if column else "[r{}], #4"
        lines += [f"ldr r{8 + i}, {place.format(i)}" for i in range(2)]
        lines += [f"smlad r4, r8, {first}, {'r5' if column == 2 else 'r4'}", f"smlabt r4, r9, {second}, r4"]
    lines += [f"ldmia r2!, {{{', '.join(('r6', 'r7', 'r8')[:width])}}}"]
    lines += [*finish(["r4"], rescale, ("r6", "r7", "r8"), "r9"), "strb r4, [r3], #1"]
    lines += ["subs lr, lr, #1", "bne.w 1b", "pop {r4-r11, pc}"]
    plain = f"""    for (int32_t c = 0; c < {channels}; ++c, ++u, ++l, w += {7 + width}) {{
        int32_t sum = w[0];
        for (int32_t j = 0; j < 3; ++j) {{
            const int16_t *a = (const int16_t *)(u + j * {channels});
            const int16_t *b = (const int16_t *)(l + j * {channels});
            const int16_t *k = (const int16_t *)(w + 5 - 2 * j);
            sum += a[0] * k[0] + a[1] * k[1] + b[0] * k[3];
        }}
        *y++ = (int8_t){expression(rescale, "sum", "w + 7")};
    }}
"""
    return name, {**helpers(rescale.form), name: function(name, _PARAMETERS, lines, plain)}


def _pair_of_columns(channels: int, rescale: Rescale) -> tuple[str, str]:
    """Function for all channels of two columns of output at stride 2."""
    name = f"columns_{channels}_{label(rescale)}"
    width = rescale.rows.shape[1]
    words = ("r8", "r9", "r10")[:width]
    lines = ["push {r4-r11, lr}", f"movw lr, #{channels}", "add lr, r3, lr", "sub sp, sp, #4"]
    lines += ["str lr, [sp]", "1:", *_two_sums(channels), f"ldmia r2!, {{{', '.join(words)}}}"]
    lines += [*finish(["r4", "r5"], rescale, words), f"strb r5, [r3, #{channels}]", "strb r4, [r3], #1"]
    lines += ["ldr r8, [sp]", "cmp r3, r8", "bne.w 1b", "add sp, sp, #4", "pop {r4-r11, pc}"]
    plain = f"""    for (int32_t c = 0; c < {channels}; ++c, ++u, ++l, ++y, w += {7 + width}) {{
        for (int32_t i = 0; i < 2; ++i) {{
            int32_t sum = w[0];
            for (int32_t j = 0; j < 3; ++j) {{
                const int16_t *a = (const int16_t *)(u + (2 * i + j) * {channels});
                const int16_t *b = (const int16_t *)(l + (2 * i + j) * {channels});
                const int16_t *k = (const int16_t *)(w + 5 - 2 * j);
                sum += a[0] * k[0] + a[1] * k[1] + b[0] * k[3];
            }}
            y[i * {channels}] = (int8_t){expression(rescale, "sum", "w + 7")};
        }}
    }}
"""
    return name, function(name, _PARAMETERS, lines, plain)


def _two_sums(channels: int) -> list[str]:
    """Sums (r4, r5) of two windows that share their middle column of five."""

    def load(register: int, column: int) -> list[str]:
        place = f"[r{{}}, #{4 * column * channels}]" if column else "[r{}], #4"
        return [f"ldr r{register + i}, {place.format(i)}" for i in range(2)]

    def add(total: str, register: int, start: str) -> list[str]:
        first, second = f"r{register}", f"r{register + 1}"
        return [f"smlad {total}, {first}, r12, {start}", f"smlabt {total}, {second}, lr, {total}"]

    return [
        "ldmia r2!, {r5, r12, lr}",
        *load(8, 2),
        *load(10, 4),
        *add("r4", 8, "r5"),
        *add("r5", 10, "r5"),
        "ldmia r2!, {r12, lr}",
        *load(10, 1),
        *add("r4", 10, "r4"),
        *load(10, 3),
        *add("r5", 10, "r5"),
        "ldmia r2!, {r12, lr}",
        *load(10, 0),
        *add("r4", 10, "r4"),
        *add("r5", 8, "r5"),
    ]
