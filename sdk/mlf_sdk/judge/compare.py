# SPDX-License-Identifier: Apache-2.0
"""Comparison of outputs with a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlf_sdk.tools.arrays import Array

_ROUNDING = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Permitted difference of an element from its reference.

    Floats: ``|a - b| <= atol + rtol * scale``, where ``scale`` is the largest magnitude of that output in
    that inference's reference: sums over many terms are only as exact as their largest. Integers must be
    equal unless ``atol`` is at least 1.
    """

    rtol: float = 1e-5
    atol: float = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDifference:
    """Difference of one output from its reference.

    Attributes:
        max_abs: largest absolute difference.
        max_rel: largest difference divided by the largest magnitude of the output in its inference.
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
    """Differences of all outputs from a reference."""

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
        """Return whether every element lies inside the tolerance."""
        return self.mismatches == 0

    @property
    def is_close(self) -> bool:
        """Return whether nothing but rounding differs: a thousandth of the output's largest magnitude."""
        return self.max_rel <= _ROUNDING


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDifference:
    """First step whose outputs differ between two targets.

    Attributes:
        number: of the step in the archive.
        index: position in the order of execution of the reference.
        name: of the function.
        output: index of the output that differs; ``tensor`` is its name.
        difference: its size, and the number of elements.
        at: index of the element with the largest difference.
        expected, got: that element on the reference and on the other target.
        same_inputs: the inputs of the step are equal bit for bit; else they differ within the tolerance.
        inside: numbers of the layers that run by rows in the step, whose own outputs are never whole.
    """

    number: int
    index: int
    name: str
    output: int
    tensor: str
    shape: tuple[int, ...]
    dtype: str
    difference: OutputDifference
    at: tuple[int, ...]
    expected: float | int
    got: float | int
    same_inputs: bool
    inside: tuple[int, ...] = ()


def compare_outputs(
    got: Mapping[str, Array], expected: Mapping[str, Array], tolerance: Tolerance
) -> Comparison:
    """Compare outputs with their reference.

    Args:
        got: outputs by name, each (inferences, *shape).
        expected: reference by name, of the same shapes; only these outputs are compared.
        tolerance: permitted difference.

    Raises:
        ValueError: an output and its reference differ in inferences or elements: nothing is repeated.
    """
    differences = [_difference(name, got[name], expected[name], tolerance) for name in expected]
    return Comparison(outputs=tuple(differences))


def differences_text(comparison: Comparison) -> str:
    """Outputs that differ, for people: in how many elements, and how much."""
    parts = [
        f"'{o.name}' differs in {o.mismatches} of {o.elements} elements "
        f"(max {o.max_abs:.3g}, relative {o.max_rel:.3g})"
        for o in comparison.outputs
        if o.mismatches
    ]
    return "; ".join(parts)


def _difference(name: str, got: Array, expected: Array, tolerance: Tolerance) -> OutputDifference:
    if got.shape[:1] != expected.shape[:1] or got.size != expected.size:
        raise ValueError(f"output '{name}' of shape {got.shape} against a reference of {expected.shape}")
    got = got.reshape(expected.shape)
    if got.dtype.kind in "iub" and expected.dtype.kind in "iub":
        delta = _integer_delta(got, expected)
        outside = delta > (tolerance.atol if tolerance.atol >= 1 else 0)
        scale = _scale(expected.astype(np.float64))
    else:
        x, y = got.astype(np.float64), expected.astype(np.float64)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        with np.errstate(invalid="ignore"):
            delta = np.abs(x - y)
        delta = np.where(same, 0.0, np.where(np.isfinite(delta), delta, np.inf))
        scale = _scale(y)
        outside = delta > tolerance.atol + tolerance.rtol * scale
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(delta > 0, delta / scale, 0.0)
    return OutputDifference(
        name=name,
        max_abs=float(delta.max(initial=0.0)),
        max_rel=float(relative.max(initial=0.0)),
        mismatches=int(np.count_nonzero(outside)),
        elements=int(delta.size),
    )


def _integer_delta(got: Array, expected: Array) -> npt.NDArray[np.float64]:
    """Absolute differences of integers, exact for 64 bits as well."""
    wide = object if max(got.dtype.itemsize, expected.dtype.itemsize) == 8 else np.int64
    a: npt.NDArray[Any] = got.astype(wide)
    b: npt.NDArray[Any] = expected.astype(wide)
    delta: npt.NDArray[np.float64] = np.abs(a - b).astype(np.float64)
    return delta


def _scale(reference: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Largest finite magnitude of each inference, shaped to broadcast over its elements."""
    finite = np.where(np.isfinite(reference), np.abs(reference), 0.0)
    scale: npt.NDArray[np.float64] = finite.max(axis=tuple(range(1, finite.ndim)), keepdims=True, initial=0.0)
    return scale
