# SPDX-License-Identifier: Apache-2.0
"""Convolution for speed: tiles of up to three pixels by two channels, weights of 16 bits.

Weights need no expansion, so that three of them come with one load and serve three pixels each. Two loads bring
three pairs of weights for two channels: every other load stands between the products of a step. Where sums
may be taken times 256 (`Form.FINE`, `Form.SIGNED`), the weights are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import label, unrolling
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.conv_1ch_int8 import best_tile, instructions_per_mac
from mlf_sdk.compiler.kernels.conv_2ch_int8 import layout_of, stream_of
from mlf_sdk.compiler.kernels.convolution import Layout, fits_fine
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.widening import widen
from mlf_sdk.compiler.microkernels.builder import OUTPUT_BYTES, WORD, WORDS, Builder, Register
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

MAX_PIXELS: Final = 3
_UNROLL: Final = 32  # threes of steps in a row


def _cost(pixels: int) -> float:
    """Instructions for a product in the inner loop."""
    return (1 + 2 / 3 + 2 * pixels) / (4 * pixels)


def _row_cost(layout: Layout, pixels: int, each: float) -> float:
    return -(-layout.ow // pixels) * pixels * each


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D by tiles of two channels; None for a layer that this does not fit, or that others do faster."""
    layout = layout_of(layer, MAX_PIXELS, lambda usual, pixels: _row_cost(usual, pixels, _cost(pixels)))
    if layout is None:
        return None
    pixels, other, channels = layout.pixels, best_tile(layout.ow), layer.channels
    if _row_cost(layout, pixels, _cost(pixels)) > _row_cost(layout, other, instructions_per_mac(other)):
        return None
    rescale = layer.rescale(fine=fits_fine(layer.rows))
    if rescale is None:
        return None
    short = layout.shortened()
    words = _words(layout.padded(layer.rows).reshape(channels, layout.rows, -1), rescale, short=short)
    steps = words.shape[1]
    name = f"conv_2ch_16_{pixels}x{steps}_{channels}_{label(rescale)}"
    texts = recorded(name, "dsp", record, pixels, steps, channels, Epilogue.of(rescale))
    fast, more = widen(pixels, layout.distance, layout.rows, layout.row_quads, fine=False, short=short)
    call, stream = f"{name}(b0, p0, {{}}, {channels})", stream_of(layer.starts(rescale), words, rescale)
    return layout.kernel(call, fast, {**texts, **more}, (stream,), "_2ch_int16", channels=2)


def _words(rows: Array, rescale: Rescale, *, short: bool) -> Array:
    """Words of two weights of each channel; of a last byte of a row alone (short) one word, not two."""
    wide = rows.astype(np.int16) * rescale.unit
    quads = wide.reshape(*rows.shape[:2], -1, 4)[..., (0, 2, 1, 3)]
    words = np.ascontiguousarray(quads).view(np.int32).reshape(*rows.shape[:2], -1)
    return (words[..., :-1] if short else words).reshape(len(rows), -1)


def record(pixels: int, steps: int, channels: int, epilogue: Epilogue) -> Builder:
    """Record a tile: three words of weights at a time, of one channel and of the other in turn.

    Args:
        steps: words of two weights of one channel.
        channels: distance in bytes between pixels of the output.
    """
    b = Builder(x=WORDS, w=WORDS, y=OUTPUT_BYTES, n=WORD)
    x, w, y, n = b.parameters
    end = b.place(y, n)
    threes, rest = divmod(steps, 3)
    count = unrolling(threes, _UNROLL) if threes else 0
    bound = b.place(x, threes * 12 * pixels) if count < threes else None

    def products(channel: int, values: list[Register], word: Register) -> None:
        b.each("smlad", values, word, sums[channel], into=sums[channel])

    with b.loop(y, end):
        sums = [b.sums(bias, pixels) for bias in b.load(w, 2)]
        with b.loop(x, bound):
            for number in b.repeat(count):
                b.note(f"weights {6 * number} to {6 * number + 5} of two channels")
                first, second, third = b.load(w, 3)
                values = b.load(x, pixels)
                products(0, values, first)
                products(1, values, second)
                values = b.load(x, pixels)
                products(0, values, third)
                first, second, third = b.load(w, 3)
                products(1, values, first)
                values = b.load(x, pixels)
                products(0, values, second)
                products(1, values, third)
        for number in b.repeat(rest):
            b.note(f"weights {6 * threes + 2 * number} and the next of two channels")
            words = b.load(w, 2)
            values = b.load(x, pixels)
            for channel, word in enumerate(words):
                products(channel, values, word)
        epilogue.two_channels(b, sums, w, y, channels)
        b.advance(x, -4 * steps * pixels)
    return b
