# SPDX-License-Identifier: Apache-2.0
"""Depthwise 3x3 convolution in little scratch: a block of channels and of columns at a time, from rows anywhere.

A block's pair rows (see `depthwise`) take 8 bytes for each of its columns and channels instead of those of whole
rows. Two columns of pairs stay for the next block of columns, so that none is made twice in a row of output.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import Final

import msgspec

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.depthwise import columns_function, rescale_of, stream_of
from mlf_sdk.compiler.kernels.depthwise_3x3 import Rows
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, Role, Tile
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.microkernels.builder import BYTES, OUTPUT_WORDS, WORD, Builder
from mlf_sdk.compiler.microkernels.function import recorded

_MAX_CHANNELS: Final = 32  # of a block: its pairs are made by instructions without a loop
_CALL: Final = 30  # instructions of a call of a function, about


class Block(msgspec.Struct, frozen=True):
    """Size of a block, and the columns of pairs that it takes.

    Attributes:
        width: columns of output.
    """

    channels: int
    width: int
    columns: int

    @property
    def bytes(self) -> int:
        """Bytes of its two pair rows."""
        return 8 * self.channels * self.columns

    @property
    def calls(self) -> float:
        """Instructions that calls take, for each value of a row of output."""
        return _CALL * (3 + -(-self.width // 3)) / (self.channels * self.width)


def row_kernel(layer: Contraction, lines: int, most_bytes: int) -> Kernel | None:
    """Kernel of one row of output, or of two at stride 1, from pointers to the rows of their windows.

    Its inputs are all rows of input 0; a row outside of the input is NULL. The output may lie over the first rows.

    Args:
        layer: the whole one.
        most_bytes: of scratch, where that is enough for the smallest block.
    """
    window, stride = layer.window, layer.window.stride[0]
    before, right = window.before[1], _right(layer)
    rescale = rescale_of(layer)
    if rescale is None or not 0 <= before <= 1 or right > 1 or lines > (2 if stride == 1 else 1):
        return None
    block = _block(layer, most_bytes)
    writer = _Writer(layer, rescale, block, lines)
    rows = [Parameter(Role.INPUT, k, "int8_t") for k in range(lines + 2)]
    others = (
        Parameter(Role.CONSTANT, 0, "int32_t"),
        Parameter(Role.OUTPUT, 0, "int8_t"),
        Parameter(Role.WORKSPACE, 0, "int32_t"),
    )
    ow, iw = layer.y.shape[2], layer.x.shape[2]
    return Kernel(
        family="depthwise_3x3_blocks",
        parameters=(*rows, *others),
        body=writer.body(),
        helpers=writer.texts,
        constants=(stream_of(layer, rescale),),
        workspace_bytes=block.bytes,
        overlaps={0: 0} if lines == 1 or ow in {iw, block.width} else {},
        tile=Tile(
            channels=1,
            pixels=lines * block.width,
            text=f"{lines} x {block.width} pixels of {block.channels} channels",
        ),
    )


def _right(layer: Contraction) -> int:
    """Columns beside the input on its right that windows reach; less than 0 for columns that none reaches."""
    ow, iw = layer.y.shape[2], layer.x.shape[2]
    return (ow - 1) * layer.window.stride[1] + 3 - layer.window.before[1] - iw


def _block(layer: Contraction, most_bytes: int) -> Block:
    """The block of the fewest calls within some bytes, or the smallest one."""
    ow, stride = layer.y.shape[2], layer.window.stride[1]
    whole = [k for k in range(4, min(layer.channels, _MAX_CHANNELS) + 1, 4) if layer.channels % k == 0]
    step = 3 if stride == 1 else 2
    widths = sorted({ow, *range(step, ow, step)})
    blocks = [Block(k, width, _columns(layer, width)) for k in whole for width in widths]
    small = [one for one in blocks if one.bytes <= most_bytes]
    return min(small, key=lambda one: (one.calls, one.bytes)) if small else min(blocks, key=lambda b: b.bytes)


def _columns(layer: Contraction, width: int) -> int:
    """Most columns of pairs that a block of a width has; those beside the input are left out at stride 1."""
    ow, stride = layer.y.shape[2], layer.window.stride[1]
    left, right = (layer.window.before[1], max(_right(layer), 0)) if stride == 1 else (0, 0)
    return max(
        (min(width, ow - at) - 1) * stride + 3 - left * (at == 0) - right * (at + width >= ow)
        for at in range(0, ow, width)
    )


class _Writer:
    """C text of a row kernel, and the functions that it calls."""

    def __init__(self, layer: Contraction, rescale: Rescale, block: Block, lines: int) -> None:
        self.layer, self.rescale, self.block, self.lines = layer, rescale, block, lines
        self.stride = layer.window.stride[1]
        self.width, self.pitch = layer.y.shape[2], layer.channels
        self.texts: dict[str, str] = {}

    def body(self) -> str:
        """Body of the kernel: blocks of channels, and within them those of columns."""
        k, words = self.block.channels, self.rescale.rows.shape[1] + 7
        second = self._pairs("second", f"x2, {'x3' if self.lines == 2 else '0'}", alone=self.lines == 1)
        pairs = self._pairs("first", "x0, x1", alone=False) + second
        text = "".join(f"        {line}\n" for line in self._lines(pairs))
        return f"""    int32_t *first = b0;
    int32_t *second = b0 + {self.block.columns * k};
    for (int32_t c = 0; c < {self.pitch}; c += {k}, p0 += {k * words}) {{
{text}    }}
"""

    def _lines(self, pairs: list[str]) -> list[str]:
        """Statements of a block of channels."""
        starts = range(0, self.width, self.block.width)
        widths = [min(self.block.width, self.width - start) for start in starts]
        kinds = [
            (width, start == 0, start + width == self.width)
            for start, width in zip(starts, widths, strict=True)
        ]
        result, at = [], 0
        for (width, first, last), same in groupby(kinds):
            count = len(list(same))
            lines = self._tile(pairs, width, first=first, last=last)
            place = str(at) if count == 1 else "tile"
            end = at + count * width
            head = "{" if count == 1 else f"for (int32_t tile = {at}; tile < {end}; tile += {width}) {{"
            result += [head, f"    int8_t *y = y0 + c + {place} * {self.pitch};"]
            result += [f"    {line.replace('@', place)}" for line in lines] + ["}"]
            at = end
        return result

    def _tile(self, pairs: list[str], width: int, *, first: bool, last: bool) -> list[str]:
        """Statements of a block of columns; ``@`` is the first one."""
        k, before, right = self.block.channels, self.layer.window.before[1], max(_right(self.layer), 0)
        kept = 0 if first else 3 - self.stride  # columns of pairs that are there
        reads = (width - 1) * self.stride + 3 - kept - (before if first else 0) - (right if last else 0)
        zeros = self.stride == 2  # columns beside the input are read there
        lines = []
        if kept:
            from_ = (self.block.width - 1) * self.stride + 3 - kept
            moved = f"{from_} * {k}" if not self._left_out else f"({from_} - (@ == {self.block.width})) * {k}"
            lines += [self._move(row, f"{row} + {moved}", kept * k) for row in ("first", "second")]
        at = kept + (before if zeros and first else 0)
        if zeros and first and before:
            lines += [f"memset({row}, 0, {4 * k});" for row in ("first", "second")]
        column = "0" if first else f"@ * {self.stride} + {kept - before}"
        values = {"at": f" + {at * k}" if at else "", "from": f"c + ({column}) * {self.pitch}", "n": reads}
        lines += [line.format(**values) for line in pairs if reads]
        if zeros and last and right:
            lines += [f"memset({row} + {(at + reads) * k}, 0, {4 * k});" for row in ("first", "second")]
        return lines + self._sums(width, left=first and before == 1, right=last and right == 1)

    def _move(self, to: str, from_: str, words: int) -> str:
        """Statement that copies words; a call of memcpy would take more instructions than they."""
        name = f"copy_{words}_words"
        size = math.gcd(words, 16)
        moves = "".join(f"    to[{at}] = from[{at}];\n" for at in range(words // size))
        kind = f"typedef struct {{ int32_t at[{size}]; }} MLF_MAY_ALIAS words_t;"
        cast = "    words_t *to = (words_t *)(void *)y;\n    const words_t *from = (const words_t *)(const void *)x;\n"
        self.texts[name] = (
            f"static MLF_INLINE void {name}(int32_t *y, const int32_t *x)\n{{\n    {kind}\n{cast}{moves}}}\n"
        )
        return f"{name}({to}, {from_});"

    @property
    def _left_out(self) -> bool:
        """True where the first block has no column of pairs beside the input."""
        return self.stride == 1 and self.layer.window.before[1] == 1

    def _sums(self, width: int, *, left: bool, right: bool) -> list[str]:
        """Statements that multiply the pairs of a block of columns."""
        k = self.block.channels
        if self.stride == 1:
            rows = Rows(
                width=width, channels=k, left=left, right=right, rescale=self.rescale,
                pitch=self.pitch, row_bytes=self.width * self.pitch,
            )  # fmt: skip
            text, more = rows.calls(self.lines)
            self.texts |= more
            return text.splitlines()
        result, at = [], 0
        far = 5 * 4 * k <= MAX_OFFSET
        for count in (2, 1) if far else (1,):
            name, texts = columns_function(count, k, self.rescale, self.pitch)
            end = at + (width - at) // count * count
            if end == at:
                continue
            self.texts |= texts
            result.append(f"for (int32_t x = {at}; x < {end}; x += {count}) {{")
            call = f"{name}(first + x * {2 * k}, second + x * {2 * k}, p0, y + x * {self.pitch});"
            result += [f"    {call}", "}"]
            at = end
        return result

    def _pairs(self, row: str, inputs: str, *, alone: bool) -> list[str]:
        """Statement that makes a pair row; with ``{at}``, ``{from}``, ``{n}``."""
        k, zero = self.block.channels, self.layer.x.zero_point
        name = f"pair_columns_{zero & 255}_{k}_{self.pitch}{'_alone' * alone}"
        kinds = ("upper_alone",) if alone else ("both", "upper", "lower")
        calls = {}
        for kind in kinds:
            function = f"pair_columns_{zero & 255}_{k}_{self.pitch}_{kind}"
            self.texts |= recorded(function, "dsp", record_pairs, zero, k, self.pitch, kind)
            given = {"both": "u + from, l + from", "lower": "l + from"}.get(kind, "u + from")
            calls[kind] = f"{function}({given}, pairs, n);"
        text = f"static void {name}(const int8_t *u, const int8_t *l, int32_t from, int32_t *pairs, uint32_t n)\n{{\n"
        if alone:
            text += f"    (void)l;\n    if (u != 0) {{\n        {calls['upper_alone']}\n    }} else {{\n"
        else:
            text += f"    if (u != 0 && l != 0) {{\n        {calls['both']}\n    }} else if (u != 0) {{\n        {calls['upper']}\n"
            text += f"    }} else if (l != 0) {{\n        {calls['lower']}\n    }} else {{\n"
        self.texts[name] = f"{text}        memset(pairs, 0, n * {4 * k});\n    }}\n}}\n"
        return [f"{name}({inputs}, {{from}}, {row}{{at}}, {{n}});"]


def record_pairs(zero_point: int, channels: int, pitch: int, kind: str) -> Builder:
    """Record the function that makes columns of pairs of two rows, or of one and of zeros.

    Args:
        channels: of a column.
        pitch: bytes from a column to the next.
        kind: rows that there are: ``both``, ``upper``, ``lower``; ``upper_alone``: the lower halves do not matter.
    """
    names = {"both": ("u", "l"), "lower": ("l",)}.get(kind, ("u",))
    b = Builder(**dict.fromkeys(names, BYTES), b=OUTPUT_WORDS, n=WORD)
    *rows, out, n = b.parameters
    offset = b.do("constant", i=(-zero_point & 0xFFFF) * 0x10001)
    zero = b.do("immediate", i=0) if kind in ("upper", "lower") else offset
    with b.counted(n):
        for quad in b.repeat(channels // 4):
            words = [b.load_at(row, 4 * quad) for row in rows]
            halves = [[b.do(name, offset, word) for name in ("sxtab16", "sxtab16_ror8")] for word in words]
            upper = halves[0] if kind != "lower" else [zero, zero]
            lower = {"both": halves[-1], "lower": halves[-1], "upper": [zero, zero]}.get(kind, halves[0])
            if kind == "upper_alone":
                first = halves[0]
            else:
                first = [b.do("pkhbt_lsl16", u, v) for u, v in zip(upper, lower, strict=True)]
            last = [b.do("pkhtb_asr16", v, u) for u, v in zip(upper, lower, strict=True)]
            b.store_many(out, [*first, *last])
        for row in rows:
            b.advance(row, pitch)
    return b
