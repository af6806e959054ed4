# SPDX-License-Identifier: Apache-2.0
"""Kernels for cores without the DSP extension, each with the same computation in plain C.

A word of a tile's buffer holds one byte of two pixels' windows, so that one multiplication serves both. On a
Cortex-M3 they are 23 bits apart and SMLAL adds their products up in 64 bits, which sums of 256 products and
more can't overflow; on a Cortex-M0 they are 16 bits apart, and the sums of two products are taken apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels import windows
from mlf_sdk.compiler.kernels.assembly import GNU, UNALIGNED, label
from mlf_sdk.compiler.kernels.convolution import Layout
from mlf_sdk.compiler.kernels.rescale import Rescale, choose_short
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.kernels.windows import Tile
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    HIGH_BYTES,
    HIGH_OUTPUT_WORDS,
    HIGH_WORD,
    OUTPUT_WORDS,
    WORD,
    WORDS,
    Builder,
)
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

ARM_V6M: Final = f"{GNU} && defined(__ARM_ARCH_6M__)"
ARM_V7M: Final = f"{UNALIGNED} && defined(__ARM_ARCH_7M__)"
UNIFIED: Final = ".syntax unified"  # which GCC does not take for granted here
_MOST_SUM: Final = (1 << 22) - 1  # of products in the 23 bits below those of the other pixel
_ROWS: Final = 4


def tile_m3(shape: Layout, rows: Array, bias: Array, rescale: Rescale) -> Tile:
    """Tile of up to six pixels for a Cortex-M3."""
    return _tile(shape, rows, bias, rescale, 23)


def tile_m0(shape: Layout, rows: Array, bias: Array, rescale: Rescale) -> Tile | None:
    """Tile of up to four pixels for a Cortex-M0; None where two products of -128 and -128 may be added."""
    if rows.min(initial=0) <= -128:
        return None
    return _tile(shape, rows, bias, rescale, 16)


def _tile(shape: Layout, rows: Array, bias: Array, rescale: Rescale, apart: int) -> Tile:
    taps = -(-shape.depth // 4) * 4
    pairs = -(-shape.pixels // 2)
    weights = np.ascontiguousarray(np.pad(rows, ((0, 0), (0, taps - shape.depth))).reshape(-1))
    words = np.ascontiguousarray(np.concatenate([bias[:, None], rescale.rows], axis=1).reshape(-1))
    magnitudes = np.abs(rows.astype(np.int64))
    is_whole = apart == 16 or 128 * int(magnitudes.sum(axis=1).max(initial=0)) <= _MOST_SUM
    chunk = taps if is_whole else _MOST_SUM // (128 * int(magnitudes.max())) // _ROWS * _ROWS
    dots = f"dots_{pairs}_{apart}"
    name = f"pairs_{shape.pixels}_{apart}_{label(rescale)}"
    widen = f"pair_windows_{shape.pixels}x{shape.rows}x{shape.used}_{shape.distance}_{apart}"
    return Tile(
        widen=widen,
        call=f"{name}(b0, {taps}, {min(chunk, taps)}, p0, p1, {{}}, {len(rows)}, {shape.channels})",
        helpers={
            **helpers(rescale.form),
            **_dots(dots, pairs, apart),
            widen: _widen(widen, shape, apart),
            name: _all_channels(name, dots, shape.pixels, pairs, rescale),
        },
        constants=(weights, words.astype(np.int32)),
        buffer_bytes=taps * pairs * 4,
    )


def _widen(name: str, shape: Layout, apart: int) -> str:
    """Function that lays out windows, byte after byte, the pixels of a pair in a word.

    The last word is written although it meets weights of 0: the mark that a run leaves in its memory is exact.
    """
    words = []
    spare = -shape.depth % 4 * -(-shape.pixels // 2)
    last = f"    b[{spare - 1}] = 0;\n" if spare else ""
    for first in range(0, shape.pixels, 2):
        second = f" + x[{(first + 1) * shape.distance}] * {1 << apart}" if first + 1 < shape.pixels else ""
        words.append(f"        *b++ = x[{first * shape.distance}]{second};\n")
    return f"""static void {name}(const int8_t *x, int32_t *b, int32_t row_bytes)
{{
    for (int32_t r = 0; r < {shape.rows}; ++r, x += row_bytes - {shape.used})
    for (const int8_t *end = x + {shape.used}; x != end; ++x) {{
{"".join(words)}    }}
{last}}}
"""


def _all_channels(name: str, dots: str, pixels: int, pairs: int, rescale: Rescale) -> str:
    return f"""static void {name}(const int32_t *b, int32_t taps, int32_t chunk, const int8_t *w, const int32_t *p,
    int8_t *y, int32_t n, int32_t distance)
{{
    for (int32_t c = 0; c < n; ++c, p += 4, ++y) {{
        int32_t sums[{2 * pairs}];
        {dots}(b, w, sums, (uint32_t)chunk);
        w += chunk;
        for (int32_t done = chunk, some; done < taps; done += some, w += some) {{
            int32_t more[{2 * pairs}];
            some = taps - done < chunk ? taps - done : chunk;
            {dots}(b + done * {pairs}, w, more, (uint32_t)some);
            for (int32_t i = 0; i < {2 * pairs}; ++i) {{
                sums[i] += more[i];
            }}
        }}
        int8_t *z = y;
        const int32_t bias = p[0], k[3] = {{p[1], p[2], p[3]}};
        for (int32_t i = 0; i < {pixels}; ++i, z += distance) {{
            *z = (int8_t){expression(rescale, "bias + sums[i]", "k")};
        }}
    }}
}}
"""


def _dots(name: str, pairs: int, apart: int) -> Mapping[str, str]:
    """Function ``(buffer, weights, sums, taps)`` for one channel; taps are a multiple of four."""
    if apart == 16:
        return recorded(name, "thumb1", record_m0, pairs)
    return recorded(name, "thumb2", record_m3, pairs)


def record_m3(pairs: int) -> Builder:
    """Record the products of one channel: words of pairs, weights, sums, taps, a multiple of four."""
    b = Builder(x=WORDS, w=BYTES, s=OUTPUT_WORDS, taps=WORD)
    x, w, s, taps = b.parameters
    end = b.place(w, taps)
    sums = [(b.do("immediate", i=0), b.do("immediate", i=0)) for _ in range(pairs)]
    with b.loop(w, end):
        for _ in b.repeat(_ROWS):
            values = b.load(x, pairs)
            weight = b.do("load_next_byte", w, i=1, moves=w)
            for total, value in zip(sums, values, strict=True):
                b.update("smlal", total, value, weight)
    for low, high in sums:
        first = b.do("low_23_bits", low)
        second = b.do("or_lsl9", b.do("shift_right_unsigned", low, i=23), high)
        b.store_many(s, [first, b.do("subtract_sign", second, first)])
    return b


def record_m0(pairs: int) -> Builder:
    """Record the same with words whose bytes are 16 bits apart."""
    b = Builder(x=WORDS, w=BYTES, s=OUTPUT_WORDS, taps=WORD)
    x, w, s, taps = b.parameters
    end = b.do("copy", b.place(w, taps), kind=HIGH_BYTES)
    output = b.do("copy", s, kind=HIGH_OUTPUT_WORDS)
    zero = b.do("immediate", i=0)
    sums = [b.do("copy", zero, kind=HIGH_WORD) for _ in range(2 * pairs)]
    with b.loop(w, end):
        for two in range(_ROWS // 2):
            values = b.load(x, 2 * pairs)
            for tap in range(2):
                weight = b.do("load_byte", w, i=2 * two + tap)
                for value in values[tap * pairs : (tap + 1) * pairs]:
                    b.do("multiply_into", value, weight, into=value)
            for pair in range(pairs):
                total, first = values[pair], values[pairs + pair]
                b.do("add", total, first, into=total)
                b.do("low_half_signed", total, into=first)
                b.do("subtract", total, first, into=total)
                b.do("shift_right", total, i=16, into=total)
                b.do("add_to_high", sums[2 * pair], first, into=sums[2 * pair])
                b.do("add_to_high", sums[2 * pair + 1], total, into=sums[2 * pair + 1])
        b.advance(w, _ROWS)
    stream = b.do("copy", output, kind=OUTPUT_WORDS)
    b.store_many(stream, [b.do("copy", total) for total in sums])
    return b


convolution_m3: Final = windows.convolution(6, tile_m3)
convolution_m0: Final = windows.convolution(4, tile_m0, choose_short)
convolution_short_products: Final = windows.convolution(4, tile_m0, choose_short, instead_of=6)
