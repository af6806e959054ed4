# SPDX-License-Identifier: Apache-2.0
"""Inner loops of convolution: a tile of pixels times the weights of one channel after the other.

The tile's activations lie in a buffer as pairs of int16 words, interleaved over its pixels, so that one
load feeds every pixel. Weights stay bytes, four in a word; one expansion serves all pixels of the tile.

A word holds the numbers 256 * k1 + k0 and 256 * k3 + k2. SXTB16 gives (k0, k2); the word itself serves for
(k1, k3): with p = x1 - 127 and q = 256 * x0 - p, which just fits 16 bits, p * (256 * k1 + k0) + q * k0 is
256 times the sum of products, so that one expansion is saved and the sum has eight more bits for a cheap
requantisation (`Form.FINE`). Where 256 times the sum does not fit, words hold bytes and SXTB16 expands both
halves. Each channel's stream holds its bias, its weights and the words of its requantisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlf_sdk.compiler.kernels.assembly import label, unrolling
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.microkernels.builder import OUTPUT_BYTES, WORD, WORDS, Builder, Register
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded

MAX_PIXELS: Final = 5
_FREE: Final = 11  # registers beside pointers and a word that is taken apart


def instructions_per_mac(pixels: int) -> float:
    """Cost of a tile's inner loop."""
    return (1 + (1 if pixels == MAX_PIXELS else 1 / 3) + 2 + 2 * pixels) / (4 * pixels)


def best_tile(width: int) -> int:
    """Pixels of a tile for rows of ``width``; the last tile overlaps the one before it."""
    return min(
        range(1, min(MAX_PIXELS, width) + 1), key=lambda p: -(-width // p) * p * instructions_per_mac(p)
    )


def tile_times_channels(
    pixels: int, quads: int, channels: int, rescale: Rescale, *, unroll: int, short: int = 0
) -> tuple[str, Mapping[str, str]]:
    """Function ``(buffer, stream, output, count)`` for a tile; its name and texts.

    Args:
        pixels: of the tile, 1 to `MAX_PIXELS`.
        quads: fours of weights of one channel.
        channels: distance in bytes between pixels of the output.
        unroll: most quads in a row.
        short: quads of a row of the window, the last of which holds one weight only; 0 for none.
    """
    name = f"conv_1ch_{pixels}x{quads}_{channels}_{label(rescale)}{f'_s{short}' if short else ''}"
    given = pixels, quads, channels, Epilogue.of(rescale)
    return name, recorded(name, "dsp", record, *given, unroll=unroll, short=short)


def record(
    pixels: int, quads: int, channels: int, epilogue: Epilogue, *, unroll: int, short: int = 0
) -> Builder:
    """Record a tile; arguments as of `tile_times_channels`."""
    b = Builder(x=WORDS, w=WORDS, y=OUTPUT_BYTES, n=WORD)
    x, w, y, n = b.parameters
    end = b.place(y, n)
    count = unrolling(quads, unroll)
    size_bytes = (2 * quads - (quads // short if short else 0)) * 4 * pixels
    bound = b.place(x, size_bytes) if count < quads else None
    ahead = min(3, _FREE - 2 * pixels)  # words of weights for which there are registers

    def products(weights: Register) -> None:
        b.each("smlad", b.load(x, pixels), weights, sums, into=sums)

    with b.loop(y, end):
        sums = b.sums(b.load(w, 1)[0], pixels)
        with b.loop(x, bound):
            for first in b.repeat(-(-count // ahead)):
                words = b.load(w, min(ahead, count - first * ahead))
                for quad, word in enumerate(words, first * ahead):
                    b.note(f"weights {4 * quad} to {4 * quad + 3}")
                    products(b.do("sxtb16", word))
                    odd = word if epilogue.is_fine else b.do("sxtb16_ror8", word)
                    if not short or quad % short < short - 1:
                        products(odd)
        b.note(f"requantise {pixels} pixels")
        stored = epilogue.record(b, sums, b.load(w, epilogue.words))
        for pixel, value in enumerate(stored):
            b.store_byte(y, value, pixel * channels)
        b.advance(y, 1)
        b.advance(x, -size_bytes)
    return b
