# SPDX-License-Identifier: Apache-2.0
"""Blocks of a depthwise 3x3 convolution with stride 1: up to three columns by two rows of output of each channel.

The upper pair row is multiplied first, with three words of weights, then the lower one with three others: few
enough registers that the sums of six windows, and what they read, fit. Columns beside the input are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Final

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, finish, function, label
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.scaling import expression, helpers

MAX_COLUMNS: Final = 3


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
        left, right: a column on this side of the input is left out.
    """

    width: int
    channels: int
    left: bool
    right: bool
    rescale: Rescale

    def calls(self, rows: int) -> tuple[str, dict[str, str]]:
        """Statements that compute one row or two from ``first`` and ``second`` to ``y``, and their functions."""
        texts = helpers(self.rescale.form)
        lines: list[str] = []
        at = 0
        for block, count in self._runs():
            name, text = self._function(block, rows)
            texts[name] = text
            place = f"{at if count == 1 else 'ox'}"
            read = f"{max(at - self.left, 0)}" if count == 1 else f"(ox - {int(self.left)})"
            call = f"{name}(first + {read} * {self.channels}, second + {read} * {self.channels}, p0, y + {place} * {self.channels});"
            end = at + count * block.columns
            if count > 1:
                lines.append(f"for (int32_t ox = {at}; ox < {end}; ox += {block.columns}) {{")
                lines += [f"    {call}", "}"]
            else:
                lines.append(call)
            at = end
        return "".join(f"{line}\n" for line in lines), texts

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

    def _function(self, block: Block, rows: int) -> tuple[str, str]:
        """Function ``(upper, lower, stream, output)`` of all channels of a block; its name and text."""
        sides = "l" * block.left + "r" * block.right
        row = self.width * self.channels
        name = f"block_{rows}x{block.columns}{sides}_{self.channels}_{row if rows == 2 else 0}_{label(self.rescale)}"
        width = self.rescale.rows.shape[1]
        sums = [[f"{letter}{i}" for i in range(block.columns)] for letter in "st"[:rows]]
        lines = [f"int32_t {', '.join(f'{a} = w[0]' for names in sums for a in names)};"]
        for column in block.reads:
            at = self.channels * (column - block.left)
            lines.append(f"upper = (const int16_t *)(u + {at});")
            lines.append(f"lower = (const int16_t *)(l + {at});")
            for i in range(block.columns):
                if 0 <= (j := 2 * (column - i)) < 6:
                    lines.append(
                        f"s{i} += upper[0] * k[{j}] + upper[1] * k[{j + 1}] + lower[0] * k[{j + 7}];"
                    )
                    if rows == 2:
                        lines.append(
                            f"t{i} += upper[1] * k[{j}] + lower[0] * k[{j + 6}] + lower[1] * k[{j + 7}];"
                        )
        for number, names in enumerate(sums):
            for i, total in enumerate(names):
                place = number * row + i * self.channels
                lines.append(f"y[{place}] = (int8_t){expression(self.rescale, total, 'w + 7')};")
        text = "".join(f"        {line}\n" for line in lines)
        plain = f"""    for (int32_t c = 0; c < {self.channels}; ++c, ++u, ++l, ++y, w += {7 + width}) {{
        const int16_t *k = (const int16_t *)(w + 1), *upper, *lower;
{text}    }}
"""
        parameters = "const int32_t *u, const int32_t *l, const int32_t *w, int8_t *y"
        return name, function(name, parameters, self._instructions(block, rows), plain)

    def _instructions(self, block: Block, rows: int) -> list[str]:
        """Instructions of `_function`. On the stack: the output, and the end of its first row."""
        sums = [[f"r{3 + i * rows + k}" for k in range(rows)] for i in range(block.columns)]
        free = [*(f"r{i}" for i in range(3 + rows * block.columns, 13)), "lr"]
        weights, values = free[:3], free[3:]
        bias = sums[0][-1]
        begun: set[str] = set()

        def products(pointer: str, upper: str, lower: str) -> list[str]:
            lines = []
            reads = [*block.reads][::-1]
            for start in range(0, len(reads), len(values)):
                some = reads[start : start + len(values)]
                for column, value in zip(some, values, strict=False):
                    offset = 4 * self.channels * (column - block.left)
                    place = f"[{pointer}, #{offset}]" if column > block.reads.start else f"[{pointer}], #4"
                    lines.append(f"ldr {value}, {place}")
                for column, value in zip(some, values, strict=False):
                    for i in range(block.columns - 1, -1, -1):
                        if not 0 <= column - i < 3:
                            continue
                        for a, kind in zip(sums[i], (upper, lower), strict=False):
                            lines.append(
                                f"{kind} {a}, {value}, {weights[column - i]}, {a if a in begun else bias}"
                            )
                            begun.add(a)
            return lines

        lines = ["push {r4-r11, lr}", "sub sp, sp, #8", f"movw lr, #{self.channels}", "add lr, lr, r3"]
        lines += ["strd r3, lr, [sp]", "1:", f"ldmia r2!, {{{', '.join([bias, *weights])}}}"]
        lines += products("r0", "smlad", "smlatb")
        lines.append(f"ldmia r2!, {{{', '.join(weights)}}}")
        lines += products("r1", "smlabt", "smlad")
        words = free[: self.rescale.rows.shape[1]]
        lines.append(f"ldmia r2!, {{{', '.join(words)}}}")
        lines += finish([a for column in sums for a in column], self.rescale, tuple(words), free[3])
        y, end, below = free[:3]
        lines.append(f"ldrd {y}, {end}, [sp]")
        row = self.width * self.channels
        far = row + (block.columns - 1) * self.channels > MAX_OFFSET
        if rows == 2 and far:
            lines += [f"movw {below}, #{row & 0xFFFF}"]
            lines += [f"movt {below}, #{row >> 16}"] if row >> 16 else []
            lines.append(f"add {below}, {below}, {y}")
        for i, column in enumerate(sums):
            if rows == 2:
                at = i * self.channels
                lines.append(f"strb {column[1]}, [{below if far else y}, #{at if far else at + row}]")
            if i:
                lines.append(f"strb {column[0]}, [{y}, #{i * self.channels}]")
        lines += [f"strb {sums[0][0]}, [{y}], #1", f"str {y}, [sp]"]
        return [*lines, f"cmp {y}, {end}", "bne.w 1b", "add sp, sp, #8", "pop {r4-r11, pc}"]
