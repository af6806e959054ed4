# SPDX-License-Identifier: Apache-2.0
"""Text and values of budgets and baselines."""

from __future__ import annotations

from mlf_sdk.pipeline.gate import GateReport
from mlf_sdk.reporting.layout import Parts, line, number, table, verdict
from mlf_sdk.reporting.values import Values, result_values

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
        changed = [
            (
                f"{c.growth:+,}",
                number(c.before),
                number(c.after),
                verdict(c.ok),
                c.status,
                f"{c.kind} {c.name}",
            )
            for c in report.changes[:_SHOWN]
        ]
        heads = (">change", ">before", ">now", "=", "=", "since the baseline")
        parts += ["", table(heads, changed) if changed else line("baseline", "nothing changed")]
        if len(report.changes) > _SHOWN:
            parts.append(f"... and {len(report.changes) - _SHOWN} smaller ones (--json lists all)")
    return parts


def gate_values(report: GateReport) -> Values:
    """Limits, changes and totals as plain values; symbols and sections are in the baseline file."""
    values = result_values(report)
    sizes = values.pop("sizes")
    return {**values, "totals": {name: sizes[name] for name in ("flash", "ram", "stack")}}
