# SPDX-License-Identifier: Apache-2.0
"""Models, projects and boards for people: facts in short lines and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from mlf_sdk.codegen.context import type_text
from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.ir.model import Model, UnitKind
from mlf_sdk.pipeline.api import GeneratedProject
from mlf_sdk.pipeline.project import BuiltProject
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.reporting.layout import Parts, capacity, counted, line, lines, number, size, table
from mlf_sdk.targets.boards.load import Board


def executor_text(executor: str) -> str:
    """An executor for people."""
    return {"graph": "graph executor", "aot": "AOT executor", "operator": "single operator"}.get(
        executor, executor
    )


def model_parts(model: Model, layout: ModelLayout) -> Parts:
    """An archive's model: what it is, what it takes, what it needs."""
    names = dict(zip(model.outputs, model.output_names, strict=True))
    params = f"{size(layout.params_bytes)} parameters" if layout.params_bytes else "constants in the code"
    steps = counted(len(model.steps), "step")
    origin = model.provenance
    parts: Parts = [
        line("model", f"{model.name}: {executor_text(model.executor)}, {steps}, {params}"),
        line("archive", f"{origin.format_text}, {origin.compiler_text}, sha256 {origin.sha256[:16]}..."),
        line("target", "; ".join(t.strip() for t in model.targets) or "the archive does not say"),
        *lines("input", [f"'{model.tensors[i].name}'  {type_text(model.tensors[i])}" for i in model.inputs]),
        *lines("output", [f"'{names[i]}'  {type_text(model.tensors[i])}" for i in model.outputs]),
        line("arena", _arena_text(layout.plan.arena_bytes, layout.plan.lower_bound_bytes)),
        line("summary", _summary_text(model)),
    ]
    if model.external_headers:
        parts.append(line("needs", ", ".join(model.external_headers)))
    return [*parts, "", _steps(layout), "", _code(model)]


def _arena_text(arena_bytes: int, bound_bytes: int) -> str:
    bound = "the lower bound" if arena_bytes == bound_bytes else f"lower bound {size(bound_bytes)}"
    return f"{size(arena_bytes)} ({bound}), inputs and outputs included"


def _summary_text(model: Model) -> str:
    said = model.summary
    figures = {
        "workspace": said.workspace_bytes,
        "constants": said.constants_bytes,
        "inputs and outputs": said.io_bytes,
    }
    known = [f"{name} {size(value)}" for name, value in figures.items() if value is not None]
    return (
        f"{', '.join(known)} (the archive's own figures)"
        if known
        else "the archive says nothing of its memory"
    )


def _steps(layout: ModelLayout) -> Table:
    rows = []
    for index, step in enumerate(layout.steps):
        used = step.workspace_bytes
        rows.append((str(index), ("" if step.exact else "<= ") + number(used), step.name))
    return table((">step", ">workspace", "function"), rows)


def _code(model: Model) -> Table:
    rows = [
        (number(len(unit.data)), unit.member + ("" if unit.linked else "  (not needed: left out)"))
        for unit in model.units
        if unit.kind is not UnitKind.HEADER
    ]
    return table((">bytes", "code"), rows)


def board_text(board: Board) -> str:
    """What a board is, in a few words."""
    if not board.memories:
        return board.title
    memories = f"{capacity(board.flash.size_bytes)} flash, {capacity(board.ram.size_bytes)} RAM"
    return f"{board.title}, {memories}" + (" (QEMU)" if board.qemu else "")


def boards_parts(boards: Sequence[Board]) -> Parts:
    """All boards that are known."""
    rows = []
    for board in boards:
        sizes = ("-", "-")
        if board.platform != "host":
            sizes = (capacity(board.flash.size_bytes), capacity(board.ram.size_bytes))
        runs = "here" if board.platform == "host" else "QEMU" if board.qemu else "-"
        rows.append((board.name, *sizes, runs, board.title))
    return [
        table(("=board", ">flash", ">RAM", "=runs in", "what it is"), rows),
        line(
            "zephyr",
            "every board of a Zephyr tree too, called as west calls it (west boards): "
            "--platform zephyr --board mps2/an385, or mps2_an385 before Zephyr 3.7",
        ),
    ]


def generated_parts(project: GeneratedProject) -> Parts:
    """What was generated and what to do next."""
    lock = project.lock
    return [
        line("project", f"{project.folder} for {lock.board}, application {lock.options.app}"),
        *lines("model", [_promise_text(model) for model in lock.models]),
        *lines("kept", [f"{path}: yours; a new project would have another" for path in project.kept]),
        *lines("saved", [f"{path}: your changed file, which was replaced" for path in project.backups]),
        line("next", _next_text(project)),
    ]


def _next_text(project: GeneratedProject) -> str:
    if project.lock.options.app == "library":
        return f"{project.folder / 'README.md'} has the lines for your application"
    return f"mlf-sdk build {project.folder}"


def _promise_text(model: LockModel) -> str:
    steps = counted(len(model.steps), "step")
    arena = _arena_text(model.arena_bytes, model.lower_bound_bytes)
    params = f"{size(model.params_bytes)} parameters" if model.params_bytes else "constants in the code"
    return f"{model.name}: {steps}, {params}, arena {arena}"


def built_parts(folder: Path, built: BuiltProject) -> Parts:
    """A finished build and what to do next."""
    return [line("image", f"{built.elf} in {built.seconds:.1f} s"), line("next", f"mlf-sdk check {folder}")]
