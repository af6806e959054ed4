# SPDX-License-Identifier: Apache-2.0
"""Blocks of a depthwise 3x3 convolution with stride 1: up to three columns by two rows of output of each channel.

The upper pair row is multiplied first, with three words of weights, then the lower one with three others: few
enough registers that the sums of six windows, and what they read, fit. Columns beside the input are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, label
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.microkernels.builder import OUTPUT_BYTES, WORDS, Builder, Register
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded

MAX_COLUMNS: Final = 3
_FREE: Final = 8  # registers beside pointers and weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Windows side by side.

    Attributes:
        columns: of output.
        left, right: the first column, or the last one, that the windows reach lies beside the input.
    """

    columns: int
    left: bool
    right: bool

    @property
    def reads(self) -> range:
        """Columns of pairs that are read; the first column of the first window is 0."""
        return range(int(self.left), self.columns + (1 if self.right else 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of output of a layer, which blocks are parts of.

    Attributes:
        width: columns.
        channels: of the columns of pairs.
        left, right: a column on this side of the input is left out.
        pitch, row_bytes: from a column of output to the next one, and from a row; 0: those of channels and width.
    """

    width: int
    channels: int
    left: bool
    right: bool
    rescale: Rescale
    pitch: int = 0
    row_bytes: int = 0

    def calls(self, rows: int) -> tuple[str, dict[str, str]]:
        """Statements that compute one row or two from ``first`` and ``second`` to ``y``, and their functions."""
        texts: dict[str, str] = {}
        lines: list[str] = []
        at = 0
        for block, count in self._runs():
            name, more = self._function(block, rows)
            texts |= more
            place = f"{at if count == 1 else 'ox'}"
            read = f"{max(at - self.left, 0)}" if count == 1 else f"(ox - {int(self.left)})"
            call = f"{name}(first + {read} * {self.channels}, second + {read} * {self.channels}, p0, y + {place} * {self.pitch or self.channels});"
            end = at + count * block.columns
            if count > 1:
                lines.append(f"for (int32_t ox = {at}; ox < {end}; ox += {block.columns}) {{")
                lines += [f"    {call}", "}"]
            else:
                lines.append(call)
            at = end
        return "".join(f"{line}\n" for line in lines), texts

    @property
    def widest(self) -> int:
        """Most columns of a block."""
        return max(block.columns for block, _ in self._runs())

    def _runs(self) -> list[tuple[Block, int]]:
        """Blocks from the left to the right; those that are the same are counted."""
        most = min(MAX_COLUMNS, MAX_OFFSET // (4 * self.channels) - 1)
        if most < MAX_COLUMNS:
            sizes = [most] * (self.width // most) + [1] * (self.width % most)
        else:
            twos = {0: 0, 1: min(2, self.width // 2), 2: 1}[self.width % 3]
            sizes = [3] * ((self.width - 2 * twos) // 3) + [2] * twos + [1] * (self.width == 1)
        last = len(sizes) - 1
        blocks = [
            Block(columns=size, left=self.left and i == 0, right=self.right and i == last)
            for i, size in enumerate(sizes)
        ]
        return [(block, len(list(same))) for block, same in groupby(blocks)]

    def _function(self, block: Block, rows: int) -> tuple[str, Mapping[str, str]]:
        """Function ``(upper, lower, stream, output)`` of all channels of a block; its name and texts."""
        sides = "l" * block.left + "r" * block.right
        row = self.row_bytes or self.width * self.channels
        pitch = self.pitch or self.channels
        part = f"_of_{pitch}" if pitch != self.channels else ""
        name = f"depthwise_3x3_{rows}x{block.columns}{sides}_{self.channels}{part}_{row if rows == 2 else 0}_{label(self.rescale)}"
        given = block, rows, self.channels, pitch, row, Epilogue.of(self.rescale)
        return name, recorded(name, "dsp", record, *given)


def record(block: Block, rows: int, channels: int, pitch: int, row_bytes: int, epilogue: Epilogue) -> Builder:
    """Record a function ``(upper, lower, stream, output)`` for all channels of a block.

    Args:
        rows: of output, one or two.
        pitch: from a column of output to the next.
        row_bytes: from a row of output to the next.
    """
    b = Builder(u=WORDS, l=WORDS, w=WORDS, y=OUTPUT_BYTES)
    u, lower, w, y = b.parameters
    end = b.place(y, channels)
    ahead = _FREE - rows * block.columns  # columns that are loaded at once

    def products(pointer: Register, weights: list[Register], *kinds: str) -> None:
        reads = [*block.reads][::-1]
        for some in (reads[k : k + ahead] for k in range(0, len(reads), ahead)):
            values = [
                b.load_at(pointer, 4 * channels * (column - block.left))
                if column > block.reads.start
                else b.load(pointer)[0]
                for column in some
            ]
            for column, value in zip(some, values, strict=True):
                for i in range(block.columns - 1, -1, -1):
                    if 0 <= column - i < 3:
                        for total, kind in zip(sums[i], kinds, strict=False):
                            b.do(kind, value, weights[column - i], total, into=total)

    with b.loop(y, end):
        bias, *weights = b.load(w, 4)
        sums = [b.sums(bias, rows) for _ in range(block.columns)]
        b.note("upper pair of rows")
        products(u, weights, "smlad", "smlatb")
        b.note("lower pair of rows")
        products(lower, b.load(w, 3), "smlabt", "smlad")
        b.note(f"requantise {rows} x {block.columns} pixels")
        flat = epilogue.record(b, [a for column in sums for a in column], b.load(w, epilogue.words))
        far = row_bytes + (block.columns - 1) * pitch > MAX_OFFSET
        below = b.place(y, row_bytes) if far and rows == 2 else y
        for k, value in enumerate(flat):
            column, row = divmod(k, rows)
            at = column * pitch + (row_bytes if row and not far else 0)
            b.store_byte(below if row else y, value, at)
        b.advance(y, 1)
    return b
