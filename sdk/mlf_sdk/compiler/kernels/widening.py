# SPDX-License-Identifier: Apache-2.0
"""Windows of int8 values as pairs of int16, two words for four bytes: those of several pixels side by side."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Final

from mlf_sdk.compiler.kernels.assembly import unrolling
from mlf_sdk.compiler.microkernels.builder import BYTES, OUTPUT_WORDS, WORD, Builder, Register
from mlf_sdk.compiler.microkernels.function import recorded

_UNROLL: Final = 8  # most fours of bytes in a row
_GROUP: Final = 4  # most of them that one store writes


def widen(
    pixels: int,
    distance: int,
    rows: int,
    quads: int,
    *,
    fine: bool,
    short: bool = False,
    odd_first: bool = False,
) -> tuple[str, Mapping[str, str]]:
    """Function ``(input, buffer, row_bytes)`` that widens the windows of a tile; its name and texts.

    Args:
        pixels: of the tile.
        distance: bytes between the windows of neighbouring pixels.
        rows: of each window, ``row_bytes`` of the call apart.
        quads: fours of bytes in a row of a window.
        fine: for words that hold two weights.
        short: the last of them holds one byte only.
        odd_first: pairs (1, 3) stand in front of pairs (0, 2).
    """
    name = f"widen_{pixels}x{rows}x{quads}_{distance}{'_f' * fine}{'_s' * short}{'_o' * odd_first}"
    given = pixels, distance, rows, quads
    return name, recorded(name, "dsp", record, *given, fine=fine, short=short, odd_first=odd_first)


def record(
    pixels: int, distance: int, rows: int, quads: int, *, fine: bool, short: bool, odd_first: bool
) -> Builder:
    """Record `widen`."""
    b = Builder(x=BYTES, b=OUTPUT_WORDS, row_bytes=WORD)
    x, out, row_bytes = b.parameters
    count = unrolling(quads, _UNROLL)
    constants = pair_constants(b, odd=not short or quads > 1) if fine else []
    with b.counted(b.do("immediate", i=rows)) if rows > 1 else nullcontext():
        with b.counted(b.do("immediate", i=quads // count)) if count < quads else nullcontext():
            for quad in b.repeat(count):
                b.note(f"bytes {4 * quad} to {4 * quad + 3} of {pixels} pixels")
                places = [4 * quad + pixel * distance for pixel in range(pixels)]
                values = [b.load_at(x, place) for place in places]
                alone = short and quad == quads - 1
                pairs = pairs_of(b, values, constants, alone=alone)
                b.store_many(out, [r for some in (pairs[::-1] if odd_first else pairs) for r in some])
            if count < quads:
                b.advance(x, 4 * count)
        if rows > 1:
            b.do("add", x, row_bytes, into=x)
            if count < quads:
                b.advance(x, -4 * quads)
    return b


def widen_row(inputs: int, *, fine: bool) -> tuple[str, dict[str, str]]:
    """Statements that widen a row, ``x0``, to ``b0``, and their functions."""
    body, texts = "", dict[str, str]()
    quads, rest = divmod(inputs, 4)
    if quads:
        count = unrolling(quads, _UNROLL)
        name, more = _row(count, fine=fine)
        texts |= more
        body += f"    {name}(x0, b0, {quads // count});\n"
    if rest:
        name, more = _row(1, fine=fine)
        texts |= more
        body = f"    int32_t last = 0;\n    memcpy(&last, x0 + {4 * quads}, {rest});\n{body}"
        body += f"    {name}((const int8_t *)&last, b0 + {2 * quads}, 1);\n"
    return body, texts


def _row(count: int, *, fine: bool) -> tuple[str, Mapping[str, str]]:
    """Function ``(input, buffer, turns)`` of `record_row`; its name and texts."""
    name = f"widen_row_{count}{'_f' * fine}"
    return name, recorded(name, "dsp", record_row, count, fine=fine)


def record_row(count: int, *, fine: bool) -> Builder:
    """Record a function that widens a row of values, ``count`` fours of bytes a turn."""
    b = Builder(x=BYTES, b=OUTPUT_WORDS, n=WORD)
    x, out, n = b.parameters
    constants = pair_constants(b) if fine else []
    group = max(g for g in range(1, _GROUP + 1) if count % g == 0)
    with b.counted(n):
        for _ in b.repeat(count // group):
            values = b.load(x, group, apart=True)
            pairs = [pairs_of(b, [value], constants) for value in values]
            b.store_many(out, [r for even, odd in pairs for r in (*even, *odd)])
    return b


def pair_constants(b: Builder, *, odd: bool = True) -> list[Register]:
    """Mask of even bytes, and addend of odd ones if there are any: for words that hold two weights."""
    addends = [b.do("constant", i=0xFF81FF81)] if odd else []
    return [b.do("immediate", i=0xFF00FF00), *addends]


def pairs_of(
    b: Builder, values: list[Register], constants: list[Register], *, alone: bool = False
) -> list[list[Register]]:
    """Pairs (0, 2) of words of four bytes, which they replace, and pairs (1, 3).

    Args:
        alone: pairs (0, 2) only, of words with one byte that counts.
    """
    if alone and constants:
        return [b.each("and_lsl8", constants[0], values, into=values)]
    if alone:
        return [b.each("sxtb16", values, into=values)]
    if not constants:
        odd = b.each("sxtb16_ror8", values)
        return [b.each("sxtb16", values, into=values), odd]
    odd = b.each("sxtab16_ror8", constants[1], values)
    b.each("and_lsl8", constants[0], values, into=values)
    return [b.each("ssub16", values, odd, into=values), odd]
