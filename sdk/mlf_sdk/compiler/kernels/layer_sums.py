# SPDX-License-Identifier: Apache-2.0
"""Sums of a layer's channels: their bounds, and the stored values that the reference makes of them."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.requantise import Multiplier, doubling_high_product, rounding_shift, wrap32

RESULTS: Final = np.arange(-127, 128, dtype=np.int64)[None, :]
"""Results that sums are searched for, which are above the lowest of all."""

_NEAR: Final = 1  # at which most are: two steps of the search find them
_SAFE_SUM: Final = (1 << 30) - 1


class Sums(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """Sums of channels, and the stored values that the reference makes of them.

    Attributes:
        multipliers: one a channel.
        zero_point: of the results.
        bounds: lowest and highest sum of each channel, shape (channels, 2).
        clamp: lowest and highest result.
    """

    multipliers: tuple[Multiplier, ...]
    zero_point: int
    bounds: Array
    clamp: tuple[float, float]

    @property
    def limits(self) -> tuple[int, int]:
        """Lowest and highest result as whole numbers."""
        return int(self.clamp[0]), int(self.clamp[1])

    @cached_property
    def values(self) -> Array:
        """Values of the multipliers."""
        return np.array([m.value for m in self.multipliers], np.int64)

    @cached_property
    def shifts(self) -> Array:
        """Shifts of the multipliers."""
        return np.array([m.shift for m in self.multipliers], np.int64)

    @cached_property
    def ends(self) -> Array:
        """Results of the lowest and of the highest sum of each channel, shape (2, channels)."""
        result = [scaled_sums(self.values, self.shifts, self.bounds[:, i]) for i in range(2)]
        return np.clip(np.stack(result) + self.zero_point, *self.limits)

    @property
    def fixed(self) -> Array:
        """Channels whose result is the same for every input; not those whose sums wrap, which may have others within."""
        largest = np.abs(self.bounds).max(axis=1) << np.maximum(self.shifts, 0)
        return np.asarray((self.ends[0] == self.ends[1]) & (largest < 1 << 31))

    @cached_property
    def is_general(self) -> bool:
        """True where shifts to the right, or sums that vary, are out of the range of all forms but `Form.GENERAL`."""
        n = -self.shifts[~self.fixed]
        largest = np.abs(self.bounds[~self.fixed]).max(initial=0)
        return bool(n.min(initial=1) < 1 or n.max(initial=1) > 22 or largest > _SAFE_SUM)

    @property
    def constant(self) -> Array:
        """Channels that are `fixed`; none where only `Form.GENERAL` is exact."""
        return self.fixed & (not self.is_general)

    @cached_property
    def starts(self) -> Array:
        """Sums at which results begin, see `result_starts`."""
        return result_starts(self.values, self.shifts, self.zero_point, self.bounds, self.limits)


def scaled_sums(values: Array, shifts: Array, sums: Array) -> Array:
    """Scaled sums, one a channel, as the reference rounds them."""
    high = doubling_high_product(wrap32(sums << np.maximum(shifts, 0)), values)
    return rounding_shift(high, np.maximum(-shifts, 0))


def result_starts(
    values: Array, shifts: Array, zero_point: int, bounds: Array, clamp: tuple[int, int]
) -> Array:
    """Least sum within ``bounds`` at which the reference reaches each of -127...127, a row a channel.

    The highest sum plus one stands for a result that is never reached. The search begins near the sums that
    exact arithmetic gives, from which the reference's rounding differs by little.
    """
    low, high = bounds[:, :1].astype(np.int64), bounds[:, 1:].astype(np.int64)
    wanted, values, shifts = RESULTS, values[:, None], shifts[:, None]
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
