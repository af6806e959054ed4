# SPDX-License-Identifier: Apache-2.0
"""Convolution in tiles of pixels by channels, for cores with some 28 registers and no SIMD.

All sums of a tile, sixteen of four pixels by four channels, stay in registers: a product takes half a load. The
windows of a tile lie in its buffer with the bytes of its pixels side by side, weights with those of the channels,
so that all layers of a form of requantisation share a function.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.contraction import Contraction, Kind
from mlf_sdk.compiler.kernels.convolution import Layout
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.microkernels import epilogue32
from mlf_sdk.compiler.microkernels.builder import BYTES, OUTPUT_BYTES, WORD, WORDS, Builder, Register
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

_TAPS: Final = 2  # of a turn of the loop
_USUAL: Final = 4, 4  # pixels and channels of a tile
_LOOP: Final = 3  # instructions of a turn of the loop beside its taps, of a result, of a group of channels
_RESULT: Final = 9
_GROUP: Final = 24
_SHARED: Final = 1.04  # by which other tiles must be better than the usual one, whose code many layers share
_REGISTERS: Final = 22  # that hold sums and weights


def instructions(layout: Layout, channels: int, tile: tuple[int, int]) -> float:
    """Instructions of a row of the output in tiles of so many pixels and channels."""
    pixels, outputs = tile
    taps = layout.depth
    turn = pixels + outputs + 2 * pixels * outputs + _LOOP / _TAPS
    group = taps * turn + _RESULT * pixels * outputs + _GROUP
    return -(-layout.ow // pixels) * (-(-channels // outputs) * group + (2 * pixels + 2) * taps)


def best_tile(layout: Layout, channels: int) -> tuple[int, int]:
    """Pixels and channels of the tiles that take the fewest instructions."""
    shapes = [
        (pixels, outputs)
        for outputs in range(1, min(4, channels) + 1)
        for pixels in range(1, min(8, layout.ow) + 1)
        if outputs * (pixels + 1) <= _REGISTERS
    ]
    return min(shapes, key=lambda t: instructions(layout, channels, t) * (1 if t == _USUAL else _SHARED))


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D or FULLY_CONNECTED by tiles of sums in registers; None for a layer that this does not fit."""
    if not layer.is_int8() or layer.window.dilation[1] != 1:
        return None
    rescale = layer.rescale(fine=True)
    result = None if rescale is None else epilogue32.words(layer, rescale)
    if rescale is None or result is None:
        return None
    words = np.concatenate([result[0][:, None], result[1]], axis=1)
    pixels, outputs = best_tile(Layout(layer, 1, 1), layer.channels)
    layout = Layout(layer, pixels, 1)
    depth = layout.depth
    taps = -(-depth // _TAPS) * _TAPS
    layout.buffer_bytes = taps * pixels
    epilogue = Epilogue.of(rescale)
    name = f"conv_{pixels}x{outputs}_{label(rescale)}"
    widen = f"windows_{pixels}x{layout.rows}x{layout.used}_{layout.distance}"
    texts = {
        **recorded(name, "rv32im", record, pixels, outputs, epilogue),
        widen: _side_by_side(widen, layout, taps - depth),
    }
    weights = np.pad(layer.rows, ((0, 0), (0, taps - depth)))
    constants = (groups_of(weights, outputs).reshape(-1), groups_of(words, outputs).reshape(-1))
    groups, first = -(-layer.channels // outputs), (layer.channels - 1) % outputs + 1
    call = f"{name}((const int8_t *)b0, p0, p1, {{}}, {taps * pixels}, {groups}, {first}, {layer.channels})"
    kernel = layout.kernel(call, widen, texts, constants, channels=outputs)
    return dataclasses.replace(kernel, family="dense") if layer.kind is Kind.DENSE else kernel


def groups_of(rows: Array, outputs: int) -> Array:
    """Rows of channels side by side, ``outputs`` at a time; the second group may begin within the first."""
    first = (len(rows) - 1) % outputs + 1
    starts = np.append(0, np.arange(first, len(rows), outputs))
    return rows[starts[:, None] + np.arange(outputs)].transpose(0, 2, 1)


def _side_by_side(name: str, layout: Layout, spare: int) -> str:
    """Function ``(input, buffer, row_bytes)`` that lays out windows, byte after byte of all pixels.

    Taps that are added to the last window are cleared although their weights are 0: the mark that a run leaves in
    its memory is exact.
    """
    bytes_ = "".join(f"        b[{i}] = x[{i * layout.distance}];\n" for i in range(layout.pixels))
    last = f"    memset(b, 0, {spare * layout.pixels});\n" if spare else ""
    return f"""static void {name}(const int8_t *x, int32_t *words, int32_t row_bytes)
{{
    int8_t *b = (int8_t *)words;
    for (int32_t r = 0; r < {layout.rows}; ++r, x += row_bytes - {layout.used})
    for (const int8_t *end = x + {layout.used}; x != end; ++x, b += {layout.pixels}) {{
{bytes_}    }}
{last}}}
"""


def add_products(
    b: Builder,
    factor: Register,
    load: Callable[[int], Register],
    others: list[Register],
    sums: Sequence[list[Register]],
) -> None:
    """Record products of the factors of a tap, each with all of the others, added to a list of sums a factor.

    What is loaded or multiplied is not there at once on cores with pipelines: the next instruction is one that
    does not need it.

    Args:
        factor: the first one.
        load: another one, by its number.
    """
    last = range(0, len(others), 2)[-1]
    for number, totals in enumerate(sums, 1):
        own = factor
        for k in range(0, len(others), 2):
            products = b.each("multiply", others[k : k + 2], own)
            if k == last and number < len(sums):
                factor = load(number)
            b.each("add", totals[k : k + 2], products, into=totals[k : k + 2])


def load_byte(b: Builder, pointer: Register, first: int, number: int) -> Register:
    """The byte of a number behind the first one, at an offset from a pointer."""
    return b.do("load_byte", pointer, i=first + number)


def record(pixels: int, outputs: int, epilogue: Epilogue) -> Builder:
    """Record a tile: ``n`` groups of channels, of which the first has ``first`` that the next one lacks.

    Its parameters are the windows and their bytes, weights, words of the channels, the output, and the bytes
    between its pixels.
    """
    b = Builder(
        x=BYTES, w=BYTES, p=WORDS, y=OUTPUT_BYTES, size=WORD, n=WORD, first=WORD, distance=WORD
    )  # fmt: skip
    x, w, p, y, size, n, first, distance = b.parameters
    end = b.place(x, size)
    with b.counted(n):
        starts = [b.load_at(p, 4 * k) for k in range(outputs)]
        sums = [b.sums(start, pixels) for start in starts]
        tap = b.do("copy", x, kind=BYTES)
        with b.loop(tap, end):
            for number in b.repeat(_TAPS):
                load = partial(load_byte, b, tap, number * pixels)
                value = load(0)
                weights = [b.do("load_byte", w, i=number * outputs + k) for k in range(outputs)]
                add_products(b, value, load, weights, [[total[i] for total in sums] for i in range(pixels)])
            b.advance(tap, _TAPS * pixels)
            b.advance(w, _TAPS * outputs)
        b.note(f"requantise {pixels} pixels of {outputs} channels")
        most = epilogue32.span(b, epilogue)
        rows = [y]
        for _ in range(1, pixels):
            rows.append(b.place(rows[-1], distance))
        for k in range(outputs):
            given = [b.load_at(p, 4 * (outputs * (1 + word) + k)) for word in range(epilogue.words)]
            for row, value in zip(rows, epilogue32.record(b, epilogue, sums[k], given, most), strict=True):
                b.store_byte(row, value, k)
        b.advance(p, 4 * outputs * (1 + epilogue.words))
        b.do("add", y, first, into=y)
        b.do("immediate", i=outputs, into=first)
    return b
