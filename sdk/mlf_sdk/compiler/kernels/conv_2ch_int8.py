# SPDX-License-Identifier: Apache-2.0
"""Convolution in tiles of up to four pixels by two channels, for the fewest cycles: words of two weights.

Loads take half of the cycles of a tile of one channel: each word of the buffer feeds one product. Here it feeds
two, and SXTB16 takes a word of weights apart when the word itself was multiplied, so that the registers that
are left hold operands. Words, sums and requantisation are those of `mlf_sdk.compiler.kernels.conv_1ch_int8` (FINE and
SIGNED); the buffer holds pairs (1, 3) in front of pairs (0, 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, label
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.conv_1ch_int8 import best_tile
from mlf_sdk.compiler.kernels.convolution import Layout, fits_fine, quads_of, starts_of
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.widening import widen
from mlf_sdk.compiler.microkernels.builder import OUTPUT_BYTES, WORD, WORDS, Builder, Register
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array


def layout_of(layer: Contraction, most: int, cost: Callable[[Layout, int], float]) -> Layout | None:
    """Layout of the cheapest tiles; None for a layer that these do not fit.

    Args:
        most: pixels of a tile.
        cost: of a row of the output by tiles of so many pixels.
    """
    if not layer.is_int8() or layer.channels % 2:
        return None
    usual = Layout(layer)
    layout = Layout(layer, min(range(1, min(most, usual.ow) + 1), key=lambda pixels: cost(usual, pixels)))
    return None if layout.exceeds_offset_range or layer.channels * layout.pixels > MAX_OFFSET else layout


def stream_of(starts: Array, words: Array, rescale: Rescale) -> Array:
    """Two channels after the other: biases, words of the weights side by side, requantisations."""
    groups = len(starts) // 2
    parts = (
        starts.reshape(groups, 2),
        words.reshape(groups, 2, -1).transpose(0, 2, 1).reshape(groups, -1),
        rescale.rows.reshape(groups, -1),
    )
    return np.ascontiguousarray(np.concatenate(parts, axis=1).reshape(-1))


MAX_PIXELS: Final = 4
_UNROLL: Final = 36  # most quads without a loop
_LOOP: Final = 24  # most quads of a loop


def _cycles(layout: Layout, pixels: int) -> float:
    """Cycles of a row of pixels and two channels on a Cortex-M4."""
    groups = 2 if pixels == MAX_PIXELS else 1  # of loads from the buffer
    quad = 3 + 2 * (pixels + groups) + 2 + 4 * pixels
    return -(-layout.ow // pixels) * (layout.quads * quad + 17 + 6 * pixels)


def _cycles_of_single(layout: Layout) -> float:
    """Cycles of the tiles of one channel, `conv_1ch_int8.best_tile` pixels wide, for two channels."""
    pixels = best_tile(layout.ow)
    words = 2 if pixels == 5 else 4 / 3
    return -(-layout.ow // pixels) * 2 * (layout.quads * (3 + words + 4 * pixels) + 13 + 3 * pixels)


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D by tiles of two channels; None for a layer that this does not fit, or that others do faster."""
    layout = layout_of(layer, MAX_PIXELS, _cycles)
    if layout is None or _cycles(layout, layout.pixels) >= _cycles_of_single(layout):
        return None
    return of_layout(layer, layout)


def in_scratch(layer: Contraction, most_bytes: int) -> Kernel | None:
    """The kernel of `convolution` by the largest tiles, of two pixels or more, whose workspace fits, or is the least.

    The copy of a tile's windows at a border lies in the buffer that they are laid out in.
    """
    least = None
    for most in range(MAX_PIXELS, 1, -1):
        layout = layout_of(layer, most, _cycles)
        if layout is not None:
            layout.overlay_patch()
        kernel = None if layout is None else of_layout(layer, layout)
        if kernel is not None and (least is None or kernel.workspace_bytes < least.workspace_bytes):
            least = kernel
        if least is not None and least.workspace_bytes <= most_bytes:
            return least
    return least


def of_layout(layer: Contraction, layout: Layout) -> Kernel | None:
    """The kernel by tiles of a layout."""
    rescale = layer.rescale(fine=fits_fine(layer.rows))
    if rescale is None or not rescale.is_fine:
        return None
    pixels, quads, channels = layout.pixels, layout.quads, layer.channels
    rows = layout.padded(layer.rows)
    stream = stream_of(starts_of(layer, rows, rescale), quads_of(rows, rescale), rescale)
    short = quads <= _UNROLL and layout.shortened()
    row = layout.row_quads if short else 0
    name = f"conv_2ch_{pixels}x{quads}_{channels}_{label(rescale)}{f'_s{row}' if row else ''}"
    texts = recorded(name, "dsp", record, pixels, quads, channels, Epilogue.of(rescale), short=row)
    fast, more = widen(
        pixels, layout.distance, layout.rows, layout.row_quads, fine=True, short=short, odd_first=True
    )
    call = f"{name}(b0, p0, {{}}, {channels})"
    return layout.kernel(call, fast, {**texts, **more}, (stream,), "_2ch", channels=2)


def _loop(quads: int) -> tuple[int, int]:
    """Rounds of a loop and quads of a round; those that are left, at least one, stand in front of it."""
    if quads <= _UNROLL:
        return 0, 0
    rounds = -(-(quads - 1) // _LOOP)
    return rounds, (quads - 1) // rounds


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
