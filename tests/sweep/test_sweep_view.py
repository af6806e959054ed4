# SPDX-License-Identifier: Apache-2.0
"""What a person sees while a sweep runs: names that say which cell, where it runs, and the failures."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import msgspec
from rich.console import Console

from mlf_sdk.cli.sweepview import LiveView, SweepView
from mlf_sdk.judge.check import FAILED
from mlf_sdk.sweep.expand import Expansion, PlannedCell
from mlf_sdk.sweep.job import Job
from mlf_sdk.sweep.journal import Journal
from mlf_sdk.sweep.plan import Plan
from sweep_jobs import empty, specs


def console() -> Console:
    return Console(file=io.StringIO(), width=60, color_system=None)


def shown(where: Console) -> str:
    file = where.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_titles_are_the_labels_of_what_is_left(tmp_path: Path) -> None:
    first, second = specs(2)
    labels = {"model": "kws", "board": "microbit"}
    planned = (PlannedCell(spec=first, labels=labels), PlannedCell(spec=second, labels=labels))
    with Journal(tmp_path, create=True) as journal:
        number = journal.add_plan(Plan(), Expansion(axes={}, cells=planned, references={}))
        journal.finish(empty(Job(spec=first)))
        assert journal.titles(number) == {second.name: "kws, microbit"}


def test_a_failure_names_its_cell_by_its_labels() -> None:
    view = SweepView(console())
    (spec,) = specs(1, start=3)
    view.begin(2, 0, {spec.name: "kws, microbit, -Os"})
    result = empty(Job(spec=spec))
    assert result.cell is not None
    failed = msgspec.structs.replace(result.cell, outcome=FAILED, why="stack: 3,000 of 2,048 B")
    view.ended(spec.name, replace(result, cell=failed))
    assert f"{spec.name[:8]} kws, microbit, -Os: failed: stack: 3,000 of 2,048 B\n" in shown(view.console)


def test_running_cells_have_a_line_each_that_is_cut_to_the_terminal() -> None:
    view = LiveView(console())
    cells = specs(10, start=1)
    view.begin(12, 2, {spec.name: f"{'long' * 20} on {at}" for at, spec in enumerate(cells)})
    for spec in cells:
        view.started(spec.name, "desk:1")
    view.console.print(view)
    bar, *lines = shown(view.console).splitlines()[1:]
    assert "2/12" in bar
    assert lines[-1] == "  and 2 more" and len(lines) == 9
    assert all(
        line.startswith(f"  {spec.name[:8]} long") for line, spec in zip(lines[:-1], cells[:8], strict=True)
    )
    view.ended(cells[0].name, empty(Job(spec=cells[0])))
    assert view.done == 3 and cells[0].name not in view.running
