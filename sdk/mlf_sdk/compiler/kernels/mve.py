# SPDX-License-Identifier: Apache-2.0
"""Kernels for cores with the vector extension (MVE, Helium), each with the same computation in plain C.

VMLADAVA multiplies sixteen bytes of a window with those of a channel. A tile has eight sums, in all the registers
that may hold them: two pixels by four channels, or one by eight. The weights of its channels lie in blocks of
sixteen bytes, channel after channel, windows filled up with zeros; so do their biases, multipliers, addends and
shifts in a table. Loads stand between products, two or three ahead of their use: a core overlaps them.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.kernels import windows
from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.convolution import Layout
from mlf_sdk.compiler.kernels.mve_copies import INCLUDE, copy_function
from mlf_sdk.compiler.kernels.mve_results import each_with, in_vectors, narrow, requantise
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.windows import Tile
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    EVEN_WORD,
    NARROW_OUTPUT,
    NARROW_PLACE,
    OUTPUT_BYTES,
    PREDICATE,
    WORD,
    WORDS,
    Builder,
    Register,
)
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

_MOST_ROUNDS: Final = 12  # vectors of a window without a loop
FAR: Final = 508  # bytes that a load of a vector of words reaches
_AHEAD: Final = 2  # loads before their use


class Vectors(msgspec.Struct, frozen=True):
    """Tile of a function: eight sums, or four, in general registers.

    Attributes:
        pixels, channels: of the tile; several pixels go with four channels.
        rounds: vectors of a window that are multiplied one after the other.
        loops: times that they are, with the vectors behind them.
        left: channels of the last tile, less than a whole one; 0 where all are whole.
    """

    pixels: int
    channels: int
    rounds: int
    loops: int
    left: int

    @classmethod
    def of(cls, pixels: int, depth: int, count: int) -> Vectors:
        """Tile for windows of ``depth`` bytes and ``count`` channels."""
        channels = 8 if pixels == 1 and -count % 8 < 4 else 4
        vectors = -(-depth // 16)
        some = [vectors] if vectors <= _MOST_ROUNDS else range(_MOST_ROUNDS, _MOST_ROUNDS // 2, -1)
        rounds = min(some, key=lambda k: -(-vectors // k) * k)
        return cls(pixels, channels, rounds, -(-vectors // rounds), count % channels)

    @property
    def bytes(self) -> int:
        """Bytes of a window, behind which weights are 0."""
        return 16 * self.rounds * self.loops

    @property
    def name(self) -> str:
        """Part of a function's name."""
        return f"{self.pixels}x{self.channels}_{self.rounds}x{self.loops}_{self.left}"


def group(values: Array, channels: int) -> Array:
    """Values of the channels of each tile, the last one filled up with zeros."""
    shape = (-1, channels, *values.shape[1:])
    return np.pad(values, [(0, -len(values) % channels)] + [(0, 0)] * (values.ndim - 1)).reshape(shape)


def table_words(bias: Array, rescale: Rescale) -> Array:
    """Bias, multiplier, addend and negative shift of each channel."""
    words = np.concatenate([bias[:, None], rescale.rows], axis=1).astype(np.int32)
    words[:, 3] = -words[:, 3]
    return words


def tile(shape: Layout, rows: Array, bias: Array, rescale: Rescale) -> Tile:
    """Tile of one or two pixels."""
    count, depth = rows.shape
    vectors = Vectors.of(shape.pixels, depth, count)
    padded = np.pad(rows, ((0, 0), (0, vectors.bytes - depth)))
    grouped = group(padded.reshape(count, -1, 16), vectors.channels)
    weights = np.ascontiguousarray(grouped.transpose(0, 2, 1, 3).reshape(-1))
    table = group(table_words(bias, rescale), vectors.channels).transpose(0, 2, 1)
    name = f"vectors_{vectors.name}_{label(rescale)}"
    copy = f"copy_{shape.used}_bytes"
    widen = f"windows_{shape.pixels}x{shape.rows}x{shape.used}_{shape.distance}"
    return Tile(
        widen=widen,
        call=f"{name}(b0, p0, p1, {{}}, {count}, {shape.channels})",
        helpers={
            "mve": INCLUDE,
            copy: copy_function(copy, shape.used),
            widen: _copy_windows(widen, copy, shape, vectors.bytes),
            **recorded(name, "mve", record, vectors, Epilogue.of(rescale)),
        },
        constants=(weights, np.ascontiguousarray(table.reshape(-1))),
        buffer_bytes=shape.pixels * vectors.bytes,
        channels=vectors.channels,
    )


def _copy_windows(name: str, copy: str, shape: Layout, bytes_: int) -> str:
    """Function that copies windows; the weights of what lies behind one are zeros, and its last byte is written."""
    last = shape.pixels * bytes_ - 1
    mark = f"    ((int8_t *)b)[{last}] = 0;\n" if shape.rows * shape.used < bytes_ else ""
    return f"""static void {name}(const int8_t *x, int32_t *b, int32_t row_bytes)
{{
    for (int32_t i = 0; i < {shape.pixels}; ++i) {{
        for (int32_t r = 0; r < {shape.rows}; ++r) {{
            {copy}((int8_t *)b + i * {bytes_} + r * {shape.used}, x + i * {shape.distance} + r * row_bytes);
        }}
    }}
{mark}}}
"""


def record(vectors: Vectors, epilogue: Epilogue) -> Builder:
    """Record some pixels by all channels: windows, weights, table, output, channels, distance of output pixels."""
    b = Builder(x=WORDS, w=BYTES, p=WORDS, y=OUTPUT_BYTES, n=WORD, distance=WORD)
    x, w, p, y, n, distance = b.parameters
    y = b.do("copy", y, kind=NARROW_OUTPUT)
    x, w, p = (b.do("copy", r, kind=r.kind) for r in (x, w, p))  # sums may need their registers
    with b.counted(n, vectors.channels):
        rows = _record_sums(b, vectors, x, w)
        b.note(f"requantise {vectors.channels} channels")
        values = in_vectors(b, rows)
        loads = vectors.channels // 4
        table = ([b.vector("load_next_32", p, i=16, moves=True) for _ in range(loads)] for _ in range(4))
        for value, bias in each_with(values, next(table)):
            b.vector("add_32", value, bias, into=value)
        requantise(b, values, epilogue, table)
        narrow(b, values, epilogue)
        some = n
        if vectors.left:
            lanes = b.do("subtract_constant", n, i=4) if loads > 1 else n
            some = b.do("predicate_32", lanes, kind=PREDICATE)
        for k, value in enumerate(values):
            place = b.place(y, distance, NARROW_PLACE) if k and vectors.pixels > 1 else y
            offset = 4 * k if vectors.pixels == 1 else 0
            if vectors.left and (loads == 1 or k):
                b.store(
                    "store_some_8_of_32",
                    value,
                    b.place(place, offset, NARROW_PLACE) if offset else place,
                    some,
                )
            else:
                b.store("store_8_of_32", value, place, i=offset)
        b.advance(y, vectors.channels)
    return b


def _record_sums(b: Builder, vectors: Vectors, x: Register, w: Register) -> list[list[Register]]:
    """Record the products of a tile; four sums for each vector of results."""
    pixels, channels = vectors.pixels, vectors.channels
    windows = [x]
    if pixels > 1 and (vectors.loops > 1 or 2 * vectors.bytes > FAR):
        windows = [b.do("copy", x, kind=WORDS), b.place(x, vectors.bytes)]
    elif vectors.loops > 1:
        windows = [b.do("copy", x, kind=WORDS)]
    start = vectors.loops > 1
    sums = [
        [
            b.do("immediate", i=0, kind=EVEN_WORD) if start else b.register("sum", EVEN_WORD)
            for _ in range(channels)
        ]
        for _ in range(pixels)
    ]

    def load(number: int, item: int) -> Register:
        if item >= pixels:
            return b.vector("load_next_8", w, i=16, moves=True)
        if start:
            return b.vector("load_next_32", windows[item], i=16, moves=True)
        offset = 16 * number + (vectors.bytes * item if len(windows) == 1 else 0)
        return b.vector("load_32", windows[item] if len(windows) > 1 else x, i=offset)

    def products() -> None:
        order = [0, pixels, *range(1, pixels), *range(pixels + 1, pixels + channels)]
        loads = iter([(number, item) for number in range(vectors.rounds) for item in order])
        held: dict[tuple[int, int], Register] = {}
        waiting = 0

        def take() -> None:
            nonlocal waiting
            if (key := next(loads, None)) is not None:
                held[key] = load(*key)
                waiting += 1

        for number in range(vectors.rounds):
            used: set[tuple[int, int]] = set()
            for channel in range(channels):
                for pixel in range(pixels):
                    keys = (number, pixel), (number, pixels + channel)
                    while not held.keys() >= {*keys}:
                        take()
                    waiting -= len({*keys} - used)
                    used |= {*keys}
                    total = sums[pixel][channel]
                    name, more = ("dot_8", (total,)) if start or number else ("dot_first_8", ())
                    b.do(name, held[keys[1]], held[keys[0]], *more, into=total)
                    if waiting < _AHEAD:
                        take()

    with b.times(vectors.loops):
        products()
    return sums if pixels > 1 else [sums[0][k : k + 4] for k in range(0, channels, 4)]


def pointers_of_words(rows: int) -> tuple[str, str]:
    """C text for pointers to words, at the places of ``rows`` pointers to bytes, and their name."""
    text = f"""        const int32_t *words[{rows}];
        for (int32_t i = 0; i < {rows}; ++i) {{
            words[i] = (const int32_t *)(const void *)rows[i];
        }}
"""
    return text, "words"


convolution: Final = windows.convolution(2, tile)
dense: Final = windows.dense(tile)
