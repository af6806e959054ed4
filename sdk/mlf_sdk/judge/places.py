# SPDX-License-Identifier: Apache-2.0
"""What one model gives on several targets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.judge.bisect import StepDifference
from mlf_sdk.judge.compare import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceResult:
    """One target against the first.

    Attributes:
        name: as it was asked for: ``host``, a board, ``dir:FOLDER``, ``port:PORT``.
        board: what it runs on.
        comparison: of the outputs of all inferences; None: this is the first target.
        inference: the first inference whose outputs differ; None: none does.
        first: the first step that differs; None: no step does, or they were not looked at.
        steps_equal: whether every step agrees within the tolerance; None: they were not looked at.
        saved: npz file with that step's inputs and outputs.
        note: why more can't be said.
    """

    name: str
    board: str
    comparison: Comparison | None = None
    inference: int | None = None
    first: StepDifference | None = None
    steps_equal: bool | None = None
    saved: Path | None = None
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return (self.comparison is None or self.comparison.ok) and self.steps_equal is not False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareReport:
    """One model on several targets; the first of ``places`` is what the others are held against."""

    model: str
    archive_sha256: str
    inferences: int
    steps: int
    places: tuple[PlaceResult, ...]

    @property
    def ok(self) -> bool:
        """Whether all targets agree."""
        return all(place.ok for place in self.places)
