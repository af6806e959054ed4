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

    def record(self, b: Builder, sums: Sequence[Register], words: Sequence[Register]) -> list[Register]:
        """Stored values of the sums of one channel."""
        m, r, *others = words
        values = list(sums)
        if self.form is Form.FINE:
            values = b.each("smmla", values, m, r)
        elif self.form is Form.SIGNED:
            values = [b.do("smmla", a, m, b.do("add", b.do("and_sign", others[0], a), r)) for a in values]
        else:
            values = b.each("shift_left", values, i=1)
            if self.form is Form.SINGLE:
                values = b.each("smmlar", values, m, r)
            else:
                values = b.each("smmulr", values, m)
                values = b.each("add", b.each("add_sign", values, values), r)
            values = b.each("shift_right_by", values, others[0])
        if self.shift:
            values = b.each("shift_saturate_int8", values, i=self.shift)
        else:
            values = b.each("saturate_int8", values)
        low, high = self.clamp
        if low > -128:
            b.each("at_least", values, i=low, into=values)
        if high < 127:
            b.each("at_most", values, i=high, into=values)
        return values
