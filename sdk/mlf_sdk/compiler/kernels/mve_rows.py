# SPDX-License-Identifier: Apache-2.0
"""Convolution for cores with the vector extension (MVE, Helium) on padded rows in a ring, with the same in plain C.

Tiles of two pixels by four channels, as of `mve`, read their windows where they lie: sixteen channels of a pixel
are a vector, which with stride 1 serves both pixels, one after the other; of other numbers of channels, rows of a
window are vectors, the last of which ends with weights of 0. Four channels at a time go along a row of the output,
while their biases, multipliers, addends and shifts stay in vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel, tile_of
from mlf_sdk.compiler.kernels.mve import FAR, group, limit, pointers_of_words, requantise, table_words
from mlf_sdk.compiler.kernels.mve_copies import COPY_BYTES, INCLUDE
from mlf_sdk.compiler.kernels.rows import ring_of_rows
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    EVEN_WORD,
    NARROW_OUTPUT,
    OUTPUT_BYTES,
    ROWS,
    ROWS_OF_WORDS,
    WORD,
    WORDS,
    Builder,
    Register,
)
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

_LANES: Final = 16
_PIXELS: Final = 2
_CHANNELS: Final = 4
_MOST_ROWS: Final = 3  # of a window, whose pointers stay in registers
_MOST_STEPS: Final = 36  # vectors of a window, in code without a loop
_FAR_BYTES: Final = 127  # bytes that a load or store of bytes reaches


class RowTile(msgspec.Struct, frozen=True):
    """Windows of a layer, and its channels.

    Attributes:
        size: rows and columns of a window.
        depth: channels of the input.
        stride: columns between the windows of neighbours.
        channels: of the output.
    """

    size: tuple[int, int]
    depth: int
    stride: int
    channels: int

    @property
    def distance(self) -> int:
        """Bytes between the windows of neighbours."""
        return self.stride * self.depth

    @property
    def is_whole(self) -> bool:
        """True where the channels of a pixel are whole vectors, which lie at addresses of words."""
        return self.depth % _LANES == 0

    def steps(self) -> list[tuple[int, int]]:
        """Row and offset of each vector of a window, in the order in which they are multiplied."""
        (kh, kw), parts = self.size, self.depth // _LANES
        if not self.is_whole:
            return [(row, offset) for row in range(kh) for offset in range(0, kw * self.depth, _LANES)]
        return [
            (row, column * self.depth + _LANES * part)
            for row in range(kh)
            for part in range(parts)
            for column in range(kw)
        ]

    def fits(self) -> bool:
        """Return whether the instructions reach every place of a tile."""
        steps, used = self.steps(), self.size[0] * self.size[1] * self.depth
        if self.channels % _CHANNELS or self.size[0] > _MOST_ROWS or _LANES * len(steps) > 2 * used:
            return False
        far = self.distance + max(offset for _, offset in steps)
        is_near = far <= (FAR if self.is_whole else _FAR_BYTES)
        return is_near and self.channels <= _FAR_BYTES and len(steps) <= _MOST_STEPS

    def packed(self, weights: Array) -> Array:
        """Weights of each channel in the order of the steps, shape (channels, steps, 16); rows end with zeros."""
        rows = weights.reshape(len(weights), self.size[0], -1)
        rows = np.pad(rows, ((0, 0), (0, 0), (0, -rows.shape[2] % _LANES)))
        return np.stack([rows[:, row, offset : offset + _LANES] for row, offset in self.steps()], axis=1)


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D with more than a pixel in a window; None for a layer that this does not fit."""
    window, columns = layer.window, layer.y.shape[2]
    tile = RowTile(window.size, layer.x.shape[3], window.stride[1], layer.channels)
    if not layer.is_int8() or window.dilation != (1, 1) or window.size == (1, 1):
        return None
    if columns % _PIXELS or not tile.fits():
        return None
    rescale = layer.rescale()
    if rescale is None:
        return None
    (kh, kw), count = window.size, layer.channels
    weights = group(tile.packed(layer.rows), _CHANNELS).transpose(0, 2, 1, 3)
    table = group(table_words(layer.starts(rescale), rescale), _CHANNELS).transpose(0, 2, 1)
    low, high = rescale.clamp
    name = (
        f"rows_{kh}x{kw}x{tile.depth}_{tile.distance}_{count}_{rescale.form.value}_{low & 255}_{high & 255}"
    )
    words, pointers = pointers_of_words(kh) if tile.is_whole else ("", "rows")
    place = f"y0 + oy * {columns * count}"
    call = f"{words}        {name}({pointers}, p0, p1, {place}, {count}, {columns // _PIXELS});\n"
    body, ring_bytes, overlaps = ring_of_rows(layer, call, "copy_bytes")
    texts: Mapping[str, str] = {
        "mve": INCLUDE,
        "copy_bytes": COPY_BYTES,
        **recorded(name, "mve", record, tile, Epilogue.of(rescale)),
    }
    constants = (np.ascontiguousarray(weights).reshape(-1), np.ascontiguousarray(table).reshape(-1))
    tail_bytes = 0 if tile.is_whole else _LANES  # that the last vectors reach, whose weights there are zeros
    if tail_bytes:
        body = f"    memset((int8_t *)b0 + {ring_bytes}, 0, {tail_bytes});\n{body}"
    return layer.kernel(
        "conv",
        body,
        texts,
        constants,
        overlaps,
        workspace_bytes=ring_bytes + tail_bytes,
        tile=tile_of(_CHANNELS, _PIXELS),
    )


def record(tile: RowTile, epilogue: Epilogue) -> Builder:
    """Record a row of the output: rows of the windows, weights, table, output, channels, pairs of pixels."""
    b = Builder(
        window=ROWS_OF_WORDS if tile.is_whole else ROWS, w=BYTES, p=WORDS, y=OUTPUT_BYTES, n=WORD, pairs=WORD
    )
    window, w, p, y, n, pairs = b.parameters
    window, w, p, y = (b.do("copy", r, kind=r.kind) for r in (window, w, p, y))  # sums need their registers
    weights_bytes = _CHANNELS * _LANES * len(tile.steps())
    with b.counted(n, _CHANNELS):
        table = [b.vector("load_next_32", p, i=16, moves=True) for _ in range(4)]
        place, left = b.do("copy", y, kind=NARROW_OUTPUT), b.do("copy", pairs)
        rows = [b.load_at(window, 4 * k, kind=WORDS if tile.is_whole else BYTES) for k in range(tile.size[0])]
        with b.counted(left):
            sums = _products(b, tile, rows, w)
            b.note("requantise four channels")
            values = [b.vector("set_lanes_0_2", row[0], row[2]) for row in sums]
            for value, row in zip(values, sums, strict=True):
                b.vector("set_lanes_1_3", row[1], row[3], value, into=value)
            for value in values:
                b.vector("add_32", value, table[0], into=value)
            requantise(b, values, epilogue, iter([[row] for row in table[1:]]))
            for value in values:
                b.vector("narrow_even_32", value, into=value)
            for value in values:
                b.vector("narrow_even_16", value, into=value)
            limit(b, values, epilogue)
            for pixel, value in enumerate(values):
                b.store("store_8_of_32", value, place, i=pixel * tile.channels)
            b.advance(w, -weights_bytes)
            for pointer in rows:
                b.advance(pointer, _PIXELS * tile.distance)
            b.advance(place, _PIXELS * tile.channels)
        b.advance(w, weights_bytes)
        b.advance(y, _CHANNELS)
    return b


def _products(b: Builder, tile: RowTile, rows: list[Register], w: Register) -> list[list[Register]]:
    """Record the products of a tile; the sums of each pixel. One load stands ahead of its use."""
    sums = [[b.register("sum", EVEN_WORD) for _ in range(_CHANNELS)] for _ in range(_PIXELS)]
    steps = tile.steps()
    pixels = [[(row, offset + pixel * tile.distance) for pixel in range(_PIXELS)] for row, offset in steps]
    held: dict[tuple[int, int], Register] = {}
    weights: dict[tuple[int, int], Register] = {}

    def loads() -> list[tuple[str, int, int]]:
        """Loads in the order of their use; a vector of the step before is still held."""
        result, before = list[tuple[str, int, int]](), list[tuple[int, int]]()
        for number, places in enumerate(pixels):
            fresh = [("x", *place) for place in places if place not in before]
            channels = [("w", number, channel) for channel in range(_CHANNELS)]
            result += [*fresh[:1], channels[0], *fresh[1:], *channels[1:]]
            before = places
        return result

    waiting, load = iter(loads()), "load_32" if tile.is_whole else "load_8"

    def take() -> tuple[str, int, int] | None:
        if (key := next(waiting, None)) is not None:
            kind, *numbers = key
            if kind == "x":
                held[key[1:]] = b.vector(load, rows[numbers[0]], i=numbers[1])
            else:
                weights[key[1:]] = b.vector("load_next_8", w, i=16, moves=True)
        return key

    ahead = None
    for number, places in enumerate(pixels):
        for channel in range(_CHANNELS):
            for place, row in zip(places, sums, strict=True):
                while place not in held or (number, channel) not in weights:
                    ahead = take()
                if ahead in (("x", *place), ("w", number, channel)):
                    ahead = None
                name, more = ("dot_8", (row[channel],)) if number else ("dot_first_8", ())
                b.do(name, weights[number, channel], held[place], *more, into=row[channel])
                ahead = ahead or take()
        for place in places:
            if number + 1 == len(pixels) or place not in pixels[number + 1]:
                held.pop(place, None)
    return sums
