# SPDX-License-Identifier: Apache-2.0
"""Sweeps as text and as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from mlf_sdk.errors import command_text
from mlf_sdk.judge.check import PROVEN
from mlf_sdk.pipeline.cell import NOT_HERE
from mlf_sdk.reporting.layout import Parts, counted, figure, line, lines, number, table, verdict
from mlf_sdk.reporting.proof import ProofTable
from mlf_sdk.sweep.api import CellStatus, SweepStatus
from mlf_sdk.sweep.diff import Difference, SweepDifference
from mlf_sdk.sweep.journal import ASIDE, LOST
from mlf_sdk.sweep.results import SweepResult, SweepRow, values_of

_MOST_ROWS = 40
_SHOWN = ("flash_bytes", "ram_bytes", "stack_bound_bytes", "instructions", "chip_ms")
_LOG_LINES = 40


def sweep_parts(sweep_result: SweepResult, page: Path) -> Parts:
    """Lay out a sweep: a table of few cells, reasons of those that failed, counts, verdict."""
    bad = [row for row in sweep_result.rows if row.verdict not in (PROVEN, NOT_HERE)]
    parts: Parts = []
    if len(sweep_result.rows) <= _MOST_ROWS:
        parts.append(_cells(sweep_result, sweep_result.rows))
    parts += lines("not proven", [f"{_name(row)}: {row.verdict}: {row.why}" for row in bad[:_MOST_ROWS]])
    if len(bad) > _MOST_ROWS:
        parts.append(f"... and {len(bad) - _MOST_ROWS:,} more (--json lists all)")
    parts += [
        line("cells", _counts(sweep_result)),
        line("page", str(page)),
        line("verdict", verdict(sweep_result.ok)),
    ]
    if sweep_result.left or any(row.state == ASIDE for row in sweep_result.rows):
        parts.insert(-1, line("next", command_text("sweep", "retry", sweep_result.folder)))
    return parts


def _counts(sweep_result: SweepResult) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sweep_result.counts.items())


def _cells(sweep_result: SweepResult, rows: Sequence[SweepRow]) -> Any:  # noqa: ANN401 (a renderable)
    shown = [name for name in _SHOWN if any(name in row.figures for row in rows)]
    axes = [axis for axis, values in sweep_result.axes.items() if len(values) > 1 or axis == "model"]
    heads = [*axes, "verdict", *(f">{name}" for name in shown), "=cell"]
    cells = [
        [
            *(row.labels[axis] for axis in axes),
            row.verdict,
            *(_figure(name, row.figures.get(name)) for name in shown),
            row.name[:8],
        ]
        for row in rows
    ]
    return table(heads, cells)


def _figure(name: str, value: float | None) -> str:
    if name.endswith("_ms"):
        return figure(value)
    return number(None if value is None else int(value))


def _name(row: SweepRow) -> str:
    return f"{row.name[:8]} ({', '.join(row.labels.values())})"


def sweep_values(sweep_result: SweepResult, page: Path | None = None) -> dict[str, Any]:
    """A sweep as plain values."""
    return {
        "ok": sweep_result.ok,
        "title": sweep_result.title,
        "folder": str(sweep_result.folder),
        "page": None if page is None else str(page),
        "axes": {axis: list(values) for axis, values in sweep_result.axes.items()},
        "counts": sweep_result.counts,
        "cells": [values_of(row) for row in sweep_result.rows],
    }


# ---- state ----


def status_parts(sweep_status: SweepStatus) -> Parts:
    """Lay out how far a sweep is."""
    rows = {row.name: row for row in sweep_status.result.rows}
    aside, lost = (
        [f"{_name(row)}: {row.why}" for row in sweep_status.result.rows if row.state == state]
        for state in (ASIDE, LOST)
    )
    running = [
        f"{_name(rows[name])} on {attempt.worker} since {_time(attempt.started)}"
        for name, attempt in sweep_status.running
        if name in rows
    ]
    return [
        line("sweep", sweep_status.result.title),
        line("cells", f"{counted(len(rows), 'cell')}: {_counts(sweep_status.result)}"),
        *lines("running", running),
        *lines("set aside", aside),
        *lines("lost", lost),
        *lines("boards", [f"{name} is set aside: {why}" for name, why in sweep_status.boards.items()]),
    ]


def status_values(sweep_status: SweepStatus) -> dict[str, Any]:
    """State of a sweep as plain values."""
    return {
        "title": sweep_status.result.title,
        "states": dict(Counter(row.state for row in sweep_status.result.rows)),
        "running": [
            {"cell": name, "worker": a.worker, "started": a.started} for name, a in sweep_status.running
        ],
        "boards_set_aside": dict(sweep_status.boards),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def cell_parts(cell_status: CellStatus) -> Parts:
    """Lay out one cell: options, verdict, proof, figures, attempts, end of its log."""
    row = cell_status.row
    tried = [
        f"{_time(attempt.started)} on {' '.join(filter(None, [attempt.worker, attempt.board]))}: "
        f"{attempt.outcome}{': ' + attempt.note if attempt.note else ''}"
        for attempt in cell_status.attempts
    ]
    parts: Parts = [
        line("cell", row.name),
        *lines("options", [f"{axis}: {label}" for axis, label in row.labels.items()]),
        *lines("figures", [f"{name}: {value:,}" for name, value in row.figures.items()]),
    ]
    if row.cell is not None:
        parts += ["", ProofTable(rows=row.cell.rows), "", line("evidence", row.cell.evidence)]
    parts += lines("attempts", tried)
    said = cell_status.log.splitlines()
    if len(said) > _LOG_LINES:
        parts.append(line("log", f"the last {_LOG_LINES} of {len(said):,} lines (--json has all)"))
    parts += ["  " + text for text in said[-_LOG_LINES:]]
    return [*parts, line("verdict", ": ".join(filter(None, [row.verdict, row.why])))]


def cell_values(cell_status: CellStatus) -> dict[str, Any]:
    """One cell as plain values."""
    return {
        **values_of(cell_status.row),
        "proof": [] if cell_status.row.cell is None else msgspec.to_builtins(cell_status.row.cell.rows),
        "tries": [msgspec.to_builtins(attempt) for attempt in cell_status.attempts],
        "log": cell_status.log,
    }


# ---- difference ----


def diff_parts(sweep_difference: SweepDifference) -> Parts:
    """Lay out a difference: regressions, other changes, verdict."""
    others = [one for one in sweep_difference.differences if not one.is_regression]
    parts: Parts = []
    for title, rows in (("regressions", sweep_difference.regressions), ("other changes", others)):
        if rows:
            parts += [line(title, f"{len(rows):,}"), _changes(rows[:_MOST_ROWS])]
    return [
        *parts,
        line("compared", counted(sweep_difference.compared, "cell")),
        line("verdict", verdict(sweep_difference.ok)),
    ]


def _changes(rows: Sequence[Difference]) -> Any:  # noqa: ANN401 (a renderable)
    return table(
        ("cell", "what", ">before", ">after", ">change"),
        [
            (", ".join(one.labels.values()), one.what, _shown(one.before), _shown(one.after), _change(one))
            for one in rows
        ],
    )


def _shown(value: float | str | None) -> str:
    return "-" if value in (None, "") else value if isinstance(value, str) else f"{value:,}"


def _change(one: Difference) -> str:
    if isinstance(one.before, str) or isinstance(one.after, str) or not one.before or one.after is None:
        return ""
    return f"{(one.after - one.before) / one.before:+.2%}"


def diff_values(sweep_difference: SweepDifference) -> dict[str, Any]:
    """A difference as plain values."""
    return {
        "ok": sweep_difference.ok,
        "compared": sweep_difference.compared,
        "differences": [
            {
                "labels": dict(one.labels),
                "what": one.what,
                "before": one.before,
                "after": one.after,
                "regression": one.is_regression,
            }
            for one in sweep_difference.differences
        ],
    }
