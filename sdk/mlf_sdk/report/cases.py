# SPDX-License-Identifier: Apache-2.0
"""Results of ``test`` for people and as plain values."""

from __future__ import annotations

import dataclasses
from typing import Any

from mlf_sdk.pipeline.cases import OUTCOMES, CasesReport
from mlf_sdk.report.layout import Parts, counted, line, lines, verdict
from mlf_sdk.report.terminal import board_text
from mlf_sdk.report.values import comparison_values

_SHOWN = 20


def cases_parts(report: CasesReport) -> Parts:
    """Lay out the results of all cases; the first wrong ones by name."""
    where = report.port or board_text(report.board)
    counts = [f"{report.count(o):,} {o}" for o in OUTCOMES if report.count(o) or o == "passed"]
    bad = [c for c in report.cases if c.outcome in ("failed", "error")]
    shown = [f"{c.name}: {c.why.splitlines()[0]}" for c in bad[:_SHOWN]]
    if len(bad) > len(shown):
        shown.append(f"... and {len(bad) - len(shown):,} more (--junit or --json list all)")
    parts: Parts = [
        line("model", report.model.name),
        line("board", f"{report.board.name}: {where}"),
        line("cases", f"{counted(len(report.cases), 'case')} in {report.seconds:.1f} s: {', '.join(counts)}"),
    ]
    if report.accuracy is not None:
        least = "" if report.min_accuracy is None else f", at least {report.min_accuracy:g}"
        parts.append(line("accuracy", f"{report.accuracy:.4f}{least}"))
    return [*parts, *lines("wrong", shown), line("verdict", verdict(report.ok))]


def cases_values(report: CasesReport) -> dict[str, Any]:
    """All cases as plain values."""
    error = report.error
    return {
        "ok": report.ok,
        "model": report.model.name,
        "board": report.board.name,
        "port": report.port,
        "archive_sha256": report.model.archive_sha256,
        "accuracy": report.accuracy,
        "min_accuracy": report.min_accuracy,
        "seconds": round(report.seconds, 3),
        "counts": {o: report.count(o) for o in OUTCOMES},
        "cases": [
            {
                **{f.name: getattr(c, f.name) for f in dataclasses.fields(c) if f.name != "comparison"},
                "comparison": comparison_values(c.comparison),
            }
            for c in report.cases
        ],
        "console": report.console or None,
        "error": None if error is None else {"what": error.what, "where": error.where, "hint": error.hint},
    }
