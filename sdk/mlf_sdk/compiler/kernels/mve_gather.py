# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution with 3x3 windows for cores with the vector extension (MVE, Helium), with the same in plain C.

Four rows of the input are interleaved: the four values of a column and channel are a word. A load that gathers the
words of four columns fetches a patch of 4 x 4 values of a channel. At stride 1 the windows of 2 x 2 outputs lie in
it, at stride 2 that of one; weights of 0 stand beside them. A tile is eight outputs of a channel, in all the
registers that VMLADAV may write, or four at the end of a row; they are stored by a scatter. The last tile of a row,
and the last pair of rows, overlap what is before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel, of_parts, tile_of, window_starts
from mlf_sdk.compiler.kernels.mve import table_words
from mlf_sdk.compiler.kernels.mve_copies import INCLUDE, INTERLEAVE_ROWS
from mlf_sdk.compiler.kernels.mve_results import in_vectors, of_channels
from mlf_sdk.compiler.kernels.rescale import Form
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    EVEN_WORD,
    OUTPUT_BYTES,
    WORD,
    WORDS,
    Builder,
    Register,
)
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

_ROWS: Final = 4  # that are interleaved
_PATCH: Final = 16  # bytes
_TABLE: Final = 16  # bytes of a channel's words
_WHOLE: Final = 16  # place of the offsets of a tile's outputs, bytes, behind those of columns
_HALF: Final = 32  # and of half a tile
_LANES: Final = 16  # of a vector of the input
_FARTHEST: Final = 32767  # byte of the output from the first one of a tile


class Patches(msgspec.Struct, frozen=True):
    """Rows of outputs that are made from four rows of the input.

    Attributes:
        width: outputs of a row.
        channels: of input and output.
        stride: 1 for two rows of outputs, 2 for one.
    """

    width: int
    channels: int
    stride: int

    @property
    def rows(self) -> int:
        """Rows of outputs."""
        return 2 if self.stride == 1 else 1

    @property
    def columns(self) -> int:
        """Columns of the input that the patches of a row reach."""
        return self.stride * (self.width - 1) + (3 if self.stride == 1 else 4)

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights of a channel: a patch for each output that one serves."""
        return _PATCH * (4 if self.stride == 1 else 1)

    def tiles(self) -> list[tuple[int, int]]:
        """First output and outputs in a row of each tile, from left to right."""
        whole = 8 // self.rows
        result = [(at, whole) for at in range(0, self.width - whole + 1, whole)]
        rest = self.width % whole
        if rest > whole // 2 and result:
            return [*result, (self.width - whole, whole)]
        if rest > whole // 2:
            return [(0, whole // 2), (self.width - whole // 2, whole // 2)]
        return [*result, (self.width - whole // 2, whole // 2)] if rest else result

    def fits(self) -> bool:
        """Return whether tiles have the outputs that they need, within reach."""
        return self.width >= 4 and (self.width + 4) * self.channels <= _FARTHEST

    def packed(self, rows: Array) -> Array:
        """Weights of each channel, shape (channels, outputs of a patch, 4 columns, 4 rows)."""
        count = self.rows
        result = np.zeros((len(rows), count, count, 4, _ROWS), np.int8)
        for row in range(count):
            for column in range(count):
                windows = rows.reshape(-1, 3, 3).transpose(0, 2, 1)
                result[:, row, column, column : column + 3, row : row + 3] = windows
        return result

    def offsets(self) -> Array:
        """Bytes from the first column to each of a patch, and from the first output of tiles to the others."""
        pitch, row = self.channels, self.width * self.channels
        columns = np.arange(4) * _ROWS * pitch
        if self.rows == 2:
            whole = [[row * (k % 2) + pitch * (k // 2) for k in range(8)]]
            half = [0, pitch, row, row + pitch]
        else:
            whole = [[pitch * (4 * (k % 2) + k // 2) for k in range(8)]]
            half = [pitch * k for k in range(4)]
        wide = np.array(whole, np.int16).view(np.int32).reshape(-1)
        return np.concatenate([columns, wide, half]).astype(np.int32)


def depthwise(layer: Contraction) -> Kernel | None:
    """DEPTHWISE_CONV_2D of 3x3 windows without multiplier; None for a layer that this does not fit."""
    window, channels = layer.window, layer.channels
    if not layer.is_int8() or layer.multiplier != 1 or (window.size, window.dilation) != ((3, 3), (1, 1)):
        return None
    _, ih, iw, _ = layer.x.shape
    _, oh, ow, _ = layer.y.shape
    stride, (above, left) = window.stride[0], window.before
    patches = Patches(ow, channels, stride)
    inner = min(iw, patches.columns - left)
    if window.stride not in ((1, 1), (2, 2)) or not patches.fits() or oh < patches.rows:
        return None
    rescale = layer.rescale() if inner * channels >= _LANES else None
    if rescale is None:
        return None
    name = f"patches_{ow}x{channels}_{stride}_{label(rescale)}"
    texts = {
        "mve": INCLUDE,
        "interleave_rows": INTERLEAVE_ROWS,
        **recorded(name, "mve", record, patches, Epilogue.of(rescale)),
    }
    columns_bytes = patches.columns * channels * _ROWS
    body = f"""    int8_t *columns = (int8_t *)b0;
    const int8_t *beyond = columns + {columns_bytes};
    memset(b0, {layer.x.zero_point}, {columns_bytes + inner * channels});
    for (int32_t t = 0; t < {oh}; t += {patches.rows}) {{
        const int32_t oy = t < {oh - patches.rows} ? t : {oh - patches.rows};
        interleave_rows(x0, oy * {stride} - {above}, {ih}, {iw * channels}, beyond, columns + {left * channels * _ROWS}, {inner * channels});
        {name}(b0, p0, p1, p2, y0 + oy * {ow * channels}, {channels});
    }}
"""
    constants = (
        np.ascontiguousarray(patches.packed(layer.rows)).reshape(-1),
        np.ascontiguousarray(table_words(layer.starts(rescale), rescale)).reshape(-1),
        patches.offsets(),
    )
    starts = np.minimum(np.arange(0, oh, patches.rows), oh - patches.rows)
    read_from = window_starts(starts, stride, above, ih)
    written = np.append(0, starts[:-1] + patches.rows)
    return layer.kernel(
        "depthwise",
        body,
        texts,
        constants,
        of_parts(layer.x, layer.y, read_from * (iw * channels), written * (ow * channels)),
        workspace_bytes=columns_bytes + inner * channels,
        tile=tile_of(1, 8 // patches.rows, patches.rows),
    )


def record(patches: Patches, epilogue: Epilogue) -> Builder:
    """Record the rows of outputs: interleaved rows, weights, table, offsets, output, channels."""
    b = Builder(x=WORDS, w=BYTES, p=WORDS, o=WORDS, y=OUTPUT_BYTES, n=WORD)
    x, w, p, o, y, n = b.parameters
    x, w, p, o = (b.do("copy", r, kind=r.kind) for r in (x, w, p, o))  # sums need their registers
    columns = b.vector("load_32", o, i=0)
    tiles, whole, channels = patches.tiles(), 8 // patches.rows, patches.channels
    keeps = epilogue.form is not Form.DOUBLE and any(count == whole for _, count in tiles)
    kept = b.vector("load_32", o, i=_WHOLE) if keeps else None
    looped = sum(tile == (whole * k, whole) for k, tile in enumerate(tiles))
    looped = looped if looped > 2 else 0
    with b.counted(n):
        weights = [
            b.vector("load_next_8", w, i=_PATCH, moves=True) for _ in range(patches.weights_bytes // _PATCH)
        ]
        row = _Row(b, patches, epilogue, weights, columns, kept, x=x, y=y, p=p, o=o)
        if looped:
            left = b.do("immediate", i=looped)
            with b.counted(left):
                row.tile(0, whole)
                row.move(whole)
                row.table(0)
            row.column, row.output = whole * looped * patches.stride, whole * looped
        words: Sequence[Register] = ()
        for first, count in tiles[looped:]:
            words = row.tile(first, count, words if count < whole else ())
        row.table(_TABLE)
        b.advance(x, _ROWS - row.column * channels * _ROWS)
        b.advance(y, 1 - row.output * channels)
    return b


@dataclass(slots=True)
class _Row:
    """Tiles of a channel, and where their pointers are.

    Attributes:
        weights, columns: vectors of weights, and of the offsets of a patch.
        kept: offsets of a tile's outputs, where a vector is left for them.
        x, y, p, o: pointers to columns, outputs, the channel's words and offsets.
        column, output, read: columns, outputs, and bytes of the words, that pointers have moved on.
    """

    b: Builder
    patches: Patches
    epilogue: Epilogue
    weights: Sequence[Register]
    columns: Register
    kept: Register | None
    x: Register
    y: Register
    p: Register
    o: Register
    column: int = 0
    output: int = 0
    read: int = 0

    def move(self, output: int) -> None:
        """Move the pointers to the tile that begins with an output."""
        self._to_column(output * self.patches.stride)
        if output != self.output:
            self.b.advance(self.y, (output - self.output) * self.patches.channels)
        self.output = output

    def table(self, place: int) -> None:
        """Move the pointer to the channel's words."""
        if place != self.read:
            self.b.advance(self.p, place - self.read)
        self.read = place

    def _to_column(self, column: int) -> None:
        if column != self.column:
            self.b.advance(self.x, (column - self.column) * self.patches.channels * _ROWS)
        self.column = column

    def tile(self, first: int, count: int, words: Sequence[Register] = ()) -> Sequence[Register]:
        """Record a tile of ``count`` outputs in a row; the channel's words, which may be loaded already."""
        b, rows = self.b, self.patches.rows  # a patch serves as many columns of outputs as rows
        self.move(first)
        sums = [[b.register("sum", EVEN_WORD) for _ in range(count)] for _ in range(rows)]
        for at in range(0, count, rows):
            self._to_column((first + at) * self.patches.stride)
            patch = b.vector("gather_32", self.x, self.columns)
            for number, weight in enumerate(self.weights):
                total = sums[number // rows][at + number % rows]
                b.do("dot_first_8", weight, patch, into=total)
        b.note(f"requantise {rows * count} outputs of a channel")
        return self._store([total for row in sums for total in row], words)

    def _store(self, sums: Sequence[Register], words: Sequence[Register]) -> Sequence[Register]:
        """Record the requantisation of eight sums or four, and their scatter; the channel's words."""
        b, is_whole = self.b, len(sums) == 8
        values = in_vectors(b, [sums[k : k + 4] for k in range(0, len(sums), 4)])
        if not words:
            self.table(0)
            words = b.load(self.p, 4)
            self.read += _TABLE
        stored = of_channels(b, values, iter([[word] for word in words]), self.epilogue)
        if is_whole:
            b.store("scatter_8_of_16", stored, self.y, self.kept or b.vector("load_32", self.o, i=_WHOLE))
        else:
            b.store("scatter_8_of_32", stored, self.y, b.vector("load_32", self.o, i=_HALF))
        return words
