# SPDX-License-Identifier: Apache-2.0
"""Text and values of the results of ``test``."""

from __future__ import annotations

from mlf_sdk.judge.check import PROVEN
from mlf_sdk.judge.evidence import NO_EVIDENCE
from mlf_sdk.pipeline.cases import OUTCOMES, CasesReport
from mlf_sdk.reporting.layout import Parts, counted, line, lines, verdict
from mlf_sdk.reporting.proof import unproven_text
from mlf_sdk.reporting.terminal import board_text, note_parts
from mlf_sdk.reporting.values import Values, result_values

_SHOWN = 20


def cases_parts(report: CasesReport) -> Parts:
    """Lay out the results of all cases; the first wrong ones by name."""
    place = f"{report.board.name}: {report.port or board_text(report.board)}"
    if report.check is None:
        said_id = f"build id {report.build_id}" if report.build_id else "which reports no build id"
        place = f"on {report.port}, not known: an image of its own, {said_id}"
    counts = [
        f"{report.count(o):,} {o}"
        for o in OUTCOMES
        if report.count(o) or (o == "passed" and not report.count("ran"))
    ]
    bad = [c for c in report.cases if c.outcome in ("failed", "error")]
    shown = [f"{c.name}: {c.why.splitlines()[0]}" for c in bad[:_SHOWN]]
    if len(bad) > len(shown):
        shown.append(f"... and {len(bad) - len(shown):,} more (--junit or --json list all)")
    parts: Parts = [
        line("model", report.model.name),
        line("board", place),
        line("cases", f"{counted(len(report.cases), 'case')} in {report.seconds:.1f} s: {', '.join(counts)}"),
    ]
    if report.accuracy is not None:
        least = "" if report.min_accuracy is None else f", at least {report.min_accuracy:g}"
        mark = None if report.min_accuracy is None else verdict(not report.accuracy_why)
        parts.append(line("accuracy", f"{report.accuracy:.4f}{least}", mark))
    alone = ", of the outputs alone: nothing is known of the image" if report.ok else ""
    said: Parts = [line("verdict", verdict(report.ok).append(alone, style="not bold"))]
    if report.check is not None:
        bad_rows = [row for row in report.check.rows if row.state != PROVEN]
        parts += lines("image", [f"{row.item} {row.state}: {row.note or 'differs'}" for row in bad_rows])
        text = "" if not report.ok else unproven_text(report.check)
        said = [line("verdict", verdict(report.ok).append(text, style="not bold"))]
    evidence = [line("evidence", report.evidence)] if report.evidence != NO_EVIDENCE else []
    notes = note_parts(report.witnessed, "")
    return [*parts, *lines("wrong", shown), *notes, *evidence, *said]


def cases_values(report: CasesReport) -> Values:
    """Results of all cases as plain values."""
    counts = {outcome: report.count(outcome) for outcome in OUTCOMES}
    return {**result_values(report), "archive_sha256": report.model.archive_sha256, "counts": counts}
