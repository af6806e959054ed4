# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution with 3x3 windows: pairs of rows, so that one SMLAD takes two rows of a window.

A pair row holds, for every column and channel, the values of two neighbouring rows as two int16. Two of
them, rows 0 and 1 and rows 2 and 3 of a window, give two rows of output at stride 1 (`depthwise_3x3`) and one at
stride 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent
from typing import TYPE_CHECKING, Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, label, unrolling
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel, of_parts, tile_of, window_starts
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    OUTPUT_BYTES,
    OUTPUT_WORDS,
    WORD,
    WORDS,
    Builder,
    Register,
)
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array, Window

if TYPE_CHECKING:
    from mlf_sdk.compiler.kernels.depthwise_3x3 import Rows

MAX_CHANNELS: Final = 508  # two columns of pairs within the offset of a load


def paired(layer: Contraction) -> Kernel | None:
    """DEPTHWISE_CONV_2D of 3x3 windows; None for a layer that this does not fit."""
    window, channels = layer.window, layer.channels
    stride = window.stride[0]
    rescale = rescale_of(layer) if channels <= MAX_CHANNELS else None
    if rescale is None:
        return None
    constants = (stream_of(layer, rescale),)
    zero_point = layer.x.zero_point
    _, ih, iw, _ = layer.x.shape
    _, oh, ow, _ = layer.y.shape
    columns = (ow - 1) * stride + 3
    left, right = window.before[1], columns - window.before[1] - iw
    inner = iw + min(right, 0)
    if stride == 1:  # one column beside the input on each side is left out
        from mlf_sdk.compiler.kernels.depthwise_3x3 import Rows

        rows = Rows(width=ow, channels=channels, left=left == 1, right=right == 1, rescale=rescale)
        columns -= rows.left + rows.right
        left -= rows.left
        loops, texts = _rows_of_blocks(rows, oh)
        tile = tile_of(1, rows.widest, min(oh, 2))
    else:
        loops, texts = _rows_of_columns(ow, channels, rescale)
        tile = tile_of(1, min(ow, 2))
    pair, more = _pair_rows(zero_point, inner * channels // 4)
    texts |= more
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
        tile=tile,
    )


def rescale_of(layer: Contraction) -> Rescale | None:
    """Requantisation of a layer of 3x3 windows whose rows can be paired; None for another layer."""
    window = layer.window
    if (
        not layer.is_int8(unsigned=True)
        or (window.size, window.dilation) != ((3, 3), (1, 1))
        or window.stride not in ((1, 1), (2, 2))
        or layer.multiplier != 1
        or layer.channels % 4
    ):
        return None
    byte = layer.centred.min() >= -128 and layer.centred.max() <= 127  # times 256 in 16 bits
    return layer.rescale(fine=bool(byte))


def _progress(oh: int, ih: int, window: Window, x_row: int, y_row: int) -> tuple[Array, Array]:
    """Start of what is still read, and end of what was written, before each row (or two) of output."""
    rows = np.arange(0, oh, 2 if window.stride[0] == 1 else 1)
    pairs = np.arange(len(rows)) * 2 + 2
    read_from = window_starts(pairs, 1, window.before[0], ih)
    read_from[0] = 0
    return read_from * x_row, rows * y_row


def _rows_of_blocks(rows: Rows, height: int) -> tuple[str, dict[str, str]]:
    """Statements for two rows of output, of which the last may be alone, and their functions."""
    result, texts = rows.calls(2) if height > 1 else ("", {})
    if height % 2:
        alone, more = rows.calls(1)
        texts = {**texts, **more}
        if not result:
            return indent(alone, "        "), texts
        result = f"if (oy + 1 < {height}) {{\n{indent(result, '    ')}}} else {{\n{indent(alone, '    ')}}}\n"
    return indent(result, "        "), texts


def _rows_of_columns(width: int, channels: int, rescale: Rescale) -> tuple[str, dict[str, str]]:
    """Statements for a row of output at stride 2, two columns at a time if loads reach them, and their functions."""
    step = 2 * channels
    call = f"{{}}(first + ox * {step}, second + ox * {step}, p0, y + ox * {channels});"
    lines, texts = ["int32_t ox = 0;"], dict[str, str]()
    pairs = width > 1 and 5 * 4 * channels <= MAX_OFFSET
    for count in (2, 1) if pairs and width % 2 else (2,) if pairs else (1,):
        name, more = columns_function(count, channels, rescale, channels)
        texts |= more
        lines += [f"for (; ox + {count} <= {width}; ox += {count}) {{", f"    {call.format(name)}", "}"]
    return indent("".join(f"{line}\n" for line in lines), "        "), texts


def _row(number: str, height: int, size: int) -> str:
    """Expression of a row of the input, or of zeros outside of it."""
    return f"(uint32_t)({number}) < {height}u ? x0 + ({number}) * {size} : zeros"


def stream_of(layer: Contraction, rescale: Rescale) -> Array:
    """Words of a channel: bias, pairs (0, 1) and (1, 2) of rows of the weights, requantisation.

    With stride 1 the pairs (0, 1) of columns 0, 1 and 2, then (1, 2); with stride 2 both of columns 2, 1 and 0.
    """
    scale, stride, bias = rescale.unit, layer.window.stride[0], rescale.bias(layer.bias)
    wide = layer.centred.astype(np.int64).reshape(-1, 3, 3) * scale
    low, high = wide[:, :2].transpose(0, 2, 1), wide[:, 1:].transpose(0, 2, 1)
    words = [(p[..., 0] & 0xFFFF) | (p[..., 1] & 0xFFFF) << 16 for p in (low, high)]
    pairs = np.stack(words, axis=1) if stride == 1 else np.stack(words, axis=2)[:, ::-1]
    pairs = pairs.reshape(-1, 6).astype(np.uint32).view(np.int32)
    stream = np.concatenate([scale * bias[:, None].astype(np.int32), pairs, rescale.rows], axis=1)
    return np.ascontiguousarray(stream.reshape(-1))


def _pair_rows(zero_point: int, quads: int) -> tuple[str, Mapping[str, str]]:
    """Function ``(upper, lower, pairs, quads)`` for a number of quads that four divides if it divides ``quads``."""
    count = unrolling(quads, 4)
    name = f"pair_rows_{zero_point & 255}_{count}"
    return name, recorded(name, "dsp", record_pairs, zero_point, count)


def record_pairs(zero_point: int, count: int) -> Builder:
    """Record the function that makes a pair row of two rows, ``count`` quads a turn."""
    b = Builder(u=BYTES, l=BYTES, b=OUTPUT_WORDS, n=WORD)
    u, lower, out, n = b.parameters
    offset = b.do("constant", i=(-zero_point & 0xFFFF) * 0x10001)
    with b.counted(n, count):
        for _ in b.repeat(count):
            (above,), (below,) = b.load(u), b.load(lower)
            even, odd = (b.do(name, offset, above) for name in ("sxtab16", "sxtab16_ror8"))
            rows = [(even, b.do("sxtab16", offset, below)), (odd, b.do("sxtab16_ror8", offset, below))]
            values = [b.do("pkhbt_lsl16", one, other) for one, other in rows]
            b.store_many(out, values + [b.do("pkhtb_asr16", other, one) for one, other in rows])
    return b


def columns_function(
    count: int, channels: int, rescale: Rescale, pitch: int
) -> tuple[str, Mapping[str, str]]:
    """Function ``(upper, lower, stream, output)`` of `record_columns`; its name and texts."""
    part = f"_of_{pitch}" if pitch != channels else ""
    name = f"depthwise_3x3_s2_{count}_{channels}{part}_{label(rescale)}"
    return name, recorded(name, "dsp", record_columns, count, channels, pitch, Epilogue.of(rescale))


def record_columns(count: int, channels: int, pitch: int, epilogue: Epilogue) -> Builder:
    """Record channels of one column of output at stride 2, or of two, whose windows share a column.

    Args:
        pitch: bytes from a column of output to the next.
    """
    b = Builder(u=WORDS, l=WORDS, w=WORDS, y=OUTPUT_BYTES)
    u, lower, w, y = b.parameters
    end = b.place(y, channels)

    def column(number: int) -> list[Register]:
        if not number:
            return [*b.load(u), *b.load(lower)]
        return [b.load_at(row, 4 * number * channels) for row in (u, lower)]

    def add(pixel: int, values: list[Register], weights: list[Register]) -> None:
        for name, value, word in zip(("smlad", "smlabt"), values, weights, strict=True):
            b.do(name, value, word, sums[pixel], into=sums[pixel])

    with b.loop(y, end):
        bias, *weights = b.load(w, 3)
        sums = b.sums(bias, count)
        shared = column(2)  # of the second window the first column
        add(0, shared, weights)
        if count == 2:
            add(1, column(4), weights)
        weights = b.load(w, 2)
        for pixel in range(count):
            add(pixel, column(1 + 2 * pixel), weights)
        weights = b.load(w, 2)
        add(0, column(0), weights)
        if count == 2:
            add(1, shared, weights)
        stored = epilogue.record(b, sums, b.load(w, epilogue.words))
        for pixel, value in enumerate(stored):
            b.store_byte(y, value, pixel * pitch)
        b.advance(y, 1)
    return b
