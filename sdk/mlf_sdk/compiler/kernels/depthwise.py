# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution with 3x3 windows: pairs of rows, so that one SMLAD takes two rows of a window.

A pair row holds, for every column and channel, the values of two neighbouring rows as two int16. Two of
them, rows 0 and 1 and rows 2 and 3 of a window, give two rows of output at stride 1 and one at stride 2.
"""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.gemm import finish, function, label
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.kernels.overlap import of_parts, window_starts
from mlf_sdk.compiler.kernels.rescale import (
    Form,
    Rescale,
    choose_fine,
    choose_rescale,
    expression,
    helpers,
    sum_bounds,
)
from mlf_sdk.compiler.operators import Array, DepthwiseConv2D, Window
from mlf_sdk.compiler.scales import channel_multipliers

MAX_CHANNELS = 508  # two columns of pairs within the offset of a load


def paired(graph: Graph, operator: DepthwiseConv2D) -> Kernel | None:
    """DEPTHWISE_CONV_2D of 3x3 windows; None for a layer that this does not fit."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    window = operator.window
    channels = x.shape[3]
    stride = window.stride[0]
    fits = (
        x.dtype == np.int8
        and weights.dtype in (np.int8, np.uint8)
        and window.size == (3, 3)
        and window.dilation == (1, 1)
        and window.stride in ((1, 1), (2, 2))
        and x.shape[0] == operator.multiplier == 1
        and channels % 4 == 0
        and channels <= MAX_CHANNELS
    )
    if not fits or weights.data is None:
        return None
    flat = weights.data.reshape(9, channels).T.astype(np.int16) - weights.zero_point
    start = graph.bias(operator)
    bounds = sum_bounds(flat, start, -128 - x.zero_point, 127 - x.zero_point)
    multipliers = channel_multipliers(x, weights, y, channels)
    byte = flat.min() >= -128 and flat.max() <= 127  # times 256 in 16 bits
    rescale = choose_fine(multipliers, y.zero_point, bounds, operator.clamp) if byte else None
    rescale = rescale or choose_rescale(multipliers, y.zero_point, bounds, operator.clamp)
    if rescale.form is Form.GENERAL:
        return None
    constants = (_stream(flat, start, rescale),)
    pair, pair_text = _pair_rows(x.zero_point)
    _, ih, iw, _ = x.shape
    _, oh, ow, _ = y.shape
    column, texts = _column(channels, stride, rescale)
    pairs = ""
    if ow > 1 and (3 + stride) * 4 * channels <= 4095 and (ow + 1) * channels <= 4095:
        pairs, text = _pair_of_columns(channels, ow * channels, stride, rescale)
        texts = {**(texts if ow % 2 or (oh % 2 and stride == 1) else helpers(rescale.form)), pairs: text}
    columns = (ow - 1) * stride + 3
    left, right = window.before[1], columns - window.before[1] - iw
    inner = iw + min(right, 0)
    right = max(right, 0)
    row = columns * channels  # words of a pair row
    spare = ow * channels if stride == 1 and oh % 2 else 0
    loops = _row_of_columns(column, pairs, ow, stride, channels, single=bool(spare))
    below = f"        int8_t *below = y + {ow * channels};\n"
    if spare:
        below = f"        int8_t *below = oy + 1 < {oh} ? y + {ow * channels} : zeros + {inner * channels};\n"
    body = f"""    int32_t *first = b0;
    int32_t *second = b0 + {row};
    int8_t *zeros = (int8_t *)(b0 + {2 * row});
    memset(zeros, {x.zero_point}, {inner * channels});
    memset(b0, 0, {8 * row});
    int32_t iy = -{window.before[0]};
    {pair}({_row("iy", ih, iw * channels)}, {_row("iy + 1", ih, iw * channels)}, first + {left * channels}, {inner * channels // 4});
    for (int32_t oy = 0; oy < {oh}; oy += {2 if stride == 1 else 1}) {{
        iy += 2;
        {pair}({_row("iy", ih, iw * channels)}, {_row("iy + 1", ih, iw * channels)}, second + {left * channels}, {inner * channels // 4});
        int8_t *y = y0 + oy * {ow * channels};
{below if "below" in loops else ""}{loops}        int32_t *swap = first;
        first = second;
        second = swap;
    }}
"""
    return Kernel(
        family="depthwise_3x3",
        parameters=arguments(graph, operator, reads=1, constants=constants, workspace="int32_t"),
        body=body,
        helpers={**texts, pair: pair_text},
        constants=constants,
        workspace_bytes=8 * row + inner * channels + spare,
        overlaps=of_parts(x, y, *_progress(oh, ih, window, iw * channels, ow * channels)),
    )


def _progress(oh: int, ih: int, window: Window, x_row: int, y_row: int) -> tuple[Array, Array]:
    """Start of what is still read, and end of what was written, before each row (or two) of output."""
    rows = np.arange(0, oh, 2 if window.stride[0] == 1 else 1)
    pairs = np.arange(len(rows)) * 2 + 2
    read_from = window_starts(pairs, 1, window.before[0], ih)
    read_from[0] = 0
    return read_from * x_row, rows * y_row


def _row_of_columns(column: str, pairs: str, width: int, stride: int, channels: int, *, single: bool) -> str:
    """Loop over the columns of one or two rows of output, two at a time where ``pairs`` names a function.

    Args:
        single: the last row of output is alone.
    """
    step = stride * channels
    call = f"{{}}(first + ox * {step}, second + ox * {step}, p0, y + ox * {channels}{{}});"
    alone = call.format(column, f", below + ox * {channels}" if stride == 1 else "")
    lines = ["        int32_t ox = 0;"]
    if pairs:
        end = f"(below == y + {width * channels} ? {width} : 0)" if single else str(width)
        lines += [
            f"        for (; ox + 2 <= {end}; ox += 2) {{",
            f"            {call.format(pairs, '')}",
            "        }",
        ]
    if not pairs or single or width % 2:
        lines += [f"        for (; ox < {width}; ++ox) {{", f"            {alone}", "        }"]
    return "\n".join(lines) + "\n"


def _row(number: str, height: int, size: int) -> str:
    """Expression of a row of the input, or of zeros outside of it."""
    return f"(uint32_t)({number}) < {height}u ? x0 + ({number}) * {size} : zeros"


def _stream(weights: Array, bias: Array, rescale: Rescale) -> Array:
    """Words of a channel: bias, pairs (0, 1) and (1, 2) of columns 2, 1 and 0, requantisation."""
    scale = 256 if rescale.is_fine else 1
    wide = weights.astype(np.int64).reshape(-1, 3, 3) * scale
    low, high = wide[:, :2].transpose(0, 2, 1), wide[:, 1:].transpose(0, 2, 1)
    words = [(p[..., 0] & 0xFFFF) | (p[..., 1] & 0xFFFF) << 16 for p in (low, high)]
    pairs = np.stack(words, axis=2)[:, ::-1].reshape(-1, 6).astype(np.uint32).view(np.int32)
    stream = np.concatenate(
        [scale * rescale.bias(bias)[:, None].astype(np.int32), pairs, rescale.rows], axis=1
    )
    return np.ascontiguousarray(stream.reshape(-1))


def _pair_rows(zero_point: int) -> tuple[str, str]:
    """Function ``(upper, lower, pairs, quads)``."""
    name = f"pair_rows_{zero_point & 255}"
    offset = -zero_point & 0xFFFF
    lines = [
        "push {r4-r10, lr}", f"movw lr, #{offset}", f"movt lr, #{offset}", "1:",
        "ldr r4, [r0], #4", "ldr r5, [r1], #4",
        "sxtab16 r6, lr, r4", "sxtab16 r8, lr, r4, ror #8", "sxtab16 r9, lr, r5", "sxtab16 r10, lr, r5, ror #8",
        "pkhbt r4, r6, r9, lsl #16", "pkhbt r5, r8, r10, lsl #16",
        "pkhtb r6, r9, r6, asr #16", "pkhtb r7, r10, r8, asr #16",
        "stmia r2!, {r4-r7}", "subs r3, r3, #1", "bne 1b", "pop {r4-r10, pc}",
    ]  # fmt: skip
    plain = f"""    int16_t *v = (int16_t *)b;
    for (int32_t i = 0; i < 4 * n; ++i) {{
        v[2 * i] = (int16_t)(u[i] - ({zero_point}));
        v[2 * i + 1] = (int16_t)(l[i] - ({zero_point}));
    }}
"""
    return name, function(name, "const int8_t *u, const int8_t *l, int32_t *b, int32_t n", lines, plain)


def _products(upper: str, lower: str, first: str, second: str, start: str, *, two: bool) -> list[str]:
    """Products of one column of a window: sums in r4 and, of the second row of output, r5."""
    lines = [f"ldr r8, {upper}", f"ldr r9, {lower}", f"smlad r4, r8, {first}, {start}"]
    if two:
        lines.append(f"smlatb r5, r8, {first}, r5")
    lines.append(f"smlabt r4, r9, {second}, r4")
    if two:
        lines.append(f"smlad r5, r9, {second}, r5")
    return lines


def _column(channels: int, stride: int, rescale: Rescale) -> tuple[str, dict[str, str]]:
    """Function for all channels of one column of output: one row of it, or two at stride 1."""
    name = f"column_{channels}_{stride}_{label(rescale)}"
    width = rescale.rows.shape[1]
    two = stride == 1
    lines = ["push {r4-r11, lr}", f"movw lr, #{channels}"]
    if two:
        lines.append("ldr r12, [sp, #36]")
    lines += ["1:", "ldmia r2!, {r5, r6, r7}"]
    lines += _products(f"[r0, #{8 * channels}]", f"[r1, #{8 * channels}]", "r6", "r7", "r5", two=two)
    lines += ["ldmia r2!, {r6, r7, r10, r11}"]
    lines += _products(f"[r0, #{4 * channels}]", f"[r1, #{4 * channels}]", "r6", "r7", "r4", two=two)
    lines += _products("[r0], #4", "[r1], #4", "r10", "r11", "r4", two=two)
    lines += [f"ldmia r2!, {{{', '.join(('r6', 'r7', 'r8')[:width])}}}"]
    sums = ["r4", "r5"] if two else ["r4"]
    lines += finish(sums, rescale, ("r6", "r7", "r8"), "r9")
    lines.append("strb r4, [r3], #1")
    if two:
        lines.append("strb r5, [r12], #1")
    lines += ["subs lr, lr, #1", "bne.w 1b", "pop {r4-r11, pc}"]
    results = f"        *y++ = (int8_t){expression(rescale, 's0', 'w + 7')};\n"
    if two:
        results += results.replace("*y++", "*below++").replace("s0", "s1")
    second = "            s1 += a[1] * k[0] + b[0] * k[2] + b[1] * k[3];\n" if two else ""
    plain = f"""    for (int32_t c = 0; c < {channels}; ++c, ++u, ++l, w += {7 + width}) {{
        int32_t s0 = w[0];
{"        int32_t s1 = w[0];" if two else ""}
        for (int32_t j = 0; j < 3; ++j) {{
            const int16_t *a = (const int16_t *)(u + j * {channels});
            const int16_t *b = (const int16_t *)(l + j * {channels});
            const int16_t *k = (const int16_t *)(w + 5 - 2 * j);
            s0 += a[0] * k[0] + a[1] * k[1] + b[0] * k[3];
{second}        }}
{results}    }}
"""
    parameters = "const int32_t *u, const int32_t *l, const int32_t *w, int8_t *y" + (
        ", int8_t *below" if two else ""
    )
    return name, {**helpers(rescale.form), name: function(name, parameters, lines, plain)}


def _pair_of_columns(channels: int, row: int, stride: int, rescale: Rescale) -> tuple[str, str]:
    """Function for all channels of two columns of output: one row of them, or two at stride 1.

    Args:
        row: bytes from a row of output to the next.
    """
    name = f"columns_{channels}_{row}_{stride}_{label(rescale)}"
    width = rescale.rows.shape[1]
    lines = [
        "push {r4-r11, lr}",
        f"movw lr, #{channels}",
        "add lr, r3, lr",
        "sub sp, sp, #4",
        "str lr, [sp]",
        "1:",
    ]
    lines += _four_sums(channels) if stride == 1 else _two_sums(channels)
    sums = ["r4", "r5", "r6", "r7"] if stride == 1 else ["r4", "r5"]
    places = [0, row, channels, row + channels] if stride == 1 else [0, channels]
    words = ("r8", "r9", "r10")[:width]
    lines += [f"ldmia r2!, {{{', '.join(words)}}}", *finish(sums, rescale, words)]
    lines += [f"strb {a}, [r3, #{at}]" for a, at in zip(sums[1:], places[1:], strict=True)]
    lines += [
        "strb r4, [r3], #1",
        "ldr r8, [sp]",
        "cmp r3, r8",
        "bne.w 1b",
        "add sp, sp, #4",
        "pop {r4-r11, pc}",
    ]
    second = f"""            y[{row} + i * {channels}] = (int8_t){expression(rescale, "s1", "w + 7")};
"""
    plain = f"""    for (int32_t c = 0; c < {channels}; ++c, ++u, ++l, ++y, w += {7 + width}) {{
        for (int32_t i = 0; i < 2; ++i) {{
            int32_t s0 = w[0];
{"            int32_t s1 = w[0];" if stride == 1 else ""}
            for (int32_t j = 0; j < 3; ++j) {{
                const int16_t *a = (const int16_t *)(u + (i * {stride} + j) * {channels});
                const int16_t *b = (const int16_t *)(l + (i * {stride} + j) * {channels});
                const int16_t *k = (const int16_t *)(w + 5 - 2 * j);
                s0 += a[0] * k[0] + a[1] * k[1] + b[0] * k[3];
{"                s1 += a[1] * k[0] + b[0] * k[2] + b[1] * k[3];" if stride == 1 else ""}
            }}
            y[i * {channels}] = (int8_t){expression(rescale, "s0", "w + 7")};
{second if stride == 1 else ""}        }}
    }}
"""
    return name, function(
        name, "const int32_t *u, const int32_t *l, const int32_t *w, int8_t *y", lines, plain
    )


def _four_sums(channels: int) -> list[str]:
    """Sums of two rows (r4 and r5, r6 and r7) of two neighbouring windows: four columns of pairs."""
    lines = ["ldmia r2!, {r7, r12, lr}"]
    lines += [f"ldr r{10 + i}, [r{i}, #{12 * channels}]" for i in range(2)]
    lines += [f"ldr r{8 + i}, [r{i}, #{8 * channels}]" for i in range(2)]
    for left, right, start in ((8, 10, "r7"), (10, 8, ""), (8, 10, "")):
        if start:
            begin = [start] * 4
        else:
            begin = ["r4", "r5", "r6", "r7"]
            place = f"[r{{}}, #{4 * channels}]" if left == 10 else "[r{}], #4"
            lines += ["ldmia r2!, {r12, lr}", *(f"ldr r{left + i}, {place.format(i)}" for i in range(2))]
        for number, at in ((0, left), (2, right)):
            lines.append(f"smlad r{4 + number}, r{at}, r12, {begin[number]}")
            lines.append(f"smlatb r{5 + number}, r{at}, r12, {begin[number + 1]}")
        for number, at in ((0, left), (2, right)):
            lines.append(f"smlabt r{4 + number}, r{at + 1}, lr, r{4 + number}")
            lines.append(f"smlad r{5 + number}, r{at + 1}, lr, r{5 + number}")
    return lines


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
