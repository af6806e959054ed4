# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution and sums for cores with the vector extension (MVE, Helium), with the same in plain C.

Depthwise: VMULLB and VMULLT multiply sixteen channels of a pixel with their weights, to words of 16 bits: of the
even channels and of the odd ones. Products of two taps still fit such words; their sum is widened and added to
four vectors of 32 bits, whose lanes are channels 0, 4, 8, 12, then 2, 6..., 1, 5... and 3, 7.... Biases,
multipliers, addends and shifts lie in the same order; narrowing puts the channels back into theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.add_int8 import sum_kernel
from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel, tile_of
from mlf_sdk.compiler.kernels.mve import FAR, pointers_of_words, table_words
from mlf_sdk.compiler.kernels.mve_copies import COPY_BYTES, INCLUDE
from mlf_sdk.compiler.kernels.mve_results import limit, requantise
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.rows import ring_of_rows
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    LANES_LEFT,
    OUTPUT_BYTES,
    PREDICATE,
    ROWS,
    ROWS_OF_WORDS,
    WORD,
    WORDS,
    Builder,
    Register,
)
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array, Map

_LANES: Final = 16
_ORDER: Final = (0, 2, 1, 3)  # vector of a channel's sum, by its number modulo four
_MOST_IDLE: Final = 1.5  # lanes for a channel, beyond which other kernels are faster


class DepthwiseRow(msgspec.Struct, frozen=True):
    """Windows of a layer without multiplier.

    Attributes:
        size: rows and columns of a window.
        channels: of input and output.
        stride: columns between the windows of neighbours.
    """

    size: tuple[int, int]
    channels: int
    stride: int

    @property
    def is_near(self) -> bool:
        """True where loads of words reach the columns of a window."""
        return self.channels % 4 == 0 and (self.size[1] - 1) * self.channels <= FAR


def depthwise(layer: Contraction) -> Kernel | None:
    """DEPTHWISE_CONV_2D without multiplier; None for a layer that this does not fit, or that others do faster."""
    window, channels = layer.window, layer.channels
    padding = -channels % _LANES
    if not layer.is_int8() or window.dilation != (1, 1) or layer.multiplier != 1:
        return None
    if layer.rows.min(initial=0) <= -128 or channels + padding > _MOST_IDLE * channels:
        return None  # two products of -128 and -128 do not fit 16 bits
    rescale = layer.rescale()
    if rescale is None:
        return None
    taps = np.pad(layer.rows.T, ((0, 0), (0, padding)))
    packed = taps.reshape(len(taps), -1, _LANES).transpose(1, 0, 2)
    constants = (np.ascontiguousarray(packed).reshape(-1), _table(layer.starts(rescale), rescale))
    columns, (kh, kw) = layer.y.shape[2], window.size
    row = DepthwiseRow(window.size, channels, window.stride[1])
    name = f"channels_{kh}x{kw}x{channels}_{row.stride}_{label(rescale)}"
    texts = recorded(name, "mve", record_depthwise, row, Epilogue.of(rescale))
    words, pointers = pointers_of_words(kh) if row.is_near else ("", "rows")
    call = f"{words}        {name}({pointers}, p0, p1, y0 + oy * {columns * channels}, {columns});\n"
    body, ring_bytes, overlaps = ring_of_rows(layer, call, "copy_bytes")
    if padding:  # the last load of a row reads all lanes
        body = f"    memset((int8_t *)b0 + {ring_bytes}, 0, {padding});\n{body}"
    texts = {"mve": INCLUDE, "copy_bytes": COPY_BYTES, **texts}
    size = ring_bytes + padding
    tile = tile_of(_LANES)
    return layer.kernel("depthwise", body, texts, constants, overlaps, workspace_bytes=size, tile=tile)


def _table(bias: Array, rescale: Rescale) -> Array:
    """Four biases, multipliers, addends and negative shifts for each vector of sums, by sixteen channels."""
    words = table_words(bias, rescale)
    blocks = np.pad(words, ((0, -len(words) % _LANES), (0, 0))).reshape(-1, 4, 4, 4)
    ordered = blocks.transpose(0, 2, 3, 1)[:, np.argsort(_ORDER)]  # block, vector, kind of word, lane
    return np.ascontiguousarray(ordered.reshape(-1))


def record_depthwise(row: DepthwiseRow, epilogue: Epilogue) -> Builder:
    """Record a row of pixels for sixteen channels at a time: rows of windows, weights, table, output, pixels."""
    kind = WORDS if row.is_near else BYTES
    b = Builder(
        window=ROWS_OF_WORDS if row.is_near else ROWS, w=BYTES, p=WORDS, y=OUTPUT_BYTES, pixels=WORD
    )  # fmt: skip
    window, w, p, y, pixels = b.parameters
    channels, weights_bytes = row.channels, _LANES * row.size[0] * row.size[1]
    begin, left = b.do("immediate", i=0), b.do("immediate", i=channels)
    with b.counted(left, _LANES):
        place, count = b.do("copy", y, kind=OUTPUT_BYTES), b.do("copy", pixels)
        rows = [b.load_at(window, 4 * k, kind=kind) for k in range(row.size[0])]
        for pointer in rows:
            b.do("add", pointer, begin, into=pointer)
        with b.counted(count):
            sums = [b.vector("load_32", p, i=64 * k) for k in range(4)]
            _products(b, row, rows, w, sums)
            b.advance(w, -weights_bytes)
            b.note("requantise sixteen channels")
            for k, total in enumerate(sums):
                words = ([b.vector("load_32", p, i=64 * k + 16 * number)] for number in (1, 2, 3))
                requantise(b, [total], epilogue, words)
            halves = [b.vector("narrow_even_32", sums[k]) for k in (0, 2)]
            for half, total in zip(halves, (sums[1], sums[3]), strict=True):
                b.vector("narrow_odd_32", total, half, into=half)
            stored = b.vector("narrow_even_16", halves[0])
            b.vector("narrow_odd_16", halves[1], stored, into=stored)
            limit(b, [stored], epilogue)
            if channels % _LANES:
                b.store("store_some_8", stored, place, b.do("predicate_8", left, kind=PREDICATE))
            else:
                b.store("store_8", stored, place)
            b.advance(place, channels)
            for pointer in rows:
                b.advance(pointer, row.stride * channels)
        b.advance(w, weights_bytes)
        b.advance(p, 256)
        b.do("add_constant", begin, i=_LANES, into=begin)
        b.advance(y, _LANES)
    return b


def _products(
    b: Builder, row: DepthwiseRow, rows: Sequence[Register], weights: Register, sums: Sequence[Register]
) -> None:
    """Record the products of a window: of the even channels and of the odd ones, two taps before they are added."""
    (kh, kw), products = row.size, list[Register]()
    for tap in range(kh * kw):
        offset = tap % kw * row.channels
        pixel = rows[tap // kw]
        if not row.is_near and offset:
            pixel, offset = b.place(pixel, offset), 0
        load = partial(b.vector, "load_32" if row.is_near else "load_8", pixel, i=offset)
        values, weight = load(), b.vector("load_next_8", weights, i=16, moves=True)
        even = b.vector("multiply_even_8", values, weight)
        if tap % 2 == 0:
            products = [even, b.vector("multiply_odd_8", values, weight)]
        else:  # no vector is left for a second product: the pixel is loaded again
            b.vector("add_16", products[0], even, into=products[0])
            odd = b.vector("multiply_odd_8", load(), weight)
            b.vector("add_16", products[1], odd, into=products[1])
        if tap % 2 or tap == kh * kw - 1:
            wide = [f"{half}_16_to_32" for half in ("even", "odd")]
            for total, (product, name) in zip(sums, ((a, n) for a in products for n in wide), strict=True):
                b.vector("add_32", total, b.vector(name, product), into=total)


def binary(graph: Graph, operator: Map) -> Kernel | None:
    """ADD and SUB of tensors of one shape, as two products and a shift; None for others."""
    return sum_kernel(graph, operator, "mve", record_sum)


def record_sum(bits: int, low: int, high: int) -> Builder:
    """Record ``(a * fa + b * fb + fc) >> bits``, four elements at a time; the last vector has fewer."""
    b = Builder(a=BYTES, b=BYTES, y=OUTPUT_BYTES, n=WORD, fa=WORD, fb=WORD, fc=WORD)
    one, other, y, n, fa, fb, fc = b.parameters
    factor, lowest, highest = (
        b.vector("fill_32", r) for r in (fa, b.do("immediate", i=low), b.do("immediate", i=high))
    )
    lanes = b.do("loop_of_32", n, kind=LANES_LEFT)
    with b.counted(lanes, 4):
        values, more = (b.vector("load_lanes_8_to_32", r, lanes, i=4, moves=True) for r in (one, other))
        b.vector("scale_32", factor, fc, values, into=values)
        b.vector("add_scaled_32", more, fb, values, into=values)
        values = b.vector("shift_right_32", values, i=bits)
        values = b.vector("smaller_32", b.vector("larger_32", values, lowest), highest)
        b.store("store_lanes_8_of_32", values, y, lanes, i=4, moves=y)
    return b
