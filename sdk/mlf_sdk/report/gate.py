# SPDX-License-Identifier: Apache-2.0
"""Budgets and baselines for people and as plain values."""

from __future__ import annotations

import dataclasses
from typing import Any

from mlf_sdk.pipeline.gate import GateReport
from mlf_sdk.report.layout import Parts, line, number, table, verdict

_SHOWN = 30


def gate_parts(report: GateReport) -> Parts:
    """Lay out limits with their results, and changes since the baseline."""
    parts: Parts = []
    if report.budget:
        rows = [
            (number(of.actual_bytes), number(of.limit.most_bytes), verdict(of.ok), of.limit.name, of.note)
            for of in report.budget
        ]
        parts += ["", table((">takes", ">of most", "=", "budget", ""), rows)]
    if report.changes is not None:
        shown = report.changes[:_SHOWN]
        changed = [
            (
                f"{c.growth:+,}",
                number(c.before),
                number(c.after),
                verdict(c.ok),
                c.status,
                f"{c.kind} {c.name}",
            )
            for c in shown
        ]
        heads = (">change", ">before", ">now", "=", "=", "since the baseline")
        parts += ["", table(heads, changed) if changed else line("baseline", "nothing changed")]
        if len(report.changes) > _SHOWN:
            parts.append(f"... and {len(report.changes) - _SHOWN} smaller ones (--json lists all)")
    return parts


def gate_values(report: GateReport) -> dict[str, Any]:
    """Limits and changes as plain values."""
    sizes = report.sizes
    return {
        "totals": {"flash": sizes.flash, "ram": sizes.ram, "stack": sizes.stack},
        "budget": [
            {**dataclasses.asdict(of.limit), "actual_bytes": of.actual_bytes, "note": of.note, "ok": of.ok}
            for of in report.budget
        ],
        "changes": None
        if report.changes is None
        else [{**dataclasses.asdict(c), "status": c.status, "growth": c.growth} for c in report.changes],
    }
