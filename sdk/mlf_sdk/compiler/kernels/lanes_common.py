# SPDX-License-Identifier: Apache-2.0
"""Parts that kernels for vectors of any length (RISC-V's V) share: strips of channels, requantisation, copies.

A strip is as many channels as the core has lanes. Each has a bias, a multiplier, an addend and a shift, which lie
behind each other as four rows of all channels. Requantisation is that of `rescale`: a rounded product, an addition, and
a shift that rounds, so that the addend is without its half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.rescale import Form, Rescale
from mlf_sdk.compiler.microkernels.builder import (
    BYTES,
    LANES,
    LOW,
    OUTPUT_BYTES,
    SUMS,
    WORD,
    Builder,
    Kind,
    Register,
)
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

COPY: Final = "copy_lanes", "fill_lanes"
"""Functions that copy and fill bytes."""
_WORD: Final = 4


def table_words(bias: Array, rescale: Rescale) -> Array:
    """Biases, multipliers, addends and shifts of all channels, one row behind the other."""
    m, r, n = rescale.rows.astype(np.int64).T
    return np.concatenate([bias, m, r - (np.int64(1) << (n - 1)), n]).astype(np.int32)


class Strip:
    """Channels that are lanes at once, within a loop over all of a layer."""

    def __init__(self, b: Builder, group: int, channels: int, table: Register, count: Register) -> None:
        """Begin with the first channel.

        Args:
            group: registers of a vector of sums.
            channels: of the layer.
            table: pointer to `table_words`.
            count: number of channels.
        """
        self.group = group
        self.channels = channels
        self.lanes = self._base = count
        self._b = b
        self._words = [table, *(b.place(table, _WORD * channels * k) for k in (1, 2, 3))]
        self._left = b.do("copy", count)

    def begin(self) -> None:
        """Ask for lanes."""
        self.lanes = self._base = self._b.do("lanes_16", self._left, i=self.group // 2, kind=LANES)

    def vector(
        self, name: str, *operands: Register, kind: Kind | None = None, into: Register | None = None
    ) -> Register:
        """One operation on all lanes."""
        return self._b.do(name, *operands, self.lanes, kind=kind or SUMS[self.group], into=into)

    def width(self, bits: int) -> None:
        """Let lanes have this width from here on."""
        parts = self.group * bits // 32
        if parts:
            self.lanes = self._b.do(f"of_{bits}", self.lanes, i=parts, kind=LANES)
        else:
            self.lanes = self._b.do("of_8_half", self.lanes, i=2, kind=LANES)

    def starts(self, pixels: int) -> list[Register]:
        """Sums of some pixels, which begin with the biases; lanes have 16 bits from here on."""
        self.lanes = self._base
        self.width(16)
        return [self.vector("load_words", self._words[0]) for _ in range(pixels)]

    def words(self, row: int) -> Register:
        """Words of a row of the table, for 32-bit lanes."""
        return self.vector("load_words", self._words[row], kind=LOW)

    def end(self, *pointers: Register) -> None:
        """Move pointers, one byte a channel, and the table to the channels that are left."""
        b, self.lanes = self._b, self._base
        size = b.do("shift_left", self.lanes, i=2)
        for pointer in self._words:
            b.do("add", pointer, size, into=pointer)
        for pointer in pointers:
            b.do("add", pointer, self.lanes, into=pointer)
        b.do("subtract", self._left, self.lanes, into=self._left)


def requantise_and_store(
    b: Builder, strip: Strip, sums: Sequence[Register], epilogue: Epilogue, place: Register
) -> None:
    """Record the stored values of pixels of a strip; ``place`` moves on behind them."""
    b.note(f"requantise {len(sums)} pixels")
    strip.width(32)
    words = strip.words(1)
    for value in sums:
        strip.vector("multiply_high_words", value, words, into=value)
    if epilogue.form is Form.DOUBLE:
        for value in sums:
            strip.vector("add_words", value, strip.vector("signs", value, kind=LOW), into=value)
    words = strip.words(2)
    for value in sums:
        strip.vector("add_words", value, words, into=value)
    words = strip.words(3)
    strip.width(16)
    strip.vector("narrow_words", words, kind=LOW, into=words)
    for value in sums:
        strip.vector("narrow_rounded", value, words, into=value)
    strip.width(8)
    for value in sums:
        strip.vector("narrow_halves", value, into=value)
    limit(b, sums, epilogue.clamp, strip.lanes)
    for value in sums:
        b.store("store_bytes", value, place, strip.lanes)
        b.advance(place, strip.channels)


def limit(b: Builder, values: Sequence[Register], clamp: tuple[int, int], lanes: Register) -> None:
    """Record the lowest and the highest of stored values."""
    names = "bytes_at_least", "bytes_at_most"
    for bound, usual, name in zip(clamp, (-128, 127), names, strict=True):
        if bound != usual:
            constant = b.do("immediate", i=bound)
            for value in values:
                b.do(name, value, constant, lanes, kind=value.kind, into=value)


def copies(body: str) -> Mapping[str, str]:
    """Texts of those functions of `COPY` that a kernel's body calls."""
    called = [pair for pair in zip(COPY, (_record_copy, _record_fill), strict=True) if f"{pair[0]}(" in body]
    return {key: text for name, record in called for key, text in recorded(name, "zve32x", record).items()}


def _record_copy() -> Builder:
    """Record a copy: to, from, bytes."""
    b = Builder(y=OUTPUT_BYTES, x=BYTES, n=WORD)
    y, x, n = b.parameters
    end = b.place(y, n)
    with b.loop(y, end):
        lanes = b.do("lanes_8", n, i=8, kind=LANES)
        values = b.do("load_bytes", x, lanes, kind=SUMS[8])
        b.store("store_bytes", values, y, lanes)
        b.do("add", x, lanes, into=x)
        b.do("subtract", n, lanes, into=n)
        b.do("add", y, lanes, into=y)
    return b


def _record_fill() -> Builder:
    """Record that bytes are filled with a value: to, value, bytes."""
    b = Builder(y=OUTPUT_BYTES, value=WORD, n=WORD)
    y, value, n = b.parameters
    end = b.place(y, n)
    with b.loop(y, end):
        lanes = b.do("lanes_8", n, i=8, kind=LANES)
        b.store("store_bytes", b.do("fill_bytes", value, lanes, kind=SUMS[8]), y, lanes)
        b.do("subtract", n, lanes, into=n)
        b.do("add", y, lanes, into=y)
    return b
