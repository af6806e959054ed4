# SPDX-License-Identifier: Apache-2.0
"""A model's memory, decided: arena offsets, parameter offsets, workspaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlf_sdk.ir.model import Model, Span, Step, TensorKind
from mlf_sdk.planner import Access, MemoryPlan, PlanProblem, PlanStep, PlanTensor, PlanWorkspace, plan_memory

ALIGNMENT = 16  # of arenas, buffers and parameters, in bytes; TVM's default workspace alignment


def align_up(size_bytes: int, alignment: int = ALIGNMENT) -> int:
    """``size_bytes`` rounded up to a multiple of ``alignment``."""
    return (size_bytes + alignment - 1) // alignment * alignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLayout:
    """Where everything of one model lies.

    Attributes:
        plan: the memory plan; its order is the order in which steps run.
        constant_offsets: tensor id -> offset in the parameter blob.
        params_bytes: size of the parameter blob.
        inputs_kept: whether a run leaves the inputs intact.
    """

    model: Model
    plan: MemoryPlan
    constant_offsets: Mapping[int, int]
    params_bytes: int
    inputs_kept: bool

    @property
    def arena_bytes(self) -> int:
        """The predicted high-water mark of the arena."""
        return self.plan.arena_bytes

    @property
    def arena_reserved_bytes(self) -> int:
        """Bytes of the arena object: the arena rounded up to its alignment."""
        return align_up(max(self.plan.arena_bytes, 1))

    @property
    def io_bytes(self) -> int:
        """Bytes of the inputs and outputs that lie in the arena."""
        roots = {self.model.root(i).id for i in (*self.model.inputs, *self.model.outputs)}
        tensors = [self.model.tensors[i] for i in roots]
        return sum(t.size_bytes for t in tensors if t.kind is not TensorKind.CONSTANT)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps in the order in which they run."""
        return tuple(self.model.steps[i] for i in self.plan.order)

    def params_blob(self) -> bytes:
        """The parameter blob: every constant at its offset, gaps zero."""
        blob = bytearray(self.params_bytes)
        for tensor in self.model.constants:
            data = tensor.data or b""
            offset = self.constant_offsets[tensor.id]
            blob[offset : offset + len(data)] = data
        return bytes(blob)


def lay_out(model: Model, *, keep_inputs: bool = False) -> ModelLayout:
    """Plan the memory of ``model``.

    Args:
        keep_inputs: keep the inputs intact for the caller, at the price of a larger arena.
    """
    plan = plan_memory(plan_problem(model, keep_inputs=keep_inputs))
    offsets: dict[int, int] = {}
    cursor = 0
    for tensor in model.constants:
        cursor = align_up(cursor)
        offsets[tensor.id] = cursor
        cursor += tensor.size_bytes
    return ModelLayout(
        model=model, plan=plan, constant_offsets=offsets, params_bytes=cursor, inputs_kept=keep_inputs
    )


def plan_problem(model: Model, *, keep_inputs: bool) -> PlanProblem:
    """The planner's view of ``model``: everything that lives in the arena."""
    in_arena = {t.id for t in model.tensors if model.root(t.id).kind is not TensorKind.CONSTANT}
    tensors = tuple(
        PlanTensor(id=t.id, size_bytes=t.size_bytes, alias_of=t.alias_of)
        for t in model.tensors
        if t.id in in_arena
    )
    return PlanProblem(
        tensors=tensors,
        inputs=tuple(dict.fromkeys(i for i in model.inputs if i in in_arena)),
        outputs=tuple(dict.fromkeys(i for i in model.outputs if i in in_arena)),
        steps=tuple(_plan_step(step, in_arena) for step in model.steps),
        alignment=ALIGNMENT,
        keep_inputs=keep_inputs,
    )


def _plan_step(step: Step, in_arena: set[int]) -> PlanStep:
    whole = Span(first=0, last=step.phases - 1)
    spans = step.spans or (whole,) * (len(step.inputs) + len(step.outputs))
    count = len(step.inputs)
    workspaces = [
        PlanWorkspace(slot=w.slot, size_bytes=w.size_bytes, first_phase=w.span.first, last_phase=w.span.last)
        for w in step.workspaces
    ]
    if step.stack_high_water_bytes:
        workspaces.append(
            PlanWorkspace(
                slot=len(step.pools),  # after the pools
                size_bytes=step.stack_high_water_bytes,
                first_phase=whole.first,
                last_phase=whole.last,
            )
        )
    return PlanStep(
        phases=step.phases,
        reads=_accesses(step.inputs, spans[:count], in_arena),
        writes=_accesses(step.outputs, spans[count:], in_arena),
        workspaces=tuple(workspaces),
    )


def _accesses(ids: tuple[int, ...], spans: tuple[Span, ...], in_arena: set[int]) -> tuple[Access, ...]:
    merged: dict[int, Span] = {}
    for tensor, span in zip(ids, spans, strict=True):
        if tensor in in_arena:
            seen = merged.get(tensor, span)
            merged[tensor] = Span(first=min(seen.first, span.first), last=max(seen.last, span.last))
    return tuple(
        Access(tensor=tensor, first_phase=span.first, last_phase=span.last) for tensor, span in merged.items()
    )
