# SPDX-License-Identifier: Apache-2.0
"""Depthwise 3x3 convolution for cores with some 28 registers and no SIMD: a channel's weights stay in registers.

For each channel a row of the output is made from left to right. Of a window the columns that the next one needs
stay in registers, too: at stride 1 two columns take turns, at stride 2 there is one. Rows lie in the ring of
`mlf_sdk.compiler.kernels.rows`.
"""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.rescale import FINE_BITS
from mlf_sdk.compiler.kernels.rows import ring_of_rows
from mlf_sdk.compiler.microkernels import epilogue32
from mlf_sdk.compiler.microkernels.builder import BYTES, OUTPUT_BYTES, ROWS, WORD, WORDS, Builder, Register
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded


def depthwise(layer: Contraction) -> Kernel | None:
    """DEPTHWISE_CONV_2D of 3x3 windows at stride 1 or 2; None for a layer that this does not fit."""
    window = layer.window
    stride = window.stride[1]
    is_3x3 = window.size == (3, 3) and window.dilation == (1, 1) and stride in (1, 2)
    if not layer.is_int8() or not is_3x3 or layer.multiplier != 1:
        return None
    rescale = layer.rescale(fine=True)
    result = None if rescale is None else epilogue32.words(layer, rescale, scaled=True)
    if rescale is None or result is None:
        return None
    words = np.concatenate([result[0][:, None], result[1]], axis=1)
    channels = layer.channels
    name = f"depthwise_row_{stride}_{label(rescale)}"
    compute = f"        {name}(rows, p0, p1, y0 + oy * {layer.y.shape[2] * channels}, {channels}, {layer.y.shape[2] * channels});\n"
    body, ring_bytes, overlaps = ring_of_rows(layer, compute)
    return layer.kernel(
        "depthwise_3x3",
        body,
        recorded(name, "rv32im", record, stride, Epilogue.of(rescale)),
        (np.ascontiguousarray(layer.rows).reshape(-1), words.reshape(-1)),
        overlaps,
        workspace_bytes=ring_bytes,
    )


def record(stride: int, epilogue: Epilogue) -> Builder:
    """Record a row of the output: rows of the window, weights, words, output, channels, bytes of the row."""
    b = Builder(rows=ROWS, w=BYTES, p=WORDS, y=OUTPUT_BYTES, channels=WORD, size=WORD)
    rows, w, p, y, channels, size = b.parameters
    most = epilogue32.span(b, epilogue)
    last = b.place(y, channels)
    channel = b.do("immediate", i=0)
    with b.loop(y, last):
        weights = [[b.do("load_byte", w, i=3 * i + j) for i in range(3)] for j in range(3)]
        if epilogue.is_fine:
            weights = [b.each("shift_left", column, i=FINE_BITS, into=column) for column in weights]
        start, *given = [b.load_at(p, 4 * k) for k in range(1 + epilogue.words)]
        places = [b.place(b.load_at(rows, 4 * i, kind=BYTES), channel) for i in range(3)]

        def load(column: list[Register] | None = None) -> list[Register]:
            """The next column of the window."""
            into = column or [b.register("x") for _ in range(3)]
            for place, register in zip(places, into, strict=True):
                b.do("load_byte", place, into=register)
            for place in places:
                b.do("add", place, channels, into=place)
            return into

        def add(total: Register, column: list[Register], factors: list[Register]) -> Register:
            """Products of a column added to a sum; to a new one, if that is the start."""
            for value, factor in zip(column, factors, strict=True):
                product = b.do("multiply", value, factor)
                total = b.do("add", total, product, into=None if total is start else total)
            return total

        columns = [load() for _ in range(3 - stride)]
        output = b.do("copy", y, kind=OUTPUT_BYTES)
        end = b.place(output, size)

        def pixel(old: list[Register], other: list[Register] | None) -> None:
            """A pixel of the output; ``old`` holds the first column of its window and then the last one."""
            total = add(start, old, weights[0])
            if other is None:
                load(old)
                add(total, old, weights[1])
                load(old)
            else:
                load(old)
                add(total, other, weights[1])
            add(total, old, weights[2])
            (value,) = epilogue32.record(b, epilogue, [total], given, most, scaled=True)
            b.store_byte(output, value, 0)
            b.do("add", output, channels, into=output)

        with b.loop(output, end):
            pixel(columns[0], columns[1] if stride == 1 else None)
            if stride == 1:
                with b.unless_equal(output, end):
                    pixel(columns[1], columns[0])
        b.advance(w, 9)
        b.advance(p, 4 * (1 + epilogue.words))
        b.advance(y, 1)
        b.do("add_constant", channel, i=1, into=channel)
    return b
