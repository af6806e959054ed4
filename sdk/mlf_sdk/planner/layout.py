# SPDX-License-Identifier: Apache-2.0
"""A model's memory, decided: arena offsets, parameter offsets, workspaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from mlf_sdk.errors import InputError, NotPossibleError
from mlf_sdk.ir.model import ALIGNMENT, Model, Span, Step, Tensor, TensorKind
from mlf_sdk.planner import (
    Access,
    MemoryPlan,
    PlanOverlap,
    PlanProblem,
    PlanStep,
    PlanTensor,
    PlanWorkspace,
    plan_apart,
    plan_memory,
)

if TYPE_CHECKING:
    from mlf_sdk.planner.traffic import Traffic

RED_ZONE_BYTES = 64  # between constants that share nothing
_OVERHEAD_BYTES: Final = 128  # for each of arena, state and parameters in a memory


class Bank(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that can hold buffers or weights.

    Attributes:
        name: as the board's row has it.
        is_ram: buffers may lie in it; else constants alone.
        size_bytes: free for models.
        read_cycles, write_cycles: of a word that follows the one before it, and of one anywhere.
        noinit, data, rodata: beginnings of section names: of what nobody clears, of what start-up copies, of
            constants; empty: the memory can't hold such.
        code_bytes: beside ``size_bytes``, kept for code; it may take less.
    """

    name: str
    is_ram: bool
    size_bytes: int
    read_cycles: tuple[float, float] = (1.0, 1.0)
    write_cycles: tuple[float, float] = (1.0, 1.0)
    noinit: str = ""
    data: str = ""
    rodata: str = ""
    code_bytes: int = 0

    def cycles(self, traffic: Traffic) -> float:
        """Cycles that ``traffic`` takes in this memory."""
        return (
            traffic.reads * self.read_cycles[0]
            + traffic.scattered_reads * self.read_cycles[1]
            + traffic.writes * self.write_cycles[0]
        )

    @property
    def room_bytes(self) -> int:
        """Bytes for buffers and weights, without guards and alignment."""
        return max(0, self.size_bytes - (3 if self.is_ram else 1) * _OVERHEAD_BYTES)

    @property
    def holds_constants(self) -> bool:
        """Return whether weights may lie in it."""
        return bool(self.data if self.is_ram else self.rodata)


def align_up(size_bytes: int, alignment: int = ALIGNMENT) -> int:
    """``size_bytes`` rounded up to a multiple of ``alignment``."""
    return (size_bytes + alignment - 1) // alignment * alignment


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Range of offsets that lies in one memory.

    Attributes:
        first: lowest offset.
        size_bytes: exact, not rounded up.
        lower_bound_bytes: of an arena: most bytes that are live in it at one time.
    """

    bank: Bank
    first: int
    size_bytes: int
    lower_bound_bytes: int = 0

    def holds(self, offset: int) -> bool:
        """Return whether an offset lies in the range."""
        return self.first <= offset < self.first + self.size_bytes


class ModelLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Memory layout of one model: offsets in the arena, the parameters and the state.

    Attributes:
        plan: the memory plan; its order is the order in which steps run.
        constant_offsets: tensor id -> offset in the parameter blob.
        params_bytes: size of the parameter blob.
        inputs_kept: whether a run leaves the inputs intact.
        state_offsets: tensor id -> offset in the state, which has memory of its own beside the arena.
        state_bytes: size of the state.
        alignment: of arena, parameters and state, in bytes.
        shared: buffers share memory by lifetime; False: each has memory of its own.
        arenas: of a model in several memories, ranges of the plan's offsets; empty: one arena, in RAM.
        params: ranges of the offsets of constants likewise.
        state_bank: memory of the state; None: RAM.
        input_offsets: of inputs in memory of the caller, by tensor: where they lie in a buffer that an
            application has for them; none: they lie in the arena.
        input_bytes: size of such a buffer.
    """

    model: Model
    plan: MemoryPlan
    constant_offsets: Mapping[int, int]
    params_bytes: int
    inputs_kept: bool
    state_offsets: Mapping[int, int] = msgspec.field(default_factory=dict)
    state_bytes: int = 0
    alignment: int = ALIGNMENT
    shared: bool = True
    arenas: tuple[Part, ...] = ()
    params: tuple[Part, ...] = ()
    state_bank: Bank | None = None
    input_offsets: Mapping[int, int] = msgspec.field(default_factory=dict)
    input_bytes: int = 0

    @property
    def input_alignment(self) -> int:
        """Bytes that the addresses of inputs in memory of the caller are multiples of; 1 without any."""
        if not self.input_offsets:
            return 1
        from mlf_sdk.planner.inputs import least_alignment

        return max(least_alignment(self.model.tensors[i]) for i in self.input_offsets)

    @property
    def arena_bytes(self) -> int:
        """The predicted high-water mark of the arena."""
        return self.plan.arena_bytes

    @property
    def arena_reserved_bytes(self) -> int:
        """Bytes of the arena object: the arena rounded up to its alignment."""
        return align_up(max(self.plan.arena_bytes, 1), self.alignment)

    @property
    def io_bytes(self) -> int:
        """Bytes of the inputs and outputs that lie in the arena."""
        model = self.model
        sizes = {
            (model.root(i).id, model.offset_in_root(i)): model.tensors[i].size_bytes
            for i in (*model.inputs, *model.outputs)
            if model.root(i).kind not in OUTSIDE and i not in model.caller_inputs and i != model.streamed
        }
        return sum(sizes.values())

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps in the order in which they run."""
        return tuple(self.model.steps[i] for i in self.plan.order)

    def offset(self, tensor: int) -> int:
        """Bytes from the start of the parameters, the state or the arena, whichever holds the tensor."""
        root = self.model.root(tensor)
        places = {TensorKind.CONSTANT: self.constant_offsets, TensorKind.STATE: self.state_offsets}
        base = places.get(root.kind, self.plan.tensor_offsets)[root.id]
        return base + self.model.offset_in_root(tensor)

    def params_blob(self) -> bytes:
        """The parameter blob: every constant at its offset, gaps zero."""
        return _blob(self.model.constants, self.constant_offsets, self.params_bytes)

    def state_blob(self) -> bytes:
        """The state before the first run."""
        return _blob(self.model.states, self.state_offsets, self.state_bytes)


OUTSIDE = frozenset({TensorKind.CONSTANT, TensorKind.STATE})
"""Kinds of tensors that lie in memory of their own, not in the arena."""


def lay_out(model: Model, *, keep_inputs: bool = False, shared: bool = True) -> ModelLayout:
    """Plan the memory of ``model``.

    Args:
        shared: buffers share memory by lifetime, and steps may be exchanged; False: each buffer has memory
            of its own, and steps run in the archive's order.
        keep_inputs: keep the inputs intact for the caller, at the price of a larger arena.

    Raises:
        NotPossibleError: the inputs are to be kept, and a step writes to one of them.
        InputError: the model's code was not analysed for a compiler.
    """
    if not model.is_analysed:
        raise InputError("its code was not analysed for a compiler", where=f"model {model.name}")
    if keep_inputs:
        if model.streamed is not None:
            raise NotPossibleError(
                f"the input '{model.tensors[model.streamed].name}' comes row by row: it can't be kept",
                where=f"model {model.name}",
                hint="Leave out --keep-inputs, or compile without --stream.",
            )
        from mlf_sdk.planner.inputs import check_inputs_kept  # few projects keep them

        check_inputs_kept(model)
    alignment = max(ALIGNMENT, model.alignment)
    inputs: dict[int, int] = {}
    input_bytes = 0
    if shared and model.caller_inputs:
        from mlf_sdk.planner.inputs import place_inputs  # few models leave them to the caller

        inputs, input_bytes = place_inputs(model, alignment)
    constants, params_bytes = in_a_row(model.constants, alignment, 0 if shared else RED_ZONE_BYTES)
    states, state_bytes = in_a_row(model.states, alignment)
    problem = plan_problem(model, keep_inputs=keep_inputs)
    return ModelLayout(
        model=model,
        plan=plan_memory(problem) if shared else plan_apart(problem),
        constant_offsets=constants,
        params_bytes=params_bytes,
        inputs_kept=keep_inputs or bool(model.caller_inputs),
        state_offsets=states,
        state_bytes=state_bytes,
        alignment=alignment,
        shared=shared,
        input_offsets=inputs,
        input_bytes=input_bytes,
    )


def in_a_row(tensors: Iterable[Tensor], alignment: int, gap: int = 0) -> tuple[dict[int, int], int]:
    """Aligned offsets of tensors one behind the other, with a gap between them, and the end of the last."""
    offsets: dict[int, int] = {}
    end = 0
    for tensor in tensors:
        offsets[tensor.id] = align_up(end + gap if offsets else 0, alignment)
        end = offsets[tensor.id] + tensor.size_bytes
    return offsets, end


def _blob(tensors: Iterable[Tensor], offsets: Mapping[int, int], size_bytes: int) -> bytes:
    blob = bytearray(size_bytes)
    for tensor in tensors:
        data = tensor.data or b""
        blob[offsets[tensor.id] : offsets[tensor.id] + len(data)] = data
    return bytes(blob)


def plan_problem(model: Model, *, keep_inputs: bool) -> PlanProblem:
    """The planner's view of ``model``: everything that lives in the arena."""
    kinds = {t.id: model.root(t.id).kind for t in model.tensors}
    planned = {
        i
        for i, kind in kinds.items()
        if kind is not TensorKind.CONSTANT
        and i != model.streamed
        and model.root(i).id not in model.caller_inputs
    }
    tensors = tuple(
        # A state lies elsewhere; what the steps do with it decides their order.
        PlanTensor(
            id=t.id,
            size_bytes=0 if kinds[t.id] is TensorKind.STATE else t.size_bytes,
            alias_of=t.alias_of,
        )
        for t in model.tensors
        if t.id in planned
    )
    kept = {step.arguments[position] for step in model.steps for position in step.escaping_args}
    return PlanProblem(
        tensors=tensors,
        inputs=tuple(dict.fromkeys(i for i in model.inputs if i in planned)),
        outputs=tuple(dict.fromkeys(i for i in model.outputs if i in planned)),
        steps=tuple(_plan_step(model, step, planned) for step in model.steps),
        alignment=max(ALIGNMENT, model.alignment),
        keep_inputs=keep_inputs,
        state=tuple(t.id for t in model.states),
        kept=tuple(sorted(kept & planned)),
    )


def _plan_step(model: Model, step: Step, planned: set[int]) -> PlanStep:
    whole = Span(first=0, last=step.phases - 1)
    spans = step.spans or (whole,) * (len(step.inputs) + len(step.outputs))
    count = len(step.inputs)
    workspaces = [
        PlanWorkspace(slot=w.slot, size_bytes=w.size_bytes, first_phase=w.span.first, last_phase=w.span.last)
        for w in step.workspaces
    ]
    if step.workspace_stack_bytes:
        workspaces.append(
            PlanWorkspace(
                slot=step.stack_slot,
                size_bytes=step.workspace_stack_bytes,
                first_phase=whole.first,
                last_phase=whole.last,
            )
        )
    written = (*step.outputs, *(step.inputs[position] for position in step.writes))
    return PlanStep(
        phases=step.phases,
        reads=_accesses(step.inputs, spans[:count], planned),
        writes=_accesses(written, (*spans[count:], *(spans[w] for w in step.writes)), planned),
        workspaces=tuple(workspaces),
        overlaps=_plan_overlaps(model, step, planned),
        is_fixed=bool(step.persistent_globals) or step.stream is not None,
    )


def _plan_overlaps(model: Model, step: Step, planned: set[int]) -> tuple[PlanOverlap, ...]:
    """Overlaps of whole storages: those that all arguments of a step in both of them allow."""
    allowed = {(o.input, o.output): o.distance_bytes for o in step.overlaps}
    distances: dict[tuple[int, int], list[int | None]] = {}
    for position, x in enumerate(step.inputs if allowed else ()):
        for number, y in enumerate(step.outputs):
            entry = allowed.get((position, number))
            if entry is not None:
                entry = max(0, entry + model.offset_in_root(y) - model.offset_in_root(x))
            distances.setdefault((model.root(x).id, model.root(y).id), []).append(entry)
    read, written = ({model.root(i).id: i for i in reversed(ids)} for ids in (step.inputs, step.outputs))
    return tuple(
        PlanOverlap(input=read[x], output=written[y], distance_bytes=max(d for d in entry if d is not None))
        for (x, y), entry in distances.items()
        if x != y and {x, y} <= planned and None not in entry
    )


def _accesses(ids: tuple[int, ...], spans: tuple[Span, ...], planned: set[int]) -> tuple[Access, ...]:
    merged: dict[int, Span] = {}
    for tensor, span in zip(ids, spans, strict=True):
        if tensor in planned:
            seen = merged.get(tensor, span)
            merged[tensor] = Span(first=min(seen.first, span.first), last=max(seen.last, span.last))
    return tuple(
        Access(tensor=tensor, first_phase=span.first, last_phase=span.last) for tensor, span in merged.items()
    )
