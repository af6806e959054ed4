# SPDX-License-Identifier: Apache-2.0
"""Text of the results of ``check`` and ``run``: predicted, linked and measured figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mlf_sdk.analysis.machine.registry import Depth
from mlf_sdk.judge.check import (
    FAILED,
    PROVEN,
    RUN_STACK,
    STACK,
    STACK_EXHAUSTED,
    STATICS,
    THREAD_STACK,
    UNPROVEN,
    CheckReport,
    ProofRow,
)
from mlf_sdk.judge.compare import Comparison
from mlf_sdk.judge.evidence import NOT_COMPARED
from mlf_sdk.judge.stack import StackBound
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.reporting.layout import (
    Cell,
    Parts,
    chip_time_text,
    counted,
    executor_text,
    fits_label,
    line,
    lines,
    number,
    params_text,
    size,
    table,
    verdict,
)
from mlf_sdk.reporting.terminal import (
    board_text,
    comparison_text,
    instructions_text,
    note_parts,
    twin_text,
    witness_parts,
)

_FUNCTIONS_SHOWN = 20
_NOTE_WIDTH = 28  # where less is left beside the table, notes stand below it
_UNBOUNDED = 10_000
_UNKNOWN_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofTable:
    """Table of predictions, in bytes; functions are counted."""

    rows: tuple[ProofRow, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the table with notes beside or below it; in narrow terminals as one line for each row."""
        plain = self._table(notes=False)
        used = Measurement.get(console, options.update(width=_UNBOUNDED), plain).minimum
        note = min(_NOTE_WIDTH, max((len(row.note) for row in self.rows), default=0))
        if used > options.max_width:
            yield from (line(row.item, _in_words(row)) for row in self.rows)
        elif used + 2 + note <= options.max_width:
            yield self._table(notes=True)
        else:
            yield plain
            yield from (line(row.item, row.note) for row in self.rows if row.note)

    def _table(self, *, notes: bool) -> Table:
        heads = ["=memory", ">summary", ">planned", ">ELF", ">measured", "="]
        rows = []
        for row in self.rows:
            cells: list[Cell] = [row.item, *map(_figure, _figures(row).values()), _mark(row)]
            rows.append([*cells, row.note] if notes else cells)
        result = table([*heads, ""] if notes else heads, rows)
        result.columns[0].style = "bold"
        if notes:
            result.columns[0].min_width = 10
            for column in result.columns[1:5]:
                column.min_width = 9
        return result


def _figures(row: ProofRow) -> dict[str, int | str | None]:
    planned: int | str | None = row.planned
    if row.item in (STACK, RUN_STACK) and row.planned is not None:
        planned = f"<= {number(row.planned)}"
    return {"summary": row.summary, "planned": planned, "ELF": row.image, "measured": row.measured}


def _figure(value: int | str | None) -> str:
    return value if isinstance(value, str) else number(value)


def _mark(row: ProofRow) -> Text:
    marks = {PROVEN: Text("ok", style="green"), UNPROVEN: Text("unproven", style="yellow")}
    return marks.get(row.state, Text("WRONG", style="bold red"))


def _in_words(row: ProofRow) -> Text:
    said = [f"{name} {_figure(value)}" for name, value in _figures(row).items() if value is not None]
    return Text(", ".join(filter(None, [*said, row.note])) + "  ").append(_mark(row))


def run_parts(report: RunReport) -> Parts:
    """Lay out the result of a run."""
    model = report.model
    rows = tuple(row for row in run_rows(report) if row.state == FAILED or _is_shown(row, model.name))
    return [
        _about(report),
        *_board_lines(report),
        ProofTable(rows=rows),
        line("run", _run_text(report)),
        *_output_parts(report),
        *lines("edited", [f"{path}: not as it was generated" for path in report.edited]),
        line("verdict", verdict(report.ok, report.missing).append(_failures(report), style="not bold")),
    ]


def _is_shown(row: ProofRow, model: str) -> bool:
    """Return whether the report of a run includes a correct row: those of its model, the stack, statics."""
    return (
        row.item in (STACK, THREAD_STACK, STATICS)
        if not row.model
        else row.model == model and row.item != "in + out"
    )


def run_rows(report: RunReport) -> tuple[ProofRow, ...]:
    """Rows about the model of a run and about the image, and failed rows of other models."""
    rows = [row for row in report.check.rows if row.model in (report.model.name, "") or row.state == FAILED]
    return (*(_with_bound(row, report) for row in rows), *_stack_row(report))


def _about(report: RunReport) -> Table:
    """Facts about the model, labelled with its name where that is short enough."""
    model = report.model
    steps, params = counted(len(model.steps), "step"), params_text(model.params_bytes)
    text = f"{model.format_text}, {model.compiler_text}, {executor_text(model.executor)}: {steps}, {params}"
    return line(model.name, text) if fits_label(model.name) else line("model", f"{model.name}: {text}")


def _board_lines(report: RunReport) -> Parts:
    """Board and build of the image that ran; of one that is not known, its build id alone."""
    if report.other_image:
        return [line("board", f"on {report.port}, not known"), line("image", report.other_image)]
    place = f" on {report.port}" if report.port else ""
    text = board_text(report.board, emulated=report.port is None)
    return [line("board", f"{report.board.name}{place}: {text}"), line("build", _build_text(report))]


def _build_text(report: RunReport) -> str:
    regions = [r for r in report.check.regions if r.used_bytes]
    fills = [f"{r.name} {r.used_bytes:,} of {size(r.size_bytes)}" for r in regions]
    return "   ".join([f"{report.toolchain}, {report.build_seconds:.1f} s".removeprefix(", "), *fills])


def _with_bound(row: ProofRow, report: RunReport) -> ProofRow:
    memory = report.memory
    if row.item != "arena" or row.model != report.model.name or row.state != PROVEN:
        return row
    equal = memory.arena_bytes == memory.lower_bound_bytes
    note = "= lower bound" if equal else f"lower bound {number(memory.lower_bound_bytes)}"
    return dataclasses.replace(row, note=", ".join(filter(None, [note, row.note])))


def _stack_row(report: RunReport) -> list[ProofRow]:
    """Row of the stack for targets without a static bound, e.g. the host."""
    memory = report.memory
    if memory.stack_bytes is None or any(row.item in (STACK, RUN_STACK) for row in report.check.rows):
        return []
    used = memory.stack_high_water_bytes
    fits = used is None or used < memory.stack_bytes
    return [
        ProofRow(
            model=report.model.name,
            item="stack",
            summary=None,
            planned=None,
            image=memory.stack_bytes,
            measured=used,
            state=PROVEN if fits else FAILED,
            note="" if fits else STACK_EXHAUSTED,
        )
    ]


def _run_text(report: RunReport) -> str:
    each = " each" if report.inferences > 1 else ""
    said = [counted(report.inferences, "inference")]
    if report.instructions is not None:
        said.append(instructions_text(report, each))
    elif report.seconds is not None:
        said.append(f"{report.seconds * 1e3:,.3g} ms{each}")
    elif report.ticks:  # of an emulated clock, whose rate is not known
        said.append(f"{report.ticks // report.inferences:,} ticks{each}")
    if report.chip is not None:
        said.append(chip_time_text(report.chip))
    if report.accuracy is not None:
        said.append(f"accuracy {report.accuracy:.4f}")
    return ", ".join(said)


def _output_parts(report: RunReport) -> Parts:
    parts: Parts = witness_parts(report.witnessed)
    for result, what in ((report.compare, "the expected outputs"), (report.twin, twin_text(report.evidence))):
        if result is not None:
            parts.append(line("outputs", comparison_text(result, what), verdict(result.ok)))
            parts += [*_differing(result), *_uncompared(result, report)]
    if report.twin_note:
        parts.append(line("twin", report.twin_note))
    if report.first is not None:
        from mlf_sdk.reporting.compare import difference_parts

        parts += difference_parts(report.first)
    parts += note_parts(report.witnessed, report.uncovered)
    if report.twin is not None or report.witnessed.compared:
        parts.append(line("evidence", report.evidence))
    if report.missing == NOT_COMPARED:
        parts.append(line("outputs", "not compared: --expect FILE gives expected outputs"))
    return parts


def _uncompared(comparison: Comparison, report: RunReport) -> Parts:
    """Line that names outputs without a reference."""
    left = [f"'{name}'" for name in report.outputs if name not in {o.name for o in comparison.outputs}]
    return [line("", f"not compared: {', '.join(left)}")] if left else []


def _differing(comparison: Comparison) -> Parts:
    """Lines for the outputs that differ, where there are several."""
    if len(comparison.outputs) < 2:
        return []
    return [
        line("", f"'{o.name}' in {o.mismatches:,} of {counted(o.elements, 'element')} (max {o.max_abs:.2g})")
        for o in comparison.outputs
        if o.mismatches
    ]


def _failures(report: RunReport) -> str:
    """Names of the failed checks, for the line of the verdict."""
    failed = []
    if report.witnessed.wrong:
        failed.append(f"outputs differ from what the model means ({', '.join(report.witnessed.wrong)})")
    elif not report.agrees:
        failed.append("outputs differ")
    if not report.memory.ok:
        failed.append("the measured memory is not the planned memory")
    if not report.check.ok:
        failed += check_faults(report.check)
    if report.check.strict and report.missing:
        failed.append(report.missing.lower().replace("ran", "the model ran", 1))
    if report.check.strict and report.uncovered:
        failed.append(f"no witness covers {report.uncovered}")
    return ": " + "; ".join(failed) if failed else unproven_text(report.check)


def check_faults(report: CheckReport) -> list[str]:
    """Reasons why a check failed, in words."""
    failed = any(row.state == FAILED for row in report.rows)
    strict = [f"{', '.join(report.unproven)} unproven"] if report.strict and report.unproven else []
    return [*(["the image differs from the plan"] if failed else []), *strict]


def unproven_text(report: CheckReport) -> str:
    """Items that nothing proves, to follow a verdict; empty: there are none."""
    return f", but nothing proves: {', '.join(report.unproven)}" if report.unproven else ""


def check_verdict(report: CheckReport, *, also_ok: bool = True) -> Text:
    """Verdict of a check, with what is unproven.

    Args:
        report: the check.
        also_ok: what was checked beside it succeeded.
    """
    failed = any(row.state == FAILED for row in report.rows)  # the rows say it
    text = "" if failed else ": ".join(["", *check_faults(report)]) or unproven_text(report)
    return verdict(report.ok and also_ok).append(text, style="not bold")


def check_parts(report: CheckReport) -> Parts:
    """Lay out the check of an image: predictions, largest functions, groups, memories, stack."""
    models = list(dict.fromkeys(row.model for row in report.rows if row.model))
    parts: Parts = []
    for name in models:
        if len(models) > 1:
            parts += [*([""] if parts else []), line("model", name)]
        of_image = "" if name == models[-1] and len(models) == 1 else None
        parts.append(ProofTable(rows=tuple(row for row in report.rows if row.model in (name, of_image))))
    if len(models) > 1:
        parts += ["", ProofTable(rows=tuple(row for row in report.rows if not row.model))]
    parts += _summary_notes(report.rows)
    kernels = sorted(report.kernels, key=lambda k: -k.size_bytes)
    parts += [
        "",
        _sized("function of the model", [(k.name, k.size_bytes) for k in kernels[:_FUNCTIONS_SHOWN]]),
    ]
    if len(kernels) > _FUNCTIONS_SHOWN:
        parts.append(f"... and {len(kernels) - _FUNCTIONS_SHOWN} smaller ones (--json lists all)")
    parts += ["", _sized("kind", [(g.name, g.size_bytes) for g in report.groups if g.size_bytes])]
    if report.regions:
        rows = [(number(r.used_bytes), number(r.size_bytes), f"{r.fill:.1%}", r.name) for r in report.regions]
        parts += ["", table((">used", ">of bytes", ">fill", "memory of the board"), rows)]
    if report.stack is not None:
        parts += ["", *_stack_lines(report.stack)]
    elif report.allocators is None and report.regions == ():
        parts += ["", line("stack", "bound and heap are not examined in images for this machine")]
    elif report.stack_bytes is not None:
        parts += ["", line("stack", f"{size(report.stack_bytes)} are reserved")]
    return [*parts, line("verdict", check_verdict(report))]


def _summary_notes(rows: Sequence[ProofRow]) -> Parts:
    """Reasons why summaries of archives differ from the plan, each once."""
    notes = dict.fromkeys(row.summary_note for row in rows if row.summary_note)
    return ["", *lines("summary", notes)] if notes else []


def _stack_lines(bound: StackBound) -> Parts:
    """Lines for the deepest call paths, outermost function first, with the bytes of each."""
    handler = f", {bound.handler} {number(bound.handler_bytes)}" if bound.handler else ""
    said = [f"{bound.entry}: {_depth_text(bound.image)}"] if bound.is_complete else []
    said += [f"one exception on top: {number(bound.exception_bytes)} from the CPU{handler}"]
    said += [f"run of {of.model}: {_depth_text(of.depth)}" for of in bound.models if not of.depth.unknown]
    said += [f"not known: {what}" for what in bound.image.unknown[:_UNKNOWN_SHOWN]]
    more = len(bound.image.unknown) - _UNKNOWN_SHOWN
    return lines("stack", [*said, *([f"... and {more} more (--json lists all)"] if more > 0 else [])])


def _depth_text(depth: Depth) -> str:
    return f"{size(depth.bytes)} = {' > '.join(f'{name} {taken}' for name, taken in depth.path)}"


def _sized(title: str, rows: Sequence[tuple[str, int]]) -> Table:
    return table((">bytes", title), [(number(result), name) for name, result in rows])
