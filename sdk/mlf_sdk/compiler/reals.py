# SPDX-License-Identifier: Apache-2.0
"""Operators that formats of real numbers have and quantised ones lack; typed and frozen like the others."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from mlf_sdk.compiler.operators import Array, Operator, Rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul(Operator):
    """Matrix product of two values (..., m, k) and (..., k, n); the axes before are broadcast.

    A third input, of one element, is taken off every element of the first; the sums are whole numbers then.
    """


class Reduction(enum.Enum):
    """Function of all elements along some axes."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    L1 = "l1"
    L2 = "l2"
    SUM_SQUARE = "sum_square"
    LOG_SUM = "log_sum"
    LOG_SUM_EXP = "log_sum_exp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce(Operator):
    """Reduction along ``axes``; the shape of the output says whether they are kept.

    Attributes:
        rounding: of the sum or mean of what stored values stand for; None: of the numbers as they are stored.
    """

    function: Reduction
    axes: tuple[int, ...]
    rounding: Rounding | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalise(Operator):
    """Rows of ``size`` elements, divided by their deviation; inputs x and, as constants, scale and bias.

    Attributes:
        size: elements of a row; rows are contiguous.
        epsilon: added to the variance.
        centred: the mean is taken off first; without it the deviation is the root of the mean square.
    """

    size: int
    epsilon: float
    centred: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Resample(Operator):
    """Weighted sums of a few elements along two axes: interpolation of (planes, height, width, inner).

    Attributes:
        rows, columns: places in the input, (output extent, taps).
        row_weights, column_weights: of the same shapes; of int8 values, whose taps are two, in 1/1024.
    """

    rows: Array = field(repr=False, compare=False)
    columns: Array = field(repr=False, compare=False)
    row_weights: Array = field(repr=False, compare=False)
    column_weights: Array = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(Operator):
    """Slices of the first input along ``axis``, chosen by the second; negative ones count from the end."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulate(Operator):
    """Running sums along ``axis``."""

    axis: int
    exclusive: bool
    reverse: bool
