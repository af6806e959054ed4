# SPDX-License-Identifier: Apache-2.0
"""State space of execution orders: the memory that a step needs after a given set of steps has run."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mlf_sdk.planner.problem import Extent, savings
from mlf_sdk.planner.storage import StorageGraph, align_up, peak_live

_MAX_PROOF = 400_000  # steps times storages: the proof is quadratic


class ExecutionState(msgspec.Struct, frozen=True):
    """Steps that have run, storages live after them and steps that can run next, all as bit sets."""

    done: int
    live: int
    live_bytes: int
    ready: int


class Move(msgspec.Struct, frozen=True):
    """Execution of one step from a state.

    Attributes:
        peak: in bytes.
        is_safe: running the step now is never worse than running it later.
        state: after the step.
    """

    step: int
    peak: int
    is_safe: bool
    state: ExecutionState


class OrderSpace:
    """States and moves of one problem.

    Attributes:
        work: storages visited so far; budgets are compared with it.
    """

    def __init__(self, graph: StorageGraph) -> None:
        """Compute bit sets of users, dependencies and storages of each step."""
        problem = graph.problem
        self.graph = graph
        self.alignment = problem.alignment
        self.aligned = [align_up(size, self.alignment) for size in graph.sizes]
        self.padding = [aligned - size for aligned, size in zip(self.aligned, graph.sizes, strict=True)]
        self.users = [sum(1 << step for step in steps) for steps in graph.users]
        self.needed = [sum(1 << step for step in steps) for steps in graph.before]
        self.touched = [sum(1 << use.storage for use in uses) for uses in graph.uses]
        # Storages by padding, largest first: finds the largest padding of a live set quickly.
        by_padding: dict[int, int] = {}
        for storage, padding in enumerate(self.padding):
            if padding:
                by_padding[padding] = by_padding.get(padding, 0) | 1 << storage
        self.by_padding = sorted(by_padding.items(), reverse=True)
        self.all_done = (1 << len(graph.uses)) - 1
        self.work = 0
        self._peaks: dict[tuple[int, int, int], list[tuple[int, int]]] = {}

    def start(self) -> ExecutionState:
        """State before the first step: live are the inputs that a step, or the caller afterwards, reads."""
        live = 0
        for storage in range(len(self.aligned)):
            kept = self.users[storage] or self.graph.to_end[storage]
            if self.graph.from_start[storage] and kept:
                live |= 1 << storage
        live_bytes = sum(self.aligned[storage] for storage in bits_of(live))
        ready = sum(1 << step for step, needed in enumerate(self.needed) if not needed)
        return ExecutionState(0, live, live_bytes, ready)

    def move(self, state: ExecutionState, step: int) -> Move:
        """Execute a ready step."""
        uses = self.graph.uses[step]
        self.work += 1 + len(uses)
        done = state.done | 1 << step
        born = freed = begins = stays = delta = 0
        passing_bytes = state.live_bytes
        for index, use in enumerate(uses):
            bit = 1 << use.storage
            size = self.aligned[use.storage]
            keeps = self.graph.to_end[use.storage] or self.users[use.storage] & ~done
            if state.live & bit:
                passing_bytes -= size
                if not keeps:
                    freed |= bit
                    delta -= size
            else:
                begins |= 1 << index
                if keeps:
                    born |= bit
                    delta += size
            if keeps:
                stays |= 1 << index
        passing_padding = self.most_padding(state.live & ~self.touched[step])
        peak = passing_bytes + max(
            most - max(padding, passing_padding) for most, padding in self._step_peaks(step, begins, stays)
        )
        is_safe = delta < 0 or (delta == 0 and self.most_padding(born) >= self.most_padding(freed))
        ready = state.ready & ~(1 << step)
        for later in self.graph.after[step]:
            if not self.needed[later] & ~done:
                ready |= 1 << later
        after = ExecutionState(done, (state.live | born) & ~freed, state.live_bytes + delta, ready)
        return Move(step, peak, is_safe, after)

    def most_padding(self, live: int) -> int:
        """Largest padding in bytes of a set of storages."""
        return next((padding for padding, storages in self.by_padding if storages & live), 0)

    def _step_peaks(self, step: int, begins: int, stays: int) -> list[tuple[int, int]]:
        """Aligned bytes and largest padding of a step's own storages, in the phases that can be its peak.

        Args:
            begins: bit set over the step's uses: storages that are first used by it.
            stays: bit set over the step's uses: storages that are needed after it.
        """
        key = (step, begins, stays)
        if key not in self._peaks:
            plan_step = self.graph.problem.steps[step]
            spans = [
                (workspace.size_bytes, workspace.first_phase, workspace.last_phase)
                for workspace in plan_step.workspaces
            ]
            for index, use in enumerate(self.graph.uses[step]):
                first = use.first if begins >> index & 1 else 0
                last = plan_step.phases - 1 if stays >> index & 1 else use.last
                spans.append((self.graph.sizes[use.storage], first, last))
            self.work += len(spans)
            spans += self._savings(step, begins, stays)
            self._peaks[key] = self._worst(spans)
        return self._peaks[key]

    def _savings(self, step: int, begins: int, stays: int) -> list[tuple[int, int, int]]:
        """Bytes that overlaps save at the phases of a step, as buffers of negative size."""
        uses = self.graph.uses[step]
        dying = {use.storage for index, use in enumerate(uses) if not stays >> index & 1}
        born = {use.storage for index, use in enumerate(uses) if begins >> index & 1}
        extents = {use.storage: Extent(self.aligned[use.storage], use.first, use.last) for use in uses}
        possible = [o for o in self.graph.overlaps[step] if o.input in dying and o.output in born]
        return [(-size, first, last) for size, first, last in savings(possible, extents)]

    def _worst(self, spans: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
        """Phases that no other phase exceeds in aligned bytes with a padding that is not larger."""
        most: dict[int, int] = {0: 0}
        for aligned, padding in _aligned_profile(spans, self.alignment):
            most[padding] = max(most.get(padding, 0), aligned)
        kept: list[tuple[int, int]] = []
        for padding, aligned in sorted(most.items()):
            if not kept or aligned > kept[-1][0]:
                kept.append((aligned, padding))
        return kept

    def peak_lower_bound(self) -> int:
        """Peak in bytes that no legal order falls below: storages live at each step and at both ends."""
        graph = self.graph
        ends = [
            [(size, 0, 0) for size, there in zip(graph.sizes, flags, strict=True) if there and size]
            for flags in (graph.from_start, graph.to_end)
        ]
        floor = max((room for spans in ends for _, room in peak_live(spans, self.alignment)), default=0)
        if len(graph.uses) * len(graph.sizes) > _MAX_PROOF:
            return floor
        earlier, later = self._closures()
        passing = self._always_passing(earlier, later)
        for step, uses in enumerate(graph.uses):
            begins = stays = 0
            for index, use in enumerate(uses):
                if not graph.from_start[use.storage] and not self.users[use.storage] & earlier[step]:
                    begins |= 1 << index
                if graph.to_end[use.storage] or self.users[use.storage] & later[step]:
                    stays |= 1 << index
            passing_bytes = sum(self.aligned[storage] for storage in bits_of(passing[step]))
            padding = self.most_padding(passing[step])
            own = max(most - max(pad, padding) for most, pad in self._step_peaks(step, begins, stays))
            floor = max(floor, passing_bytes + own)
        return floor

    def _closures(self) -> tuple[list[int], list[int]]:
        """Bit sets, for each step, of all steps that must run before it and of all that must run after it."""
        count = len(self.needed)
        earlier, later = list(self.needed), [0] * count
        for step in range(count):
            for needed in self.graph.before[step]:
                earlier[step] |= earlier[needed]
        for step in reversed(range(count)):
            for following in self.graph.after[step]:
                later[step] |= later[following] | 1 << following
        return earlier, later

    def _always_passing(self, earlier: list[int], later: list[int]) -> list[int]:
        """Bit sets, for each step, of storages that it does not use but that are always live across it."""
        passing = [0] * len(self.needed)
        for storage, users in enumerate(self.graph.users):
            reached = self.all_done if self.graph.from_start[storage] else 0
            wanted = self.all_done if self.graph.to_end[storage] else 0
            for user in users:
                reached |= later[user]
                wanted |= earlier[user]
            for step in bits_of(reached & wanted & ~self.users[storage]):
                passing[step] |= 1 << storage
        return passing


def _aligned_profile(spans: list[tuple[int, int, int]], alignment: int) -> Iterator[tuple[int, int]]:
    """Aligned bytes and largest padding of the live buffers whenever a non-empty buffer comes into use."""
    spans = [span for span in spans if span[0]]
    exact = peak_live(spans, alignment)
    rounded = peak_live(((align_up(size, alignment), first, last) for size, first, last in spans), alignment)
    for (_, bare), (_, aligned) in zip(exact, rounded, strict=True):
        yield aligned, aligned - bare


def bits_of(bits: int) -> Iterator[int]:
    """Yield the positions of the set bits, lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
