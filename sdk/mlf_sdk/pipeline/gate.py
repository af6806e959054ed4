# SPDX-License-Identifier: Apache-2.0
"""Gates on the sizes of a built project: budgets, and a baseline of an earlier build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.errors import InputError
from mlf_sdk.judge.baseline import (
    Change,
    find_changes,
    make_baseline,
    parse_growth_limit,
    read_baseline,
    save_baseline,
)
from mlf_sdk.judge.budget import BUDGET_NAME, BudgetLine, Limit, check_budget, read_budget, total_limits
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.sizes import Sizes, measure_sizes
from mlf_sdk.pipeline.options import GateOptions
from mlf_sdk.pipeline.project import TargetProject


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """Limits with their results, and changes since the baseline (None: not compared)."""

    sizes: Sizes
    budget: tuple[BudgetLine, ...]
    changes: tuple[Change, ...] | None

    @property
    def ok(self) -> bool:
        """Return whether every limit is kept, and nothing grew beyond the tolerance."""
        return all(line.ok for line in self.budget) and all(c.ok for c in self.changes or ())


def gate(project: TargetProject, report: CheckReport, own: GateOptions) -> GateReport:
    """Compare the built image of a project with budgets and a baseline.

    Args:
        project: the project, built.
        report: result of `check` on it.
        own: the limits.

    Raises:
        InputError: a budget or baseline that can't be read, or limits what the image does not have.
    """
    limit = parse_growth_limit(own.tolerance)
    limits = _limits(project.folder, own)
    before = read_baseline(Path(own.baseline), project.lock.board) if own.baseline is not None else None
    image = read_image(project.target.image(project.folder))
    sizes = measure_sizes(project.lock, image, report)
    now = make_baseline(project.lock, sizes)
    gate_report = GateReport(
        sizes=sizes,
        budget=check_budget(limits, sizes, report),
        changes=None if before is None else find_changes(before, now, limit),
    )
    if own.save_baseline is not None:
        save_baseline(Path(own.save_baseline), now)
    return gate_report


def _limits(folder: Path, own: GateOptions) -> tuple[Limit, ...]:
    given = total_limits({"flash": own.max_flash, "ram": own.max_ram, "stack": own.max_stack})
    default = folder / BUDGET_NAME
    file = Path(own.budget) if own.budget else default if default.is_file() else None
    if file is not None and not file.is_file():
        raise InputError("there is no such budget", where=str(file))
    named = {limit.name for limit in given}
    rest = read_budget(file) if file is not None else ()
    return (*given, *(one for one in rest if one.kind != "total" or one.name not in named))
