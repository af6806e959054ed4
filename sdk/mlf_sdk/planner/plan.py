# SPDX-License-Identifier: Apache-2.0
"""Memory plan of a model: offsets of tensors and workspaces in the arena, and the order of the steps."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlf_sdk.errors import CheckError
from mlf_sdk.planner.place import place
from mlf_sdk.planner.problem import PlanProblem
from mlf_sdk.planner.storage import (
    Buffer,
    BufferKind,
    StorageGraph,
    align_up,
    build_graph,
    is_legal_order,
    lifetimes,
    lower_bound,
    overlays,
    step_starts,
)

_Key = int | tuple[int, int]  # of a buffer: the root of its tensors, or the step and slot of a workspace
# Least distance of an output before an input that it may lie over, by the keys of both.
_Distances = Mapping[tuple[_Key, _Key], int]


class PlanError(CheckError):
    """A memory plan violates an invariant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBuffer:
    """A buffer with its place in the arena.

    Attributes:
        kind: ``tensor`` or ``workspace``.
        key: id of the tensor (the root, for aliases), or (step index, slot) of the workspace.
        offset: bytes from the start of the arena.
        size_bytes: exact size.
        first, last: global times, both included; see `MemoryPlan`.
    """

    kind: BufferKind
    key: int | tuple[int, int]
    offset: int
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Offsets in one arena, for one order of execution.

    Global time 0 is "inputs written", then come all phases of the steps in `order`, then "outputs read".

    Attributes:
        order: step indices as they are to be executed.
        tensor_offsets: bytes, for every tensor id; aliases have the offset of their root. A tensor that is
            empty or never used has offset 0 and no buffer.
        workspace_offsets: bytes, by step index, then by slot.
        arena_bytes: exact end of the highest buffer, not rounded up.
        lower_bound_bytes: most bytes that are live at one time in this order: no plan can be smaller.
        peak: (step index, phase) at which the bound is reached first; (-1, 0) when only the inputs reach
            it, before the first step.
        buffers: sorted by first time, then last time, then offset.
    """

    order: tuple[int, ...]
    tensor_offsets: Mapping[int, int]
    workspace_offsets: Mapping[int, Mapping[int, int]]
    arena_bytes: int
    lower_bound_bytes: int
    peak: tuple[int, int]
    buffers: tuple[PlacedBuffer, ...]

    @property
    def ratio(self) -> float:
        """Arena divided by its lower bound; 1.0 is optimal."""
        return self.arena_bytes / self.lower_bound_bytes if self.lower_bound_bytes else 1.0


def plan_memory(problem: PlanProblem) -> MemoryPlan:
    """Plan the memory of a model; the same problem gives the same plan.

    The original order is kept unless another one has a smaller lower bound.

    Returns:
        The smallest arena that a bounded search finds; at its lower bound for almost all models.

    Raises:
        InputError: the problem is invalid; with the field.
    """
    graph = build_graph(problem)
    original = tuple(range(len(problem.steps)))
    bound, _ = lower_bound(lifetimes(graph, original), problem.alignment, overlays(graph, original))
    better = _better_order(graph, bound) if problem.reorder and not graph.is_chain else None
    plan = _plan_order(graph, better or original)
    if better and plan.arena_bytes > bound:
        fallback = _plan_order(graph, original)
        plan = fallback if fallback.arena_bytes < plan.arena_bytes else plan
    check_plan(problem, plan)
    return plan


def _better_order(graph: StorageGraph, bound: int) -> tuple[int, ...] | None:
    from mlf_sdk.planner.order import find_order  # not for chains, which have one order

    return find_order(graph, bound)


def plan_apart(problem: PlanProblem) -> MemoryPlan:
    """Plan without sharing: steps in the archive's order, and no two buffers at the same bytes at any time.

    Neither the search for an order nor the placement is used: nothing that they do wrong can show here.

    Raises:
        InputError: the problem is invalid; with the field.
    """
    graph = build_graph(problem)
    order = tuple(range(len(problem.steps)))
    buffers = lifetimes(graph, order)
    offsets: list[int] = []
    end = 0
    for buffer in buffers:
        offsets.append(align_up(end, problem.alignment))
        end = offsets[-1] + buffer.size_bytes
    return plan_of(graph, order, buffers, offsets, end)


def check_plan(problem: PlanProblem, plan: MemoryPlan) -> None:
    """Check a plan against its problem: order, alignment, aliases, overlaps, exact end, bound.

    Raises:
        InputError: the problem itself is invalid.
        PlanError: the plan violates an invariant; names the buffers.
    """
    graph = build_graph(problem)
    if not is_legal_order(graph, plan.order):
        raise _broken("the order of the steps breaks a data dependency")
    _check_offsets(graph, plan)
    expected = [_placed(buffer, _offset_of(plan, buffer)) for buffer in lifetimes(graph, plan.order)]
    if sorted(expected, key=_by_time) != list(plan.buffers):
        raise _broken("the list of buffers disagrees with the offsets or the lifetimes")
    _check_overlaps(plan.buffers, {(o.output, o.input): o.distance for o in overlays(graph, plan.order)})
    if plan.arena_bytes != max((buffer.offset + buffer.size_bytes for buffer in plan.buffers), default=0):
        raise _broken(f"the arena ({plan.arena_bytes} bytes) does not end with its highest buffer")
    if plan.lower_bound_bytes > plan.arena_bytes:
        raise _broken(f"the arena ({plan.arena_bytes} bytes) is below its bound ({plan.lower_bound_bytes})")


def _plan_order(graph: StorageGraph, order: tuple[int, ...]) -> MemoryPlan:
    buffers = lifetimes(graph, order)
    over = overlays(graph, order)
    bound, _ = lower_bound(buffers, graph.problem.alignment, over)
    offsets, arena = place(buffers, graph.problem.alignment, bound, over)
    return plan_of(graph, order, buffers, offsets, arena)


def plan_of(
    graph: StorageGraph,
    order: tuple[int, ...],
    buffers: Sequence[Buffer],
    offsets: Sequence[int],
    arena: int,
) -> MemoryPlan:
    """The plan of buffers at their offsets, in bytes; ``arena`` is the end of the highest."""
    problem = graph.problem
    bound, peak_time = lower_bound(buffers, problem.alignment, overlays(graph, order))
    by_key = {buffer.key: offset for buffer, offset in zip(buffers, offsets, strict=True)}
    placed = [_placed(buffer, offset) for buffer, offset in zip(buffers, offsets, strict=True)]
    return MemoryPlan(
        order=order,
        tensor_offsets={tensor.id: by_key.get(graph.roots[tensor.id], 0) for tensor in problem.tensors},
        workspace_offsets=_by_step(by_key),
        arena_bytes=arena,
        lower_bound_bytes=bound,
        peak=_peak(graph, order, peak_time),
        buffers=tuple(sorted(placed, key=_by_time)),
    )


def _placed(buffer: Buffer, offset: int) -> PlacedBuffer:
    return PlacedBuffer(
        kind=buffer.kind,
        key=buffer.key,
        offset=offset,
        size_bytes=buffer.size_bytes,
        first=buffer.first,
        last=buffer.last,
    )


def _peak(graph: StorageGraph, order: tuple[int, ...], time: int) -> tuple[int, int]:
    if time == 0 or not order:
        return -1, 0
    starts, _ = step_starts(graph, order)
    place = bisect.bisect_right(order, time, key=starts.__getitem__) - 1
    return order[place], time - starts[order[place]]


def _by_time(buffer: PlacedBuffer) -> tuple[int, int, int, str, str]:
    return buffer.first, buffer.last, buffer.offset, buffer.kind, str(buffer.key)


def _by_step(offsets: Mapping[_Key, int]) -> dict[int, dict[int, int]]:
    """Offsets of workspaces by step and slot, out of those of all buffers."""
    result: dict[int, dict[int, int]] = {}
    for key, offset in offsets.items():
        if isinstance(key, tuple):
            result.setdefault(key[0], {})[key[1]] = offset
    return result


def _offset_of(plan: MemoryPlan, buffer: Buffer) -> int:
    offset = (
        plan.workspace_offsets.get(buffer.key[0], {}).get(buffer.key[1])
        if isinstance(buffer.key, tuple)
        else plan.tensor_offsets.get(buffer.key)
    )
    if offset is None:
        raise _broken(f"{buffer.kind} {buffer.key} has no offset")
    return offset


def _check_offsets(graph: StorageGraph, plan: MemoryPlan) -> None:
    """Check that all tensors have an offset, offsets are aligned, and aliases have that of their root."""
    alignment = graph.problem.alignment
    workspaces = (
        (f"workspace {s}", o) for slots in plan.workspace_offsets.values() for s, o in slots.items()
    )
    for key, offset in (*plan.tensor_offsets.items(), *workspaces):
        if offset < 0 or offset % alignment:
            raise _broken(f"the offset of {key} ({offset}) is not a multiple of {alignment}")
    for tensor, root in graph.roots.items():
        offsets = plan.tensor_offsets
        if tensor not in offsets or offsets[tensor] != offsets.get(root):
            raise _broken(f"tensor {tensor} does not share the offset of tensor {root}")


def _check_overlaps(buffers: tuple[PlacedBuffer, ...], over: _Distances) -> None:
    """Sweep through time with the live buffers sorted by offset."""
    operands = {key for pair in over for key in pair}
    live: list[tuple[int, int, PlacedBuffer]] = []  # (offset, number, buffer)
    dying: list[tuple[int, int, int]] = []  # (last, offset, number)
    for number, buffer in enumerate(buffers):
        if not buffer.size_bytes:
            continue
        while dying and dying[0][0] < buffer.first:
            _, low, gone = heapq.heappop(dying)
            live.pop(bisect.bisect_left(live, (low, gone), key=_range))
        low, high = buffer.offset, buffer.offset + buffer.size_bytes
        place = bisect.bisect_left(live, (low, -1), key=_range)
        for other in _reaching(live, place, high, operands):
            if low < other.offset + other.size_bytes and not _may_overlap(buffer, other, over):
                raise _broken(
                    f"{buffer.kind} {buffer.key} overlaps {other.kind} {other.key} "
                    f"at byte {max(low, other.offset)}, time {buffer.first}"
                )
        entry = (low, number, buffer)
        live.insert(bisect.bisect_left(live, (low, number), key=_range), entry)
        heapq.heappush(dying, (buffer.last, low, number))


def _reaching(
    live: list[tuple[int, int, PlacedBuffer]], place: int, end: int, operands: set[_Key]
) -> Iterator[PlacedBuffer]:
    """Live buffers that can overlap one to be inserted at ``place``: those that begin in it, and some before.

    Buffers that are no operands of overlaps lie apart, so the first of them is the last one to look at.
    """
    for at in range(place, len(live)):
        if live[at][0] >= end:
            break
        yield live[at][2]
    for at in range(place - 1, -1, -1):
        yield live[at][2]
        if live[at][2].key not in operands:
            break


def _may_overlap(one: PlacedBuffer, two: PlacedBuffer, over: _Distances) -> bool:
    return any(
        (output.key, given.key) in over and output.offset <= given.offset - over[output.key, given.key]
        for output, given in ((one, two), (two, one))
    )


def _range(entry: tuple[int, int, PlacedBuffer]) -> tuple[int, int]:
    return entry[0], entry[1]


def _broken(what: str) -> PlanError:
    return PlanError(
        what, where="memory plan", hint="This is a bug in the planner: please report the archive."
    )
