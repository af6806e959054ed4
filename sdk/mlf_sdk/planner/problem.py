# SPDX-License-Identifier: Apache-2.0
"""Planning problem: tensors, steps with phases, workspaces, and the constraints on them.

Permissions of steps to write over an input which nothing needs later, and the memory that they save.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mlf_sdk.errors import InputError

_HINT = "The memory plan needs a consistent graph: export the model again, or report this archive."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTensor:
    """One tensor that needs room in the arena (constants are not in the problem).

    Attributes:
        id: unique number; any order, gaps allowed.
        size_bytes: exact size; 0 needs no room.
        alias_of: id of the tensor whose storage this one shares, possibly itself an alias;
            an alias is never larger than the root of its chain.
    """

    id: int
    size_bytes: int
    alias_of: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The phases of a step, first to last, both included, in which it touches a tensor."""

    tensor: int
    first_phase: int
    last_phase: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWorkspace:
    """Scratch memory of one step; `slot` names it within the step."""

    slot: int
    size_bytes: int
    first_phase: int
    last_phase: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOverlap:
    """Permission for a step's output to lie over one of its inputs, where nothing needs the input later.

    Attributes:
        input, output: tensors that the step reads and writes.
        distance_bytes: the output's storage starts at least this far before that of the input.
    """

    input: int
    output: int
    distance_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One call: `phases` consecutive points in time, and what is touched in them.

    ``is_fixed``: no other step is moved across it.
    """

    phases: int
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    workspaces: tuple[PlanWorkspace, ...] = ()
    overlaps: tuple[PlanOverlap, ...] = ()
    is_fixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProblem:
    """A whole model as the planner sees it.

    Attributes:
        tensors: everything that lives in the arena, workspaces apart.
        inputs: ids written by the caller before the first step.
        outputs: ids read by the caller after the last step; a tensor may be listed twice.
        steps: in an order that can be executed: what a step reads is an input or was written before.
        alignment: a power of two; every offset is a multiple of it.
        keep_inputs: inputs stay intact until the end of the run.
        state: ids that keep their value from one run to the next: no other buffer may lie over them at any
            time, and steps that write them stay in order with those that read them.
        kept: ids that may be used at any time of a run: no other buffer may lie over them.
        reorder: steps may be exchanged (data dependencies kept) where that lowers the bound.
    """

    tensors: tuple[PlanTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: tuple[PlanStep, ...]
    alignment: int = 16
    keep_inputs: bool = False
    reorder: bool = True
    state: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()


def resolve_roots(tensors: Iterable[PlanTensor]) -> dict[int, int]:
    """The root of every tensor's alias chain, by tensor id.

    Raises:
        InputError: an id is used twice, a chain leads nowhere or is a cycle.
    """
    parent: dict[int, int | None] = {}
    for index, tensor in enumerate(tensors):
        if tensor.id in parent:
            raise _error(f"tensors[{index}].id", f"tensor {tensor.id} is defined twice")
        parent[tensor.id] = tensor.alias_of
    roots: dict[int, int] = {}
    for start, link in parent.items():
        chain: list[int] = []
        pending: set[int] = set()
        at, above = start, link
        while at not in roots and above is not None:
            if above not in parent:
                place = f"tensors[{list(parent).index(at)}].alias_of"
                raise _error(place, f"tensor {at} is an alias of unknown tensor {above}")
            chain.append(at)
            pending.add(at)
            if above in pending:
                place = f"tensors[{list(parent).index(at)}].alias_of"
                raise _error(place, f"the aliases of tensor {above} form a cycle")
            at, above = above, parent[above]
        root = roots.get(at, at)
        roots[start] = root
        roots.update(dict.fromkeys(chain, root))
    return roots


def check_problem(problem: PlanProblem) -> dict[int, int]:
    """Check every rule that the planner relies on; returns the root of every tensor.

    Raises:
        InputError: with the place, e.g. ``steps[3].reads[0].tensor``.
    """
    if problem.alignment < 1 or problem.alignment & (problem.alignment - 1):
        raise _error("alignment", f"{problem.alignment} is not a power of two")
    roots = resolve_roots(problem.tensors)
    _check_sizes(problem, roots)
    named = {name: getattr(problem, name) for name in ("inputs", "outputs", "state", "kept")}
    for name, ids in named.items():
        for index, tensor in enumerate(ids):
            if tensor not in roots:
                raise _error(f"{name}[{index}]", f"tensor {tensor} does not exist")
    for index, step in enumerate(problem.steps):
        _check_step(step, f"steps[{index}]", roots)
    _check_order(problem, roots)
    return roots


def _check_sizes(problem: PlanProblem, roots: dict[int, int]) -> None:
    sizes = {tensor.id: tensor.size_bytes for tensor in problem.tensors}
    for index, tensor in enumerate(problem.tensors):
        place = f"tensors[{index}].size_bytes"
        root = roots[tensor.id]
        if tensor.size_bytes < 0:
            raise _error(place, f"tensor {tensor.id} has a negative size ({tensor.size_bytes})")
        if tensor.size_bytes > sizes[root]:
            raise _error(
                place,
                f"tensor {tensor.id} ({tensor.size_bytes} bytes) shares the storage of tensor {root}, "
                f"which has only {sizes[root]}",
            )


def _check_step(step: PlanStep, place: str, roots: dict[int, int]) -> None:
    if step.phases < 1:
        raise _error(f"{place}.phases", f"a step needs at least one phase, not {step.phases}")
    for name, accesses in (("reads", step.reads), ("writes", step.writes)):
        for index, access in enumerate(accesses):
            if access.tensor not in roots:
                raise _error(f"{place}.{name}[{index}].tensor", f"tensor {access.tensor} does not exist")
            _check_phases(access, step.phases, f"{place}.{name}[{index}]")
    slots: set[int] = set()
    for index, workspace in enumerate(step.workspaces):
        where = f"{place}.workspaces[{index}]"
        if workspace.slot < 0 or workspace.slot in slots:
            raise _error(f"{where}.slot", f"slot {workspace.slot} is negative or used twice in this step")
        if workspace.size_bytes < 0:
            raise _error(f"{where}.size_bytes", f"a workspace has a negative size ({workspace.size_bytes})")
        slots.add(workspace.slot)
        _check_phases(workspace, step.phases, where)
    for index, overlap in enumerate(step.overlaps):
        where = f"{place}.overlaps[{index}]"
        used = (("reads", step.reads, overlap.input), ("writes", step.writes, overlap.output))
        for name, accesses, tensor in used:
            if tensor not in {access.tensor for access in accesses}:
                raise _error(where, f"tensor {tensor} is not among the {name} of the step")
        if overlap.distance_bytes < 0:
            raise _error(where, f"the distance is negative ({overlap.distance_bytes})")


def _check_phases(span: Access | PlanWorkspace, phases: int, place: str) -> None:
    if not 0 <= span.first_phase <= span.last_phase < phases:
        raise _error(
            place, f"phases {span.first_phase} to {span.last_phase} are not within 0 to {phases - 1} in order"
        )


def _check_order(problem: PlanProblem, roots: dict[int, int]) -> None:
    """Check that the steps can be executed in the given order: each tensor is written before it is read."""
    written = {roots[tensor] for tensor in (*problem.inputs, *problem.state)}
    for index, step in enumerate(problem.steps):
        for number, access in enumerate(step.reads):
            if roots[access.tensor] not in written:
                raise _error(
                    f"steps[{index}].reads[{number}]",
                    f"tensor {access.tensor} is read before any step has written it: "
                    "the steps are out of order or form a cycle",
                )
        written.update(roots[access.tensor] for access in step.writes)
    for index, tensor in enumerate(problem.outputs):
        if roots[tensor] not in written:
            raise _error(f"outputs[{index}]", f"tensor {tensor} is an output that no step writes")


def _error(where: str, what: str) -> InputError:
    return InputError(what, where=f"memory problem: {where}", hint=_HINT)


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """Permission to place ``output`` over ``input``, ``distance`` bytes before it or further.

    Attributes:
        input, output: indices of storages, or keys of buffers.
        distance: between their starts; a multiple of the alignment.
    """

    input: int
    output: int
    distance: int


def storage_overlaps(
    step: PlanStep, alignment: int, storage_of: Mapping[int, int], sizes: Sequence[int]
) -> tuple[Overlay, ...]:
    """Overlaps of a step that can save memory; one for each pair of storages.

    Args:
        storage_of: storage of each tensor.
        sizes: bytes of each storage.
    """
    if not step.overlaps:
        return ()
    written = {storage_of[access.tensor] for access in step.writes}
    result: dict[tuple[int, int], int] = {}
    for overlap in step.overlaps:
        pair = storage_of[overlap.input], storage_of[overlap.output]
        result[pair] = max(result.get(pair, 0), -(-overlap.distance_bytes // alignment) * alignment)
    return tuple(
        Overlay(input=x, output=y, distance=distance)
        for (x, y), distance in sorted(result.items())
        if x not in written and sizes[x] and distance < sizes[y]
    )


class Extent(msgspec.Struct, frozen=True):
    """Aligned bytes of an operand of an overlap, and the times, both included, in which it is live."""

    size: int
    first: int
    last: int


def savings(overlaps: Iterable[Overlay], extents: Mapping[Any, Extent]) -> Iterator[tuple[int, int, int]]:
    """Most bytes that overlaps can save: (bytes, first, last time) of each span with the same live buffers.

    Inputs lie apart from each other, outputs too. An output that lies over any input begins before all of
    them, by the least of its distances: those bytes are over none. So inputs and outputs together take at
    least the bytes of the outputs, and at least those of the inputs and of all that lies before them.
    """
    pairs = [(o, extents[o.input], extents[o.output]) for o in overlaps]
    times = sorted({time for _, x, y in pairs for time in (y.first, x.last + 1)})
    waiting = sorted(pairs, key=lambda pair: pair[2].first, reverse=True)
    live: list[tuple[Overlay, Extent, Extent]] = []  # those of one time: few, however many steps there are
    for first, end in itertools.pairwise(times):
        while waiting and waiting[-1][2].first <= first:
            live.append(waiting.pop())
        live = [pair for pair in live if first <= pair[1].last]
        now = [overlap for overlap, _, _ in live]
        inputs = sum(extents[x].size for x in {o.input for o in now})
        before: dict[int, int] = {}
        for o in now:
            before[o.output] = min(before.get(o.output, o.distance), o.distance)
        outputs = sum(extents[y].size for y in before)
        yield inputs + outputs - max(outputs, inputs + sum(before.values())), first, end - 1
