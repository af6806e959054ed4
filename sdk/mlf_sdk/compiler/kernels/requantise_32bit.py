# SPDX-License-Identifier: Apache-2.0
"""Requantisation for cores whose multiplication gives 32 bits only.

The lower bits of a sum and the rest of it are multiplied apart, by an m that is just as short that neither
product overflows. How far that is exact follows from the sums at which the results begin, as in `rescale`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.rescale import Form, Rescale, Search, choose_rescale, result_starts
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.requantise import Multiplier

Chooser = Callable[[tuple[Multiplier, ...], int, Array, tuple[float, float]], Rescale]
"""Choice of a requantisation, such as `choose_short`."""

_MOST_BITS: Final = 24  # of a sum's magnitude
_MOST_SHIFT: Final = 22  # of the high word, so that zero points fit


def choose_short(
    multipliers: tuple[Multiplier, ...], zero_point: int, bounds: Array, clamp: tuple[float, float]
) -> Rescale:
    """The cheapest exact form for a layer with int8 results on a core without long products."""
    usual = choose_rescale(multipliers, zero_point, bounds, clamp)
    if usual.form is Form.GENERAL:
        return usual
    return _split(multipliers, zero_point, bounds, usual) or usual


def _split(
    multipliers: tuple[Multiplier, ...], zero_point: int, bounds: Array, usual: Rescale
) -> Rescale | None:
    kept = ~usual.constant
    bits = int(np.abs(bounds[kept]).max(initial=1)).bit_length()
    if bits > _MOST_BITS or not kept.any():
        return None
    low = (bits + 1) // 2
    shifts = np.array([m.shift for m in multipliers], np.int64)[kept]
    values = np.array([m.value for m in multipliers], np.int64)[kept]
    short = np.minimum(min(32 - low, 31 - bits + low), _MOST_SHIFT + low + shifts)
    right = short - low - shifts
    if short.min() < 1 or right.min() < 1:
        return None

    starts = result_starts(values, shifts, zero_point, bounds[kept], usual.clamp)
    search = Search(right[:, None], starts, bounds[kept], usual.clamp, low, short)
    found = search.rows(values, short - 31, np.zeros_like(shifts))
    if found is None:
        return None
    rows = usual.rows.copy()
    rows[kept] = np.concatenate([found, right[:, None]], axis=1)
    return Rescale(form=Form.SPLIT, rows=rows, clamp=usual.clamp, constant=usual.constant, shift=low)
