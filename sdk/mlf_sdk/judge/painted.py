# SPDX-License-Identifier: Apache-2.0
"""Guard bytes around what a model writes, and high-water marks of painted memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import TargetError
from mlf_sdk.judge.check import (
    FAILED,
    PROVEN,
    RUN_STACK,
    STACK,
    STACK_EXHAUSTED,
    THREAD_STACK,
    UNPROVEN,
    CheckReport,
    ProofRow,
    State,
)
from mlf_sdk.judge.execute import Execution
from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire.device import Stats

_OTHER = "of another image"


def painted_rows(checked: CheckReport, used: int | None) -> list[ProofRow]:
    """Rows of a check with the painted high-water mark of the stack.

    Args:
        checked: with a row of the image's stack, or rows of the stacks of runs alone.
        used: high-water mark in bytes; None when not measured.
    """
    rows = [with_painted(row, used) if row.item == STACK else row for row in checked.rows]
    run = next((row for row in rows if row.item == RUN_STACK), None)
    if run is None or used is None:
        return rows
    unknown = 0 if checked.stack is None else len(checked.stack.image.unknown)
    note = f"of the whole thread, no bound: {unknown} calls by pointer in drivers"
    thread = ProofRow(model="", item=THREAD_STACK, image=run.image, state=PROVEN, note=note)
    return [*rows, with_painted(thread, used)]


def with_painted(row: ProofRow, used: int | None) -> ProofRow:
    """Add the painted high-water mark to the row of a stack, and check it against bound and reservation.

    Args:
        row: of a stack, whose bound is that of all that the mark measures.
        used: high-water mark in bytes; None when not measured.
    """
    if used is None:
        return row
    note = row.note
    if row.image is not None and used >= row.image:
        note = STACK_EXHAUSTED
    elif row.planned is not None and used > row.planned:
        note = "measured use exceeds the static bound"
    state: State = row.state if note == row.note else FAILED
    return dataclasses.replace(row, measured=used, state=state, note=note)


def check_of_marks(checked: CheckReport, model: LockModel, done: Execution) -> CheckReport:
    """Return the check of an image of which its marks alone are known, no plan and no symbol.

    Args:
        checked: of another image of the model: only its strictness holds.
        model: its name is that of the rows.
        done: execution on the device that runs the image.
    """
    stack = ProofRow(model="", item=STACK, image=done.stats.stack_bytes, state=UNPROVEN, note=_OTHER)
    arena = ProofRow(
        model=model.name,
        item="arena",
        measured=done.arena_high_water_bytes,
        state=UNPROVEN,
        note=_OTHER,
    )
    guards = ProofRow(
        model=model.name,
        item="guards",
        measured=done.stats.guards,
        state=PROVEN if done.stats.written_guard is None else FAILED,
        note="" if done.stats.written_guard is None else "the model wrote outside of its memory",
    )
    return CheckReport(
        rows=(arena, guards, with_painted(stack, done.stats.stack_high_water_bytes)),
        kernels=(),
        groups=(),
        regions=(),
        stack_bytes=done.stats.stack_bytes,
        strict=checked.strict,
    )


class GuardError(TargetError):
    """The model wrote outside of its memory.

    Args:
        model: that wrote.
        stats: of its run.
        outputs: of that inference; they may still be right.
    """

    def __init__(self, model: LockModel, stats: Stats, outputs: Sequence[Array] = ()) -> None:
        super().__init__(
            guards_fault(model, stats),
            where=f"model {model.name}",
            hint="Run it on the board 'host': the address sanitizer names the line of the kernel.",
        )
        self.outputs = [*outputs]


def guards_fault(model: LockModel, stats: Stats) -> str:
    """Describe the fault that a run's guards show; empty: they are as planned, and intact.

    Args:
        model: with the regions that have guards.
        stats: of a run; ``guards`` None: the image has none (the address sanitizer, the dynamic executor).
    """
    written, count = stats.written_guard, 2 * len(model.regions)
    if written is not None:
        name = model.regions[written // 2].name if written < count else "a region"
        return f"the model wrote {('before', 'behind')[written % 2]} {name}"
    return "" if stats.guards in (None, count) else "other regions are guarded than planned"


def guards_row(model: LockModel, stats: Stats) -> ProofRow:
    """Row of the guards: planned, and checked after each run; ``stats`` as in `guards_fault`."""
    note = guards_fault(model, stats)
    return ProofRow(
        model=model.name,
        item="guards",
        planned=2 * len(model.regions),
        measured=stats.guards,
        state=FAILED if note else PROVEN,
        note=note,
    )


def with_guards(rows: Sequence[ProofRow], model: LockModel, stats: Stats) -> tuple[ProofRow, ...]:
    """Rows with that of the guards before those about the whole image, which come last."""
    if not model.regions:
        return tuple(rows)
    at = len(rows) - sum(not row.model for row in rows)
    return (*rows[:at], guards_row(model, stats), *rows[at:])
