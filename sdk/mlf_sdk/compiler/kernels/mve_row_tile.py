# SPDX-License-Identifier: Apache-2.0
"""Tiles of a row of the output for cores with the vector extension (MVE, Helium): places, weights and tables.

Tiles of two pixels by four channels, as of `mve`, read their windows where they lie: sixteen channels of a pixel
are a vector, which with stride 1 serves both pixels, one after the other; of other numbers of channels, rows of a
window are vectors, the last of which ends with weights of 0. Four channels at a time go along a row of the output,
while their biases, multipliers, addends and shifts stay in vectors.

Tiles of four pixels by two channels take fewer loads where neighbours share vectors. Lanes of their sums are pixels,
which a scatter stores.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.kernels.mve import FAR, group
from mlf_sdk.compiler.operators import Array

LANES: Final = 16
QUAD: Final = 4  # pixels of a wide tile
FAR_BYTES: Final = 127  # bytes that a load or store of bytes reaches
_SUMS: Final = 8
_MOST_ROWS: Final = 3  # of a window, whose pointers stay in registers
_MOST_STEPS: Final = 36  # vectors of a window, in code without a loop


class RowTile(msgspec.Struct, frozen=True):
    """Windows of a layer, and its channels.

    Attributes:
        size: rows and columns of a window.
        depth: channels of the input.
        stride: columns between the windows of neighbours.
        channels: of the output.
        is_copied: rows lie in a buffer, at addresses of words.
        pixels: of a tile, 2 or 4.
    """

    size: tuple[int, int]
    depth: int
    stride: int
    channels: int
    is_copied: bool = True
    pixels: int = 2

    @property
    def width(self) -> int:
        """Channels of a tile."""
        return _SUMS // self.pixels

    @property
    def distance(self) -> int:
        """Bytes between the windows of neighbours."""
        return self.stride * self.depth

    @property
    def is_whole(self) -> bool:
        """True where the channels of a pixel are whole vectors."""
        return self.depth % LANES == 0

    @property
    def has_words(self) -> bool:
        """True where vectors lie at addresses of words."""
        return self.is_whole and self.is_copied

    @property
    def has_streams(self) -> bool:
        """True where each of two pixels has a pointer, which its loads move on."""
        return not self.is_copied and self.pixels == 2 and self.stream_step(self._farthest) <= FAR_BYTES

    def stream_step(self, offset: int) -> int:
        """Bytes from a vector of a pixel to the next one, or to that of the next pixel but one."""
        return LANES if offset < self._farthest else 2 * self.distance - offset

    @property
    def _reach(self) -> int:
        """Bytes that a load of a vector reaches."""
        return FAR if self.has_words else FAR_BYTES

    @property
    def _farthest(self) -> int:
        """Offset of the last vector in a row of a window."""
        return max(offset for _, offset in self.steps())

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights of a tile's channels."""
        return self.width * LANES * len(self.steps())

    @property
    def is_near(self) -> bool:
        """True where loads reach all weights of a tile."""
        return self.weights_bytes <= FAR

    def steps(self) -> list[tuple[int, int]]:
        """Row and offset of each vector of a window, in the order in which they are multiplied."""
        (kh, kw), parts = self.size, self.depth // LANES
        if not self.is_whole:
            return [(row, offset) for row in range(kh) for offset in range(0, kw * self.depth, LANES)]
        columns = sorted(range(kw), key=lambda column: (column % self.stride, column))
        return [
            (row, column * self.depth + LANES * part)
            for row in range(kh)
            for part in range(parts)
            for column in columns
        ]

    def places(self) -> list[list[tuple[int, int]]]:
        """Pointer and offset of each pixel's vector, step by step."""
        if self.has_streams:
            return [[(pixel, offset) for pixel in range(self.pixels)] for _, offset in self.steps()]
        return [
            [(row, offset + pixel * self.distance) for pixel in range(self.pixels)]
            for row, offset in self.steps()
        ]

    def loads(self) -> list[tuple[str, int, int]]:
        """Loads of vectors in the order of their use; one of the step before is still held."""
        result, before = list[tuple[str, int, int]](), list[tuple[int, int]]()
        for number, places in enumerate(self.places()):
            fresh = [("x", *place) for place in places if place not in before]
            channels = [("w", number, channel) for channel in range(self.width)]
            result += [*fresh[:1], channels[0], *fresh[1:], *channels[1:]]
            before = places
        return result

    def fits(self) -> bool:
        """Return whether the instructions reach every place of a tile."""
        steps, used = self.steps(), self.size[0] * self.size[1] * self.depth
        if self.channels % self.width or self.size[0] > _MOST_ROWS or LANES * len(steps) > 2 * used:
            return False
        far = self._farthest + (self.pixels - 1) * self.distance
        return len(steps) <= _MOST_STEPS and (self.has_streams or far <= self._reach)

    def packed(self, weights: Array) -> Array:
        """Weights in the order in which tiles load them; rows of a window end with zeros."""
        rows = weights.reshape(len(weights), self.size[0], -1)
        rows = np.pad(rows, ((0, 0), (0, 0), (0, -rows.shape[2] % LANES)))
        vectors = np.stack([rows[:, row, offset : offset + LANES] for row, offset in self.steps()], axis=1)
        ordered = group(vectors, self.width).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(ordered).reshape(-1).view(np.int32)

    def table(self, words: Array) -> Array:
        """Words of the channels of each tile, behind those of two the offsets of a tile's outputs."""
        grouped = group(words, self.width).transpose(0, 2, 1).reshape(len(words) // self.width, -1)
        if self.pixels == QUAD:
            places = np.arange(self.pixels)[:, None] * self.channels + np.arange(self.width)
            offsets = places.astype(np.int16).reshape(1, -1).view(np.int32)
            grouped = np.concatenate([grouped, offsets.repeat(len(grouped), axis=0)], axis=1)
        return np.ascontiguousarray(grouped).reshape(-1).astype(np.int32)
