# SPDX-License-Identifier: Apache-2.0
"""Objects of models in several memories: where each lies in the image, and the mark of each arena."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.codegen.lock import Lock, LockModel, LockPlace
from mlf_sdk.judge.check import FAILED, PROVEN, CheckReport, ProofRow, State
from mlf_sdk.judge.execute import Execution
from mlf_sdk.planner.memories import parse_pins

Regions = Sequence[tuple[str, int, int]]


def with_places(report: CheckReport, lock: Lock, image: Image, regions: Regions) -> CheckReport:
    """The check of an image with the rows of each memory, behind those of the models."""
    code = parse_pins(lock.options.place).code
    rows = [row for m in lock.models if m.arenas for row in place_rows(m, image, regions, code)]
    at = len(report.rows) - sum(not row.model for row in report.rows)
    return dataclasses.replace(report, rows=(*report.rows[:at], *rows, *report.rows[at:]))


def place_rows(model: LockModel, image: Image, regions: Regions, code: str = "") -> list[ProofRow]:
    """Row of each arena, the state, each run of parameters, and the kernels: size and memory.

    Args:
        regions: memories of the board: name, origin, size in bytes.
        code: memory that kernels were to run from; empty: none was chosen.
    """
    rows = [_row(model, image, regions, "arena", p, 2 * model.guard_bytes) for p in model.arenas]
    if model.state_memory:
        place = LockPlace(
            memory=model.state_memory,
            symbol=f"{model.c_name}_state",
            first=0,
            size_bytes=model.state_bytes,
            reserved_bytes=model.state_bytes,
        )
        rows.append(_row(model, image, regions, "states", place, 2 * model.guard_bytes))
    rows += [_row(model, image, regions, "weights", p, 0) for p in model.params_places]
    return [*rows, *([_code_row(model, image, regions, code)] if code else [])]


def _code_row(model: LockModel, image: Image, regions: Regions, memory: str) -> ProofRow:
    """Row of the kernels' functions, all of which must lie in one memory."""
    symbols = [image.find(name) for name in model.kernel_symbols]
    functions = [one for one in symbols if one is not None and one.is_function]
    outside = [
        one.name for one in functions if memory_at(regions, one.address & ~1, one.size_bytes) != memory
    ]
    return ProofRow(
        model=model.name,
        item=f"code {memory}",
        image=sum(one.size_bytes for one in functions),
        state=FAILED if outside else PROVEN,
        note=f"elsewhere: {', '.join(outside[:3])}" if outside else "functions of the steps",
    )


def _row(
    model: LockModel, image: Image, regions: Regions, kind: str, place: LockPlace, guards: int
) -> ProofRow:
    symbol = image.find(place.symbol)
    size = symbol.size_bytes - guards if symbol is not None else None
    note = ""
    if symbol is None:
        note = f"symbol {place.symbol} is not linked"
    elif size != place.reserved_bytes:
        note = f"planned {place.reserved_bytes:,} bytes of memory"
    else:
        holding = memory_at(regions, symbol.address, symbol.size_bytes)
        if holding != place.memory:
            note = f"it lies in {holding or 'no memory of the board'} at 0x{symbol.address:08x}"
    state: State = FAILED if note else PROVEN
    return ProofRow(
        model=model.name,
        item=f"{kind} {place.memory}",
        planned=place.size_bytes,
        image=size,
        state=state,
        note=note,
    )


def memory_at(regions: Regions, address: int, size_bytes: int) -> str:
    """Name of the memory that holds all of an object; empty: none does."""
    end = address + size_bytes
    return next((name for name, low, size in regions if low <= address and end <= low + size), "")


def arena_marks(model: LockModel, done: Execution) -> tuple[int | None, ...]:
    """Measured high-water mark of each arena of a model in several memories, in their order."""
    return (done.arena_high_water_bytes, *done.stats.more_high_water_bytes)


def all_arenas_mark(model: LockModel, done: Execution) -> int | None:
    """Measured bytes of all arenas: the plan's, less what was not reached in each; None: not measured."""
    marks = arena_marks(model, done)
    known = [mark for mark in marks if mark is not None]
    if len(known) != len(model.arenas):
        return None
    return model.arena_bytes - sum(p.size_bytes - m for p, m in zip(model.arenas, known, strict=True))


def with_marks(rows: Sequence[ProofRow], model: LockModel, done: Execution, *, exact: bool) -> list[ProofRow]:
    """Rows with the measured mark of each arena: the planned one, or less where the plan is a bound."""
    marks = {
        f"arena {place.memory}": mark
        for place, mark in zip(model.arenas, arena_marks(model, done), strict=False)
        if mark is not None
    }

    def marked(row: ProofRow) -> ProofRow:
        if row.model != model.name or row.item not in marks or row.planned is None:
            return row
        mark = marks[row.item]
        good = mark == row.planned or (not exact and mark < row.planned)
        note = row.note or ("" if good else "measured is not what was planned")
        state: State = row.state if good else FAILED
        return dataclasses.replace(row, measured=mark, state=state, note=note)

    return [*map(marked, rows)]
