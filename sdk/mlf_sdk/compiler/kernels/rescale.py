# SPDX-License-Identifier: Apache-2.0
"""Requantisation in kernels: the cheapest arithmetic that equals the reference for every sum that can occur.

A sum a becomes ``saturate((rounded high word of 2a * m + r) >> n)``. TFLM rounds twice, with halves away
from zero in the second step. ``SINGLE`` leaves the correction for negative values out, which is exact when
no sum that matters meets it; that is decided by comparing the sums at which each of the 255 results begins.
``FINE`` takes sums times 256, whose high word has eight more bits: m may lose as many, so that all channels
of a layer shift by the same n, and r is solved from the sums at which the results begin. ``SIGNED`` adds a
word to negative sums before: what rounding away from zero takes from their results. ``SPLIT`` is
for cores whose multiplication gives 32 bits only: the lower bits of a sum and the rest of it are multiplied apart, by
an m that is just as short that neither product overflows.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.layer_sums import RESULTS, Sums
from mlf_sdk.compiler.operators import Array


class Form(enum.Enum):
    """Arithmetic of a requantisation."""

    FINE = "fine"
    SIGNED = "signed"
    SINGLE = "single"
    DOUBLE = "double"
    SPLIT = "split"
    GENERAL = "general"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale:
    """Arithmetic from the sums of a layer to stored values.

    Attributes:
        rows: three words a channel: m, r, n (GENERAL: multiplier, shift, zero point; FINE: m and r; SIGNED:
            m, r and what is added to negative sums).
        clamp: lowest and highest stored value.
        constant: channels whose result is the same for every input; their sums do not matter.
        shift: of all channels (FINE and SIGNED); of the sum before its lower part (SPLIT).
    """

    form: Form
    rows: Array
    clamp: tuple[int, int]
    constant: Array
    shift: int = 0

    @property
    def is_fine(self) -> bool:
        """True for the forms that take sums times 256."""
        return self.form in (Form.FINE, Form.SIGNED)

    @property
    def unit(self) -> int:
        """Factor of the sums that the forms take."""
        return 1 << FINE_BITS if self.is_fine else 1

    def folded(self, bias: Array, rows: Array, zero_point: int) -> Array:
        """Biases less what the zero point of the input contributes to the sums of rows of weights."""
        return self.bias(bias) - zero_point * rows.sum(axis=1, dtype=np.int64)

    def bias(self, bias: Array) -> Array:
        """Biases, without those of channels whose sums do not matter."""
        return np.where(self.constant, 0, bias)


FINE_BITS: Final = 8
_UNBOUNDED: Final = 1 << 40


def choose_rescale(sums: Sums) -> Rescale:
    """The cheapest exact form for a layer with int8 results."""
    values, shifts, constant, zero_point = sums.values, sums.shifts, sums.constant, sums.zero_point
    if sums.is_general:
        rows = np.stack([values, shifts, np.full_like(values, zero_point)], axis=1)
        form = Form.GENERAL
    else:
        n = np.where(constant, 1, -shifts)
        r = np.where(constant, sums.ends[0] << 1, (np.int64(1) << (n - 1)) + (np.int64(zero_point) << n))
        rows = np.stack([np.where(constant, 0, values), r, n], axis=1)
        form = Form.SINGLE if _single_is_exact(sums, rows) else Form.DOUBLE
    return Rescale(form=form, rows=rows.astype(np.int32), clamp=sums.limits, constant=constant)


def _single_is_exact(sums: Sums, rows: Array) -> bool:
    """Compare the sums at which each result begins, in all channels at once."""
    kept = ~sums.constant
    m, r, n = (rows[kept, i : i + 1] for i in range(3))

    def single(a: Array) -> Array:
        return np.clip(((2 * a * m + (r << 32) + (1 << 31)) >> 32) >> n, *sums.limits)

    starts = sums.starts[kept]
    low, high = sums.bounds[kept, :1], sums.bounds[kept, 1:]
    reached = (starts > high) | (single(np.minimum(starts, high)) >= RESULTS)
    missed = (starts <= low) | (single(np.maximum(starts - 1, low)) < RESULTS)
    return bool((reached & missed).all())


def choose_fine(sums: Sums, only: int = 0) -> Rescale | None:
    """The form for sums times 256, with one shift for all channels; None where none is exact.

    Args:
        only: shift that is tried; 0: those that lose the fewest bits.
    """
    key = (sums.multipliers, sums.zero_point, sums.bounds.tobytes(), sums.clamp, only)
    if key not in _KEPT:
        if len(_KEPT) >= _MOST_KEPT:
            _KEPT.clear()
        _KEPT[key] = _fine(sums, only)
    return _KEPT[key]


_MOST_KEPT: Final = 1024
_KEPT: dict[tuple[object, ...], Rescale | None] = {}  # tiles of one layer ask again and again


def _fine(sums: Sums, only: int) -> Rescale | None:
    fixed, first = sums.fixed, sums.ends[0]
    values, shifts, kept = sums.values[~fixed], sums.shifts[~fixed], sums.bounds[~fixed]
    if np.abs(kept).max(initial=0) >= 1 << (31 - FINE_BITS) or shifts.max(initial=0) > 0:
        return None

    most = int((FINE_BITS - 1 - shifts).min(initial=16))
    if only > most:
        return None
    tried = (only,) if only else range(min(most, 23), max(most - 3, 0), -1)
    for shift, form in product(tried, (Form.FINE, Form.SIGNED)):
        layer = Search(shift, sums.starts[~fixed], kept, sums.limits)
        lost = (
            -(np.int64(1) << np.maximum(shift + shifts, 0)) if form is Form.SIGNED else np.zeros_like(shifts)
        )
        result = layer.rows(values, shifts + shift - FINE_BITS + 1, lost)
        if result is not None:
            rows = np.stack([np.zeros_like(first), first << shift, np.zeros_like(first)], axis=1)
            rows[~fixed] = np.concatenate([result, lost[:, None]], axis=1)
            rows = rows[:, : 2 if form is Form.FINE else 3].astype(np.int32)
            return Rescale(form=form, rows=rows, clamp=sums.limits, constant=fixed, shift=shift)
    return None


@dataclass(frozen=True, slots=True)
class Search:
    """Search for the words of a layer's channels.

    Attributes:
        shift: of the high words, for all channels or shape (channels, 1).
        starts: sums at which results begin, see `result_starts`.
        down: bits that the product of a sum and m loses at first.
        bits: of m, for all channels or shape (channels,).
    """

    shift: int | Array
    starts: Array
    bounds: Array
    clamp: tuple[int, int]
    down: int = 32 - FINE_BITS
    bits: int | Array = 31

    def rows(self, values: Array, powers: Array, lost: Array) -> Array | None:
        """Words m and r of each channel; None where one has none.

        Args:
            values, powers: m before its bits are lost, and the power of two that m is scaled by.
            lost: what is added to the high word of negative sums.
        """
        best = np.zeros((len(values), 2), np.int64)
        left = np.ones(len(values), bool)
        base = np.where(powers >= 0, values << np.maximum(powers, 0), values >> np.maximum(-powers, 0))
        for near in (0, 1, -1, 2, -2):
            m = base + near
            least, most = self._range(m, lost)
            r = np.where(least > -_UNBOUNDED, least, most)
            total = np.abs(self._high(self.bounds, m, lost)).max(axis=1) + np.abs(r)
            result = left & (least <= most) & (m >> self.bits == 0) & (m >= 0) & (total < 1 << 31)
            best[result] = np.stack([m, r], axis=1)[result]
            left &= ~result
            if not left.any():
                return best
        return None

    def _high(self, sums: Array, m: Array, lost: Array) -> Array:
        return ((sums * m[:, None]) >> self.down) + np.where(sums < 0, lost[:, None], 0)

    def _range(self, m: Array, lost: Array) -> tuple[Array, Array]:
        """Lowest and highest r with which every result begins at its sum."""
        wanted = RESULTS
        inside = (wanted > self.clamp[0]) & (wanted <= self.clamp[1])
        edges = wanted << self.shift
        reached = inside & (self.starts <= self.bounds[:, 1:])
        missed = inside & (self.starts > self.bounds[:, :1])
        least = np.where(reached, edges - self._high(self.starts, m, lost), -_UNBOUNDED).max(axis=1)
        most = np.where(missed, edges - 1 - self._high(self.starts - 1, m, lost), _UNBOUNDED).min(axis=1)
        return least, most


def low_words(numbers: Array) -> Array:
    """The low 32 bits of whole numbers, as int32."""
    return numbers.astype(np.uint64).astype(np.uint32).view(np.int32)


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
