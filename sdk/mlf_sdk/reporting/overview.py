# SPDX-License-Identifier: Apache-2.0
"""Text of a report: the figures of the page, with pictures made of characters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from mlf_sdk.judge.memorymap import MemoryMap
from mlf_sdk.reporting.html.data import Arena, ArenaRect, Report, StepRow
from mlf_sdk.reporting.html.memory import LABELS
from mlf_sdk.reporting.html.names import shorten
from mlf_sdk.reporting.layout import Parts, counted, line, number, size, table, verdict
from mlf_sdk.reporting.profile import measured_parts
from mlf_sdk.reporting.proof import ProofTable
from mlf_sdk.tools.checks import printable

_BAR = 40
_ROWS = 16
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_STYLES = {"input": "green", "output": "red", "tensor": "cyan", "workspace": "yellow"}
_SHOWN = 10
_NAME = 48  # characters of a name, at most


def overview_parts(report: Report, page: Path | None) -> Parts:
    """Lay out a report."""
    parts: Parts = [
        line("model", report.model),
        *(line(f.label if f.label != "model" else "", f.text) for f in report.facts if f.label != "note"),
        ProofTable(rows=report.proof),
    ]
    for memory in report.memories:
        if memory.used_bytes:
            parts += ["", *_memory(memory)]
    parts += [
        "",
        line("arena", _arena_text(report.arena)),
        ArenaPicture(arena=report.arena, steps=report.steps),
    ]
    parts.append("")
    if report.profile is None:
        parts.append(line("profile", f"none: {report.no_profile}"))
    else:
        dearest_first = sorted(report.profile.steps, key=lambda step: -step.cost)
        parts += measured_parts(report.profile, dearest_first)
    parts.append("")
    for result in report.verdicts:
        mark = Text("not checked") if result.ok is None else verdict(result.ok)
        parts.append(line(result.what, result.text, mark))
    if report.evidence:
        parts.append(line("evidence", report.evidence))
    if page is not None:
        parts.append(line("page", str(page)))
    return [*parts, line("verdict", verdict(report.ok, report.missing))]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaPicture:
    """Plan of an arena in letters: a column for each step, the lowest offset at the bottom."""

    arena: Arena
    steps: tuple[StepRow, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render within the width of the terminal."""
        size_bytes = max(self.arena.size_bytes, 1)
        margin = len(number(size_bytes)) + 1
        columns = len(self.steps) + 2
        wide = max(1, min(6, (options.max_width - margin) // columns))
        solid = [rect for rect in self.arena.rects if rect.size_bytes]
        for row in range(_ROWS - 1, -1, -1):
            low, high = size_bytes * row / _ROWS, size_bytes * (row + 1) / _ROWS
            text = Text(f"{number(round(high)):>{margin - 1}} ", style="dim")
            for column in range(columns):
                self._cell(text, solid, (low + high) / 2, column, wide)
            yield text
        if wide >= 2:
            heads = ["in", *(str(s.index) for s in self.steps), "out"]
            yield Text(" " * margin + "".join(f"{head:<{wide}}"[:wide] for head in heads), style="dim")
        peak = next((s for s in reversed(self.steps) if s.first <= self.arena.peak), None)
        if peak is not None and self.arena.peak:
            name = shorten(printable(peak.label), _NAME)
            yield Text(f"{' ' * margin}peak in step {peak.index}: {name}")
        yield ""
        yield from self._legend(solid)

    def _cell(self, text: Text, solid: list[ArenaRect], offset: float, column: int, wide: int) -> None:
        first, last = self._times(column)
        for index, rect in enumerate(solid):
            inside = rect.offset <= offset < rect.offset + rect.size_bytes
            if inside and rect.first <= last and first <= rect.last:
                text.append(_letter(index) * wide, style=_STYLES[rect.kind])
                return
        text.append("." * wide, style="dim")

    def _times(self, column: int) -> tuple[int, int]:
        if column == 0:
            return 0, 0
        if column > len(self.steps):
            return self.arena.end, self.arena.end
        step = self.steps[column - 1]
        return step.first, step.first + step.phases - 1

    def _legend(self, solid: list[ArenaRect]) -> Parts:
        largest = sorted(range(len(solid)), key=lambda i: (-solid[i].size_bytes, i))[:_SHOWN]
        rows = [
            (
                Text(_letter(index), style=_STYLES[solid[index].kind]),
                solid[index].kind,
                number(solid[index].size_bytes),
                shorten(printable(solid[index].label), _NAME),
            )
            for index in sorted(largest)
        ]
        parts: Parts = [table(("=", "=kind", ">bytes", "buffer"), rows)]
        if len(solid) > _SHOWN:
            parts.append(f"... and {counted(len(solid) - _SHOWN, 'smaller buffer')} (--json lists all)")
        return parts


def _letter(index: int) -> str:
    return _LETTERS[index % len(_LETTERS)]


def _arena_text(arena: Arena) -> str:
    equal = arena.size_bytes == arena.lower_bound_bytes
    bound = "the lower bound" if equal else f"lower bound {size(arena.lower_bound_bytes)}"
    return f"{size(arena.size_bytes)}, {bound}"


def _bar(share: float) -> str:
    return "█" * max(round(_BAR * share), 1 if share else 0)


def _memory(memory: MemoryMap) -> Parts:
    share = memory.used_bytes / memory.size_bytes
    fill = f"{size(memory.used_bytes)} of {size(memory.size_bytes)} ({share:.1%})"
    if 0 < memory.product_bytes < memory.used_bytes:
        fill += f"; {size(memory.product_bytes)} without the RPC server"
    rows = [
        (LABELS[part.kind], number(part.size_bytes), _bar(part.size_bytes / memory.used_bytes))
        for part in memory.parts
    ]
    return [line(memory.name, fill), table(("=part", ">bytes", "="), rows)]
