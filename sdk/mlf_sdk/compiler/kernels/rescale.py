# SPDX-License-Identifier: Apache-2.0
"""Requantisation in kernels: the cheapest arithmetic that equals the reference for every sum that can occur.

A sum a becomes ``saturate((rounded high word of 2a * m + r) >> n)``. TFLM rounds twice, with halves away
from zero in the second step. ``SINGLE`` leaves the correction for negative values out, which is exact when
no sum that matters meets it; that is decided by comparing the sums at which each of the 255 results begins.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.requantise import Multiplier, doubling_high_product, rounding_shift, wrap32


class Form(enum.Enum):
    """Arithmetic of a requantisation."""

    SINGLE = "single"
    DOUBLE = "double"
    GENERAL = "general"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale:
    """Arithmetic from the sums of a layer to stored values.

    Attributes:
        rows: three words a channel: m, r, n (GENERAL: multiplier, shift, zero point).
        clamp: lowest and highest stored value.
        constant: channels whose result is the same for every input; their sums do not matter.
    """

    form: Form
    rows: Array
    clamp: tuple[int, int]
    constant: Array

    def bias(self, bias: Array) -> Array:
        """Biases, without those of channels whose sums do not matter."""
        return np.where(self.constant, 0, bias)


LOW, HIGH = -128, 127
_SAFE_SUM: Final = (1 << 30) - 1


def choose_rescale(
    multipliers: tuple[Multiplier, ...], zero_point: int, bounds: Array, clamp: tuple[float, float]
) -> Rescale:
    """The cheapest exact form for a layer with int8 results.

    Args:
        bounds: lowest and highest sum of each channel, shape (channels, 2).
    """
    limits = (int(clamp[0]), int(clamp[1]))
    shifts = np.array([m.shift for m in multipliers], np.int64)
    values = np.array([m.value for m in multipliers], np.int64)
    ends = np.stack([_reference(values, shifts, bounds[:, i]) for i in range(2)]) + zero_point
    ends = np.clip(ends, *limits)
    constant = ends[0] == ends[1]
    n = np.where(constant, 1, -shifts)
    if n.min(initial=1) < 1 or n.max(initial=1) > 22 or np.abs(bounds[~constant]).max(initial=0) > _SAFE_SUM:
        rows = np.stack([values, shifts, np.full_like(values, zero_point)], axis=1)
        never = np.zeros(len(multipliers), bool)
        return Rescale(form=Form.GENERAL, rows=rows.astype(np.int32), clamp=limits, constant=never)
    r = np.where(constant, ends[0] << 1, (np.int64(1) << (n - 1)) + (np.int64(zero_point) << n))
    m = np.where(constant, 0, values)
    rows = np.stack([m, r, n], axis=1).astype(np.int32)
    kept = ~constant
    exact = _single_is_exact(values[kept], shifts[kept], zero_point, rows[kept], bounds[kept], limits)
    form = Form.SINGLE if exact else Form.DOUBLE
    return Rescale(form=form, rows=rows, clamp=limits, constant=constant)


def _reference(values: Array, shifts: Array, sums: Array) -> Array:
    """Scaled sums, one a channel, as the reference rounds them."""
    high = doubling_high_product(wrap32(sums << np.maximum(shifts, 0)), values)
    return rounding_shift(high, np.maximum(-shifts, 0))


def _single_is_exact(
    values: Array, shifts: Array, zero_point: int, rows: Array, bounds: Array, clamp: tuple[int, int]
) -> bool:
    """Compare the sums at which each result begins, in all channels at once."""
    values, shifts = values[:, None], shifts[:, None]
    m, r, n = (rows[:, i : i + 1].astype(np.int64) for i in range(3))

    def reference(a: Array) -> Array:
        return np.clip(_reference(values, shifts, a) + zero_point, *clamp)

    def single(a: Array) -> Array:
        return np.clip(((2 * a * m + (r << 32) + (1 << 31)) >> 32) >> n, *clamp)

    return bool((thresholds(reference, bounds) == thresholds(single, bounds)).all())


def thresholds(function: Callable[[Array], Array], bounds: Array) -> Array:
    """Least sum within ``bounds`` at which a rising function reaches each of -127...127, a row a channel.

    The highest sum plus one stands for a result that is never reached.
    """
    wanted = np.arange(LOW + 1, HIGH + 1)[None, :]
    high = bounds[:, 1:].astype(np.int64)
    first = np.repeat(bounds[:, :1].astype(np.int64), wanted.size, axis=1)
    last = np.repeat(high + 1, wanted.size, axis=1)
    while (first < last).any():
        middle = (first + last) >> 1
        reached = (function(np.minimum(middle, high)) >= wanted) | (middle > high)
        last = np.where(reached, middle, last)
        first = np.where(reached, first, np.minimum(middle + 1, last))
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


HELPERS: Final = {
    Form.SINGLE: (
        "rescale_single",
        """static inline int32_t rescale_single(int32_t a, const int32_t *k)
{
    return (int32_t)(((int64_t)a * 2 * k[0] + (int64_t)k[1] * ((int64_t)1 << 32) + ((int64_t)1 << 31)) >> 32) >> k[2];
}
""",
    ),
    Form.DOUBLE: (
        "rescale_double",
        """static inline int32_t rescale_double(int32_t a, const int32_t *k)
{
    int32_t h = (int32_t)(((int64_t)a * k[0] + ((int64_t)1 << 30)) >> 31);
    return (h + (h >> 31) + k[1]) >> k[2];
}
""",
    ),
    Form.GENERAL: (
        "rescale_general",
        """static inline int32_t rescale_general(int32_t a, const int32_t *k)
{
    int32_t left = k[1] > 0 ? k[1] : 0;
    int32_t right = k[1] < 0 ? -k[1] : 0;
    int64_t product = (int64_t)(int32_t)((uint32_t)a << left) * k[0];
    int32_t h = (int32_t)((product + ((int64_t)1 << 30)) >> 31);
    if (right > 0) {
        h = (int32_t)(((int64_t)h + (h >> 31) + ((int64_t)1 << (right - 1))) >> right);
    }
    return h + k[2];
}
""",
    ),
}
SATURATE: Final = """#if defined(__ARM_FEATURE_SAT)
#include <arm_acle.h>
#endif
static inline int32_t saturate(int32_t v, int32_t low, int32_t high)
{
#if defined(__ARM_FEATURE_SAT)
    if (low == -128 && high == 127) {
        return __ssat(v, 8);
    }
#endif
    return v < low ? low : v > high ? high : v;
}
"""


def helpers(form: Form) -> dict[str, str]:
    """Static functions that `expression` needs."""
    return {"saturate": SATURATE, **dict([HELPERS[form]])}


def expression(rescale: Rescale, accumulator: str, row: str) -> str:
    """C expression of the stored value of a sum; ``row`` points to its three words."""
    low, high = rescale.clamp
    return f"saturate({HELPERS[rescale.form][0]}({accumulator}, {row}), {low}, {high})"
