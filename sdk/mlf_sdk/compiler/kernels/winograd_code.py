# SPDX-License-Identifier: Apache-2.0
"""Microkernels of Winograd's convolution with 3x3 windows for cores with some 28 registers and no SIMD.

F(2x2) takes 16 products for four outputs, F(4x4) 36 for sixteen, where windows take 36 and 144. All is exact: the
transform of the input has whole coefficients, that of the weights is taken times a `Squares.factor`, and sums are
modulo 2^32, in which the odd part of the factor has an inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.kernels.conv_4x4 import add_products
from mlf_sdk.compiler.kernels.rescale import FINE_BITS
from mlf_sdk.compiler.microkernels import epilogue32
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    HALVES,
    OUTPUT_BYTES,
    OUTPUT_HALVES,
    OUTPUT_WORDS,
    WORD,
    WORDS,
    Builder,
    Register,
)
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.operators import Array

TAPS: Final = 4  # of a turn of the loop over channels of the input
_HALF: Final = 2  # bytes
_WORD: Final = 4
_BITS: Final = 32

Transform = Callable[[Builder, Sequence[Register]], list[Register]]
"""Records the transform of a row or a column."""


def _input_of_2(b: Builder, d: Sequence[Register]) -> list[Register]:
    d0, d1, d2, d3 = d
    return [b.do("subtract", d0, d2), b.do("add", d1, d2), b.do("subtract", d2, d1), b.do("subtract", d1, d3)]


def _output_of_2(b: Builder, m: Sequence[Register]) -> list[Register]:
    m0, m1, m2, m3 = m
    upper, lower = b.do("add", m1, m2), b.do("subtract", m1, m2)
    return [b.do("add", m0, upper), b.do("subtract", lower, m3)]


def _input_of_4(b: Builder, d: Sequence[Register]) -> list[Register]:
    """Points 0, 1, -1, 2, -2 and infinity."""
    d0, d1, d2, d3, d4, d5 = d
    even = b.do("subtract", d4, b.do("shift_left", d2, i=2))
    odd = b.do("subtract", d3, b.do("shift_left", d1, i=2))
    outer = b.do("subtract", d4, d2)
    inner = b.do("shift_left", b.do("subtract", d3, d1), i=1)
    first = b.do("add", b.do("shift_left", b.do("subtract", d0, d2), i=2), outer)
    last = b.do("subtract", b.do("subtract", d5, d3), b.do("shift_left", inner, i=1))
    return [
        first,
        b.do("add", even, odd),
        b.do("subtract", even, odd),
        b.do("add", outer, inner),
        b.do("subtract", outer, inner),
        last,
    ]


def _output_of_4(b: Builder, m: Sequence[Register]) -> list[Register]:
    m0, m1, m2, m3, m4, m5 = m
    near, near_odd = b.do("add", m1, m2), b.do("subtract", m1, m2)
    far, far_odd = b.do("add", m3, m4), b.do("subtract", m3, m4)
    last = b.do("add", b.do("shift_left", far_odd, i=2), m5)
    return [
        b.do("add", b.do("add", m0, near), far),
        b.do("add", near_odd, b.do("shift_left", far_odd, i=1)),
        b.do("add", near, b.do("shift_left", far, i=2)),
        b.do("add", near_odd, b.do("shift_left", last, i=1)),
    ]


class Squares(msgspec.Struct, frozen=True):
    """Transforms for squares of outputs.

    Attributes:
        outputs: rows, and columns, of a square of outputs.
        weights: matrix of the transform of a window's rows, and of its columns.
        factor: of sums, that both transforms of the weights bring.
    """

    outputs: int
    weights: tuple[tuple[int, ...], ...]
    factor: int
    input: Transform
    output: Transform

    @property
    def side(self) -> int:
        """Rows, and columns, of a square of the input."""
        return self.outputs + 2

    @property
    def places(self) -> int:
        """Products of a square, of a channel of the input."""
        return self.side**2

    @property
    def bits(self) -> int:
        """Power of two in the factor."""
        return (self.factor & -self.factor).bit_length() - 1

    @property
    def inverse(self) -> int:
        """Number that makes the factor its power of two, modulo 2^32."""
        return pow(self.factor >> self.bits, -1, 1 << _BITS)

    def transformed(self, weights: Array) -> Array:
        """Weights of shape (channels, 3, 3, depth) as numbers of 16 bits, shape (channels, places, depth)."""
        matrix = np.array(self.weights, np.int64)
        u = np.einsum("ia,oabc,jb->oijc", matrix, weights.astype(np.int64), matrix)
        return u.reshape(len(u), self.places, -1).astype(np.int16)


_OF_2: Final = Squares(2, ((2, 0, 0), (1, 1, 1), (1, -1, 1), (0, 0, 2)), 4, _input_of_2, _output_of_2)
# Half of the last row, which 16 bits would not hold: the output takes it twice.
_OF_4: Final = Squares(
    4,
    ((6, 0, 0), (-4, -4, -4), (-4, 4, -4), (1, 2, 4), (1, -2, 4), (0, 0, 12)),
    576,
    _input_of_4,
    _output_of_4,
)
SQUARES: Final = {squares.outputs: squares for squares in (_OF_2, _OF_4)}


def record_input(outputs: int, tiles: int, ic: int) -> Builder:
    """Record the transform of a square of ``ic`` channels: bytes to halves, behind each other those of a channel.

    Of a channel each place has those of all tiles. ``row``: bytes from a row of the input to the next.
    """
    squares = SQUARES[outputs]
    side = range(squares.side)
    b = Builder(x=BYTES, v=OUTPUT_HALVES, row=WORD)
    x, v, row = b.parameters
    end = b.place(x, ic)
    rows = [x]
    for _ in side[1:]:
        rows.append(b.place(rows[-1], row))
    with b.loop(x, end):
        columns = [squares.input(b, [b.do("load_byte", one, i=k * ic) for one in rows]) for k in side]
        for number in side:
            for k, value in enumerate(squares.input(b, [column[number] for column in columns])):
                b.store("store_half", value, v, i=_HALF * tiles * (number * squares.side + k))
        for one in rows:
            b.advance(one, 1)
        b.advance(v, _HALF * tiles * squares.places)
    return b


def _load_half(b: Builder, pointer: Register, first: int, number: int) -> Register:
    return b.do("load_half", pointer, i=first + _HALF * number)


def record_products(outputs: int, tiles: int, channels: int) -> Builder:
    """Record the sums of products of some tiles and channels: for each place ``channels`` rows of ``tiles`` words.

    ``size``: bytes of the transformed input.
    """
    squares = SQUARES[outputs]
    step = _HALF * tiles * squares.places
    b = Builder(v=HALVES, w=HALVES, s=OUTPUT_WORDS, size=WORD)
    v, w, s, size = b.parameters
    last = b.place(s, _WORD * squares.places * tiles * channels)

    def turn(tap: Register, sums: list[Register], count: int) -> list[Register]:
        for number in range(count):
            load = partial(_load_half, b, tap, number * step)
            value = load(0)
            weights = [b.do("load_half", w, i=_HALF * (number * channels + k)) for k in range(channels)]
            if sums:
                rows = [sums[tile * channels : (tile + 1) * channels] for tile in range(tiles)]
                add_products(b, value, load, weights, rows)
                continue
            sums = b.each("multiply", weights, value)
            for tile in range(1, tiles):
                sums += b.each("multiply", weights, load(tile))
        b.advance(tap, count * step)
        b.advance(w, _HALF * count * channels)
        return sums

    with b.loop(s, last):
        tap = b.do("copy", v, kind=HALVES)
        end = b.place(v, size)
        sums = turn(tap, [], TAPS)
        with b.loop(tap, end):
            turn(tap, sums, TAPS)
        for number, total in enumerate(sums):
            tile, k = divmod(number, channels)
            b.store("store_at", total, s, i=_WORD * (k * tiles + tile))
        b.advance(s, _WORD * tiles * channels)
        b.advance(v, _HALF * tiles)
    return b


def record_outputs(
    outputs: int, tiles: int, columns: int, channels: int, oc: int, epilogue: Epilogue
) -> Builder:
    """Record the outputs of ``columns`` tiles beside each other: words of the channels, ``row`` bytes a row.

    Args:
        tiles, channels: of the sums.
        oc: bytes from a pixel of the output to the next.
    """
    squares = SQUARES[outputs]
    side, place = range(squares.side), _WORD * tiles * channels
    b = Builder(s=WORDS, p=WORDS, y=OUTPUT_BYTES, row=WORD)
    s, p, y, row = b.parameters
    middle = squares.places // 2  # offsets reach from there
    b.advance(s, middle * place)
    inverse = squares.inverse << (FINE_BITS - squares.bits if epilogue.is_fine else 0)
    scale = b.do("constant", i=inverse - (1 << _BITS) if inverse >> (_BITS - 1) & 1 else inverse)
    most = epilogue32.span(b, epilogue)
    left = b.do("immediate", i=channels)
    with b.counted(left):
        start, *given = (b.load_at(p, _WORD * channels * word) for word in range(1 + epilogue.words))
        at = b.do("copy", y, kind=OUTPUT_BYTES)
        end = b.place(y, columns * squares.outputs * oc)
        with b.loop(at, end):
            sums = [
                squares.output(
                    b, [b.load_at(s, (number * squares.side + k - middle) * place) for number in side]
                )
                for k in side
            ]
            line = at
            for number in range(squares.outputs):
                line = b.place(line, row) if number else line
                totals = squares.output(b, [column[number] for column in sums])
                totals = b.each("multiply", totals, scale)
                if not epilogue.is_fine:
                    totals = b.each("shift_right", totals, i=squares.bits)
                totals = b.each("add", totals, start)
                for k, value in enumerate(epilogue32.record(b, epilogue, totals, given, most, scaled=True)):
                    b.store_byte(line, value, k * oc)
            b.advance(s, _WORD)
            b.advance(at, squares.outputs * oc)
        if tiles > columns:
            b.advance(s, _WORD * (tiles - columns))
        b.advance(p, _WORD)
        b.advance(y, 1)
    return b
