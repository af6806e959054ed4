# SPDX-License-Identifier: Apache-2.0
"""Painted high-water mark of a stack against its static bound and its reservation."""

from __future__ import annotations

import dataclasses

from mlf_sdk.judge.check import (
    FAILED,
    PROVEN,
    RUN_STACK,
    STACK,
    STACK_EXHAUSTED,
    THREAD_STACK,
    CheckReport,
    ProofRow,
    State,
)


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
