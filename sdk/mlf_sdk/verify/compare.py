# SPDX-License-Identifier: Apache-2.0
"""Outputs against a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far a float may be off: ``|a - b| <= atol + rtol * |b|``. Integers must be equal unless
    ``atol`` is at least 1."""

    rtol: float = 1e-5
    atol: float = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDifference:
    """How one output differs from its reference.

    Attributes:
        max_abs: largest absolute difference.
        max_rel: largest difference relative to the reference, where that is not zero.
        mismatches: elements outside the tolerance.
        elements: elements compared.
    """

    name: str
    max_abs: float
    max_rel: float
    mismatches: int
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All outputs against a reference."""

    outputs: tuple[OutputDifference, ...]

    @property
    def max_abs(self) -> float:
        """Largest absolute difference over all outputs."""
        return max((o.max_abs for o in self.outputs), default=0.0)

    @property
    def max_rel(self) -> float:
        """Largest relative difference over all outputs."""
        return max((o.max_rel for o in self.outputs), default=0.0)

    @property
    def mismatches(self) -> int:
        """Elements outside the tolerance, over all outputs."""
        return sum(o.mismatches for o in self.outputs)

    @property
    def ok(self) -> bool:
        """Whether every element lies inside the tolerance."""
        return self.mismatches == 0


def compare_outputs(
    got: Mapping[str, Array], expected: Mapping[str, Array], tolerance: Tolerance
) -> Comparison:
    """Compare the outputs that ``expected`` names; shapes must be the same already."""
    differences = [_difference(name, got[name], expected[name], tolerance) for name in expected]
    return Comparison(outputs=tuple(differences))


def _difference(name: str, got: Array, expected: Array, tolerance: Tolerance) -> OutputDifference:
    if got.dtype.kind in "iub" and expected.dtype.kind in "iub":
        a: npt.NDArray[Any] = got.astype(object) if got.dtype.itemsize == 8 else got.astype(np.int64)
        b: npt.NDArray[Any] = (
            expected.astype(object) if expected.dtype.itemsize == 8 else expected.astype(np.int64)
        )
        delta = np.abs(a - b).astype(np.float64)
        outside = delta > (tolerance.atol if tolerance.atol >= 1 else 0)
        scale = np.abs(b).astype(np.float64)
    else:
        x, y = got.astype(np.float64), expected.astype(np.float64)
        with np.errstate(invalid="ignore"):
            delta = np.abs(x - y)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        delta = np.where(same, 0.0, np.where(np.isfinite(delta), delta, np.inf))
        scale = np.abs(y)
        with np.errstate(invalid="ignore"):
            outside = ~same & ~(delta <= tolerance.atol + tolerance.rtol * scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(scale > 0, delta / scale, 0.0)
    relative = np.where(np.isnan(relative), np.inf, relative)
    return OutputDifference(
        name=name,
        max_abs=float(delta.max(initial=0.0)),
        max_rel=float(relative.max(initial=0.0)),
        mismatches=int(np.count_nonzero(outside)),
        elements=int(delta.size),
    )
