# SPDX-License-Identifier: Apache-2.0
"""Input of Winograd's convolution: squares of 4x4 pixels, two channels in a word, as sums of four bytes.

A row of four products of a square comes from two rows of its pixels: with their difference or sum in each column,
v0 to v3, the products are v1 + v2, v2 - v1, v0 - v2 and v1 - v3. Neighbouring squares share two columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET
from mlf_sdk.compiler.microkernels.builder import BYTES, OUTPUT_WORDS, Builder, Register
from mlf_sdk.compiler.microkernels.function import recorded

_DIFFERENCE, _SUM = "ssub16", "sadd16"


def reaches(squares: int, ic: int) -> bool:
    """True where loads and stores of a tile have offsets that instructions can state."""
    return (2 * squares + 1) * ic <= MAX_OFFSET and 4 * squares * (ic // 2 + 2) <= MAX_OFFSET


def transform(squares: int, ic: int) -> tuple[str, Mapping[str, str]]:
    """Function ``(input, buffer, row_bytes)`` that transforms the squares of a tile; its name and texts.

    The buffer has a row for each product of a square, in the order of the weights: pairs of two channels,
    those of all squares beside each other.
    """
    name = f"squares_{squares}x{ic}"
    row = ic // 2 * squares
    sums, differences = (f"{kind}_of_rows_{squares}x{ic}" for kind in ("sums", "differences"))
    texts: dict[str, str] = {}
    for operation, function in ((_SUM, sums), (_DIFFERENCE, differences)):
        texts |= recorded(function, "dsp", record, operation, squares, ic)
    text = f"""static void {name}(const int8_t *x, int32_t *b, int32_t row_bytes)
{{
    const int8_t *second = x + row_bytes, *third = second + row_bytes;
    {differences}(x, third, b);
    {sums}(second, third, b + {4 * row});
    {differences}(third, second, b + {8 * row});
    {differences}(second, third + row_bytes, b + {12 * row});
}}
"""
    return name, texts | {name: text}


def record(operation: str, squares: int, ic: int) -> Builder:
    """Record a row of products of all squares: two rows of pixels, and the buffer."""
    b = Builder(u=BYTES, l=BYTES, b=OUTPUT_WORDS)
    u, lower, out = b.parameters
    row_bytes = 2 * ic * squares
    lower_pair = b.place(out, 2 * row_bytes)  # of the products 2 and 3
    end = b.place(u, ic)

    def column(number: int) -> list[Register]:
        """Pairs (0, 2) and (1, 3) of four channels of both rows."""
        above, below = (b.load_at(row, number * ic) for row in (u, lower))
        odd = b.do(operation, b.do("sxtb16_ror8", above), b.do("sxtb16_ror8", below))
        return [b.do(operation, b.do("sxtb16", above), b.do("sxtb16", below)), odd]

    with b.loop(u, end):
        columns = [column(number) for number in range(2)]
        for square in range(squares):
            b.note(f"square {square}")
            columns = [*columns[-2:], *(column(2 * square + number) for number in (2, 3))]
            for half, (first, second, third, fourth) in enumerate(zip(*columns, strict=True)):
                place = 4 * (square + half * squares)
                for pointer, offset, name, one, other in (
                    (out, 0, _SUM, second, third),
                    (out, row_bytes, _DIFFERENCE, third, second),
                    (lower_pair, 0, _DIFFERENCE, first, third),
                    (lower_pair, row_bytes, _DIFFERENCE, second, fourth),
                ):
                    b.store("store_at", b.do(name, one, other), pointer, i=offset + place)
        for pointer in (out, lower_pair):
            b.advance(pointer, 8 * squares)
        b.advance(u, 4)
        b.advance(lower, 4)
    return b
