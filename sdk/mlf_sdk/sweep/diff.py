# SPDX-License-Identifier: Apache-2.0
"""Difference of two sweeps: cells with the same labels, figure by figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlf_sdk.judge.baseline import GrowthLimit
from mlf_sdk.judge.check import PROVEN, UNPROVEN
from mlf_sdk.sweep.figures import GREATER_IS_BETTER, SMALLER_IS_BETTER
from mlf_sdk.sweep.results import SweepResult, SweepRow

_RANK: dict[str, int] = {PROVEN: 2, UNPROVEN: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Change of a figure, or of the verdict, of one cell.

    Attributes:
        labels: value by axis.
        what: name of the figure, or ``verdict``.
        before, after: None or empty where there is none.
        is_regression: worse by more than is permitted.
    """

    labels: Mapping[str, str]
    what: str
    before: float | str | None
    after: float | str | None
    is_regression: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepDifference:
    """All changes from one sweep to another, regressions first."""

    compared: int
    differences: tuple[Difference, ...]

    @property
    def regressions(self) -> tuple[Difference, ...]:
        """Those that are worse by more than is permitted."""
        return tuple(one for one in self.differences if one.is_regression)

    @property
    def ok(self) -> bool:
        """Something was compared, and nothing became worse by more than is permitted."""
        return self.compared > 0 and not self.regressions


def diff_sweeps(before: SweepResult, after: SweepResult, limit: GrowthLimit) -> SweepDifference:
    """Compare the cells of two sweeps that have the same value of each common axis.

    Args:
        before, after: the sweeps.
        limit: growth that is permitted: of sizes, counts and times; a share also of an accuracy's fall.
    """
    axes = [axis for axis in before.axes if axis in after.axes]
    old = {_key(row, axes): row for row in before.rows}
    new = {_key(row, axes): row for row in after.rows}
    differences: list[Difference] = []
    for key, row in old.items():
        labels = dict(zip(axes, key, strict=True))
        if key in new:
            differences += _changes(labels, row, new[key], limit)
        else:
            differences.append(_verdict_change(labels, row.verdict, "", is_regression=True))
    for key in new.keys() - old.keys():
        labels = dict(zip(axes, key, strict=True))
        differences.append(_verdict_change(labels, "", new[key].verdict, is_regression=False))
    differences.sort(key=lambda one: not one.is_regression)
    return SweepDifference(compared=len(old.keys() & new.keys()), differences=tuple(differences))


def _key(row: SweepRow, axes: list[str]) -> tuple[str, ...]:
    return tuple(row.labels[axis] for axis in axes)


def _verdict_change(labels: Mapping[str, str], before: str, after: str, *, is_regression: bool) -> Difference:
    return Difference(labels=labels, what="verdict", before=before, after=after, is_regression=is_regression)


def _changes(
    labels: Mapping[str, str], before: SweepRow, after: SweepRow, limit: GrowthLimit
) -> list[Difference]:
    result = []
    if before.verdict != after.verdict:
        worse = _RANK.get(after.verdict, 0) < _RANK.get(before.verdict, 0)
        result.append(_verdict_change(labels, before.verdict, after.verdict, is_regression=worse))
    for name in (*SMALLER_IS_BETTER, *GREATER_IS_BETTER):
        old, new = before.figures.get(name), after.figures.get(name)
        if old == new:
            continue
        worse = new is None if old is not None else False
        if old is not None and new is not None:
            growth = new - old if name in SMALLER_IS_BETTER else old - new
            room = old * limit.share
            worse = growth > (max(room, limit.size_bytes) if name.endswith("_bytes") else room)
        result.append(Difference(labels=labels, what=name, before=old, after=new, is_regression=bool(worse)))
    return result
