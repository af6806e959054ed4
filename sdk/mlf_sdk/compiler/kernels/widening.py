# SPDX-License-Identifier: Apache-2.0
"""Windows of int8 values as pairs of int16, two words for four bytes: those of several pixels side by side.

Weights that 8 bits don't hold: a layer of uint8 weights has a zero point of its own, so that a weight less it takes
nine bits. Few do, on one side. They are cut off, and what was cut off stands behind the weights of its channel, as a
weight of the same input, which the tile's buffer holds once more there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.kernels.assembly import unrolling
from mlf_sdk.compiler.microkernels.builder import BYTES, OUTPUT_WORDS, WORD, Builder, Register
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

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
    with b.times(rows):
        with b.times(quads // count):
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


_MOST: Final = 127
_TAPS: Final = 64  # inputs that may be held twice
_LOOP: Final = 4  # instructions of an inner loop beside its products
_QUAD: Final = 24  # instructions of four weights


@dataclass(frozen=True, slots=True)
class Spill:
    """Inputs of a window that are held a second time, and their weights.

    Attributes:
        taps: places of the inputs in a window, as weights stand in a row.
        weights: shape (channels, 4 * quads), int8.
    """

    taps: Array
    weights: Array

    @property
    def quads(self) -> int:
        """Fours of inputs, the last ones without weights."""
        return self.weights.shape[1] // 4

    def widen(
        self, usual: str, pixels: int, distance: int, used: int, at: int, *, fine: bool
    ) -> tuple[str, str]:
        """Function ``(input, buffer, row_bytes)`` that calls ``usual`` and adds these inputs; its name and text.

        Args:
            usual: function of the same parameters; empty for none.
            distance: bytes between the windows of neighbouring pixels.
            used: bytes of a row of a window.
            at: quads that ``usual`` fills.
        """
        lines = []
        for quad in range(self.quads):
            places = [self._place(4 * quad + i, used) for i in range(4)]
            for half in range(2):
                even, odd = places[2 * half : 2 * half + 2]
                if fine:
                    low = f"{odd} - 127" if odd else "0"
                    even = (f"256 * {even}" if even else "0") + (f" - ({low})" if odd else "")
                    odd = low
                base = 4 * pixels * quad
                lines.append(f"        v[{base + half}] = (int16_t)({even or 0});")
                lines.append(f"        v[{base + half + 2 * pixels}] = (int16_t)({odd or 0});")
        digest = hashlib.sha256("\n".join([usual, str(at), str(distance), *lines]).encode()).hexdigest()[:8]
        text = "\n".join(lines)
        first = f"    {usual}(x, b, row_bytes);\n" if usual else ""
        return (
            f"widen_again_{digest}",
            f"""static void widen_again_{digest}(const int8_t *x, int32_t *b, uint32_t row_bytes)
{{
    int16_t *v = (int16_t *)(b + {2 * pixels * at});
{first}    (void)row_bytes;
    for (int32_t i = 0; i < {pixels}; ++i, x += {distance}, v += 2) {{
{text}
    }}
}}
""",
        )

    def _place(self, number: int, used: int) -> str:
        """Expression of an input; empty for one without weights."""
        if number >= len(self.taps):
            return ""
        row, column = divmod(int(self.taps[number]), used)
        return f"x[{row} * row_bytes + {column}]" if row else f"x[{column}]"


def weights_of(weights: Value, quads: int) -> tuple[Array, Spill | None] | None:
    """Weights of a layer as int8, and what is left of them; None where neither holds them.

    Args:
        weights: shape (channels, ...), int8, or uint8 with one zero point.
        quads: fours of weights of a channel, before what is left.
    """
    if weights.data is None or weights.dtype not in (np.int8, np.uint8):
        return None
    if weights.dtype == np.int8:
        return weights.data, None
    centred = weights.data.astype(np.int16) - weights.zero_point
    cut = np.clip(centred, -_MOST, _MOST)
    rest = (centred - cut).reshape(len(centred), -1)
    taps = np.flatnonzero(rest.any(axis=0))
    # Of -255 there would be 1 left in 8 bits.
    if len(set(weights.quantisation.zero_point if weights.quantisation else ())) > 1 or len(taps) > _TAPS:
        return None
    if np.abs(rest).max(initial=0) > _MOST:
        return None
    if not taps.size:
        return cut.astype(np.int8), None
    need = -(-taps.size // 4)
    best = min(range(need, need + 4), key=lambda n: (quads + n) * (_QUAD + _LOOP / unrolling(quads + n, 36)))
    kept = np.pad(rest[:, taps], ((0, 0), (0, 4 * best - taps.size)))
    return cut.astype(np.int8), Spill(taps, kept.astype(np.int8))
