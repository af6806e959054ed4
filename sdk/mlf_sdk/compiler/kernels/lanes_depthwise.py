# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution for cores with vectors of any length (RISC-V's V), with the same in plain C.

Channels are lanes, of pixels and of weights; the pixels of a tile share the weights of a tap. Rows lie in the ring of
`mlf_sdk.compiler.kernels.rows`.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel, tile_of
from mlf_sdk.compiler.kernels.lanes_common import COPY, Strip, copies, requantise_and_store, table_words
from mlf_sdk.compiler.kernels.rows import ring_of_rows
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    INPUTS,
    LOW,
    OUTPUT_BYTES,
    ROWS,
    SUMS,
    WORD,
    WORDS,
    Builder,
    Register,
)
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded

_LANES: Final = 4  # of 32 bits in a register, for estimates
_PIXELS: Final = {8: 3, 4: 6, 2: 12}  # that fit, by the registers of a vector of sums
_FAR: Final = 2047  # bytes that an addition adds
_MOST_COLUMNS: Final = 16  # of a window, in code without a loop
_FEWEST: Final = 4  # channels for which vectors are faster


class DepthwiseTile(msgspec.Struct, frozen=True):
    """Pixels side by side, and what they are computed from.

    Attributes:
        size: rows and columns of a window.
        stride: columns between the windows of neighbours.
        channels: of input and output.
        columns: pixels of a row.
        group: registers of a vector of sums.
        pixels: of a tile; the last one may have fewer.
    """

    size: tuple[int, int]
    stride: int
    channels: int
    columns: int
    group: int
    pixels: int

    @property
    def name(self) -> str:
        """Part of a function's name."""
        kh, kw = self.size
        return f"{self.pixels}x{self.group}_{kh}x{kw}_{self.stride}_{self.channels}_{self.columns}"

    @property
    def instructions(self) -> int:
        """Instructions of a row with vectors of 128 bits."""
        whole, rest = divmod(self.columns, self.pixels)
        strips = -(-self.channels // (_LANES * self.group))
        return strips * (12 + whole * self._tile(self.pixels) + (self._tile(rest) if rest else 0))

    def _tile(self, pixels: int) -> int:
        kh, kw = self.size
        return kh * (5 + kw * (3 + 4 * pixels)) + 14 + 8 * pixels


def depthwise(layer: Contraction) -> Kernel | None:
    """DEPTHWISE_CONV_2D without multiplier; None for a layer that this does not fit, or that others do faster."""
    window, channels = layer.window, layer.channels
    if not layer.is_int8() or window.dilation != (1, 1) or layer.multiplier != 1:
        return None
    step = window.stride[1] * channels
    if channels < _FEWEST or max(step, channels) > _FAR or window.size[1] > _MOST_COLUMNS:
        return None
    rescale = layer.rescale()
    if rescale is None:
        return None
    columns, stride = layer.y.shape[2], window.stride[1]
    shapes = [
        DepthwiseTile(window.size, stride, channels, columns, group, pixels)
        for group, most in _PIXELS.items()
        for pixels in range(1, min(most, columns) + 1)
        if pixels * step <= _FAR
    ]
    tile = min(shapes, key=lambda shape: shape.instructions)
    name = f"lanes_depthwise_{tile.name}_{label(rescale)}"
    texts = recorded(name, "zve32x", record, tile, Epilogue.of(rescale))
    call = f"        {name}(rows, p0, p1, y0 + oy * {columns * channels}, {channels});\n"
    body, ring_bytes, overlaps = ring_of_rows(layer, call, *COPY)
    return layer.kernel(
        "depthwise",
        body,
        {**copies(body), **texts},
        (np.ascontiguousarray(layer.rows.T).reshape(-1), table_words(layer.starts(rescale), rescale)),
        overlaps,
        workspace_bytes=ring_bytes,
        tile=tile_of(tile.group * _LANES, tile.pixels),
    )


def record(tile: DepthwiseTile, epilogue: Epilogue) -> Builder:
    """Record a row of the output: rows of the input, weights, table, output, channels."""
    b = Builder(rows=ROWS, w=BYTES, p=WORDS, y=OUTPUT_BYTES, n=WORD)
    _, w, p, y, n = b.parameters
    whole, rest = divmod(tile.columns, tile.pixels)
    strip = Strip(b, tile.group, tile.channels, p, n)
    end, begin = b.place(y, n), b.do("immediate", i=0)
    with b.loop(y, end):
        strip.begin()
        place, at = b.do("copy", y, kind=OUTPUT_BYTES), b.do("copy", begin)
        with b.times(whole):
            _record_tile(b, tile, tile.pixels, strip, at, place, epilogue)
        if rest:
            _record_tile(b, tile, rest, strip, at, place, epilogue)
        strip.end(w, y, begin)
    return b


def _record_tile(
    b: Builder,
    tile: DepthwiseTile,
    pixels: int,
    strip: Strip,
    at: Register,
    place: Register,
    epilogue: Epilogue,
) -> None:
    """Record a tile at byte ``at`` of the rows; that and the output move on."""
    rows, w, *_ = b.parameters
    (kh, kw), step = tile.size, tile.stride * tile.channels
    sums = strip.starts(pixels)
    weight, table = b.do("copy", w, kind=BYTES), b.do("copy", rows, kind=ROWS)
    left = b.do("immediate", i=kh)
    with b.counted(left):
        start = b.load_at(table, 0, kind=BYTES)
        b.do("add", start, at, into=start)
        for _ in range(kw):
            weights = strip.vector("load_weights", weight, kind=LOW)
            b.advance(weight, tile.channels)
            pixel = b.do("copy", start, kind=BYTES)
            for number, total in enumerate(sums):
                values = strip.vector("load_inputs", pixel, kind=INPUTS)
                strip.vector("add_products", values, weights, total, kind=SUMS[tile.group], into=total)
                if number + 1 < len(sums):
                    b.advance(pixel, step)
            b.advance(start, tile.channels)
        b.advance(table, 4)
    requantise_and_store(b, strip, sums, epilogue, place)
    b.do("add_constant", at, i=pixels * step, into=at)
