# SPDX-License-Identifier: Apache-2.0
"""Results of a sweep: one row a cell, with verdict and gates; as CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mlf_sdk.judge.check import FAILED, PROVEN, UNPROVEN
from mlf_sdk.pipeline.cell import NOT_HERE, Cell
from mlf_sdk.sweep.figures import FIGURES, figures_of
from mlf_sdk.sweep.journal import DONE, Journal
from mlf_sdk.tools.files import write_whole
from mlf_sdk.tools.rowfile import described

RESULTS = "results"  # with .csv, .json and .parquet
_FIXED = (
    "cell",
    "state",
    "verdict",
    "why",
    "evidence",
    "witnesses",
    "attempts",
    "duration_s",
    "worker",
    "build_id",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One cell of a plan.

    Attributes:
        name: hash of everything that decides the result.
        labels: value by axis.
        state: of the journal: ``done``, ``planned``, ``running``, ``aside``, ``cancelled`` or ``lost``.
        verdict: ``proven``, ``failed``, ``unproven``, ``not here``; of a cell without a result its state.
        why: what failed, the gates among it, or what the board lacks.
        figures: by name; their units are part of the names.
        duration_s: of the last attempt.
        attempts: at the cell, those that were lost among them.
    """

    name: str
    labels: Mapping[str, str]
    state: str
    verdict: str
    why: str
    cell: Cell | None
    figures: Mapping[str, float]
    duration_s: float | None
    worker: str
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """All rows of a plan, in its order.

    Attributes:
        folder: of the journal.
        plan: number of the plan in it.
        left: reasons, by name, why cells were not run.
    """

    title: str
    folder: Path
    plan: int
    axes: Mapping[str, Sequence[str]]
    rows: tuple[SweepRow, ...]
    gates: Mapping[str, Any]
    strict: bool
    left: Mapping[str, str]

    def count(self, verdict: str) -> int:
        """Cells of this verdict."""
        return sum(row.verdict == verdict for row in self.rows)

    @property
    def counts(self) -> dict[str, int]:
        """Cells by verdict; those that there are none of are left out."""
        known = (PROVEN, FAILED, UNPROVEN, NOT_HERE)
        others = sorted({row.verdict for row in self.rows} - set(known))
        return {name: count for name in (*known, *others) if (count := self.count(name))}

    @property
    def ok(self) -> bool:
        """Every cell has a result, none failed or, if strict, is unproven, and at least one is proven."""
        bad = {FAILED, UNPROVEN} if self.strict else {FAILED}
        verdicts = {row.verdict for row in self.rows}
        return all(row.state == DONE for row in self.rows) and not verdicts & bad and PROVEN in verdicts


def read_results(journal: Journal, plan: int, left: Mapping[str, str] | None = None) -> SweepResult:
    """Read the rows of a plan from a journal."""
    title, axes, gates, strict = journal.plan(plan)
    reasons = left or {}
    decoder = msgspec.json.Decoder(described(Cell))
    tried = dict(journal.db.execute("SELECT cell, count(*) FROM attempts GROUP BY cell"))
    rows = journal.db.execute(
        "SELECT labels, name, state, note, seconds, worker, result FROM plan_cells JOIN cells ON name = cell "
        "WHERE plan = ? ORDER BY position",
        (plan,),
    )
    results = []
    for labels, name, state, note, seconds, worker, result in rows:
        cell = decoder.decode(result) if state == DONE else None
        figures = figures_of(cell) if cell is not None else {}
        verdict, why = _verdict(cell, state, reasons.get(name, note), gates, figures)
        results.append(
            SweepRow(
                name=name,
                labels=json.loads(labels),
                state=state,
                verdict=verdict,
                why=why,
                cell=cell,
                figures=figures,
                duration_s=seconds,
                worker=worker or "",
                attempts=tried.get(name, 0),
            )
        )
    return SweepResult(
        title=title,
        folder=journal.folder,
        plan=plan,
        axes=axes,
        rows=tuple(results),
        gates=gates,
        strict=strict,
        left=reasons,
    )


def _verdict(
    cell: Cell | None, state: str, note: str, gates: Mapping[str, Any], figures: Mapping[str, float]
) -> tuple[str, str]:
    if cell is None:
        return state, note
    if cell.outcome == NOT_HERE:
        return cell.outcome, cell.why
    broken = [text for name, limit in gates.items() if (text := _broken(name, limit, figures))]
    if not broken:
        return cell.outcome, cell.why
    return FAILED, "; ".join(filter(None, [cell.why, *broken]))


def _broken(name: str, limit: Mapping[str, float | None], figures: Mapping[str, float]) -> str:
    """Text of a gate that does not hold; empty: it holds."""
    value, least, most = figures.get(name), limit.get("min"), limit.get("max")
    if value is None:
        return f"gate {name}: not measured"
    if least is not None and value < least:
        return f"gate {name}: {value:,} is less than {least:,}"
    if most is not None and value > most:
        return f"gate {name}: {value:,} is more than {most:,}"
    return ""


# ---- tables ----


def columns_of(result: SweepResult) -> list[str]:
    """Names of the columns: axes, verdict, and all figures with their units, known in this sweep or not."""
    return [*result.axes, *_FIXED, *FIGURES]


def values_of(row: SweepRow) -> dict[str, Any]:
    """One row as plain values by column; None where nothing is known."""
    cell = row.cell
    return {
        **row.labels,
        "cell": row.name,
        "state": row.state,
        "verdict": row.verdict,
        "why": row.why,
        "evidence": cell.evidence if cell is not None else None,
        "witnesses": cell.witnesses if cell is not None else None,
        "attempts": row.attempts,
        "duration_s": row.duration_s,
        "worker": row.worker,
        "build_id": cell.build_id if cell is not None else None,
        **{name: row.figures.get(name) for name in FIGURES},
    }


def write_tables(result: SweepResult) -> list[Path]:
    """Write the results beside the journal; Parquet where pyarrow is installed.

    Returns:
        The files.
    """
    columns = columns_of(result)
    rows = [values_of(row) for row in result.rows]
    base = result.folder / RESULTS
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    document = {"title": result.title, "ok": result.ok, "columns": columns, "cells": rows}
    contents = {
        ".csv": text.getvalue().encode(),
        ".json": msgspec.json.format(msgspec.json.encode(document), indent=1),
        ".parquet": _parquet(columns, rows),
    }
    written = []
    for suffix, content in contents.items():
        if content is not None:
            written.append(base.with_suffix(suffix))
            write_whole(written[-1], content)
    return written


_FLOATS = frozenset({"inference_s", "accuracy_share", "max_difference", "duration_s"})


def _parquet(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bytes | None:
    """The table as Parquet, each column of one type; None: pyarrow is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    types = {name: pyarrow.float64() if name in _FLOATS else pyarrow.int64() for name in FIGURES}
    types |= {"attempts": pyarrow.int64(), "duration_s": pyarrow.float64()}
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in columns])
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=schema), buffer)
    return buffer.getvalue()
