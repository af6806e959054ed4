# SPDX-License-Identifier: Apache-2.0
"""Convolution in tiles of up to four pixels by two channels, for the fewest cycles: words of two weights.

Loads take half of the cycles of a tile of one channel: each word of the buffer feeds one product. Here it feeds
two, and SXTB16 takes a word of weights apart when the word itself was multiplied, so that the registers that
are left hold operands. Words, sums and requantisation are those of `mlf_sdk.compiler.kernels.conv_1ch_int8` (FINE and
SIGNED); the buffer holds pairs (1, 3) in front of pairs (0, 2).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, label
from mlf_sdk.compiler.kernels.conv_1ch_int8 import best_tile, widen
from mlf_sdk.compiler.kernels.conv_2ch_int16 import in_twos, stream_of_twos
from mlf_sdk.compiler.kernels.convolution import Layout, biases_of, quads_of, rescale_of
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.microkernels.builder import OUTPUT_BYTES, WORD, WORDS, Builder, Register
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import static_function
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set
from mlf_sdk.compiler.operators import Conv2D
from mlf_sdk.compiler.scales import channel_multipliers

MAX_PIXELS: Final = 4
_UNROLL: Final = 36  # most quads without a loop
_LOOP: Final = 24  # most quads of a loop
_MAX_QUADS_OF_SHORT: Final = 8  # of a row of the window whose last word holds one byte


def _cycles(width: int, quads: int, pixels: int) -> float:
    """Cycles of a row of pixels and two channels on a Cortex-M4."""
    groups = 2 if pixels == MAX_PIXELS else 1  # of loads from the buffer
    quad = 3 + 2 * (pixels + groups) + 2 + 4 * pixels
    return -(-width // pixels) * (quads * quad + 17 + 6 * pixels)


def _cycles_of_single(width: int, quads: int) -> float:
    """Cycles of the tiles of one channel, `conv_1ch_int8.best_tile` pixels wide, for two channels."""
    pixels = best_tile(width)
    words = 2 if pixels == 5 else 4 / 3
    return -(-width // pixels) * 2 * (quads * (3 + words + 4 * pixels) + 13 + 3 * pixels)


def convolution(graph: Graph, operator: Conv2D) -> Kernel | None:
    """CONV_2D by tiles of two channels; None for a layer that this does not fit, or that others do faster."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    channels = y.shape[3]
    if weights.data is None or not in_twos(x, weights, y):
        return None
    single = Layout(x, weights, y, operator.window)
    width, quads = single.ow, single.quads
    pixels = min(range(1, min(MAX_PIXELS, width) + 1), key=lambda p: _cycles(width, quads, p))
    layout = Layout(x, weights, y, operator.window, pixels)
    slower = _cycles(width, quads, pixels) >= _cycles_of_single(width, quads)
    if slower or layout.unfit or channels * pixels > MAX_OFFSET:
        return None
    flat, bias = weights.data.reshape(channels, -1), graph.bias(operator)
    rescale = rescale_of(flat, bias, x, y, channel_multipliers(x, weights, y, channels), operator.clamp)
    if not rescale.is_fine:
        return None
    rows = layout.padded(weights.data).reshape(channels, -1)
    stream = stream_of_twos(biases_of(rows, bias, x.zero_point, rescale), quads_of(rows, rescale), rescale)
    short = layout.spare == 3 and layout.row_quads <= _MAX_QUADS_OF_SHORT and quads <= _UNROLL
    if short:  # the last word of each row holds nothing
        layout.buffer_bytes -= 4 * layout.rows * layout.pixels
    row = layout.row_quads if short else 0
    name = f"conv_2ch_{pixels}x{quads}_{channels}_{label(rescale)}{f'_s{row}' if row else ''}"
    texts = _function(name, pixels, quads, channels, Epilogue.of(rescale), row)
    fast, text = widen(
        pixels, layout.distance, layout.rows, layout.row_quads, fine=True, short=short, odd_first=True
    )
    call = f"{name}(b0, p0, {{}}, {channels})"
    return layout.kernel(graph, operator, call, fast, {**texts, fast: text}, (stream,), "_2ch")


def _loop(quads: int) -> tuple[int, int]:
    """Rounds of a loop and quads of a round; those that are left, at least one, stand in front of it."""
    if quads <= _UNROLL:
        return 0, 0
    rounds = -(-(quads - 1) // _LOOP)
    return rounds, (quads - 1) // rounds


@functools.lru_cache(maxsize=256)
def _function(
    name: str, pixels: int, quads: int, channels: int, epilogue: Epilogue, short: int
) -> Mapping[str, str]:
    """Function ``(buffer, stream, output, count)`` for a tile, and what it needs."""
    b = record(pixels, quads, channels, epilogue, short=short)
    return static_function(name, b, instruction_set("dsp"))


def record(pixels: int, quads: int, channels: int, epilogue: Epilogue, *, short: int = 0) -> Builder:
    """Record a tile: words of weights of two channels at a time, the odd pairs of each first.

    Args:
        channels: distance in bytes between pixels of the output.
        short: quads of a row of the window, the last of which holds one weight only; 0 for none.
    """
    b = Builder(x=WORDS, w=WORDS, y=OUTPUT_BYTES, n=WORD)
    x, w, y, n = b.parameters
    end = b.place(y, n)
    rounds, count = _loop(quads)
    size_bytes = (2 * quads - (quads // short if short else 0)) * 4 * pixels
    group = 2 if pixels == MAX_PIXELS else pixels  # of pixels that one load feeds

    def products(words: list[Register]) -> None:
        for first in range(0, pixels, group):
            values = b.load(x, group)
            for row, word in zip(sums, words, strict=True):
                some = row[first : first + group]
                b.each("smlad", values, word, some, into=some)

    def part(first: int, count: int) -> None:
        for quad in b.repeat(count):
            b.note(f"weights {4 * (first + quad)} to {4 * (first + quad) + 3} of two channels")
            words = b.load(w, 2)
            if not short or (first + quad) % short < short - 1:
                products(words)
            products(b.each("sxtb16", words))

    bound = b.place(x, size_bytes) if rounds else None
    with b.loop(y, end):
        sums = [b.sums(bias, pixels) for bias in b.load(w, 2)]
        part(0, quads - rounds * count)
        if bound is not None:
            with b.loop(x, bound):
                part(quads - rounds * count, count)
        epilogue.two_channels(b, sums, w, y, channels)
        b.advance(x, -size_bytes)
    return b
