# SPDX-License-Identifier: Apache-2.0
"""Ends of microkernels: sums to stored bytes, in the forms of `mlf_sdk.compiler.kernels.rescale`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mlf_sdk.compiler.kernels.rescale import Form, Rescale
from mlf_sdk.compiler.microkernels.builder import Builder, Register


class Epilogue(msgspec.Struct, frozen=True):
    """Requantisation as instructions need it: its form, the shift of all channels, lowest and highest value.

    Attributes:
        words: of each channel, which its stream holds.
    """

    form: Form
    shift: int
    clamp: tuple[int, int]
    words: int

    @classmethod
    def of(cls, rescale: Rescale) -> Epilogue:
        """The epilogue of a layer."""
        return cls(rescale.form, rescale.shift, rescale.clamp, rescale.rows.shape[1])

    @property
    def is_fine(self) -> bool:
        """True for the forms that take sums times 256."""
        return self.form in (Form.FINE, Form.SIGNED)

    def record(self, b: Builder, sums: Sequence[Register], words: Sequence[Register]) -> list[Register]:
        """Stored values of the sums of one channel."""
        return self.stored(b, self.high_words(b, sums, words))

    def high_words(self, b: Builder, sums: Sequence[Register], words: Sequence[Register]) -> list[Register]:
        """Sums times m, and r, before a shift that all channels share."""
        m, r, *others = words
        if self.form is Form.FINE:
            return b.each("smmla", sums, m, r)
        if self.form is Form.SIGNED:
            return [b.do("smmla", a, m, b.do("add", b.do("and_sign", others[0], a), r)) for a in sums]
        values = b.each("shift_left", sums, i=1)
        if self.form is Form.SINGLE:
            values = b.each("smmlar", values, m, r)
        else:
            values = b.each("smmulr", values, m)
            values = b.each("add", b.each("add_sign", values, values), r)
        return b.each("shift_right_by", values, others[0])

    def stored(self, b: Builder, values: Sequence[Register]) -> list[Register]:
        """Values as bytes between the lowest and the highest one."""
        if self.shift:
            result = b.each("shift_saturate_int8", values, i=self.shift)
        else:
            result = b.each("saturate_int8", values)
        low, high = self.clamp
        if low > -128:
            b.each("at_least", result, i=low, into=result)
        if high < 127:
            b.each("at_most", result, i=high, into=result)
        return result

    def two_channels(
        self, b: Builder, sums: Sequence[Sequence[Register]], words: Register, y: Register, distance: int
    ) -> None:
        """Requantise and store the sums of some pixels of two channels; the output moves on by two.

        Args:
            words: stream that the words of both channels come from.
            distance: between pixels of the output, bytes.
        """
        b.note(f"requantise {len(sums[0])} pixels of two channels")
        if self.words == 2:
            both = [b.load(words, 2) for _ in sums]
            stored = [self.record(b, row, own) for row, own in zip(sums, both, strict=True)]
        else:
            stored = [self.record(b, row, b.load(words, self.words)) for row in sums]
        for pixel in range(len(sums[0])):
            for channel in range(2):
                b.store_byte(y, stored[channel][pixel], pixel * distance + channel)
        b.advance(y, 2)
