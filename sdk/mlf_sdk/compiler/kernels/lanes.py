# SPDX-License-Identifier: Apache-2.0
"""Convolution and matrix products for cores with vectors of any length (RISC-V's V), with the same in plain C.

Channels of the output are lanes: a product of one value of the input with the weights of all lanes is one instruction,
for each of the pixels of a tile. The core says how many lanes it has, so that code and constants are the same for
vectors of any length: weights lie as one row of channels for each tap of a window. How many registers a vector takes,
and with it how many pixels a tile, is chosen by the instructions that vectors of 128 bits take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.contraction import Contraction, Kind
from mlf_sdk.compiler.kernels.kernel import Kernel, of_parts, tile_of
from mlf_sdk.compiler.kernels.lanes_common import COPY, Strip, copies, requantise_and_store, table_words
from mlf_sdk.compiler.kernels.rows import ring_of_rows
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
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
from mlf_sdk.compiler.operators import Array

_LANES: Final = 4  # of 32 bits in a register, for estimates
_PIXELS: Final = {8: 3, 4: 6, 2: 12}  # that fit, by the registers of a vector of sums
_MOST_TAPS: Final = 12  # without a loop
_TAPS: Final = 8  # of a turn of one
_FAR: Final = 2047  # bytes that a load reaches, and that an addition adds
_MOST_BYTES: Final = 4096  # of pixels that are copied at once
_SCALAR: Final = 2.5  # instructions of a product without vectors


class LanesTile(msgspec.Struct, frozen=True):
    """Pixels side by side, and what they are computed from.

    Attributes:
        rows, run: rows of a window, and bytes of each.
        distance: bytes between the windows of neighbours.
        channels: of the output.
        columns: pixels that a call computes.
        group: registers of a vector of sums.
        pixels: of a tile; the last one may have fewer.
    """

    rows: int
    run: int
    distance: int
    channels: int
    columns: int
    group: int
    pixels: int

    @property
    def name(self) -> str:
        """Part of a function's name."""
        return f"{self.pixels}x{self.group}_{self.rows}x{self.run}_{self.distance}_{self.channels}_{self.columns}"

    @property
    def instructions(self) -> int:
        """Instructions of a call with vectors of 128 bits."""
        whole, rest = divmod(self.columns, self.pixels)
        strips = -(-self.channels // (_LANES * self.group))
        return strips * (12 + whole * self._tile(self.pixels) + (self._tile(rest) if rest else 0))

    def _tile(self, pixels: int) -> int:
        turn = 3 + 2 * pixels
        return self.rows * (self.run * turn + self.run // _TAPS * 2 + 5) + 12 + 8 * pixels


def tiles(rows: int, run: int, distance: int, channels: int, columns: int) -> Iterator[LanesTile]:
    """Tiles that the registers hold and whose pixels the instructions reach."""
    for group, most in _PIXELS.items():
        for pixels in range(1, min(most, columns) + 1):
            if pixels * distance + _MOST_TAPS <= _FAR:
                yield LanesTile(rows, run, distance, channels, columns, group, pixels)


def best_tile(rows: int, run: int, distance: int, channels: int, columns: int) -> LanesTile | None:
    """The tile that takes the fewest instructions; None where plain words take fewer."""
    shapes = tiles(rows, run, distance, channels, columns)
    best = min(shapes, key=lambda tile: tile.instructions, default=None)
    if best is None or best.instructions > _SCALAR * rows * run * channels * columns:
        return None
    return best


def _best_run(depth: int, channels: int, pixels: int) -> LanesTile | None:
    """Tile of a part of an image whose pixels are windows: of the parts that divide it, the one of the fewest."""
    parts = [n for n in range(1, pixels + 1) if pixels % n == 0 and (n == 1 or n * depth <= _MOST_BYTES)]
    shapes = [tile for n in parts if (tile := best_tile(1, depth, depth, channels, n)) is not None]
    return min(shapes, key=lambda tile: tile.instructions / tile.columns, default=None)


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D; None for a layer that this does not fit, or that plain words do faster."""
    window = layer.window
    if not layer.is_int8() or window.dilation != (1, 1):
        return None
    if window.is_pointwise(layer.x.shape, layer.y.shape):
        return _of_pixels(layer)
    (rows, kw), depth = window.size, layer.x.shape[3]
    tile = best_tile(rows, kw * depth, window.stride[1] * depth, layer.channels, layer.y.shape[2])
    part = None if tile is None else _part(layer, tile)
    if tile is None or part is None:
        return None
    name, texts, constants = part
    places = "rows" if rows > 1 else "rows[0]"
    call = f"        {name}({places}, p0, p1, y0 + oy * {tile.columns * tile.channels}, {tile.channels});\n"
    body, ring_bytes, overlaps = ring_of_rows(layer, call, *COPY)
    shape = tile_of(tile.group * _LANES, tile.pixels)
    return layer.kernel(
        "conv", body, {**copies(body), **texts}, constants, overlaps, workspace_bytes=ring_bytes, tile=shape
    )


def dense(layer: Contraction) -> Kernel | None:
    """FULLY_CONNECTED; None for a layer that this does not fit, or that plain words do faster."""
    return _of_pixels(layer) if layer.is_int8() else None


def _of_pixels(layer: Contraction) -> Kernel | None:
    """Kernel of a layer whose windows are pixels, some of which are copied and then computed."""
    depth, pixels = layer.x.shape[3], layer.y.shape[1] * layer.y.shape[2]
    tile = _best_run(depth, layer.channels, pixels)
    part = None if tile is None else _part(layer, tile)
    if tile is None or part is None:
        return None
    name, texts, constants = part
    count, read, written = pixels // tile.columns, tile.columns * depth, tile.columns * layer.channels
    body = f"""    for (int32_t i = 0; i < {count}; ++i) {{
        {COPY[0]}((int8_t *)b0, x0 + i * {read}, {read});
        {name}((const int8_t *)b0, p0, p1, y0 + i * {written}, {layer.channels});
    }}
"""
    steps = np.arange(count)
    overlaps = of_parts(layer.x, layer.y, steps * read, steps * written)
    family = "dense" if layer.kind is Kind.DENSE else "conv_1x1"
    return layer.kernel(
        family,
        body,
        {**copies(body), **texts},
        constants,
        overlaps,
        workspace_bytes=read,
        tile=tile_of(tile.group * _LANES, tile.pixels),
    )


def _part(layer: Contraction, tile: LanesTile) -> tuple[str, dict[str, str], tuple[Array, ...]] | None:
    """Name of the function of a layer, its texts, and its constants; None where it fits no requantisation."""
    rescale = layer.rescale()
    if rescale is None or layer.channels > _FAR:
        return None
    name = f"lanes_{tile.name}_{label(rescale)}"
    texts = recorded(name, "zve32x", record, tile, Epilogue.of(rescale))
    weights = np.ascontiguousarray(layer.rows.T).reshape(-1)
    return name, {**texts}, (weights, table_words(layer.starts(rescale), rescale))


def record(tile: LanesTile, epilogue: Epilogue) -> Builder:
    """Record pixels by all channels: input (of several rows, their places), weights, table, output, channels."""
    b = Builder(x=BYTES if tile.rows == 1 else ROWS, w=BYTES, p=WORDS, y=OUTPUT_BYTES, n=WORD)
    x, w, p, y, n = b.parameters
    whole, rest = divmod(tile.columns, tile.pixels)
    strip = Strip(b, tile.group, tile.channels, p, n)
    end = b.place(y, n)
    with b.loop(y, end):
        strip.begin()
        place, source = b.do("copy", y, kind=OUTPUT_BYTES), x
        if whole + bool(rest) > 1:
            source = b.do("copy", x, kind=BYTES) if tile.rows == 1 else b.do("immediate", i=0)
        with b.times(whole):
            _record_tile(b, tile, tile.pixels, strip, (x, source, w, place), epilogue)
        if rest:
            _record_tile(b, tile, rest, strip, (x, source, w, place), epilogue)
        strip.end(w, y)
    return b


def _record_tile(
    b: Builder,
    tile: LanesTile,
    pixels: int,
    strip: Strip,
    places: tuple[Register, Register, Register, Register],
    epilogue: Epilogue,
) -> None:
    """Record a tile: rows of the input, the place in them, weights and output, the place and the output move on."""
    x, source, w, place = places
    sums = strip.starts(pixels)
    weight = b.do("copy", w, kind=BYTES)
    if tile.rows == 1:
        start = b.do("copy", source, kind=BYTES) if tile.run > _MOST_TAPS else source
        _record_run(b, tile, start, weight, strip, sums)
    else:
        table, rows = b.do("copy", x, kind=ROWS), b.do("immediate", i=tile.rows)
        with b.counted(rows):
            start = b.load_at(table, 0, kind=BYTES)
            if source is not x:
                b.do("add", start, source, into=start)
            _record_run(b, tile, start, weight, strip, sums)
            b.advance(table, 4)
    requantise_and_store(b, strip, sums, epilogue, place)
    if source is x:
        return
    if tile.rows == 1:
        b.advance(source, pixels * tile.distance)
    else:
        b.do("add_constant", source, i=pixels * tile.distance, into=source)


def _record_run(
    b: Builder, tile: LanesTile, start: Register, weight: Register, strip: Strip, sums: Sequence[Register]
) -> None:
    """Record the products of a row of the windows; the weights move on."""

    def taps(count: int) -> None:
        for tap in b.repeat(count):
            weights = strip.vector("load_weights", weight, kind=LOW)
            b.advance(weight, tile.channels)
            for some in range(0, len(sums), 6):
                values = [
                    b.do("load_byte", start, i=tap + pixel * tile.distance)
                    for pixel in range(some, min(some + 6, len(sums)))
                ]
                for value, total in zip(values, sums[some:], strict=False):
                    strip.vector("add_product", value, weights, total, kind=SUMS[tile.group], into=total)

    if tile.run <= _MOST_TAPS:
        taps(tile.run)
        return
    end = b.place(start, tile.run - tile.run % _TAPS)
    with b.loop(start, end):
        taps(_TAPS)
        b.advance(start, _TAPS)
    if tile.run % _TAPS:
        taps(tile.run % _TAPS)
