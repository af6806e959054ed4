# SPDX-License-Identifier: Apache-2.0
"""Proof of many models on many boards as Markdown and as text; deterministic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlf_sdk.codegen.secure import OPEN_TEXT
from mlf_sdk.judge.check import FAILED, PROVEN, UNPROVEN
from mlf_sdk.pipeline.cell import NOT_HERE, Cell
from mlf_sdk.reporting.layout import Parts, counted, line, lines, number, table, verdict
from mlf_sdk.sweep.proof import Proof

_MARKS = {PROVEN: "proven", FAILED: "**FAILED**", UNPROVEN: "unproven", NOT_HERE: "-"}


def proof_markdown(proof: Proof, command: str) -> str:
    """Render a proof as Markdown: overview, figures, and reasons of missing cells.

    Args:
        proof: the cells.
        command: that made the proof, for the heading.
    """
    return "\n".join([*_head(proof, command), *_overview(proof), *_figures(proof), *_absent(proof)]) + "\n"


def _head(proof: Proof, command: str) -> Iterator[str]:
    yield "# Proof"
    yield ""
    yield f"Made by `{command}`; do not edit."
    yield ""
    yield (
        f"{counted(len(_rows(proof)), 'model')} on {counted(len(proof.boards), 'board')}: "
        f"{number(proof.count(PROVEN))} cells proven, {number(proof.count(FAILED))} failed, "
        f"{number(proof.count(UNPROVEN))} unproven, {number(proof.count(NOT_HERE))} not possible "
        "(the last section says why). A cell is proven when"
    )
    yield ""
    yield "- the arena's high-water mark on the target is the planned size, to the byte;"
    yield "- arena, parameters and functions are in the image as planned, and no allocator is linked;"
    yield "- the painted stack is within the static bound, and that within what is reserved (the mark holds"
    yield "  interrupts, which come at other depths in each run: it varies by some bytes);"
    if any(cell.stack_bound_is_run for cell in proof.cells):
        yield "  on Zephyr, whose drivers have none, the bound is that of the model's run (kernels, runtime);"
        yield "  it and the painted stack of the whole thread are each within what is reserved;"
    yield "- no guard byte around arena, states and parameters in RAM was written;"
    yield "- integer outputs are those of the evidence, bit for bit; floats within 1e-5 of the largest."
    yield ""
    yield "The column *model file* names the witnesses of a model that was compiled here: interpreters of its"
    yield "file that the compiler had no hand in ([evidence](evidence.md)); the code of other archives is the"
    yield "model itself. Without a witness such a model is unproven."
    yield ""
    yield "The evidence shares nothing with the memory plan: each tensor, workspace and state has memory of"
    yield "its own, and steps run in the archive's order. It is the host twin, whose compiler checks every"
    yield "access (ASan) or, without a sanitizer, whose guard words are checked after each run. Where there"
    yield "is no code for the host (machine code, CMSIS-NN), it is such an image on the same board, with"
    yield "guard words. A cell without evidence is unproven."
    yield ""


def _rows(proof: Proof) -> dict[str, list[Cell]]:
    rows: dict[str, list[Cell]] = {}
    for cell in proof.cells:
        rows.setdefault(_name(cell), []).append(cell)
    return rows


def _name(cell: Cell) -> str:
    return f"{cell.archive}, {cell.module}" if cell.module else cell.archive


def _overview(proof: Proof) -> Iterator[str]:
    yield from _grid(
        ["archive", *proof.boards],
        [[name, *(_MARKS[cell.outcome] for cell in row)] for name, row in _rows(proof).items()],
    )


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join('---' for _ in heads)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


_HEADS = (
    "board",
    "arena: planned",
    "measured",
    "stack: bound",
    "measured",
    "flash",
    "outputs",
    "model file",
    "evidence",
)


def _figures(proof: Proof) -> Iterator[str]:
    yield "## Figures"
    yield ""
    yield "In bytes. The archive's own summary is shown beside the plan and not held against it: where they"
    yield "differ, the line says which known error of TVM's it is."
    yield ""
    for name, row in _rows(proof).items():
        ran = [cell for cell in row if cell.outcome != NOT_HERE]
        if ran:
            yield f"### {name}"
            yield ""
            yield from _summary(ran)
            yield from _grid(_HEADS, [_figures_of(cell) for cell in ran])


def _summary(ran: Sequence[Cell]) -> Iterator[str]:
    """Lines that compare the summary of the archive with the plan, which is the same on every board."""
    rows = next((cell.rows for cell in ran if cell.rows), ())
    said = [row for row in rows if row.summary is not None]
    for row in said:
        agree = "the same" if row.summary == row.planned else row.summary_note
        yield f"- {row.item}: summary {number(row.summary)}, planned {number(row.planned)}: {agree}"
    if said:
        yield ""


def _figures_of(cell: Cell) -> list[str]:
    measured = number(cell.arena_measured_bytes)
    return [
        cell.board,
        f"{'' if cell.arena_is_exact else '<= '}{number(cell.arena_bytes)}",
        measured,
        f"{'run: ' if cell.stack_bound_is_run else ''}{number(cell.stack_bound_bytes)}",
        f"{'thread: ' if cell.stack_bound_is_run else ''}{number(cell.stack_measured_bytes)}",
        number(cell.flash_bytes),
        _outputs(cell),
        cell.witnesses or "-",
        cell.twin_evidence or cell.evidence,
    ]


def _outputs(cell: Cell) -> str:
    if cell.outcome != PROVEN:
        return f"{_MARKS[cell.outcome]}: {cell.why}"
    if cell.integers or cell.max_difference in (0, None):
        return f"= {cell.against}" if cell.against else "="
    return f"{cell.against} +- {cell.max_difference:.1e}"


def _absent(proof: Proof) -> Iterator[str]:
    """Table of missing cells: each reason with its boards."""
    yield "## Not possible"
    yield ""
    yield from _grid(["archive", "board", "why"], _reasons(proof))


def _reasons(proof: Proof) -> list[tuple[str, str, str]]:
    """Archive, boards and reason of the cells that are not here; boards of one reason stand together."""
    result = []
    for name, row in _rows(proof).items():
        reasons: dict[str, list[str]] = {}
        for cell in row:
            if cell.outcome == NOT_HERE:
                reasons.setdefault(cell.why.splitlines()[0], []).append(cell.board)
        result += [(name, ", ".join(boards), why) for why, boards in reasons.items()]
    return result


def proof_parts(proof: Proof) -> Parts:
    """Lay out a proof: overview, and the reasons of all cells that are not proven."""
    rows = [[name, *(cell.outcome for cell in row)] for name, row in _rows(proof).items()]
    failed, unproven = (
        [f"{_name(c)} on {c.board}: {c.why}" for c in proof.cells if c.outcome == outcome]
        for outcome in (FAILED, UNPROVEN)
    )
    used = dict.fromkeys(c.evidence for c in proof.cells if c.outcome == PROVEN)
    counts = ", ".join(f"{proof.count(o):,} {o}" for o in (PROVEN, FAILED, UNPROVEN, NOT_HERE))
    return [
        table(["archive", *proof.boards], rows),
        *lines("failed", failed),
        *lines("unproven", unproven),
        *lines(NOT_HERE, [f"{name} on {boards}: {why}" for name, boards, why in _reasons(proof)]),
        *lines("evidence", used),
        *([] if proof.locked else lines("access", [OPEN_TEXT])),
        line("cells", counts),
        line("verdict", verdict(proof.ok)),
    ]
