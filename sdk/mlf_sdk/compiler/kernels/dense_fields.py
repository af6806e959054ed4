# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers for cores with many registers and no SIMD: two outputs in one multiplication.

The sums are those of `mlf_sdk.compiler.kernels.dense_packed_2x16`, whose buffer, chunks and weights these are; a
chunk says where it begins and ends in the buffer. Requantisation is part of the loop.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels import dense_packed_2x16 as packed
from mlf_sdk.compiler.kernels.assembly import label
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel, tile_of
from mlf_sdk.compiler.kernels.rescale import low_words
from mlf_sdk.compiler.microkernels import epilogue32
from mlf_sdk.compiler.microkernels.builder import OUTPUT_BYTES, WORD, WORDS, Builder
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

_FARTHEST: Final = 1 << 16  # end of a chunk in the buffer, bytes


def dense(layer: Contraction) -> Kernel | None:
    """FULLY_CONNECTED of one row, four outputs at a time; None for a layer that this does not fit."""
    outputs, inputs = layer.channels, layer.depth
    if not layer.is_int8() or not layer.is_one_pixel or outputs < packed.OUTPUTS:
        return None
    rescale = layer.fine_of_all() or layer.rescale(fine=True)
    result = None if rescale is None else epilogue32.words(layer, rescale)
    blocks = -(-inputs // packed.BLOCK)
    if rescale is None or result is None or packed.BLOCK_BYTES * blocks >= _FARTHEST:
        return None
    starts, table = result
    first = (outputs - 1) % packed.OUTPUTS + 1
    chosen = np.append(0, np.arange(first, outputs, packed.OUTPUTS))[:, None] + np.arange(packed.OUTPUTS)
    groups = packed.groups_of(layer.rows[chosen])
    if groups is None:
        return None
    stream = np.concatenate([_stream(*group, starts[own]) for group, own in zip(groups, chosen, strict=True)])
    step = 0 if len(table) == 1 else 4 * table.shape[1]
    words = table if len(table) == 1 else table[chosen.reshape(-1)]
    epilogue = Epilogue.of(rescale)
    name = f"dense_fields_{label(rescale)}"
    widen, text = packed.widening(inputs)
    return layer.kernel(
        "dense",
        f"    {widen}(x0, b0, 0);\n    {name}(b0, p0, p1, y0, {len(chosen)}, {first}, {step});\n",
        {**recorded(name, "rv32im", record, epilogue), widen: text},
        (stream, np.ascontiguousarray(words).reshape(-1)),
        {0: 0},
        workspace_bytes=packed.BLOCK_BYTES * blocks + 4,
        tile=tile_of(packed.OUTPUTS),
    )


def _stream(weights: Array, chunks: list[tuple[int, int]], starts: Array) -> Array:
    """Words of a group: starts of four sums, the number of chunks, and the chunks.

    A chunk has its first and last byte in the buffer, 16 bits each, and a word of weights an input.
    """
    lower = np.array([1, 1, 0, 0]) * packed.HALF * len(chunks)
    parts = [low_words(starts.astype(np.int64) - lower), np.array([len(chunks)], np.int32)]
    for (first, last), words in zip(chunks, packed.words_of_chunks(weights, chunks), strict=True):
        ends = packed.BLOCK_BYTES * (first | (last + 1) << 16)
        parts += [np.array([ends], np.int64).astype(np.uint32).view(np.int32), words]
    return np.concatenate(parts)


def record(epilogue: Epilogue) -> Builder:
    """Record a layer: buffer, stream, words of the requantisation, output, and ``n`` groups of four outputs.

    The first group has ``first`` outputs that the next one lacks; ``step`` bytes lie between the words of outputs.
    """
    b = Builder(x=WORDS, w=WORDS, p=WORDS, y=OUTPUT_BYTES, n=WORD, first=WORD, step=WORD)
    x, w, p, y, n, first, step = b.parameters
    most = epilogue32.span(b, epilogue)
    mask, half = b.do("constant", i=0xFF00FF), b.do("constant", i=packed.HALF)
    with b.counted(n):
        sums = [b.load_at(w, 4 * k) for k in range(packed.OUTPUTS)]
        chunks = b.load_at(w, 4 * packed.OUTPUTS)
        b.advance(w, 4 * (packed.OUTPUTS + 1))
        with b.counted(chunks):
            ends = b.load_at(w, 0)
            b.advance(w, 4)
            block = b.place(x, b.do("shift_right_unsigned", b.do("shift_left", ends, i=16), i=16))
            end = b.place(x, b.do("shift_right_unsigned", ends, i=16))
            even = b.do("add", b.load_at(block, 0), half)
            odd = b.do("copy", even, into=b.register("odd"))
            with b.loop(block, end):
                for k in b.repeat(packed.BLOCK):
                    weights, value = b.load_at(w, 4 * k), b.load_at(block, 4 + 4 * k)
                    fields = [b.do("and", weights, mask)]
                    fields.append(b.do("and", b.do("shift_right_unsigned", weights, i=8), mask))
                    b.each("add", [even, odd], b.each("multiply", fields, value), into=[even, odd])
                b.advance(block, packed.BLOCK_BYTES)
                b.advance(w, 4 * packed.BLOCK)
            before = b.load_at(block, 0)
            for k, pair in enumerate(b.each("subtract", [even, odd], before)):
                low = b.do("shift_right_unsigned", b.do("shift_left", pair, i=16), i=16)
                b.do("add", sums[k], low, into=sums[k])
                b.do("add", sums[k + 2], b.do("shift_right", pair, i=16), into=sums[k + 2])
        b.note("requantise four outputs")
        for k, total in enumerate(sums):
            given = [b.load_at(p, 4 * word) for word in range(epilogue.words)]
            (value,) = epilogue32.record(b, epilogue, [total], given, most)
            b.store_byte(y, value, k)
            b.do("add", p, step, into=p)
        b.do("add", y, first, into=y)
        b.do("immediate", i=packed.OUTPUTS, into=first)
    return b
