# SPDX-License-Identifier: Apache-2.0
"""Storages (groups of aliases), dependencies of the steps, and lifetimes for one order of execution."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mlf_sdk.planner.problem import Extent, Overlay, PlanProblem, check_problem, savings, storage_overlaps

BufferKind = Literal["tensor", "workspace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUse:
    """Phases, both included, in which one step uses one storage."""

    storage: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageGraph:
    """Storages of a problem, their use by each step, and the dependencies of the steps.

    Attributes:
        roots: the root tensor id of every tensor id.
        keys: root tensor id of each storage, in the problem's order; a storage is an index into it.
        sizes: bytes of each storage.
        from_start: the caller writes it before the run, or it is a state or kept.
        to_end: the caller reads it after the run, or it is an input to be kept, or a state or kept.
        uses: per step, at most one for each storage, sorted by storage.
        overlaps: per step, outputs that may lie over inputs if the step is the first to use the output and
            the last to use the input.
        users: per storage, the steps that use it, in the original order.
        before, after: per step, the steps that it directly depends on, and those that depend on it.
    """

    problem: PlanProblem
    roots: dict[int, int]
    keys: tuple[int, ...]
    sizes: tuple[int, ...]
    from_start: tuple[bool, ...]
    to_end: tuple[bool, ...]
    uses: tuple[tuple[StorageUse, ...], ...]
    overlaps: tuple[tuple[Overlay, ...], ...]
    users: tuple[tuple[int, ...], ...]
    before: tuple[frozenset[int], ...]
    after: tuple[tuple[int, ...], ...]

    @property
    def is_chain(self) -> bool:
        """True where no other order of the steps is legal."""
        return all(step in self.before[step + 1] for step in range(len(self.uses) - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Bytes that are needed from global time ``first`` to ``last``, both included.

    Attributes:
        key: root tensor id, or (step index, slot) of a workspace.
    """

    kind: BufferKind
    key: int | tuple[int, int]
    size_bytes: int
    first: int
    last: int


def build_graph(problem: PlanProblem) -> StorageGraph:
    """Validate the problem and reduce it to storages and dependencies.

    Raises:
        InputError: the problem is invalid; with the field.
    """
    roots = check_problem(problem)
    # An alias is never larger than its root (checked), so the root's size is the group's.
    keys = tuple(tensor.id for tensor in problem.tensors if tensor.alias_of is None)
    index = {key: number for number, key in enumerate(keys)}
    size_of = {tensor.id: tensor.size_bytes for tensor in problem.tensors}
    storage_of = {tensor: index[root] for tensor, root in roots.items()}
    inputs = {storage_of[tensor] for tensor in problem.inputs}
    state = {storage_of[tensor] for tensor in (*problem.state, *problem.kept)}
    ends = {storage_of[tensor] for tensor in problem.outputs} | (inputs if problem.keep_inputs else set())
    inputs, ends = inputs | state, ends | state
    sizes = tuple(size_of[key] for key in keys)
    uses = tuple(_uses(problem, step, storage_of) for step in range(len(problem.steps)))
    users: list[list[int]] = [[] for _ in keys]
    for step, used in enumerate(uses):
        for use in used:
            users[use.storage].append(step)
    before, after = _dependencies(problem, storage_of)
    return StorageGraph(
        problem=problem,
        roots=roots,
        keys=keys,
        sizes=sizes,
        from_start=tuple(storage in inputs for storage in range(len(keys))),
        to_end=tuple(storage in ends for storage in range(len(keys))),
        uses=uses,
        overlaps=tuple(
            storage_overlaps(step, problem.alignment, storage_of, sizes) for step in problem.steps
        ),
        users=tuple(tuple(steps) for steps in users),
        before=before,
        after=after,
    )


def _uses(problem: PlanProblem, step: int, storage_of: dict[int, int]) -> tuple[StorageUse, ...]:
    spans: dict[int, tuple[int, int]] = {}
    for access in (*problem.steps[step].reads, *problem.steps[step].writes):
        storage = storage_of[access.tensor]
        first, last = spans.get(storage, (access.first_phase, access.last_phase))
        spans[storage] = min(first, access.first_phase), max(last, access.last_phase)
    return tuple(StorageUse(storage=key, first=span[0], last=span[1]) for key, span in sorted(spans.items()))


def _dependencies(
    problem: PlanProblem, storage_of: dict[int, int]
) -> tuple[tuple[frozenset[int], ...], tuple[tuple[int, ...], ...]]:
    """Direct dependencies: read after write, write after read, write after write; all of fixed steps."""
    count = len(problem.steps)
    before: list[set[int]] = [set() for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    fixed = 0  # the last fixed step, once there was one
    for number, step in enumerate(problem.steps):
        if step.is_fixed:
            before[number].update(range(fixed, number))
            fixed = number
        elif problem.steps[fixed].is_fixed:
            before[number].add(fixed)
        reads = {storage_of[access.tensor] for access in step.reads}
        writes = {storage_of[access.tensor] for access in step.writes}
        for storage in reads | writes:
            if storage in writer:
                before[number].add(writer[storage])
        for storage in writes:
            before[number].update(readers.pop(storage, ()))
            writer[storage] = number
        for storage in reads - writes:
            readers.setdefault(storage, []).append(number)
    for number, needed in enumerate(before):
        for step_before in needed:
            after[step_before].append(number)
    return tuple(frozenset(needed) for needed in before), tuple(tuple(later) for later in after)


def is_legal_order(graph: StorageGraph, order: Sequence[int]) -> bool:
    """Check that ``order`` has every step once and keeps all dependencies."""
    if sorted(order) != [*range(len(graph.uses))]:
        return False
    position = {step: place for place, step in enumerate(order)}
    return all(
        position[earlier] < position[step] for step, needed in enumerate(graph.before) for earlier in needed
    )


def step_starts(graph: StorageGraph, order: Sequence[int]) -> tuple[list[int], int]:
    """Global time of phase 0 of every step, by step index, and of "outputs read".

    Time 0 is "inputs written"; the first phase of the first step is time 1.
    """
    starts = [0] * len(order)
    time = 1
    for step in order:
        starts[step] = time
        time += graph.problem.steps[step].phases
    return starts, time


def lifetimes(graph: StorageGraph, order: Sequence[int]) -> tuple[Buffer, ...]:
    """Compute the buffers of one order of execution: tensors first, then workspaces in that order.

    A storage lives from its first write (time 0 for an input) to its last access. Tensors that neither a
    step nor the caller uses have no buffer.
    """
    starts, end = step_starts(graph, order)
    spans: list[list[int]] = [[] for _ in graph.keys]
    for step in order:
        for use in graph.uses[step]:
            spans[use.storage] += (starts[step] + use.first, starts[step] + use.last)
    buffers: list[Buffer] = []
    for storage, span in enumerate(spans):
        if graph.from_start[storage]:
            span.append(0)
        if graph.to_end[storage]:
            span.append(end)
        if span:
            buffers.append(
                Buffer(
                    kind="tensor",
                    key=graph.keys[storage],
                    size_bytes=graph.sizes[storage],
                    first=min(span),
                    last=max(span),
                )
            )
    for step in order:
        buffers += (
            Buffer(
                kind="workspace",
                key=(step, workspace.slot),
                size_bytes=workspace.size_bytes,
                first=starts[step] + workspace.first_phase,
                last=starts[step] + workspace.last_phase,
            )
            for workspace in graph.problem.steps[step].workspaces
        )
    return tuple(buffers)


def overlays(graph: StorageGraph, order: Sequence[int]) -> tuple[Overlay, ...]:
    """Outputs that may lie over inputs in one order: nothing uses the ones earlier, nor the others later."""
    place = {step: number for number, step in enumerate(order)}
    result = []
    for step in order:
        for overlap in graph.overlaps[step]:
            dies = not graph.to_end[overlap.input] and step == max(
                graph.users[overlap.input], key=place.__getitem__
            )
            begins = not graph.from_start[overlap.output] and step == min(
                graph.users[overlap.output], key=place.__getitem__
            )
            if dies and begins:
                keys = graph.keys[overlap.input], graph.keys[overlap.output]
                result.append(Overlay(input=keys[0], output=keys[1], distance=overlap.distance))
    return tuple(result)


def peak_live(spans: Iterable[tuple[int, int, int]], alignment: int) -> list[tuple[int, int]]:
    """Least memory needed at every time at which a buffer comes into use.

    It is the sum of the aligned sizes less the largest padding, because the highest buffer needs none.

    Args:
        spans: size in bytes, first and last time of each buffer.
        alignment: in bytes, a power of two.

    Returns:
        (time, bytes), in order of time.
    """
    profile: list[tuple[int, int]] = []
    dying: list[tuple[int, int]] = []  # (last, aligned)
    padded: list[tuple[int, int]] = []  # (-padding, last)
    live = 0
    for size, first, last in sorted(spans, key=lambda span: span[1]):
        aligned = align_up(size, alignment)
        while dying and dying[0][0] < first:
            live -= heapq.heappop(dying)[1]
        heapq.heappush(dying, (last, aligned))
        heapq.heappush(padded, (size - aligned, last))
        live += aligned
        while padded[0][1] < first:
            heapq.heappop(padded)
        point = (first, live + padded[0][0])
        if profile and profile[-1][0] == first:
            profile[-1] = point
        else:
            profile.append(point)
    return profile


def lower_bound(buffers: Iterable[Buffer], alignment: int, over: Sequence[Overlay] = ()) -> tuple[int, int]:
    """Lower bound of all placements of these buffers.

    Args:
        over: buffers that may lie over others.

    Returns:
        The bound in bytes, and the earliest time at which a step reaches it; 0 when no step does.
    """
    solid = [buffer for buffer in buffers if buffer.size_bytes]
    extents = {b.key: Extent(align_up(b.size_bytes, alignment), b.first, b.last) for b in solid}
    saved = [(-size, first, last) for size, first, last in savings(over, extents)]
    profile = peak_live([(b.size_bytes, b.first, b.last) for b in solid] + saved, alignment)
    most = max((size for _, size in profile), default=0)
    times = [time for time, size in profile if size == most]
    if times[:1] == [0] and all(buffer.last for buffer in solid):
        return most, 1  # all inputs are still there in the first phase
    return most, next(filter(None, times), 0)


def align_up(size: int, alignment: int) -> int:
    """Round up to a multiple of ``alignment``, a power of two."""
    return (size + alignment - 1) & -alignment
