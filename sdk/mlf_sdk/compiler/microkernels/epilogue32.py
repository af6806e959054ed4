# SPDX-License-Identifier: Apache-2.0
"""Ends of microkernels by plain 32-bit instructions: sums to stored bytes, for cores that do not saturate.

Sums are as they are added up. A result less the lowest one lies between 0 and the highest less the lowest,
which is one comparison: `words` takes the lowest off what is added to the high word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.rescale import FINE_BITS, Form, Rescale, low_words
from mlf_sdk.compiler.microkernels.builder import Builder, Register
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.operators import Array


def words(layer: Contraction, rescale: Rescale, *, scaled: bool = False) -> tuple[Array, Array] | None:
    """Starts of the sums of each channel, and words of its requantisation; None where these overflow.

    Args:
        scaled: see `record`.
    """
    rows = rescale.rows.astype(np.int64)
    shift = rows[:, 2] if rescale.form in (Form.SINGLE, Form.DOUBLE) else rescale.shift
    r = rows[:, 1] - (rescale.clamp[0] << shift)
    high = np.abs(layer.bounds * (2 * rescale.unit) * rows[:, :1] >> 32).max(axis=1)
    lost = np.abs(rows[:, 2]) if rescale.form is Form.SIGNED else 1
    if (np.where(rows[:, 0] == 0, 0, high + 1) + lost + np.abs(r)).max(initial=0) >= 1 << 31:
        return None
    starts = rescale.folded(layer.bias, layer.centred, layer.x.zero_point)
    rows[:, 1] = r
    return low_words(starts * rescale.unit if scaled else starts), rows.astype(np.int32)


def record(
    b: Builder,
    epilogue: Epilogue,
    sums: Sequence[Register],
    given: Sequence[Register],
    most: Register,
    *,
    scaled: bool = False,
) -> list[Register]:
    """Stored values of the sums of one channel.

    Args:
        given: words of the channel behind the start of its sums.
        most: the highest result less the lowest.
        scaled: sums are times 256 where the form takes them so.
    """
    m, r, *others = given
    if epilogue.is_fine:
        values = sums if scaled else b.each("shift_left", sums, i=FINE_BITS)
        high = b.each("multiply_high", values, m)
        if epilogue.form is Form.SIGNED:
            lost = [b.do("and", b.do("shift_right", value, i=31), others[0]) for value in values]
            high = b.each("add", high, lost)
        high = b.each("shift_right", b.each("add", high, r), i=epilogue.shift)
    else:
        values = b.each("shift_left", sums, i=1)
        high = b.each("multiply_high", values, m)
        rounds = b.each("shift_right_unsigned", b.each("multiply", values, m), i=31)
        high = b.each("add", high, rounds)
        if epilogue.form is Form.DOUBLE:
            high = b.each("add", high, b.each("shift_right", high, i=31))
        high = b.each("shift_right_by", b.each("add", high, r), others[0])
    limited, low = b.each("limit_above_zero", high, most, into=high), epilogue.clamp[0]
    return b.each("take_constant", limited, i=-low) if low < 0 else b.each("add_constant", limited, i=low)


def span(b: Builder, epilogue: Epilogue) -> Register:
    """The highest result less the lowest, in a register."""
    return b.do("immediate", i=epilogue.clamp[1] - epilogue.clamp[0])
