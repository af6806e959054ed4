# SPDX-License-Identifier: Apache-2.0
"""``doctor``: what this machine lacks, and what is odd in an archive."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from mlf_sdk.api.doctor import ArchiveExamination, MachineExamination
from mlf_sdk.report.terminal import line, verdict

Examination = ArchiveExamination | MachineExamination


def doctor_parts(found: Examination) -> list[RenderableType]:
    """An examination for people."""
    return _machine(found) if isinstance(found, MachineExamination) else _archive(found)


def doctor_values(found: Examination) -> dict[str, object]:
    """An examination as plain values."""
    if isinstance(found, MachineExamination):
        return {"ok": found.ok, "tools": list(found.tools)}
    return {
        "ok": True,
        "archive": found.model.source,
        "module": found.model.name,
        "findings": [{"where": o.where, "what": o.what, "handled": o.handled} for o in found.oddities],
    }


def _machine(found: MachineExamination) -> list[RenderableType]:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("tool", "version", "", "what for, or how to get it"):
        table.add_column(name, overflow="fold")
    for status in found.tools:
        word, style = (
            ("ok", "green") if status.path else ("optional", "") if status.ok else ("missing", "bold red")
        )
        about = status.tool.purpose if not status.hint else f"{status.tool.purpose}: {status.hint}"
        table.add_row(status.tool.name, status.version or "-", Text(word, style=style), about)
    text = "everything that emulated boards need is here" if found.ok else "something is missing"
    return [table, line("verdict", text, verdict(found.ok))]


def _archive(found: ArchiveExamination) -> list[RenderableType]:
    model = found.model
    parts: list[RenderableType] = [
        line(
            "archive",
            f"{model.source}: MLF {model.mlf_version}, {model.executor} executor, module {model.name}",
        )
    ]
    if not found.oddities:
        return [*parts, line("findings", "nothing odd")]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("where", "what is odd", "what the SDK does"):
        table.add_column(name, overflow="fold")
    for oddity in found.oddities:
        table.add_row(Text(oddity.where), Text(oddity.what), Text(oddity.handled))
    return [*parts, table]
