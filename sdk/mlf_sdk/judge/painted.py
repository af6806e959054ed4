# SPDX-License-Identifier: Apache-2.0
"""Painted high-water marks: of a stack against its bound, and of an image that nothing else is known of."""

from __future__ import annotations

import dataclasses

from mlf_sdk.codegen.lock import LockModel
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
