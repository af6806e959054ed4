# SPDX-License-Identifier: Apache-2.0
"""Requantisation for cores whose multiplication gives 32 bits only.

The lower bits of a sum and the rest of it are multiplied apart, by an m that is just as short that neither
product overflows. How far that is exact follows from the sums at which the results begin, as in `rescale`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.layer_sums import Sums
from mlf_sdk.compiler.kernels.rescale import Form, Rescale, Search, choose_rescale

Chooser = Callable[[Sums], Rescale]
"""Choice of a requantisation, such as `choose_short`."""

_MOST_BITS: Final = 24  # of a sum's magnitude
_MOST_SHIFT: Final = 22  # of the high word, so that zero points fit


def choose_short(sums: Sums) -> Rescale:
    """The cheapest exact form for a layer with int8 results on a core without long products."""
    usual = choose_rescale(sums)
    return usual if sums.is_general else _split(sums, usual) or usual


def _split(sums: Sums, usual: Rescale) -> Rescale | None:
    kept = ~usual.constant
    values, shifts, bounds = sums.values[kept], sums.shifts[kept], sums.bounds[kept]
    bits = int(np.abs(bounds).max(initial=1)).bit_length()
    if bits > _MOST_BITS or not kept.any():
        return None
    low = (bits + 1) // 2
    short = np.minimum(min(32 - low, 31 - bits + low), _MOST_SHIFT + low + shifts)
    right = short - low - shifts
    if short.min() < 1 or right.min() < 1:
        return None

    search = Search(right[:, None], sums.starts[kept], bounds, sums.limits, low, short)
    result = search.rows(values, short - 31, np.zeros_like(shifts))
    if result is None:
        return None
    rows = usual.rows.copy()
    rows[kept] = np.concatenate([result, right[:, None]], axis=1)
    return Rescale(form=Form.SPLIT, rows=rows, clamp=usual.clamp, constant=usual.constant, shift=low)
