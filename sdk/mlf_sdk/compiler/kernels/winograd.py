# SPDX-License-Identifier: Apache-2.0
"""Convolution with 3x3 windows at stride 1 by Winograd's F(2x2, 3x3): 16 products for four outputs, not 36.

Both transforms are exact: that of the input takes sums of four bytes, and the weights are taken times four, so
that none of theirs is a fraction. A sum of products is then four times that of the convolution, modulo 2^32.
Weights become 16 words of 16 bits for nine bytes: a kernel for speed.

A tile is up to four squares of 2x2 pixels beside each other. Products of columns 1 and 2 of a transformed square
meet in a sum and in a difference; those of columns 0 and 3 continue either of them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, label, unrolling
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.convolution import Layout, fits_fine
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.winograd_input import reaches, transform
from mlf_sdk.compiler.microkernels.builder import (
    KEPT_WORDS,
    OUTPUT_BYTES,
    OUTPUT_WORDS,
    WORD,
    WORDS,
    Builder,
    Register,
)
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

MAX_SQUARES: Final = 4
_LEAST_CHANNELS: Final = 8
_LEAST_OUTPUTS: Final = 3  # that the transformed input is worth its time for
_MAX_CHANNELS: Final = 512  # whose largest sum of products fits 31 bits
_MOST_ROW: Final = 0xFFFF  # bytes of a row of output
_WEIGHTS: Final = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int64)
_COLUMNS: Final = (1, 2, 0, 3)  # order of a row's products
_BLOCK: Final = 8  # channels whose weights one load brings
_UNROLL: Final = 8


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D with 3x3 windows at stride 1; None for a layer that this does not fit."""
    shape = layer.window.size, layer.window.stride, layer.window.dilation
    if not layer.is_int8() or shape != ((3, 3), (1, 1), (1, 1)):
        return None
    _, oh, ow, oc = layer.y.shape
    ic = layer.depth
    if oc < _LEAST_OUTPUTS or oh < 2 or ow < 4 or ic % 4 or not _LEAST_CHANNELS <= ic <= _MAX_CHANNELS:
        return None
    sizes = [s for s in range(2, min(MAX_SQUARES, ow // 2) + 1) if reaches(s, ic)]
    if not sizes:
        return None
    squares = min(sizes, key=lambda s: -(-ow // (2 * s)) * (s + 1.25))
    if (2 * squares - 1) * oc > MAX_OFFSET or ow * oc > _MOST_ROW:
        return None
    rescale = layer.rescale(fine=fits_fine(layer.rows))
    if rescale is None:
        return None
    layout = Layout(layer, 2 * squares, 1, lines=2)
    layout.buffer_bytes = 32 * ic * squares
    tile = f"products_{squares}x{ic}_{ow * oc}_{oc}_{label(rescale)}"
    texts = {
        **recorded(f"{tile}_sums", "dsp", record, squares, ic, ow * oc, oc, Epilogue.of(rescale)),
        tile: f"""static void {tile}(const int32_t *b, const int32_t *w, int8_t *y)
{{
    int32_t sums[{8 * squares}];
    {tile}_sums(b, w, y, {oc}, sums);
}}
""",
    }
    squared, more = transform(squares, ic)
    return layout.kernel(
        f"{tile}(b0, p0, {{}})",
        squared,
        {**texts, **more},
        (_stream(layer.weights.constant, layer.starts(rescale), rescale),),
        "_winograd",
    )


def _stream(weights: Array, starts: Array, rescale: Rescale) -> Array:
    """Words of each channel: pairs of transformed weights, bias, requantisation."""
    oc, _, _, ic = weights.shape
    wide = weights.astype(np.int64)
    u = np.einsum("ia,oabc,jb->oijc", _WEIGHTS, wide, _WEIGHTS)
    u[:, :, 3] *= -1
    u = u[:, :, _COLUMNS].reshape(oc, 16, ic // 4, 4)[..., (0, 2, 1, 3)]
    words = np.ascontiguousarray(u.astype(np.int16)).view(np.int32).reshape(oc, -1)
    return np.ascontiguousarray(np.concatenate([words, starts[:, None], rescale.rows], axis=1).reshape(-1))


def record(squares: int, ic: int, row: int, oc: int, epilogue: Epilogue) -> Builder:
    """Record a tile: transformed squares, weights, the output and its channels, and words for sums.

    These are of each row of products those of both columns of the squares.

    Args:
        row: bytes from a row of output to the next; ``oc``: those between its pixels.
    """
    b = Builder(x=KEPT_WORDS, w=KEPT_WORDS, y=OUTPUT_BYTES, n=WORD, s=OUTPUT_WORDS)
    x, w, y, n, s = b.parameters
    whole, rest = divmod(ic, _BLOCK)
    count = unrolling(whole, _UNROLL)
    is_loop = count < whole

    def block(sums: list[Register], channels: int = _BLOCK) -> list[Register]:
        for weights in b.load(w, channels // 2):
            values = b.load(x, squares)
            if sums:
                b.each("smlad", values, weights, sums, into=sums)
            else:
                sums = b.each("smuad", values, weights)
        return sums

    def products(sums: list[Register]) -> list[Register]:
        """Products of one place of the squares, added to sums."""
        if is_loop:
            sums = sums or [b.do("immediate", i=0) for _ in range(squares)]
            with b.loop(x, b.place(x, whole * _BLOCK * 2 * squares, WORDS)):
                for _ in b.repeat(count):
                    block(sums)
        else:
            sums = block(sums)
            for _ in b.repeat(count - 1):
                block(sums)
        return block(sums, rest) if rest else sums

    def stored(values: list[Register]) -> list[Register]:
        """Values in memory while a loop needs all registers; elsewhere the allocator finds places that cost less."""
        if is_loop:
            b.store_many(out, values)
        return values

    def loaded(values: list[Register]) -> list[Register]:
        return b.load_back(out, squares) if is_loop else values

    with b.loop(y, b.place(y, n)):
        out = b.do("copy", s, kind=OUTPUT_WORDS)
        with b.loop(out, b.place(out, 32 * squares)):
            first = stored(products([]))
            second = products([])
            sums, differences = _sums_and_differences(b, loaded(first), second)
            stored(differences)
            sums = products(sums)
            differences = loaded(differences)
            b.store_many(out, sums)
            b.store_many(out, products(differences))
        _record_outputs(b, (s, w, y), (squares, row, oc), epilogue)
        b.advance(y, 1)
        b.advance(x, -32 * ic * squares)
    return b


def _record_outputs(
    b: Builder, pointers: tuple[Register, ...], sizes: tuple[int, int, int], epilogue: Epilogue
) -> None:
    """Record the outputs of a channel: those of the upper row are sums of rows 0, 1 and 2, of the lower 1 - 2 - 3."""
    (s, w, y), (squares, row, oc) = pointers, sizes
    start, *words = b.load(w, 1 + epilogue.words)
    lower_row = b.place(y, row)
    name, bits = ("add_shifted_left", 6) if epilogue.is_fine else ("add_shifted_right", 2)
    for column in range(2):
        b.note(f"requantise column {column} of the squares")
        sums = b.place(s, 4 * squares * (column + 2), WORDS)
        second = b.load(sums, squares)
        b.advance(sums, 4 * squares)
        upper, lower = _sums_and_differences(b, second, b.load(sums, squares))
        b.advance(sums, 4 * squares)
        lower = b.each("subtract", lower, b.load(sums, squares))
        b.advance(sums, -28 * squares)
        upper = b.each("add", upper, b.load(sums, squares))
        for pointer, totals in ((y, upper), (lower_row, lower)):
            values = [b.do(name, start, total, i=bits) for total in totals]
            for square, value in enumerate(epilogue.record(b, values, words)):
                b.store_byte(pointer, value, (2 * square + column) * oc)


def _sums_and_differences(
    b: Builder, one: list[Register], other: list[Register]
) -> tuple[list[Register], list[Register]]:
    pairs = [(b.do("add", p, q), b.do("subtract", p, q)) for p, q in zip(one, other, strict=True)]
    return [total for total, _ in pairs], [difference for _, difference in pairs]
