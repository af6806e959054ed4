# SPDX-License-Identifier: Apache-2.0
"""From sums of vectors to the bytes of an output, for kernels with the vector extension (MVE, Helium)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlf_sdk.compiler.kernels.rescale import Form
from mlf_sdk.compiler.microkernels.builder import Builder, Register
from mlf_sdk.compiler.microkernels.epilogue import Epilogue


def in_vectors(b: Builder, rows: Sequence[Sequence[Register]]) -> list[Register]:
    """Record vectors of four sums each."""
    values = [b.vector("set_lanes_0_2", row[0], row[2]) for row in rows]
    for value, row in zip(values, rows, strict=True):
        b.vector("set_lanes_1_3", row[1], row[3], value, into=value)
    return values


def each_with(values: Sequence[Register], words: Sequence[Register]) -> Iterator[tuple[Register, Register]]:
    """Vectors of sums with their words, or with those that all share."""
    return zip(values, words if len(words) > 1 else [words[0]] * len(values), strict=True)


def requantise(
    b: Builder,
    sums: Sequence[Register],
    epilogue: Epilogue,
    rows: Iterator[Sequence[Register]],
    *,
    word: str = "",
) -> None:
    """Record the requantisation of vectors of sums; ``rows`` load multipliers, addends and shifts.

    Args:
        rows: for each vector of sums, or one for all.
        word: "_word" where they are words, for all lanes.
    """
    for value, multiplier in each_with(sums, next(rows)):
        b.vector(f"multiply_high{word}_32", value, multiplier, into=value)
    if epilogue.form is Form.DOUBLE:
        for value in sums:
            b.vector("add_32", value, b.vector("sign_32", value), into=value)
    for value, words in each_with(sums, next(rows)):
        b.vector(f"add{word}_32", value, words, into=value)
    for value, words in each_with(sums, next(rows)):
        operands = (words, value) if word else (value, words)
        b.vector(f"shift_by_negative{word}_32", *operands, into=value)


def narrow(b: Builder, values: Sequence[Register], epilogue: Epilogue) -> None:
    """Record vectors of words as bytes, one in each word, within what is stored."""
    for name in ("narrow_even_32", "narrow_even_16"):
        for value in values:
            b.vector(name, value, into=value)
    limit(b, values, epilogue)


def of_channels(
    b: Builder, values: Sequence[Register], table: Iterator[Sequence[Register]], epilogue: Epilogue
) -> Register:
    """Record the bytes of vectors of sums, each of one channel; those of two vectors stand by turns.

    Args:
        table: bias, multiplier, addend and shift of each vector, or of all.
    """
    for value, bias in each_with(values, next(table)):
        b.vector("add_word_32", value, bias, into=value)
    requantise(b, values, epilogue, table, word="_word")
    stored = b.vector("narrow_even_32", values[0], into=values[0])
    for other in values[1:]:
        b.vector("narrow_odd_32", other, stored, into=stored)
    b.vector("narrow_even_16", stored, into=stored)
    limit(b, [stored], epilogue)
    return stored


def limit(b: Builder, values: Sequence[Register], epilogue: Epilogue) -> None:
    """Record the lowest and the highest stored value; bytes of words that are not stored are leftovers."""
    if epilogue.clamp == (-128, 127):
        return
    for bound, name in zip(epilogue.clamp, ("larger_8", "smaller_8"), strict=True):
        vector = b.vector("fill_8", b.do("immediate", i=bound & 255))
        for value in values:
            b.vector(name, value, vector, into=value)
