# SPDX-License-Identifier: Apache-2.0
"""Comparison of the linked image with the plan and with the memory summary of the archive."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.analysis.machine.registry import machine_code
from mlf_sdk.codegen.lock import Lock, LockModel
from mlf_sdk.ir.names import input_symbol
from mlf_sdk.judge.groups import SizedItem, group_sizes, kernel_sizes
from mlf_sdk.judge.memorymap import Contents, Region, placed_parameters, region_use
from mlf_sdk.judge.stack import (
    ENTRIES,
    ZEPHYR_ENTRY,
    Allocator,
    ModelStack,
    StackBound,
    call_graph,
    linked_allocators,
    stack_bound,
)

STACK_EXHAUSTED = "the stack was used up to its end: probably an overflow"

State = Literal["proven", "failed", "unproven"]
STACK, RUN_STACK, THREAD_STACK = "stack", "run stack", "thread stack"
STATICS = "statics"
PROVEN: State = "proven"
FAILED: State = "failed"
UNPROVEN: State = "unproven"

# Known errors in the memory summaries of TVM, each seen in real archives.
_GRAPH_ERROR = (
    "workspace_size_bytes is TVM's own plan with another alignment; sids holds wrong sizes "
    "(it is indexed by storage, not by entry) and is not used"
)
_OTHER_ERROR = "the archive's own count, by other rules than the plan"
_AOT_ERROR = "workspace_size_bytes is the entry's workspace alone; inputs and outputs are in the arena too"
_IO_ERROR = "io_size_bytes of TVM's summaries is wrong; the plan uses shapes and types"
_CONSTANTS_ERROR = "constants_size_bytes omits constants in the code and includes padding"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRow:
    """One prediction: figures of the archive, of the plan, of the image and measured ones.

    Attributes:
        model: its name; empty in rows about the whole image.
        item: e.g. ``arena``; ``functions`` and ``heap`` (functions of an allocator) are counts.
        state: ``proven``: planned, image and measured agree (the summary of the archive is not compared);
            ``failed``: they do not; ``unproven``: a figure is missing, and ``note`` says why.
        summary, planned, image, measured: bytes; None where there is no figure. In the row ``stack``: the
            static bound (planned), the reservation (image), the painted high-water mark (measured). Two rows
            take its place where only the model's own calls have a bound: ``run stack`` has that bound,
            ``thread stack`` the mark, which is that of the whole thread. Both are within the reservation.
        note: reason of a difference, or of a figure that is missing.
        summary_note: reason why the summary of the archive differs from the plan.
    """

    model: str
    item: str
    state: State
    summary: int | None = None
    planned: int | None = None
    image: int | None = None
    measured: int | None = None
    note: str = ""
    summary_note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Results of the static check of an image.

    Attributes:
        rows: predictions about the models and the image.
        kernels: functions of the models.
        groups: bytes by kind of symbol.
        regions: use of each memory of the board.
        stack_bytes: reserved for the stack; None when not known.
        stack: static bound of the stack; None when nothing reads the machine code.
        allocators: linked functions of an allocator; None when nothing reads the machine code.
        strict: an unproven row counts as a failed one.
    """

    rows: tuple[ProofRow, ...]
    kernels: tuple[SizedItem, ...]
    groups: tuple[SizedItem, ...]
    regions: tuple[Region, ...]
    stack_bytes: int | None
    stack: StackBound | None = None
    allocators: tuple[Allocator, ...] | None = None
    strict: bool = False

    @property
    def ok(self) -> bool:
        """Return whether no prediction failed and, if strict, every one is proven."""
        bad = (FAILED, UNPROVEN) if self.strict else (FAILED,)
        return all(row.state not in bad for row in self.rows)

    @property
    def unproven(self) -> tuple[str, ...]:
        """Items of the rows that nothing proves."""
        return tuple(row.item for row in self.rows if row.state == UNPROVEN)


def check_image(
    lock: Lock, image: Image, regions: Sequence[tuple[str, int, int]], *, strict: bool = False
) -> CheckReport:
    """Compare an image with the predictions of its lock.

    Args:
        lock: of the project that the image was built from.
        image: linked from the project; its machine code gives the stack bound and the allocators.
        regions: memories of the board: name, origin, size in bytes.
        strict: unproven rows count as failed.
    """
    rows: list[ProofRow] = []
    for model in lock.models:
        rows += _model_rows(model, image)
    rows += statics_rows(lock, image)
    reserved = _reserved_stack(image)
    code = machine_code(image)
    graph = None if code is None else call_graph(lock, code)
    bound = None if graph is None else stack_bound(lock, graph)
    allocators = None if graph is None else linked_allocators(graph)
    if graph is not None:
        rows += _stack_rows(bound, reserved)
    if allocators is not None:
        rows.append(heap_row(allocators))
    return CheckReport(
        rows=tuple(rows),
        kernels=tuple(kernel_sizes(lock, image)),
        groups=tuple(group_sizes(lock, image)),
        regions=region_use(image.sections, regions),
        stack_bytes=reserved,
        stack=bound,
        allocators=allocators,
        strict=strict,
    )


def _reserved_stack(image: Image) -> int | None:
    """Bytes reserved for the stack of a bare-metal image, or of the main thread of Zephyr."""
    top, bottom = image.find("__mlf_stack_top"), image.find("__mlf_stack_bottom")
    if top and bottom:
        return top.address - bottom.address
    thread = image.find("z_main_stack")
    return thread.size_bytes if thread else None


def _stack_rows(bound: StackBound | None, reserved: int | None) -> list[ProofRow]:
    """Row of the image's stack; of a thread of Zephyr whose drivers have no bound, rows of the runs alone."""
    if bound is None or bound.is_complete or bound.entry != ZEPHYR_ENTRY:
        return [_stack_row(bound, reserved)]
    return [_run_stack_row(of, bound, reserved) for of in bound.models]


def _stack_row(bound: StackBound | None, reserved: int | None) -> ProofRow:
    state: State = UNPROVEN
    if bound is None:
        note = f"no bound: the image has none of the functions {', '.join(ENTRIES)}"
    elif not bound.is_complete:
        note = f"no bound: {bound.image.unknown[0]}"
    elif reserved is None:
        note = "the image does not say how much is reserved"
    elif bound.bytes > reserved:
        state, note = FAILED, "the stack can need more than is reserved"
    else:
        state, note = PROVEN, ""
    return ProofRow(
        model="",
        item=STACK,
        planned=bound.bytes if bound is not None and bound.is_complete else None,
        image=reserved,
        state=state,
        note=note,
    )


def _run_stack_row(of: ModelStack, bound: StackBound, reserved: int | None) -> ProofRow:
    """Row of the stack of a model's own calls: kernels, runtime, and an exception on top."""
    needed = None if of.depth.unknown else of.depth.bytes + bound.exception_bytes
    state: State = UNPROVEN
    note = "of a run's own calls, an exception on top"
    if needed is None:
        note = f"no bound: {of.depth.unknown[0]}"
    elif reserved is None:
        note = "the image does not say how much is reserved"
    elif needed > reserved:
        state, note = FAILED, "a run can need more than is reserved"
    else:
        state = PROVEN
    return ProofRow(model=of.model, item=RUN_STACK, planned=needed, image=reserved, state=state, note=note)


def statics_rows(lock: Lock, image: Image) -> list[ProofRow]:
    """Row of the objects in RAM that models' code brings itself, outside of every plan; none without any."""
    result = sorted(Contents(lock, image).statics(), key=lambda symbol: -symbol.size_bytes)
    if not result:
        return []
    named = ", ".join(symbol.name for symbol in result[:2]) + (", ..." if len(result) > 2 else "")
    total = sum(symbol.size_bytes for symbol in result)
    note = f"of the model's code, outside the arena: {named}"
    return [ProofRow(model="", item=STATICS, image=total, state=PROVEN, note=note)]


def heap_row(allocators: Sequence[Allocator]) -> ProofRow:
    """Row of the allocators: none may be reachable from the run of a model."""
    used = [a.used_by_model for a in allocators]
    state: State = FAILED if True in used else UNPROVEN if None in used else PROVEN
    said = [f"{a.name} (from {', '.join(a.callers[:3]) or 'a table'})" for a in allocators]
    return ProofRow(
        model="",
        item="heap",
        planned=0,
        image=len(allocators),
        state=state,
        note=f"linked: {', '.join(said[:3])}" if said else "",
    )


def _model_rows(model: LockModel, image: Image) -> list[ProofRow]:
    arena = _arena_in(model, image)
    rows = [
        ProofRow(
            model=model.name,
            item="arena",
            summary=model.summary.workspace_bytes,
            planned=model.arena_bytes,
            image=arena,
            state=_state(arena == model.arena_reserved_bytes),
            note=_arena_note(model, arena),
            summary_note=_workspace_note(model),
        ),
        ProofRow(
            model=model.name,
            item="in + out",
            summary=model.summary.io_bytes,
            planned=model.io_bytes,
            state=PROVEN,
            summary_note=_differs(model.summary.io_bytes, model.io_bytes, _IO_ERROR),
        ),
    ]
    if model.params_bytes:
        size, fault = placed_parameters(model, image)
        rows.append(
            ProofRow(
                model=model.name,
                item="parameters",
                summary=model.summary.constants_bytes,
                planned=model.params_bytes,
                image=size,
                state=_state(size == model.params_bytes and not fault),
                note=fault,
                summary_note=_differs(model.summary.constants_bytes, model.params_bytes, _CONSTANTS_ERROR),
            )
        )
    if model.state_bytes and not model.apart:
        rows.append(_object_row(model, "states", f"{model.c_name}_state", model.state_bytes, image))
    if model.input_bytes:
        row = _object_row(model, "inputs", input_symbol(model.c_name), model.input_bytes, image)
        rows.append(dataclasses.replace(row, note="outside the arena: the application's, for a caller's"))
    wanted = dict.fromkeys(step.symbol for step in model.steps)
    missing = [s for s in wanted if image.find(s) is None]
    rows.append(
        ProofRow(
            model=model.name,
            item="functions",
            planned=len(wanted),
            image=len(wanted) - len(missing),
            state=_state(not missing),
            note=f"not linked: {', '.join(missing[:3])}" if missing else "",
        )
    )
    return rows


def _object_row(model: LockModel, item: str, symbol: str, planned: int, image: Image) -> ProofRow:
    """Row of an object of the image that is not the arena."""
    result = image.find(symbol)
    held = result.size_bytes - 2 * model.guard_bytes if result else None
    return ProofRow(model=model.name, item=item, planned=planned, image=held, state=_state(held == planned))


def _state(holds: bool) -> State:
    return PROVEN if holds else FAILED


def _arena_in(model: LockModel, image: Image) -> int | None:
    """Bytes of the arena in the image without guards; None: it is not all there.

    Of a plan that shares nothing: the planned bytes when every buffer has an object of its size.
    """
    guards = 2 * model.guard_bytes
    if model.arenas:
        objects = [image.find(place.symbol) for place in model.arenas]
        return sum(one.size_bytes - guards for one in objects if one) if all(objects) else None
    if not model.apart:
        arena = image.find(model.arena_symbol)
        return arena.size_bytes - guards if arena else None
    for region in model.regions:
        result, size_bytes = image.find(region.symbol), max(region.size_bytes, 1)
        if region.symbol in model.arena_symbols and (
            result is None or result.size_bytes not in (size_bytes, size_bytes + guards)
        ):
            return None
    return model.arena_reserved_bytes


def _arena_note(model: LockModel, arena: int | None) -> str:
    if arena is None:
        return f"symbol {model.arena_symbols[0] if model.arena_symbols else '?'} is not linked as planned"
    if model.apart:
        return "nothing is shared"
    shared = model.arena_reserved_bytes - model.arena_bytes >= model.alignment
    return "shared with larger models" if shared else ""


def _workspace_note(model: LockModel) -> str:
    return _differs(
        model.summary.workspace_bytes,
        model.arena_bytes,
        _OTHER_ERROR
        if not model.compiler_text.startswith("TVM")
        else _GRAPH_ERROR
        if model.executor == "graph"
        else _AOT_ERROR,
    )


def _differs(summary: int | None, planned: int, why: str) -> str:
    return why if summary is not None and summary != planned else ""
