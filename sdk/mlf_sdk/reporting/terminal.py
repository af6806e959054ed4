# SPDX-License-Identifier: Apache-2.0
"""Text of models, projects and boards, and phrases that several reports share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import command_text
from mlf_sdk.judge.evidence import BOARD_APART
from mlf_sdk.reporting.layout import (
    Parts,
    arena_text,
    capacity,
    counted,
    line,
    lines,
    number,
    params_text,
    size,
    table,
    verdict,
)
from mlf_sdk.targets.boards.row import Board

if TYPE_CHECKING:
    from mlf_sdk.judge.compare import Comparison
    from mlf_sdk.judge.witnessed import Witnessed, WitnessResult
    from mlf_sdk.pipeline.api import GeneratedProject
    from mlf_sdk.pipeline.project import BuiltProject
    from mlf_sdk.pipeline.results import RunReport


def comparison_text(comparison: Comparison, reference: str, inferences: int | None = None) -> str:
    """Result of a comparison in words.

    Args:
        comparison: the comparison.
        reference: name of the reference, e.g. ``the host's``.
        inferences: number to mention; None for none.
    """
    elements = counted(sum(o.elements for o in comparison.outputs), "element")
    of = elements if inferences is None else f"{elements} of {counted(inferences, 'inference')}"
    most = f"max difference {comparison.max_abs:.2g}, relative {comparison.max_rel:.2g}"
    if not comparison.mismatches:
        counts = "" if inferences is None else f"; {of}"
        if not comparison.is_close:
            return f"within the tolerance of {reference} ({most}{counts})"
        return f"equal to {reference} (max difference {comparison.max_abs:.2g}{counts})"
    return f"differ from {reference} in {comparison.mismatches:,} of {of} ({most})"


def instructions_text(report: RunReport, each: str = "") -> str:
    """Instructions of one inference: all the same, from least to most, or to a resolution; then cycles.

    Args:
        each: follows each unit, where there were several inferences.
    """
    least, most = report.instructions_range or (report.instructions, report.instructions)
    count = number(least) if least == most else f"{number(least)} to {number(most)}"
    if report.instructions_resolution:
        count = f"{number(report.instructions)} ± {report.instructions_resolution:,}"
    text = f"{count} instructions{each}"
    if report.cycles is None or not report.instructions:
        return text
    ratio = report.cycles / report.instructions
    return f"{text}, {number(report.cycles)} cycles{each} ({ratio:.2f} an instruction)"


def board_text(board: Board, *, emulated: bool = True) -> str:
    """Title and memory of a board in words; ``emulated``: QEMU's is meant where there is one."""
    if not board.memories:
        return board.title
    memories = f"{capacity(board.flash.size_bytes)} flash, {capacity(board.ram.size_bytes)} RAM"
    emulator = ""
    if board.rtl is not None and emulated:
        emulator = " (Verilator)"
    elif board.qemu and emulated:
        from mlf_sdk.targets.unicorn.launch import emulator_title  # boards of this machine have none

        emulator = f" ({emulator_title(board)})"
    return f"{board.title}, {memories}{emulator}"


def boards_parts(boards: Sequence[Board]) -> Parts:
    """Lay out boards as a table."""
    rows = []
    for board in boards:
        sizes = ("-", "-")
        if board.platform != "host":
            sizes = (capacity(board.flash.size_bytes), capacity(board.ram.size_bytes))
        rows.append((board.name, *sizes, board.proven_on, board.title))
    return [
        table(("=board", ">flash", ">RAM", "=images ran", "description"), rows),
        line(
            "zephyr",
            "also every board of a Zephyr tree, by the name that west uses (west boards), such as "
            "nucleo_f411re; a board of the table on Zephyr: --platform zephyr",
        ),
    ]


def generated_parts(project: GeneratedProject) -> Parts:
    """Lay out a generated project and the next command."""
    lock = project.lock
    return [
        line("project", f"{project.folder} for {lock.board}, application {lock.options.app}"),
        *lines("model", [_promise_text(model) for model in lock.models]),
        *lines(
            "kept",
            [f"{path}: edited by you; a new project differs" for path in project.kept],
        ),
        *lines("sample", list(project.samples)),
        *lines("saved", [f"{path}: your changed file, which was replaced" for path in project.backups]),
        line("next", _next_text(project)),
    ]


def _next_text(project: GeneratedProject) -> str:
    if project.lock.options.app == "library":
        return f"{project.folder / 'README.md'} has the lines for your application"
    return command_text("build", project.folder)


def _promise_text(model: LockModel) -> str:
    steps = counted(len(model.steps), "step")
    arena = arena_text(model.arena_bytes, model.lower_bound_bytes, model.caller_inputs_bytes)
    text = f"{model.name}: {steps}, {params_text(model.params_bytes)}, arena {arena}"
    places = [f"{place.memory} {size(place.size_bytes)}" for place in model.arenas]
    weights = [f"{place.memory} {size(place.size_bytes)}" for place in model.params_places]
    return f"{text}; arena in {', '.join(places)}; weights in {', '.join(weights)}" if places else text


def built_parts(folder: Path, built: BuiltProject) -> Parts:
    """Lay out a finished build and the next command."""
    return [
        line("image", f"{built.elf} in {built.seconds:.1f} s"),
        line("next", command_text("check", folder)),
    ]


def twin_text(evidence: str) -> str:
    """Name, for people, of the outputs that a twin gave."""
    return "the unshared image's" if BOARD_APART in evidence else "the host's"


def witness_comparisons(result: Witnessed) -> list[tuple[str, Comparison]]:
    """Comparisons with witnesses by their names: those that agree together, each other one by itself."""
    agreeing = [r for r in result.compared if r.comparison is not None and r.comparison.ok]
    joined = [(_names(agreeing), _joined(agreeing))] if agreeing else []
    return joined + [(r.witness, r.comparison) for r in _differing(result) if r.comparison]


def witness_notes(result: Witnessed, uncovered: str) -> list[tuple[str, str]]:
    """Labels and texts about what is missing; empty: nothing is."""
    notes = [("witness", f"{r.witness} gives nothing: {r.why}") for r in result.results if r.why]
    if result.disagreement:
        notes.append(("witness", result.disagreement))
    if result.is_lacking:
        notes.append(("witness", _lacking(result)))
    if uncovered:
        notes.append(("uncovered", f"{uncovered} (no witness)"))
    return notes


def _lacking(result: Witnessed) -> str:
    said = "its kernels are only compared with themselves"
    return f"{said}; {result.why}" if result.why else said


def _differing(result: Witnessed) -> Sequence[WitnessResult]:
    return [r for r in result.compared if r.comparison is not None and not r.comparison.ok]


def _names(results: Sequence[WitnessResult]) -> str:
    return " and ".join(result.witness for result in results)


def _joined(results: Sequence[WitnessResult]) -> Comparison:
    from mlf_sdk.judge.compare import Comparison  # numpy takes time to load

    return Comparison(outputs=tuple(o for r in results if r.comparison for o in r.comparison.outputs))


def witness_parts(result: Witnessed) -> Parts:
    """Lines of the comparisons with witnesses."""
    return [
        line("outputs", comparison_text(compared, name), verdict(compared.ok))
        for name, compared in witness_comparisons(result)
    ]


def note_parts(result: Witnessed, uncovered: str) -> Parts:
    """Lines about what is missing."""
    return [line(label, text) for label, text in witness_notes(result, uncovered)]
