# SPDX-License-Identifier: Apache-2.0
"""Choice of a memory for each item so that the sum of costs is least and everything fits.

An item takes bytes in its memory while it lives. Small problems are searched exactly, with bounds; others by
several greedy orders, each improved by moves that put others out of a memory where that pays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

_EXACT_ITEMS: Final = 26
_NODES: Final = 60_000  # of the exact search
_ROUNDS: Final = 12  # of improvements


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """Something that lies in one memory.

    Attributes:
        size_bytes: aligned.
        first, last: times, both included, in which it lives.
        costs: in each memory; infinite where it may not lie.
        over: number of an item that it may lie over where both are in one memory; -1: none.
        saved_bytes: what that saves while both live.
    """

    size_bytes: int
    first: int
    last: int
    costs: tuple[float, ...]
    over: int = -1
    saved_bytes: int = 0

    def by_cost(self) -> list[int]:
        """Memories that it may lie in, the cheapest first."""
        return sorted((m for m, c in enumerate(self.costs) if c < math.inf), key=lambda m: (self.costs[m], m))


Assignment = list[int]
Packs = Callable[[Sequence[int]], bool]


class _Load:
    """Bytes in use of each memory at each time, for the items that are placed."""

    def __init__(self, items: Sequence[Item], rooms: Sequence[int]) -> None:
        self.items = items
        self.rooms = rooms
        times = sorted({time for item in items for time in (item.first, item.last + 1)})
        index = {time: number for number, time in enumerate(times)}
        self.spans = [(index[item.first], index[item.last + 1]) for item in items]
        self.used = [[0] * len(times) for _ in rooms]
        self.place: Assignment = [-1] * len(items)
        self.covers: list[list[int]] = [[] for _ in items]
        for number, item in enumerate(items):
            if item.over >= 0:
                self.covers[item.over].append(number)

    def fits(self, number: int, memory: int) -> bool:
        item, used = self.items[number], self.used[memory]
        begin, end = self.spans[number]
        free = self.rooms[memory] - item.size_bytes
        if free >= 0 and max(used[begin:end], default=0) <= free:
            return True
        pairs = list(self._pairs(number, memory))
        if not pairs:
            return False
        self._add(number, memory, 1)
        fits = max(used[begin:end], default=0) <= self.rooms[memory]
        self._add(number, memory, -1)
        return fits

    def put(self, number: int, memory: int) -> None:
        self._add(number, memory, 1)
        self.place[number] = memory

    def take(self, number: int) -> int:
        memory = self.place[number]
        self.place[number] = -1
        self._add(number, memory, -1)
        return memory

    def neighbours(self, number: int, memory: int) -> list[int]:
        """Items in a memory that live together with one."""
        begin, end = self.spans[number]
        return [
            other
            for other, place in enumerate(self.place)
            if place == memory
            and other != number
            and self.spans[other][0] < end
            and begin < self.spans[other][1]
        ]

    def _add(self, number: int, memory: int, sign: int) -> None:
        used = self.used[memory]
        begin, end = self.spans[number]
        size = sign * self.items[number].size_bytes
        for time in range(begin, end):
            used[time] += size
        for one, other in self._pairs(number, memory):
            low = max(self.spans[one][0], self.spans[other][0])
            high = min(self.spans[one][1], self.spans[other][1])
            saved = sign * self.items[one].saved_bytes
            for time in range(low, high):
                used[time] -= saved

    def _pairs(self, number: int, memory: int) -> Iterator[tuple[int, int]]:
        """Items of which one lies over the other, when ``number`` lies in ``memory``."""
        over = self.items[number].over
        if over >= 0 and self.place[over] == memory:
            yield number, over
        for other in self.covers[number]:
            if self.place[other] == memory:
                yield other, number


def total_cost(items: Sequence[Item], assignment: Sequence[int]) -> float:
    """Sum of the costs of an assignment."""
    return sum(item.costs[memory] for item, memory in zip(items, assignment, strict=True))


def assign(items: Sequence[Item], rooms: Sequence[int], packs: Packs) -> Assignment | None:
    """Memories of the items at the least cost that is reached; None: no way to fit them was seen.

    Args:
        rooms: bytes of each memory.
        packs: says whether the items of an assignment can be placed in their memories without a conflict:
            lifetimes alone do not show gaps between buffers.
    """
    best: Assignment | None = None
    least = sum(min(item.costs) for item in items)
    for order in _orders(items):
        if best is not None and total_cost(items, best) <= least:
            return best
        load = _Load(items, rooms)
        if not _greedy(load, order):
            continue
        _improve(load)
        known = best is None or total_cost(items, load.place) < total_cost(items, best)
        if known and packs(load.place):
            best = list(load.place)
    if len(items) <= _EXACT_ITEMS:
        best = _exact(items, rooms, packs, best) or best
    return best


def _orders(items: Sequence[Item]) -> Iterator[list[int]]:
    """Orders for greedy choice: by what a byte gains, by what an item gains, by size, by birth."""
    numbers = range(len(items))

    def gain(number: int) -> float:
        costs = [cost for cost in items[number].costs if cost < math.inf]
        return max(costs) - min(costs)

    def span(number: int) -> int:
        return items[number].last - items[number].first + 1

    yield sorted(numbers, key=lambda n: (-gain(n) / max(1, items[n].size_bytes), n))
    yield sorted(numbers, key=lambda n: (-gain(n) / max(1, items[n].size_bytes * span(n)), n))
    yield sorted(numbers, key=lambda n: (-gain(n), n))
    yield sorted(numbers, key=lambda n: (-items[n].size_bytes, n))
    yield sorted(numbers, key=lambda n: (len(items[n].by_cost()), -items[n].size_bytes, n))
    yield sorted(numbers, key=lambda n: (items[n].first, -items[n].size_bytes, n))


def _greedy(load: _Load, order: Sequence[int]) -> bool:
    """Put each item into the cheapest memory with room; False: one had none."""
    for number in order:
        memory = next((m for m in load.items[number].by_cost() if load.fits(number, m)), None)
        if memory is None:
            return False
        load.put(number, memory)
    return True


def _improve(load: _Load) -> None:
    """Move items to cheaper memories, others out of them where that costs less than it gains."""
    items = load.items
    for _ in range(_ROUNDS):
        changed = False
        order = sorted(
            range(len(items)), key=lambda n: (min(items[n].costs) - items[n].costs[load.place[n]], n)
        )
        for number in order:
            for memory in items[number].by_cost():
                gain = items[number].costs[load.place[number]] - items[number].costs[memory]
                if gain <= 0:
                    break
                if _move(load, number, memory, gain):
                    changed = True
                    break
        if not changed:
            return


def _move(load: _Load, number: int, memory: int, gain: float) -> bool:
    """Move an item, and others out of its way; everything stays as it was where that gains nothing."""
    items = load.items
    moved = [(number, load.take(number))]

    def loss(other: int) -> float:
        costs = items[other].costs
        return (
            min((costs[m] for m in items[other].by_cost() if m != memory), default=math.inf) - costs[memory]
        )

    if not load.fits(number, memory):
        others = load.neighbours(number, memory)
        left = gain
        for other in sorted(others, key=lambda n: (loss(n) / max(1, items[n].size_bytes), n)):
            left -= loss(other)
            if left <= 0:
                break
            moved.append((other, load.take(other)))
            if load.fits(number, memory):
                break
    if load.fits(number, memory):
        load.put(number, memory)
        if _greedy(load, [other for other, _ in moved[1:]]):
            saved = sum(items[n].costs[was] - items[n].costs[load.place[n]] for n, was in moved)
            if saved > 0:
                return True
    for other, _ in moved:
        if load.place[other] >= 0:
            load.take(other)
    for other, was in moved:
        load.put(other, was)
    return False


class _Search:
    """Depth-first search with the bound that every item still to come takes its cheapest memory."""

    def __init__(self, items: Sequence[Item], rooms: Sequence[int], packs: Packs, most: float) -> None:
        self.load = _Load(items, rooms)
        self.packs = packs
        self.least = most
        self.best: Assignment | None = None
        self.nodes = 0
        self.order = sorted(
            range(len(items)),
            key=lambda n: (-(max(c for c in items[n].costs if c < math.inf) - min(items[n].costs)), n),
        )
        self.rest = [0.0] * (len(items) + 1)
        for depth in reversed(range(len(items))):
            self.rest[depth] = self.rest[depth + 1] + min(items[self.order[depth]].costs)

    def run(self, depth: int = 0, cost: float = 0.0) -> None:
        if self.nodes >= _NODES or cost + self.rest[depth] >= self.least:
            return
        self.nodes += 1
        if depth == len(self.order):
            if self.packs(self.load.place):
                self.best, self.least = list(self.load.place), cost
            return
        number = self.order[depth]
        item = self.load.items[number]
        for memory in item.by_cost():
            if self.load.fits(number, memory):
                self.load.put(number, memory)
                self.run(depth + 1, cost + item.costs[memory])
                self.load.take(number)


def _exact(
    items: Sequence[Item], rooms: Sequence[int], packs: Packs, best: Assignment | None
) -> Assignment | None:
    """A better assignment than ``best``; None: there is none, or the search ended before it met one."""
    search = _Search(items, rooms, packs, math.inf if best is None else total_cost(items, best))
    search.run()
    return search.best
