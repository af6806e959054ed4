# SPDX-License-Identifier: Apache-2.0
"""Code of the tiles of a row of the output (`RowTile`), for MVE and in plain C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from mlf_sdk.compiler.kernels.mve_results import in_vectors, narrow, of_channels, requantise
from mlf_sdk.compiler.kernels.mve_row_tile import FAR_BYTES, LANES, QUAD, RowTile
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    EVEN_WORD,
    NARROW_OUTPUT,
    NARROW_PLACE,
    OUTPUT_BYTES,
    ROWS,
    ROWS_OF_WORDS,
    WORD,
    WORDS,
    Builder,
    Register,
)
from mlf_sdk.compiler.microkernels.epilogue import Epilogue

_WORDS: Final = 8  # of two channels in a table, behind which offsets stand


def record(tile: RowTile, epilogue: Epilogue) -> Builder:
    """Record a row of the output: rows of the windows, weights, table, output, channels, tiles in a row."""
    b = Builder(
        window=ROWS_OF_WORDS if tile.has_words else ROWS, w=WORDS, p=WORDS, y=OUTPUT_BYTES, n=WORD, tiles=WORD
    )
    window, w, p, y, n, tiles = b.parameters
    window, w, p, y = (b.do("copy", r, kind=r.kind) for r in (window, w, p, y))  # sums need their registers
    is_wide = tile.pixels == QUAD
    with b.counted(n, tile.width):
        table = [] if is_wide else [b.vector("load_next_32", p, i=16, moves=True) for _ in range(4)]
        place = b.do("copy", y, kind=OUTPUT_BYTES if is_wide else NARROW_OUTPUT)
        left = b.do("copy", tiles)
        kind = WORDS if tile.has_words else BYTES
        rows = [b.load_at(window, 4 * k, kind=kind) for k in range(tile.size[0])]
        if tile.has_streams:
            rows.append(b.place(rows[0], tile.distance))
        with b.counted(left):
            sums = _products(b, tile, rows, w)
            b.note(f"requantise {tile.pixels} pixels of {tile.width} channels")
            if is_wide:
                _store_wide(b, tile, epilogue, sums, p, place)
            else:
                _store(b, tile, epilogue, sums, table, place)
            if not tile.is_near:
                b.advance(w, -tile.weights_bytes)
            if not tile.has_streams:
                for pointer in rows:
                    b.advance(pointer, tile.pixels * tile.distance)
        b.advance(w, tile.weights_bytes)
        if is_wide:
            b.advance(p, 4 * _WORDS + LANES)
        b.advance(y, tile.width)
    return b


def _store(
    b: Builder,
    tile: RowTile,
    epilogue: Epilogue,
    sums: Sequence[Sequence[Register]],
    table: Sequence[Register],
    place: Register,
) -> None:
    """Record the requantisation of two pixels; the output moves on behind them."""
    values = in_vectors(b, sums)
    for value in values:
        b.vector("add_32", value, table[0], into=value)
    requantise(b, values, epilogue, iter([[row] for row in table[1:]]))
    narrow(b, values, epilogue)
    if tile.channels <= FAR_BYTES:
        for value in values:
            b.store("store_next_8_of_32", value, place, i=tile.channels, moves=place)
        return
    b.store("store_8_of_32", values[0], place)  # registers of the sums are free
    b.store("store_8_of_32", values[1], b.place(place, tile.channels, NARROW_PLACE))
    b.advance(place, tile.pixels * tile.channels)


def _store_wide(
    b: Builder,
    tile: RowTile,
    epilogue: Epilogue,
    sums: Sequence[Sequence[Register]],
    p: Register,
    place: Register,
) -> None:
    """Record the requantisation of four pixels of two channels; the output moves on behind them."""
    values = in_vectors(b, [[row[channel] for row in sums] for channel in range(tile.width)])
    words = b.do("copy", p, kind=WORDS)

    def pairs() -> Iterator[Sequence[Register]]:
        for _ in range(2):
            one, other, *more = b.load(words, 4)
            yield from ([one, other], more)

    stored = of_channels(b, values, pairs(), epilogue)
    b.store("scatter_8_of_16", stored, place, b.vector("load_32", words, i=0))
    b.advance(place, tile.pixels * tile.channels)


def _products(b: Builder, tile: RowTile, rows: Sequence[Register], w: Register) -> list[list[Register]]:
    """Record the products of a tile; the sums of each pixel. One load stands ahead of its use."""
    sums = [[b.register("sum", EVEN_WORD) for _ in range(tile.width)] for _ in range(tile.pixels)]
    pixels, width = tile.places(), tile.width
    held: dict[tuple[int, int], Register] = {}
    weights: dict[tuple[int, int], Register] = {}
    waiting, load = iter(tile.loads()), "load_32" if tile.has_words else "load_8"

    def take() -> tuple[str, int, int] | None:
        if (key := next(waiting, None)) is None:
            return None
        kind, one, other = key
        if kind == "w" and tile.is_near:
            weights[one, other] = b.vector("load_32", w, i=16 * (one * width + other))
        elif kind == "w":
            weights[one, other] = b.vector("load_next_32", w, i=16, moves=True)
        elif tile.has_streams:
            step = tile.stream_step(other)
            held[one, other] = b.vector("load_next_8", rows[one], i=step, moves=True)
        else:
            held[one, other] = b.vector(load, rows[one], i=other)
        return key

    ahead = None
    for number, places in enumerate(pixels):
        for channel, pixel in product(range(width), range(tile.pixels)):
            place, total = places[pixel], sums[pixel][channel]
            while place not in held or (number, channel) not in weights:
                ahead = take()
            if ahead in (("x", *place), ("w", number, channel)):
                ahead = None
            name, more = ("dot_8", (total,)) if number else ("dot_first_8", ())
            b.do(name, weights[number, channel], held[place], *more, into=total)
            ahead = ahead or take()
        for place in places:
            if number + 1 == len(pixels) or place not in pixels[number + 1]:
                held.pop(place, None)
    return sums
