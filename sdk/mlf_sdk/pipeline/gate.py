# SPDX-License-Identifier: Apache-2.0
"""Gates on the sizes of a built project: budgets, and a baseline of an earlier build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.analysis.elf.image import read_image
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import InputError
from mlf_sdk.judge.baseline import (
    Change,
    changes,
    make_baseline,
    parse_tolerance,
    read_baseline,
    save_baseline,
)
from mlf_sdk.judge.budget import BUDGET_NAME, BudgetLine, Limit, check_budget, read_budget, total_limits
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.sizes import Sizes, measure_sizes
from mlf_sdk.pipeline.project import PathLike
from mlf_sdk.targets.platforms import image_path


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What an image is held against.

    Attributes:
        most: limits of ``flash``, ``ram``, ``stack`` as text (64K, 65536); these come before the file's.
        budget: a budget file; None: the project's own ``mlf-budget.toml``, if there is one.
        baseline: a file that `save` wrote; None: not compared.
        tolerance: how much may grow: ``1%``, bytes, or both with a comma.
        save: where to write the sizes of this image.
    """

    most: Mapping[str, str | None]
    budget: Path | None = None
    baseline: Path | None = None
    tolerance: str = "0"
    save: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """What became of the limits, and what changed since the baseline (None: not compared)."""

    sizes: Sizes
    budget: tuple[BudgetLine, ...]
    changes: tuple[Change, ...] | None

    @property
    def ok(self) -> bool:
        """Whether every limit is kept and nothing grew beyond the tolerance."""
        return all(line.ok for line in self.budget) and all(c.ok for c in self.changes or ())


def gate(folder: PathLike, report: CheckReport, request: GateRequest) -> GateReport:
    """Hold the built image of a project against budgets and a baseline.

    Args:
        report: what `check` found of it.

    Raises:
        InputError: a budget or baseline that can't be read, or limits what the image does not have.
    """
    path = Path(folder)
    lock = read_lock(path)
    tolerance = parse_tolerance(request.tolerance)
    limits = _limits(path, request)
    before = read_baseline(request.baseline, lock.board) if request.baseline is not None else None
    sizes = measure_sizes(lock, read_image(image_path(path, lock)), report)
    now = make_baseline(lock, sizes)
    found = GateReport(
        sizes=sizes,
        budget=check_budget(limits, sizes, report),
        changes=None if before is None else changes(before, now, tolerance),
    )
    if request.save is not None:
        save_baseline(request.save, now)
    return found


def _limits(folder: Path, request: GateRequest) -> tuple[Limit, ...]:
    given = total_limits(request.most)
    file = request.budget or (own if (own := folder / BUDGET_NAME).is_file() else None)
    if file is not None and not file.is_file():
        raise InputError("there is no such budget", where=str(file))
    named = {limit.name for limit in given}
    rest = read_budget(file) if file is not None else ()
    return (*given, *(one for one in rest if one.kind != "total" or one.name not in named))
