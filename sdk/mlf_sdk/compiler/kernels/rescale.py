# SPDX-License-Identifier: Apache-2.0
"""Requantisation in kernels: the cheapest arithmetic that equals the reference for every sum that can occur.

A sum a becomes ``saturate((rounded high word of 2a * m + r) >> n)``. TFLM rounds twice, with halves away
from zero in the second step. ``SINGLE`` leaves the correction for negative values out, which is exact when
no sum that matters meets it; that is decided by comparing the sums at which each of the 255 results begins.
``FINE`` takes sums times 256, whose high word has eight more bits: m may lose as many, so that all channels
of a layer shift by the same n, and r is solved from the sums at which the results begin. ``SIGNED`` adds a
word to negative sums before: what rounding away from zero takes from their results. ``SPLIT``, of
`mlf_sdk.compiler.kernels.requantise_32bit`, takes both halves of a sum times a shorter m, for cores without long products.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.requantise import Multiplier, doubling_high_product, rounding_shift, wrap32


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


LOW, HIGH = -128, 127
_RESULTS: Final = np.arange(LOW + 1, HIGH + 1, dtype=np.int64)[None, :]
_NEAR: Final = 1  # at which most are: two steps of the search find them
FINE_BITS: Final = 8
_UNBOUNDED: Final = 1 << 40
_SAFE_SUM: Final = (1 << 30) - 1


def choose_rescale(
    multipliers: tuple[Multiplier, ...], zero_point: int, bounds: Array, clamp: tuple[float, float]
) -> Rescale:
    """The cheapest exact form for a layer with int8 results.

    Args:
        bounds: lowest and highest sum of each channel, shape (channels, 2).
    """
    limits = (int(clamp[0]), int(clamp[1]))
    values, shifts = _words(multipliers)
    lowest, constant = constant_results(multipliers, zero_point, bounds, clamp)
    n = np.where(constant, 1, -shifts)
    if _is_general(n, bounds[~constant]):
        rows = np.stack([values, shifts, np.full_like(values, zero_point)], axis=1)
        return Rescale(form=Form.GENERAL, rows=rows.astype(np.int32), clamp=limits, constant=constant)
    r = np.where(constant, lowest << 1, (np.int64(1) << (n - 1)) + (np.int64(zero_point) << n))
    m = np.where(constant, 0, values)
    rows = np.stack([m, r, n], axis=1).astype(np.int32)
    kept = ~constant
    exact = _single_is_exact(values[kept], shifts[kept], zero_point, rows[kept], bounds[kept], limits)
    form = Form.SINGLE if exact else Form.DOUBLE
    return Rescale(form=form, rows=rows, clamp=limits, constant=constant)


def scaled_sums(values: Array, shifts: Array, sums: Array) -> Array:
    """Scaled sums, one a channel, as the reference rounds them."""
    high = doubling_high_product(wrap32(sums << np.maximum(shifts, 0)), values)
    return rounding_shift(high, np.maximum(-shifts, 0))


def constant_results(
    multipliers: tuple[Multiplier, ...], zero_point: int, bounds: Array, clamp: tuple[float, float]
) -> tuple[Array, Array]:
    """Lowest result of each channel, and which channels have no other; none where only `Form.GENERAL` is exact.

    Args:
        bounds: lowest and highest sum of each channel, shape (channels, 2).
    """
    values, shifts = _words(multipliers)
    ends = (scaled_sums(values, shifts, bounds[:, i]) + zero_point for i in range(2))
    lowest, highest = (np.clip(end, int(clamp[0]), int(clamp[1])) for end in ends)
    constant = lowest == highest
    return lowest, constant & (not _is_general(np.where(constant, 1, -shifts), bounds[~constant]))


def _words(multipliers: tuple[Multiplier, ...]) -> tuple[Array, Array]:
    """Values and shifts."""
    return (
        np.array([m.value for m in multipliers], np.int64),
        np.array([m.shift for m in multipliers], np.int64),
    )


def _is_general(n: Array, bounds: Array) -> bool:
    """True where shifts to the right, or sums of channels that vary, are out of the range of the other forms."""
    return bool(n.min(initial=1) < 1 or n.max(initial=1) > 22 or np.abs(bounds).max(initial=0) > _SAFE_SUM)


def _single_is_exact(
    values: Array, shifts: Array, zero_point: int, rows: Array, bounds: Array, clamp: tuple[int, int]
) -> bool:
    """Compare the sums at which each result begins, in all channels at once."""
    m, r, n = (rows[:, i : i + 1].astype(np.int64) for i in range(3))

    def single(a: Array) -> Array:
        return np.clip(((2 * a * m + (r << 32) + (1 << 31)) >> 32) >> n, *clamp)

    starts = result_starts(values, shifts, zero_point, bounds, clamp)
    low, high = bounds[:, :1], bounds[:, 1:]
    reached = (starts > high) | (single(np.minimum(starts, high)) >= _RESULTS)
    missed = (starts <= low) | (single(np.maximum(starts - 1, low)) < _RESULTS)
    return bool((reached & missed).all())


def choose_fine(
    multipliers: tuple[Multiplier, ...],
    zero_point: int,
    bounds: Array,
    clamp: tuple[float, float],
    only: int = 0,
) -> Rescale | None:
    """The form for sums times 256, with one shift for all channels; None where none is exact.

    Args:
        only: shift that is tried; 0: those that lose the fewest bits.
    """
    limits = (int(clamp[0]), int(clamp[1]))
    values, shifts = _words(multipliers)
    ends = np.clip(
        np.stack([scaled_sums(values, shifts, bounds[:, i]) for i in range(2)]) + zero_point, *limits
    )
    constant = ends[0] == ends[1]
    largest = np.abs(bounds[~constant]).max(initial=0)
    if largest >= 1 << (31 - FINE_BITS) or shifts[~constant].max(initial=0) > 0:
        return None

    values, shifts, kept = values[~constant], shifts[~constant], bounds[~constant]
    most = int((FINE_BITS - 1 - shifts).min(initial=16))
    if only > most:
        return None
    starts = result_starts(values, shifts, zero_point, kept, limits)
    tried = (only,) if only else range(min(most, 23), max(most - 3, 0), -1)
    for shift, form in product(tried, (Form.FINE, Form.SIGNED)):
        layer = Search(shift, starts, kept, limits)
        lost = (
            -(np.int64(1) << np.maximum(shift + shifts, 0)) if form is Form.SIGNED else np.zeros_like(shifts)
        )
        found = layer.rows(values, shifts + shift - FINE_BITS + 1, lost)
        if found is not None:
            rows = np.stack([np.zeros_like(ends[0]), ends[0] << shift, np.zeros_like(ends[0])], axis=1)
            rows[~constant] = np.concatenate([found, lost[:, None]], axis=1)
            rows = rows[:, : 2 if form is Form.FINE else 3].astype(np.int32)
            return Rescale(form=form, rows=rows, clamp=limits, constant=constant, shift=shift)
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
            found = left & (least <= most) & (m >> self.bits == 0) & (m >= 0) & (total < 1 << 31)
            best[found] = np.stack([m, r], axis=1)[found]
            left &= ~found
            if not left.any():
                return best
        return None

    def _high(self, sums: Array, m: Array, lost: Array) -> Array:
        return ((sums * m[:, None]) >> self.down) + np.where(sums < 0, lost[:, None], 0)

    def _range(self, m: Array, lost: Array) -> tuple[Array, Array]:
        """Lowest and highest r with which every result begins at its sum."""
        wanted = _RESULTS
        inside = (wanted > self.clamp[0]) & (wanted <= self.clamp[1])
        edges = wanted << self.shift
        reached = inside & (self.starts <= self.bounds[:, 1:])
        missed = inside & (self.starts > self.bounds[:, :1])
        least = np.where(reached, edges - self._high(self.starts, m, lost), -_UNBOUNDED).max(axis=1)
        most = np.where(missed, edges - 1 - self._high(self.starts - 1, m, lost), _UNBOUNDED).min(axis=1)
        return least, most


def result_starts(
    values: Array, shifts: Array, zero_point: int, bounds: Array, clamp: tuple[int, int]
) -> Array:
    """Least sum within ``bounds`` at which the reference reaches each of -127...127, a row a channel.

    The highest sum plus one stands for a result that is never reached. The search begins near the sums that
    exact arithmetic gives, from which the reference's rounding differs by little.
    """
    low, high = bounds[:, :1].astype(np.int64), bounds[:, 1:].astype(np.int64)
    wanted, values, shifts = _RESULTS, values[:, None], shifts[:, None]
    first = np.repeat(low, wanted.size, axis=1)
    last = np.repeat(high + 1, wanted.size, axis=1)
    near = np.ceil((wanted - zero_point - 0.5) / np.ldexp(np.maximum(values, 1).astype(float), shifts - 31))
    near = np.where(wanted <= clamp[0], low, np.where(wanted > clamp[1], high + 1, near))
    near = np.clip(near, first, last).astype(np.int64)

    def narrow(sums: Array) -> tuple[Array, Array]:
        results = scaled_sums(values, shifts, np.minimum(sums, high)) + zero_point
        reached = (np.clip(results, *clamp) >= wanted) | (sums > high)
        return np.where(reached, first, np.minimum(sums + 1, last)), np.where(reached, sums, last)

    for apart in (-_NEAR - 1, _NEAR):
        first, last = narrow(np.clip(near + apart, first, last))
    while (first < last).any():
        first, last = narrow((first + last) >> 1)
    return first


def sum_bounds(weights: Array, bias: Array, low: int, high: int) -> Array:
    """Lowest and highest sum of each row of weights over inputs in [low, high]: shape (rows, 2).

    Inputs outside of the image count as 0, which lies between.
    """
    low, high = min(low, 0), max(high, 0)
    wide = weights.astype(np.int64)
    positive, negative = np.maximum(wide, 0).sum(axis=1), np.minimum(wide, 0).sum(axis=1)
    least = positive * low + negative * high + bias
    most = positive * high + negative * low + bias
    return np.stack([least, most], axis=1)


def low_words(numbers: Array) -> Array:
    """The low 32 bits of whole numbers, as int32."""
    return numbers.astype(np.uint64).astype(np.uint32).view(np.int32)
