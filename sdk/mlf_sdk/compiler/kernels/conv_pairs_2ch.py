# SPDX-License-Identifier: Apache-2.0
"""Convolution with two pixels in a word, for cores with some 28 registers and no SIMD: two products in one.

A word of a tile's buffer holds a byte of two pixels' windows, 16 bits apart, of which the upper one carries the
sign of the lower. Times a weight it is both products, and sums of such words stay apart while the lower sum fits
16 bits, which it does as long as the weights' magnitudes add up to no more than 255. So the weights of two channels
are cut into chunks, as long as both allow. A chunk's sum begins with 2^15, so that its upper half is the upper
sum; all words are added up whole as well, and what the upper sums contributed is taken off once at the end.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.conv_4x4 import add_products, best_tile, groups_of, instructions, load_byte
from mlf_sdk.compiler.kernels.convolution import Layout
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.rescale import low_words
from mlf_sdk.compiler.microkernels import epilogue32
from mlf_sdk.compiler.microkernels.builder import BYTES, OUTPUT_BYTES, WORD, WORDS, Builder
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

_OUTPUTS: Final = 2
_TAPS: Final = 2  # of a turn of the loop
_MOST: Final = 255  # of a chunk's magnitudes: times a byte they stay within 16 bits
_MOST_COUNT: Final = 255  # chunks of a group, turns of a chunk
_HALF: Final = 1 << 15
_PIXELS: Final = (6, 4, 2)


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D of pairs of pixels; None for a layer that this does not fit, or where `conv_4x4` takes less."""
    if not layer.is_int8() or layer.window.dilation[1] != 1 or layer.channels < _OUTPUTS:
        return None
    plan = _planned(layer)
    if plan is None or plan.instructions >= _by_tiles(layer):
        return None
    layout, weights, lengths = Layout(layer, plan.pixels, 1), plan.weights, plan.lengths
    depth = layout.depth
    taps = weights.shape[1]
    rescale = layer.rescale(fine=True)
    result = None if rescale is None else epilogue32.words(layer, rescale)
    if rescale is None or result is None:
        return None
    starts, table = result
    pairs = -(-layout.pixels // 2)
    layout.buffer_bytes = 4 * taps * pairs
    upper = groups_of(starts[:, None], _OUTPUTS).reshape(-1, _OUTPUTS).astype(np.int64)
    lower = upper - _HALF * np.array([len(c) for c in lengths])[:, None] + (upper << 16)
    others = groups_of(table, _OUTPUTS).reshape(len(weights), -1)
    words = np.concatenate([low_words(upper), low_words(lower), others], axis=1)
    name = f"conv_pairs_{layout.pixels}_{label(rescale)}"
    widen = f"pairs_{layout.pixels}x{layout.rows}x{layout.used}_{layout.distance}"
    texts = {
        **recorded(name, "rv32im", record, layout.pixels, Epilogue.of(rescale)),
        widen: _in_pairs(widen, layout, taps - depth),
    }
    first = (layer.channels - 1) % _OUTPUTS + 1
    call = f"{name}(b0, p0, p1, {{}}, {len(weights)}, {first}, {layer.channels})"
    stream = np.concatenate([_stream(*one) for one in zip(weights, lengths, strict=True)])
    return layout.kernel(call, widen, texts, (stream, words.reshape(-1)), channels=_OUTPUTS)


class _Plan(msgspec.Struct, frozen=True):
    """Tiles of a layer: weights of groups with turns of their chunks, pixels, instructions of a row of the output."""

    weights: Array
    lengths: list[list[int]]
    pixels: int
    instructions: float


def _planned(layer: Contraction) -> _Plan | None:
    """The best tiles; None where weights have no chunks."""
    layout = Layout(layer, 1, 1)
    spare = -layout.depth % _TAPS
    weights = groups_of(np.pad(layer.rows, ((0, 0), (0, spare))), _OUTPUTS)
    chunks = [_chunks(group) for group in weights]
    lengths = [chunk for chunk in chunks if chunk is not None]
    if None in chunks or layout.ow < 2:
        return None
    count = sum(map(len, lengths)) / len(lengths)
    choices = {p: _instructions(layout, layer.channels, min(p, layout.ow), count) for p in _PIXELS}
    pixels = min(choices, key=lambda p: choices[p])
    return _Plan(weights, lengths, pixels, choices[pixels])


def _by_tiles(layer: Contraction) -> float:
    """Instructions of a row of the output by `conv_4x4`."""
    layout = Layout(layer, 1, 1)
    return instructions(layout, layer.channels, best_tile(layout, layer.channels))


def least_instructions(layer: Contraction) -> float:
    """Estimate of a CONV_2D of int8 values by this kernel or by `conv_4x4`, where that takes less."""
    plan = _planned(layer)
    least = _by_tiles(layer)
    if plan is not None:
        least = min(least, plan.instructions)
    return least * Layout(layer, 1, 1).oh


def _instructions(layout: Layout, channels: int, pixels: int, chunks: float) -> float:
    """Instructions of a row of the output, with so many chunks of two channels."""
    taps, pairs = layout.depth, -(-pixels // 2)
    turn, chunk = 2 * (5 * pairs + 2) + 4, 8 * pairs + 6
    group = taps / _TAPS * turn + chunks * chunk + 2 * (9 * pixels + 4 * pairs) + 24
    return -(-layout.ow // pixels) * (-(-channels // _OUTPUTS) * group + (5 * pairs + 2) * taps)


def _chunks(weights: Array) -> list[int] | None:
    """Turns of each chunk of a group, as many as fit; None where two taps don't, or there are too many.

    Args:
        weights: shape (taps, channels).
    """
    result, total = [0], np.zeros(weights.shape[1], np.int64)
    for own in np.abs(weights.astype(np.int64)).reshape(-1, _TAPS, weights.shape[1]).sum(axis=1):
        if own.max() > _MOST:
            return None
        if (total + own).max() > _MOST or result[-1] == _MOST_COUNT:
            result.append(0)
            total = np.zeros_like(total)
        result[-1] += 1
        total = total + own
    return result if len(result) <= _MOST_COUNT else None


def _stream(weights: Array, chunks: list[int]) -> Array:
    """Bytes of a group: the number of chunks, and the turns and weights of each, side by side."""
    parts, at = [np.array([len(chunks)])], 0
    for turns in chunks:
        parts += [np.array([turns]), weights[at : at + turns * _TAPS].reshape(-1)]
        at += turns * _TAPS
    return np.concatenate(parts).astype(np.uint8).view(np.int8)


def _in_pairs(name: str, layout: Layout, spare: int) -> str:
    """Function ``(input, buffer, row_bytes)`` that lays out windows, byte after byte of pairs of pixels.

    Taps that are added to the last window are cleared: the mark that a run leaves in its memory is exact.
    """
    pairs = range(0, layout.pixels, 2)
    words = "".join(
        f"        b[{at // 2}] = x[{at * layout.distance}]"
        + (f" + x[{(at + 1) * layout.distance}] * 65536" if at + 1 < layout.pixels else "")
        + ";\n"
        for at in pairs
    )
    last = f"    memset(b, 0, {4 * spare * len(pairs)});\n" if spare else ""
    return f"""static void {name}(const int8_t *x, int32_t *b, int32_t row_bytes)
{{
    for (int32_t r = 0; r < {layout.rows}; ++r, x += row_bytes - {layout.used})
    for (const int8_t *end = x + {layout.used}; x != end; ++x, b += {len(pairs)}) {{
{words}    }}
{last}}}
"""


def record(pixels: int, epilogue: Epilogue) -> Builder:
    """Record a tile: ``n`` groups of two channels, of which the first has ``first`` that the next one lacks."""
    b = Builder(x=WORDS, w=BYTES, p=WORDS, y=OUTPUT_BYTES, n=WORD, first=WORD, distance=WORD)
    x, w, p, y, n, first, distance = b.parameters
    pairs, channels = -(-pixels // 2), range(_OUTPUTS)
    with b.counted(n):
        starts = [b.load_at(p, 4 * k) for k in range(2 * _OUTPUTS)]
        upper = [b.sums(start, pairs) for start in starts[:_OUTPUTS]]
        lower = [b.sums(start, pairs) for start in starts[_OUTPUTS:]]
        tap = b.do("copy", x, kind=WORDS)
        chunks = b.do("load_byte_unsigned", w)
        b.advance(w, 1)
        with b.counted(chunks):
            turns = b.do("load_byte_unsigned", w)
            b.advance(w, 1)
            sums = [[b.do("immediate", i=_HALF) for _ in range(pairs)] for _ in channels]
            with b.counted(turns):
                for number in b.repeat(_TAPS):
                    load = partial(load_byte, b, w, _OUTPUTS * number)
                    weight = load(0)
                    values = [b.load_at(tap, 4 * (number * pairs + k)) for k in range(pairs)]
                    add_products(b, weight, load, values, sums)
                b.advance(tap, 4 * _TAPS * pairs)
                b.advance(w, _OUTPUTS * _TAPS)
            for k in channels:
                b.each("add", lower[k], sums[k], into=lower[k])
                b.each("add", upper[k], b.each("shift_right", sums[k], i=16), into=upper[k])
        b.note(f"requantise {pixels} pixels of two channels")
        most = epilogue32.span(b, epilogue)
        rows = [y]
        for _ in range(1, pixels):
            rows.append(b.place(rows[-1], distance))
        for k in channels:
            b.each("subtract", lower[k], b.each("shift_left", upper[k], i=16), into=lower[k])
            both = [one for pair in zip(lower[k], upper[k], strict=True) for one in pair][:pixels]
            given = [b.load_at(p, 4 * (_OUTPUTS * (2 + word) + k)) for word in range(epilogue.words)]
            for row, value in zip(rows, epilogue32.record(b, epilogue, both, given, most), strict=True):
                b.store_byte(row, value, k)
        b.advance(p, 4 * _OUTPUTS * (2 + epilogue.words))
        b.do("add", y, first, into=y)
        b.do("immediate", i=_OUTPUTS, into=first)
    return b
