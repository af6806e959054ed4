# SPDX-License-Identifier: Apache-2.0
"""Greedy placements: one buffer after the other, each into a gap among those already placed."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterator, Sequence

from mlf_sdk.planner.shapes import Shapes, sections

_MULTIPLIER, _INCREMENT, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1
_RANK = 1 << 16  # distance of two shapes in the order


def fit(
    shapes: Shapes, order: Sequence[int], *, tightest: bool = False, floors: Sequence[int] | None = None
) -> list[int]:
    """Offsets in units: each shape in the lowest gap that holds it, or in the smallest such gap.

    With `floors`, no shape lies below its floor.
    """
    near = shapes.near or ()
    offsets = [-1] * len(shapes.units)
    for shape in order:
        taken = sorted(
            [
                (offsets[other], offsets[other] + shapes.units[other])
                for other in near[shape]
                if offsets[other] >= 0
            ]
        )
        offsets[shape] = _gap(taken, shapes.units[shape], floors[shape] if floors else 0, tightest)
    return offsets


def _gap(taken: list[tuple[int, int]], needed: int, floor: int, tightest: bool) -> int:
    position, chosen, chosen_room = floor, -1, 0
    for low, high in taken:
        room = low - position
        if room >= needed and (chosen < 0 or room < chosen_room):
            chosen, chosen_room = position, room
            if not tightest:
                return chosen
        position = max(position, high)
    return position if chosen < 0 else chosen


def greedy_orders(shapes: Shapes) -> Iterator[list[int]]:
    """Orders worth a greedy placement: by size, by lifetime in the most crowded section, and others."""
    count = len(shapes.units)
    near = shapes.near or ()
    length = [0] * count
    load = [0] * count
    for members in sections(shapes):
        together = sum(shapes.units[shape] for shape in members)
        for shape in members:
            length[shape] += 1
            load[shape] = max(load[shape], together)
    crowd = [
        sum(shapes.units[other] for other in near[shape]) + shapes.units[shape] for shape in range(count)
    ]
    keys: list[list[tuple[int, ...]]] = [
        [(-shapes.units[shape], -length[shape]) for shape in range(count)],
        [(-load[shape], -length[shape], -shapes.units[shape]) for shape in range(count)],
        [(-length[shape], -shapes.units[shape]) for shape in range(count)],
        [(-crowd[shape],) for shape in range(count)],
        [(-length[shape] * shapes.units[shape],) for shape in range(count)],
        [(shapes.first[shape], -shapes.last[shape], -shapes.units[shape]) for shape in range(count)],
        [(-shapes.last[shape], shapes.first[shape], -shapes.units[shape]) for shape in range(count)],
    ]
    for key in keys:
        yield sorted(range(count), key=key.__getitem__)


class Crown:
    """What may be on top when the target ends within a unit: shapes whose padding bridges the rest.

    Placements are built upside down for this: what is placed at offset 0 ends up on top.

    Attributes:
        floors: the lowest offset in units, upside down: 0 for shapes that may be on top, else 1.
        limit: the target in units.
    """

    def __init__(self, shapes: Shapes, target: int) -> None:
        """Looks for shapes that top as many of the fullest sections as possible."""
        saved = -target % shapes.alignment
        self.limit = (target + saved) // shapes.alignment
        self.floors = [
            int(units * shapes.alignment - size < saved)
            for units, size in zip(shapes.units, shapes.sizes, strict=True)
        ]
        self._first: list[int] = self._choose(shapes) if saved else []

    def order(self, order: Sequence[int]) -> list[int]:
        """The order with those first that should be on top."""
        chosen = set(self._first)
        return [*self._first, *(shape for shape in order if shape not in chosen)]

    def _choose(self, shapes: Shapes) -> list[int]:
        counts: dict[int, int] = {}
        for members in sections(shapes):
            if sum(shapes.units[shape] for shape in members) >= self.limit:
                for shape in members:
                    if not self.floors[shape]:
                        counts[shape] = counts.get(shape, 0) + 1
        near = shapes.near or ()
        chosen: set[int] = set()
        for shape in sorted(counts, key=lambda shape: (-counts[shape], shape)):
            if chosen.isdisjoint(near[shape]):
                chosen.add(shape)
        return sorted(chosen)


def improve(shapes: Shapes, crown: Crown, order: Sequence[int], budget: int) -> list[int]:
    """Place again and again; what ends above the target is moved up in the order by a random step.

    Returns the offsets (units) of the lowest placement; stops at the target, or when the budget
    (shapes looked at) is used up. The random numbers are the same each time.
    """
    count = len(order)
    rank = [0] * count
    for place, shape in enumerate(crown.order(order)):
        rank[shape] = place * _RANK
    state = 1
    best: list[int] = []
    best_height = -1
    for _ in range(max(budget // shapes.overlaps, 1)):
        offsets = fit(shapes, sorted(range(count), key=rank.__getitem__), floors=crown.floors)
        height = shapes.height(upright := shapes.mirrored(offsets))
        if best_height < 0 or height < best_height:
            best, best_height = upright, height
        over = [shape for shape, offset in enumerate(offsets) if offset + shapes.units[shape] > crown.limit]
        if not over:
            break
        for shape in over:
            state = (state * _MULTIPLIER + _INCREMENT) & _MASK
            rank[shape] -= (state >> 40) * count * _RANK >> 25  # up to half of the order
    return best


def sweep(shapes: Shapes, *, backwards: bool = False) -> list[int]:
    """Offsets in units in one pass through time, each shape into the smallest free hole that holds it.

    For problems with so many overlaps that nothing else is affordable.
    """
    count = len(shapes.units)
    births = [-time for time in shapes.last] if backwards else shapes.first
    deaths = [-time for time in shapes.first] if backwards else shapes.last
    offsets = [0] * count
    holes = _Holes()
    dying: list[tuple[int, int]] = []
    for shape in sorted(
        range(count), key=lambda shape: (births[shape], -deaths[shape], -shapes.units[shape])
    ):
        while dying and dying[0][0] < births[shape]:
            gone = heapq.heappop(dying)[1]
            holes.free(offsets[gone], shapes.units[gone])
        offsets[shape] = holes.take(shapes.units[shape])
        heapq.heappush(dying, (deaths[shape], shape))
    return offsets


class _Holes:
    """The free ranges below a moving top, by start, by end and by length."""

    def __init__(self) -> None:
        self._top = 0
        self._length: dict[int, int] = {}  # by start
        self._start: dict[int, int] = {}  # by end
        self._by_length: list[tuple[int, int]] = []  # (length, start)

    def take(self, units: int) -> int:
        place = bisect.bisect_left(self._by_length, (units, 0))
        if place == len(self._by_length):
            self._top += units
            return self._top - units
        length, start = self._by_length[place]
        self._remove(start, length)
        if length > units:
            self._add(start + units, length - units)
        return start

    def free(self, start: int, units: int) -> None:
        end = start + units
        if end in self._length:
            units += self._length[end]
            self._remove(end, self._length[end])
        if start in self._start:
            start = self._start[start]
            units += self._length[start]
            self._remove(start, self._length[start])
        if start + units == self._top:
            self._top = start
        else:
            self._add(start, units)

    def _add(self, start: int, length: int) -> None:
        self._length[start] = length
        self._start[start + length] = start
        bisect.insort(self._by_length, (length, start))

    def _remove(self, start: int, length: int) -> None:
        del self._length[start], self._start[start + length]
        self._by_length.pop(bisect.bisect_left(self._by_length, (length, start)))
