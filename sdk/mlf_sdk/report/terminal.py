# SPDX-License-Identifier: Apache-2.0
"""Results for people: facts in short lines and tables, the verdict last."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from mlf_sdk.api import GeneratedProject, RunReport
from mlf_sdk.model.types import Model, UnitKind
from mlf_sdk.platforms.boards import Board
from mlf_sdk.project.context import type_text
from mlf_sdk.project.layout import ModelLayout
from mlf_sdk.verify.check import CheckReport, ProofRow
from mlf_sdk.verify.compare import Comparison

Parts = list[RenderableType]


def number(value: int | None) -> str:
    """Bytes with thousands separators; a dash where there is none."""
    return "-" if value is None else f"{value:,}"


def verdict(ok: bool) -> Text:
    """The verdict, readable without its colour."""
    return Text("PASS", style="bold green") if ok else Text("FAIL", style="bold red")


def line(label: str, text: str | Text, mark: Text | None = None) -> Text:
    """A labelled fact, with a verdict behind it where it has one."""
    found = Text(f"{label:<11}", style="bold").append(text)
    return found.append("  ").append(mark) if mark is not None else found


def run_parts(report: RunReport) -> Parts:
    """A run, as the README shows it."""
    model, memory = report.model, report.memory
    parts: Parts = [
        line(model.c_name[:10], _about(report)),
        line("board", f"{report.board.name}: {report.board.title}"),
        line("build", _build_line(report)),
        _proof_table(report),
    ]
    if report.instructions is not None:
        cost = f", {report.instructions:,} instructions each"
    elif report.ticks:
        cost = f", {report.ticks / report.ticks_hz / report.inferences * 1e3:.3f} ms each"
    else:
        cost = ""
    accuracy = f", accuracy {report.accuracy:.4f}" if report.accuracy is not None else ""
    count = f"{report.inferences} inference" + ("s" if report.inferences != 1 else "")
    parts.append(line("run", count + cost + accuracy))
    if not memory.ok:
        parts.append(line("memory", "what was measured is not what was promised", verdict(False)))
    if report.compare is not None:
        parts.append(
            line("outputs", _comparison_text(report.compare, "the reference"), verdict(report.compare.ok))
        )
    if report.twin is not None:
        parts.append(line("outputs", _comparison_text(report.twin, "the host's"), verdict(report.twin.ok)))
    if report.twin_note:
        parts.append(line("", report.twin_note))
    parts.append(line("verdict", verdict(report.ok)))
    return parts


def _about(report: RunReport) -> str:
    model = report.model
    steps = f"{len(model.steps)} step" + ("s" if len(model.steps) != 1 else "")
    params = f"{model.params_bytes:,} B parameters" if model.params_bytes else "parameters in the code"
    return f"MLF {model.mlf_version}, {model.compiler}, {model.executor} executor: {steps}, {params}"


def _build_line(report: RunReport) -> str:
    fills = [f"{r.name} {r.used_bytes:,} of {r.size_bytes:,} B" for r in report.check.regions if r.used_bytes]
    return "   ".join([f"{report.build_seconds:.1f} s", *fills])


def _proof_table(report: RunReport) -> Table:
    memory = report.memory
    table = _proof_header()
    for row in report.check.rows:
        note = row.note
        if row.item == "arena" and row.ok:
            equal = memory.arena_bytes == memory.lower_bound_bytes
            note = "= lower bound" if equal else f"lower bound {memory.lower_bound_bytes:,}"
        _proof_row(table, row, note)
    if memory.stack_bytes is not None:
        table.add_row(
            "stack", "-", f"<= {memory.stack_bytes:,}", "-", number(memory.stack_high_water_bytes), "ok", ""
        )
    return table


def _proof_header() -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("memory", style="bold", min_width=10)
    for name in ("summary", "planned", "ELF", "measured"):
        table.add_column(name, justify="right", min_width=9)
    table.add_column("")
    table.add_column("")
    return table


def _proof_row(table: Table, row: ProofRow, note: str) -> None:
    figures = [number(v) for v in (row.summary, row.planned, row.image, row.measured)]
    mark = Text("ok", style="green") if row.ok else Text("WRONG", style="bold red")
    table.add_row(row.item, *figures, mark, note)


def _comparison_text(found: Comparison, what: str) -> str:
    if found.mismatches:
        total = sum(o.elements for o in found.outputs)
        return (
            f"differ from {what} in {found.mismatches:,} of {total:,} elements "
            f"(max difference {found.max_abs:.2g}, relative {found.max_rel:.2g})"
        )
    return f"equal to {what} (max difference {found.max_abs:.2g})"


def check_parts(report: CheckReport) -> Parts:
    """What a linked image shows: promises, biggest functions, groups, memories."""
    table = _proof_header()
    for row in report.rows:
        _proof_row(table, row, row.note)
    groups = _sized("bytes by kind", [(g.name, g.size_bytes) for g in report.groups if g.size_bytes])
    kernels = sorted(report.kernels, key=lambda k: -k.size_bytes)
    functions = _sized("functions of the model", [(k.name, k.size_bytes) for k in kernels[:20]])
    regions = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("region", "used", "size", "fill"):
        regions.add_column(name, justify="left" if name == "region" else "right")
    for region in report.regions:
        regions.add_row(
            region.name, number(region.used_bytes), number(region.size_bytes), f"{region.fill:.1%}"
        )
    parts: Parts = [table, "", functions]
    if len(kernels) > 20:
        parts.append(f"... and {len(kernels) - 20} smaller ones (--json lists all)")
    parts += ["", groups, ""]
    if report.regions:
        parts.append(regions)
    if report.stack_bytes is not None:
        parts.append(line("stack", f"{report.stack_bytes:,} bytes are reserved"))
    return [*parts, line("verdict", verdict(report.ok))]


def _sized(title: str, rows: Sequence[tuple[str, int]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(title, overflow="fold")
    table.add_column("bytes", justify="right")
    for name, size in rows:
        table.add_row(name, number(size))
    return table


def model_parts(model: Model, layout: ModelLayout) -> Parts:
    """An archive's model: what it is, what it takes, what it needs."""
    names = dict(zip(model.outputs, model.output_names, strict=True))
    params = f"{layout.params_bytes:,} B parameters" if layout.params_bytes else "constants in the code"
    plan = layout.plan
    bound = (
        "the lower bound"
        if plan.arena_bytes == plan.lower_bound_bytes
        else f"lower bound {plan.lower_bound_bytes:,}"
    )
    parts: Parts = [
        line("model", f"{model.name}: {model.executor} executor, {len(model.steps)} steps, {params}"),
        line("archive", f"MLF {model.mlf_version}, {model.compiler}, sha256 {model.archive_sha256[:16]}..."),
        line("target", "; ".join(model.targets) or "not told"),
    ]
    parts += [
        line("input", f"'{model.tensors[i].name}'  {type_text(model.tensors[i])}") for i in model.inputs
    ]
    parts += [line("output", f"'{names[i]}'  {type_text(model.tensors[i])}") for i in model.outputs]
    parts += [
        line("arena", f"{plan.arena_bytes:,} bytes ({bound}), inputs and outputs included"),
        line(
            "summary",
            f"workspace {number(model.summary.workspace_bytes)}, constants "
            f"{number(model.summary.constants_bytes)}, inputs and outputs {number(model.summary.io_bytes)} (the archive's own figures)",
        ),
    ]
    if model.external_headers:
        parts.append(line("needs", ", ".join(model.external_headers)))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, justify in (("step", "right"), ("workspace", "right"), ("function", "left")):
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    for index, step in enumerate(layout.steps):
        size = sum(w.size_bytes for w in step.workspaces) + step.stack_high_water_bytes
        table.add_row(str(index), number(size) + ("" if step.exact else " (bound)"), step.name)
    code = [u for u in model.units if u.kind is not UnitKind.HEADER]
    parts += ["", table, ""]
    parts += [
        line(
            "code" if i == 0 else "",
            f"{u.member}  {len(u.data):,} B{'' if u.linked else '  (not needed: left out)'}",
        )
        for i, u in enumerate(code)
    ]
    return parts


def boards_table(boards: Sequence[Board]) -> Table:
    """All boards that are known."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("board", "CPU", "FPU", "flash", "RAM", "emulated", "what it is"):
        table.add_column(name, justify="right" if name in ("flash", "RAM") else "left")
    for board in boards:
        if board.platform == "host":
            table.add_row(board.name, "-", "-", "-", "-", "-", board.title)
            continue
        table.add_row(
            board.name,
            board.cpu,
            board.fpu,
            number(board.flash.size_bytes),
            number(board.ram.size_bytes),
            "QEMU" if board.qemu else "-",
            board.title,
        )
    return table


def generated_parts(project: GeneratedProject) -> Parts:
    """What was generated and what to do next."""
    parts: Parts = [
        line("project", f"{project.folder} for {project.lock.board}, app {project.lock.options.app}")
    ]
    for model in project.lock.models:
        bound = (
            "= lower bound"
            if model.arena_bytes == model.lower_bound_bytes
            else f"lower bound {model.lower_bound_bytes:,}"
        )
        parts.append(
            line(
                model.c_name[:10],
                f"arena {model.arena_bytes:,} B ({bound}), parameters {model.params_bytes:,} B, {len(model.steps)} steps",
            )
        )
    parts += [line("kept", f"{path} (yours; a new project would have another)") for path in project.kept]
    parts.append(line("next", f"mlf-sdk build {project.folder}"))
    return parts
