# SPDX-License-Identifier: Apache-2.0
"""Sums and averages for cores with vectors of any length (RISC-V's V), with the same in plain C."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.add_int8 import sum_kernel
from mlf_sdk.compiler.kernels.kernel import Kernel, of_windows
from mlf_sdk.compiler.kernels.lanes_common import limit
from mlf_sdk.compiler.kernels.pooling import taps_of_neighbours
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    LANES,
    LOW,
    OUTPUT_BYTES,
    SUMS,
    WORD,
    Builder,
    Register,
)
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Map, Pool2D, PoolKind

_GROUP: Final = 8  # registers of a vector of sums
_MOST_TAPS: Final = 256  # whose sum fits 16 bits


def binary(graph: Graph, operator: Map) -> Kernel | None:
    """ADD and SUB of tensors of one shape, as two products and a shift; None for others."""
    return sum_kernel(graph, operator, "zve32x", record_sum)


def record_sum(bits: int, low: int, high: int) -> Builder:
    """Record ``(a * fa + b * fb + fc) >> bits`` of all elements."""
    b = Builder(a=BYTES, b=BYTES, y=OUTPUT_BYTES, n=WORD, fa=WORD, fb=WORD, fc=WORD)
    one, other, y, n, fa, fb, fc = b.parameters
    end, sums = b.place(y, n), SUMS[_GROUP]
    with b.loop(y, end):
        lanes = b.do("lanes_32", n, i=_GROUP, kind=LANES)
        values = b.do("load_bytes_as_words", one, lanes, kind=LOW)
        total = b.do("scale_words", values, fa, lanes, kind=sums)
        b.do("add_to_words", total, fc, lanes, into=total)
        values = b.do("load_bytes_as_words", other, lanes, kind=LOW)
        b.do("add_scaled_words", fb, values, total, lanes, into=total)
        b.do("shift_right_words", total, lanes, i=bits, into=total)
        _store(b, total, y, lanes, (low, high))
        for pointer in (one, other, y):
            b.do("add", pointer, lanes, into=pointer)
        b.do("subtract", n, lanes, into=n)
    return b


def _store(b: Builder, value: Register, y: Register, lanes: Register, clamp: tuple[int, int]) -> None:
    """Record that words of 16 bits at most are narrowed and stored."""
    lanes = b.do("of_16", lanes, i=_GROUP // 2, kind=LANES)
    b.do("narrow_clipped", value, lanes, into=value)
    lanes = b.do("of_8", lanes, i=_GROUP // 4, kind=LANES)
    b.do("narrow_halves", value, lanes, into=value)
    limit(b, [value], clamp, lanes)
    b.store("store_bytes", value, y, lanes)


def average(graph: Graph, operator: Pool2D) -> Kernel | None:
    """AVERAGE_POOL_2D of int8 values; None for others, and for windows whose sums do not fit 16 bits."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    window, (low, high) = operator.window, operator.clamp
    is_int8 = x.dtype == y.dtype == np.int8 and operator.function is not PoolKind.MAX
    if not is_int8 or window.dilation != (1, 1) or math.prod(window.size) > _MOST_TAPS:
        return None
    n, ih, iw, ch = x.shape
    _, oh, ow, _ = y.shape
    clamp = int(low), int(high)
    name = f"average_{clamp[0] & 255}_{clamp[1] & 255}"
    body = f"""    for (int32_t b = 0; b < {n}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox) {{
{taps_of_neighbours(window, ih, iw)}        const int32_t height = bottom - top, width = right - left;
        const int8_t *x = x0 + ((b * {ih} + top) * {iw} + left) * {ch};
        int8_t *y = y0 + ((b * {oh} + oy) * {ow} + ox) * {ch};
        {name}(x, y, {ch}, (uint32_t)height, (uint32_t)width, {iw * ch}, (uint32_t)(height * width));
    }}
"""
    helpers = recorded(name, "zve32x", record_average, clamp)
    overlaps = of_windows(x, y, window, 0)  # channels read no others
    return Kernel.of(
        graph, operator, f"{operator.function.value}_pool", body, helpers=helpers, overlaps=overlaps
    )


def record_average(clamp: tuple[int, int]) -> Builder:
    """Record averages of ``n`` channels of a window, rounded to the nearest, halves away from zero."""
    b = Builder(
        x=BYTES, y=OUTPUT_BYTES, n=WORD, height=WORD, width=WORD, row_bytes=WORD, count=WORD
    )  # fmt: skip
    x, y, n, height, width, row_bytes, count = b.parameters
    end, left = b.place(y, n), b.do("copy", n)
    half, zero, sums = b.do("shift_right", count, i=1), b.do("immediate", i=0), SUMS[_GROUP]
    with b.loop(y, end):
        lanes = b.do("lanes_16", left, i=_GROUP // 2, kind=LANES)
        total = b.do("fill_halves", zero, lanes, kind=sums)
        lanes = b.do("of_8", lanes, i=_GROUP // 4, kind=LANES)
        row, rows = b.do("copy", x, kind=BYTES), b.do("copy", height)
        with b.counted(rows):
            pixel, pixels = b.do("copy", row, kind=BYTES), b.do("copy", width)
            with b.counted(pixels):
                values = b.do("load_bytes", pixel, lanes, kind=LOW)
                b.do("widen_add_bytes", values, total, lanes, into=total)
                b.do("add", pixel, n, into=pixel)
            b.do("add", row, row_bytes, into=row)
        lanes = b.do("of_32", lanes, i=_GROUP, kind=LANES)
        words = b.do("widen_halves", total, lanes, kind=LOW)  # in other registers than the halves
        b.note("half of the number of values, with the sign of the sum")
        signs = b.do("signs", words, lanes, kind=sums)
        b.do("subtract_words", words, signs, lanes, into=words)
        b.do("exclusive_or_words", signs, half, lanes, into=signs)
        b.do("add_words", words, signs, lanes, into=words)
        b.do("divide_words", words, count, lanes, into=words)
        _store(b, words, y, lanes, clamp)
        for pointer in (x, y):
            b.do("add", pointer, lanes, into=pointer)
        b.do("subtract", left, lanes, into=left)
    return b
