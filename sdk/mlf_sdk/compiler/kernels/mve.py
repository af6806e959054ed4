# SPDX-License-Identifier: Apache-2.0
"""Kernels for cores with the vector extension (MVE, Helium), each with the same computation in plain C.

VMLADAVA multiplies sixteen bytes of a window with those of a channel. Channels go in fours: their weights lie
in blocks of sixteen bytes, channel after channel, the rest of the window behind them; four biases, multipliers,
addends and shifts follow one another in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels import windows
from mlf_sdk.compiler.kernels.assembly import UNALIGNED
from mlf_sdk.compiler.kernels.rescale import Form, Rescale
from mlf_sdk.compiler.kernels.windows import Shape, Tile
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    EVEN_WORD,
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

MVE: Final = f"{UNALIGNED} && defined(__ARM_FEATURE_MVE)"
INCLUDE: Final = f"#if {MVE}\n#include <arm_mve.h>\n#endif\n"
COPY_BYTES: Final = f"""static inline void copy_bytes(int8_t *d, const int8_t *s, int32_t n)
{{
#if {MVE}
    do {{
        mve_pred16_t some = vctp8q((uint32_t)n);
        vstrbq_p_s8(d, vldrbq_z_s8(s, some), some);
        d += 16;
        s += 16;
        n -= 16;
    }} while (n > 0);
#else
    memcpy(d, s, (size_t)n);
#endif
}}
"""


def group(values: Array, count: int) -> Array:
    """Values by fours, the last group filled up with zeros."""
    return np.pad(values, [(0, -count % 4)] + [(0, 0)] * (values.ndim - 1)).reshape(-1, 4, *values.shape[1:])


def table_words(bias: Array, rescale: Rescale) -> Array:
    """Bias, multiplier, addend and negative shift of each channel."""
    words = np.concatenate([bias[:, None], rescale.rows], axis=1).astype(np.int32)
    words[:, 3] = -words[:, 3]
    return words


def table_of(bias: Array, rescale: Rescale) -> Array:
    """Four biases, multipliers, addends and negative shifts after one another."""
    words = table_words(bias, rescale)
    return np.ascontiguousarray(group(words, len(words)).transpose(0, 2, 1).reshape(-1))


def tile(shape: Shape, rows: Array, bias: Array, rescale: Rescale) -> Tile:
    """Tile of one or two pixels."""
    count, depth = rows.shape
    grouped = group(rows, count)
    whole = depth // 16 * 16
    blocks = grouped[:, :, :whole].reshape(len(grouped), 4, depth // 16, 16).transpose(0, 2, 1, 3)
    parts = [blocks.reshape(len(grouped), -1), grouped[:, :, whole:].reshape(len(grouped), -1)]
    weights = np.ascontiguousarray(np.concatenate(parts, axis=1).reshape(-1))
    low, high = rescale.clamp
    name = f"vectors_{shape.pixels}_{rescale.form.value}_{low & 255}_{high & 255}"
    widen = f"windows_{shape.pixels}x{shape.rows}x{shape.used}_{shape.distance}"
    return Tile(
        widen=widen,
        call=f"{name}((const int8_t *)b0, {depth}, p0, p1, {{}}, {count}, {shape.channels})",
        helpers={
            "mve": INCLUDE,
            "copy_bytes": COPY_BYTES,
            widen: _copy_windows(widen, shape),
            **recorded(name, "mve", record, shape.pixels, Epilogue.of(rescale)),
        },
        constants=(weights, table_of(bias, rescale)),
        buffer_bytes=shape.pixels * depth,
        channels=4,
    )


def _copy_windows(name: str, shape: Shape) -> str:
    return f"""static void {name}(const int8_t *x, int32_t *b, int32_t row_bytes)
{{
    int8_t *d = (int8_t *)b;
    for (int32_t i = 0; i < {shape.pixels}; ++i, x += {shape.distance})
    for (int32_t r = 0; r < {shape.rows}; ++r, d += {shape.used}) {{
        copy_bytes(d, x + r * row_bytes, {shape.used});
    }}
}}
"""


def record(pixels: int, epilogue: Epilogue) -> Builder:
    """Record pixels by four channels at a time: windows, bytes of a window, weights, table, output, channels.

    The last parameter is the distance between pixels of the output.
    """
    b = Builder(x=BYTES, depth=WORD, w=BYTES, p=WORDS, y=OUTPUT_BYTES, n=WORD, distance=WORD)
    x, depth, w, p, y, n, distance = b.parameters
    windows = [x, *(b.place(x, depth) for _ in range(pixels - 1))]
    rounds, rest = b.do("rounds_of_16", depth), b.do("rest_of_16", depth)
    w = b.do("copy", w, kind=BYTES)  # sums may need its register
    with b.counted(n, 4):
        sums = [[b.do("immediate", i=0, kind=EVEN_WORD) for _ in range(4)] for _ in windows]
        walkers = [b.do("copy", window, kind=BYTES) for window in windows]
        left = b.do("copy", rounds)

        def products(load: Callable[[Register], Register]) -> None:
            values = [load(walker) for walker in walkers]
            for channel in range(4):
                weights = load(w)
                for value, row in zip(values, sums, strict=True):
                    b.do("dot_8", weights, value, row[channel], into=row[channel])

        def load_rest(pointer: Register) -> Register:
            vector = b.vector("load_some_8", pointer, some)
            if pointer is w:
                b.do("add", w, rest, into=w)
            return vector

        with b.unless_zero(left), b.counted(left):
            products(lambda pointer: b.vector("load_next_8", pointer, i=16, moves=True))
        with b.unless_zero(rest):
            some = b.do("predicate_8", rest, kind=PREDICATE)
            products(load_rest)
        b.note("requantise four channels")
        values = [b.vector("set_lanes_0_2", row[0], row[2]) for row in sums]
        for value, row in zip(values, sums, strict=True):
            b.vector("set_lanes_1_3", row[1], row[3], value, into=value)
        rows = (b.vector("load_next_32", p, i=16, moves=True) for _ in range(4))
        bias = next(rows)
        for value in values:
            b.vector("add_32", value, bias, into=value)
        requantise(b, values, epilogue, rows)
        for value in values:
            b.vector("narrow_even_32", value, into=value)
            b.vector("narrow_even_16", value, into=value)
        limit(b, values, epilogue)
        some = b.do("predicate_32", n, kind=PREDICATE)
        for pixel, value in enumerate(values):
            b.store("store_some_8_of_32", value, b.place(y, distance) if pixel else y, some)
        b.advance(y, 4)
    return b


def requantise(b: Builder, sums: Sequence[Register], epilogue: Epilogue, rows: Iterator[Register]) -> None:
    """Record the requantisation of vectors of sums; ``rows`` load multipliers, addends and shifts."""
    multiplier = next(rows)
    for value in sums:
        b.vector("multiply_high_32", value, multiplier, into=value)
    if epilogue.form is Form.DOUBLE:
        for value in sums:
            b.vector("add_32", value, b.vector("sign_32", value), into=value)
    for name in ("add_32", "shift_by_negative_32"):
        words = next(rows)
        for value in sums:
            b.vector(name, value, words, into=value)


def limit(b: Builder, values: Sequence[Register], epilogue: Epilogue) -> None:
    """Record the lowest and the highest stored value; bytes of words that are not stored are leftovers."""
    if epilogue.clamp == (-128, 127):
        return
    for bound, name in zip(epilogue.clamp, ("larger_8", "smaller_8"), strict=True):
        vector = b.vector("fill_8", b.do("immediate", i=bound & 255))
        for value in values:
            b.vector(name, value, vector, into=value)


convolution: Final = windows.convolution(2, tile)
dense: Final = windows.dense(tile)
