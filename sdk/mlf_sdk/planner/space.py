# SPDX-License-Identifier: Apache-2.0
"""The state space of execution orders: what a step costs after a given set of steps has run.

That set alone decides what is live, so that the best way into a state is all that counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlf_sdk.planner.storage import StorageGraph, align_up, peak_live

_MAX_PROOF = 400_000  # steps times storages: the proof is quadratic


@dataclass(frozen=True, slots=True)
class State:
    """The steps that have run (a bit set), what is live after them, and the ready steps (bit sets)."""

    done: int
    live: int
    live_bytes: int
    ready: int


@dataclass(frozen=True, slots=True)
class Move:
    """One step run from a state: its peak in bytes, and whether no order can lose by running it now."""

    step: int
    peak: int
    harmless: bool
    state: State


class Space:
    """The states and moves of one problem."""

    def __init__(self, graph: StorageGraph) -> None:
        """Nothing is searched yet; `work` counts what is."""
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

    def start(self) -> State:
        """Before the first step: the inputs that some step reads, or the caller reads afterwards."""
        live = 0
        for storage in range(len(self.aligned)):
            kept = self.users[storage] or self.graph.to_end[storage]
            if self.graph.from_start[storage] and kept:
                live |= 1 << storage
        live_bytes = sum(self.aligned[storage] for storage in bits_of(live))
        ready = sum(1 << step for step, needed in enumerate(self.needed) if not needed)
        return State(0, live, live_bytes, ready)

    def move(self, state: State, step: int) -> Move:
        """Run a ready step."""
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
        harmless = delta < 0 or (delta == 0 and self.most_padding(born) >= self.most_padding(freed))
        ready = state.ready & ~(1 << step)
        for later in self.graph.after[step]:
            if not self.needed[later] & ~done:
                ready |= 1 << later
        after = State(done, (state.live | born) & ~freed, state.live_bytes + delta, ready)
        return Move(step, peak, harmless, after)

    def most_padding(self, live: int) -> int:
        """The largest padding in a set of storages."""
        return next((padding for padding, storages in self.by_padding if storages & live), 0)

    def _step_peaks(self, step: int, begins: int, stays: int) -> list[tuple[int, int]]:
        """(aligned bytes, largest padding) that a step itself needs, in those phases that can be its peak.

        `begins` and `stays` are bit sets over the step's uses: born in it, needed after it.
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
            self._peaks[key] = self._worst(spans)
        return self._peaks[key]

    def _worst(self, spans: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
        """Of all phases, those that no other beats in both aligned bytes and (smaller) padding."""
        most: dict[int, int] = {0: 0}
        for aligned, padding in _aligned_profile(spans, self.alignment):
            most[padding] = max(most.get(padding, 0), aligned)
        kept: list[tuple[int, int]] = []
        for padding, aligned in sorted(most.items()):
            if not kept or aligned > kept[-1][0]:
                kept.append((aligned, padding))
        return kept

    def floor(self) -> int:
        """A peak that every legal order has: what must be live during each step, and at both ends."""
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
        """Per step, all steps that must run before it and all that must run after it (bit sets)."""
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
        """Per step, the storages that it doesn't touch and that are live across it in every order."""
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
    """(aligned bytes, largest padding) of what is live at each birth of a non-empty buffer."""
    spans = [span for span in spans if span[0]]
    exact = peak_live(spans, alignment)
    rounded = peak_live(((align_up(size, alignment), first, last) for size, first, last in spans), alignment)
    for (_, bare), (_, aligned) in zip(exact, rounded, strict=True):
        yield aligned, aligned - bare


def bits_of(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
