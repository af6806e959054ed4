# SPDX-License-Identifier: Apache-2.0
"""Sweeps as functions: run a plan, look at it, merge, retry and cancel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.errors import InputError
from mlf_sdk.judge.check import FAILED
from mlf_sdk.pipeline.options import SweepOptions
from mlf_sdk.sweep.engine import Engine
from mlf_sdk.sweep.events import Watcher
from mlf_sdk.sweep.executors import open_executor, require_cluster
from mlf_sdk.sweep.expand import expand
from mlf_sdk.sweep.journal import Journal
from mlf_sdk.sweep.journalview import Attempt
from mlf_sdk.sweep.places import release_abandoned
from mlf_sdk.sweep.plan import Plan, make_plan, read_plan
from mlf_sdk.sweep.results import SweepResult, SweepRow, read_results, write_tables
from mlf_sdk.tools.locks import end_orphans, exclusive

_SHARD = re.compile(r"(\d+)/(\d+)")
_LOCK_S = 5.0
_LOCAL_WAIT_S = 2.0  # between two words of a worker that is started again


def run_sweep(
    plan: str | Path | Plan | None,
    output: str | Path,
    options: SweepOptions | None = None,
    *,
    watcher: Watcher | None = None,
) -> SweepResult:
    """Run all cells of a plan that are not finished in the output folder.

    Args:
        plan: file of a plan, or a plan; None: the options make one, or with ``resume`` the folder's last.
        output: folder of journal and results.
        options: how and where to run.
        watcher: called on progress.

    Returns:
        All cells of the plan; results are written beside the journal as well.

    Raises:
        InputError: the plan, a file or an option is not as it must be.
        ToolError: the extra ``sweep`` is not installed, another sweep works in the folder, or the scheduler
            is gone.
    """
    own, folder = options or SweepOptions(output=str(output)), Path(output)
    require_cluster()
    shown = watcher or Watcher()
    with (
        exclusive(f"sweep {folder.resolve()}", _LOCK_S),
        Journal(folder, create=plan is not None or not own.resume) as journal,
    ):
        number = _enter(journal, plan, own)
        journal.recover()
        left = _run(journal, number, own, shown)
        result = read_results(journal, number, left)
    write_tables(result)
    return result


def _enter(journal: Journal, plan: str | Path | Plan | None, own: SweepOptions) -> int:
    """Number of the plan to run, which is entered unless it is the journal's last."""
    if plan is None and own.resume and not own.archives:
        last = journal.last_plan()
        if last is None:
            raise InputError(
                "there is no plan to resume", where=str(journal.folder), hint="Give the plan as well."
            )
        return last
    if plan is None:
        plan = make_plan(own.archives, own.boards, own.settings)
    result = plan if isinstance(plan, Plan) else read_plan(plan)
    return journal.add_plan(result, expand(result), strict=own.strict is not False, shard=shard_of(own.shard))


def _run(journal: Journal, number: int, own: SweepOptions, shown: Watcher) -> dict[str, str]:
    wanted = journal.pending(number)
    total = sum(journal.counts(number).values())
    shown.begin(total, total - len(wanted), journal.titles(number))
    if not wanted:
        return {}
    boards = tuple(dict.fromkeys(place for spec in wanted for place in spec.places))
    wait_s = _LOCAL_WAIT_S if own.scheduler is None else own.wait_s
    end_orphans()
    release_abandoned()
    with open_executor(own.jobs, own.scheduler, cluster=True, boards=boards) as executor:
        engine = Engine(journal, executor, journal.references(number), shown, wait_s)
        return engine.run(wanted)


def shard_of(text: str) -> tuple[int, int]:
    """Numbers of ``I/N``.

    Raises:
        InputError: it is none, or I is not from 1 to N.
    """
    match = _SHARD.fullmatch(text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise InputError(f"invalid value {text!r}", where="--shard", hint="Such as 1/4: the first of four.")
    return number, count


def load_sweep(folder: str | Path) -> SweepResult:
    """Read the last plan of a sweep's folder with all that is known of its cells.

    Raises:
        InputError: there is no sweep.
    """
    with Journal(Path(folder)) as journal:
        last = journal.last_plan()
        if last is None:
            raise InputError("the sweep has no plan", where=str(folder))
        return read_results(journal, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """State of a sweep: its rows, attempts that run by cell, and boards set aside with the reasons."""

    result: SweepResult
    running: tuple[tuple[str, Attempt], ...]
    boards: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStatus:
    """Everything that is known of one cell."""

    row: SweepRow
    attempts: tuple[Attempt, ...]
    log: str


def read_status(folder: str | Path) -> SweepStatus:
    """Read how far a sweep is; errors as in `load_sweep`."""
    result = load_sweep(folder)
    with Journal(Path(folder)) as journal:
        return SweepStatus(result=result, running=tuple(journal.running()), boards=journal.boards_aside())


def read_cell(folder: str | Path, start: str) -> CellStatus:
    """Read one cell, of which the beginning of the name is given.

    Raises:
        InputError: there is none, or several.
    """
    result = load_sweep(folder)
    with Journal(Path(folder)) as journal:
        name = find_cell(journal, start)
        row = next((row for row in result.rows if row.name == name), None)
        if row is None:
            raise InputError("the cell is not of the last plan", where=name)
        return CellStatus(row=row, attempts=tuple(journal.attempts(name)), log=journal.log(name))


def retry_cells(folder: str | Path, cells: Sequence[str] = (), *, failed: bool = False) -> int:
    """Plan cells again; returns their number.

    Args:
        folder: of the sweep.
        cells: beginnings of their names; empty: all that were set aside, cancelled or lost.
        failed: those that failed as well.

    Raises:
        InputError: there is no such cell, or no sweep.
    """
    with Journal(Path(folder)) as journal:
        names = [find_cell(journal, start) for start in cells]
        return journal.retry(names, outcomes=[FAILED] if failed else [], boards=True)


def cancel_cells(folder: str | Path, cells: Sequence[str] = ()) -> int:
    """Cancel cells that are not finished, all if none is named; as `retry_cells`."""
    with Journal(Path(folder)) as journal:
        return journal.cancel([find_cell(journal, start) for start in cells])


def find_cell(journal: Journal, start: str) -> str:
    """Name of the cell that begins with ``start``.

    Raises:
        InputError: there is none, or several.
    """
    result = journal.names_like(start)
    if len(result) != 1:
        what = "there is no cell" if not result else f"{len(result)} cells begin with"
        raise InputError(
            f"{what} '{start}'", where=str(journal.folder), hint="See: mlf-sdk sweep status FOLDER."
        )
    return result[0]
