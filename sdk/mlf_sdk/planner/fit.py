# SPDX-License-Identifier: Apache-2.0
"""Greedy placements: each buffer in turn goes into a gap between those already placed."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterator, Sequence
from operator import add

from mlf_sdk.planner.shapes import Shapes, maximal_live_sets

_MULTIPLIER, _INCREMENT, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1
_RANK = 1 << 16  # distance of two shapes in the order of placement
_Ranges = list[tuple[int, int, int]]


def fit(
    shapes: Shapes,
    order: Sequence[int],
    *,
    best_fit: bool = False,
    floors: Sequence[int] | None = None,
    ranges: Sequence[_Ranges] | None = None,
) -> list[int]:
    """Place shapes one by one, each at the lowest gap that holds it.

    Args:
        order: in which the shapes are placed.
        best_fit: use the smallest gap that holds a shape instead of the lowest.
        floors: lowest offset of each shape, in units.
        ranges: `_ranges` of each shape, where it is placed many times.

    Returns:
        The offset of each shape, in units.
    """
    units = shapes.units
    offsets = [-1] * len(units)
    for shape in order:
        taken = [
            (offset + low, offset + high)
            for other, low, high in (ranges[shape] if ranges else _ranges(shapes, shape))
            if (offset := offsets[other]) >= 0
        ]
        taken.sort()
        position, needed = floors[shape] if floors else 0, units[shape]
        if best_fit:
            offsets[shape] = _smallest_gap(taken, needed, position)
            continue
        for low, high in taken:
            if low - position >= needed:
                break
            if high > position:  # noqa: PLR1730 - max() takes twice as long, and this is the search's inner loop
                position = high
        offsets[shape] = position
    return offsets


def _ranges(shapes: Shapes, shape: int) -> _Ranges:
    """Units that each conflicting shape takes from ``shape``, which ends before them or starts after them.

    Returns:
        Numbers of the others, first unit and end of the range, from the other one's offset.
    """
    conflicts, units = shapes.conflicts or (), shapes.units
    if not shapes.gaps:
        return [(other, 0, units[other]) for other in conflicts[shape]]
    own, gap = units[shape], shapes.gap
    return [(other, own - gap(shape, other), gap(other, shape)) for other in conflicts[shape]]


def _smallest_gap(taken: list[tuple[int, int]], needed: int, floor: int) -> int:
    position, chosen, chosen_room = floor, -1, 0
    for low, high in taken:
        room = low - position
        if room >= needed and (chosen < 0 or room < chosen_room):
            chosen, chosen_room = position, room
        position = max(position, high)
    return position if chosen < 0 else chosen


def greedy_orders(shapes: Shapes) -> Iterator[list[int]]:
    """Orders for greedy placement: by size, length of life, load at one time, conflicts, area and birth."""
    count = len(shapes.units)
    conflicts = shapes.conflicts or ()
    length = [0] * count
    load = [0] * count
    for members in maximal_live_sets(shapes):
        together = sum(shapes.units[shape] for shape in members)
        for shape in members:
            length[shape] += 1
            load[shape] = max(load[shape], together)
    crowd = [
        sum(shapes.units[other] for other in conflicts[shape]) + shapes.units[shape] for shape in range(count)
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


class TopPlacement:
    """Shapes that may end at the top when the target is not a whole number of units.

    Only a shape whose padding covers the rest of the last unit may be there. Placements are built upside
    down for this: a shape placed at offset 0 ends up at the top.

    Attributes:
        floors: lowest offset of each shape in units, upside down: 0 where it may be at the top, else 1.
        limit: the target in units, rounded up.
    """

    def __init__(self, shapes: Shapes, target: int) -> None:
        """Choose shapes that are at the top at as many of the fullest times as possible.

        Args:
            target: wanted end of the placement in bytes.
        """
        saved = -target % shapes.alignment
        self.limit = (target + saved) // shapes.alignment
        self.floors = [
            int(units * shapes.alignment - size < saved)
            for units, size in zip(shapes.units, shapes.sizes, strict=True)
        ]
        self._first: list[int] = self._choose(shapes) if saved else []

    def order(self, order: Sequence[int]) -> list[int]:
        """Order of placement with the shapes for the top moved to its front."""
        chosen = set(self._first)
        return [*self._first, *(shape for shape in order if shape not in chosen)]

    def _choose(self, shapes: Shapes) -> list[int]:
        counts: dict[int, int] = {}
        for members in maximal_live_sets(shapes):
            if sum(shapes.units[shape] for shape in members) >= self.limit:
                for shape in members:
                    if not self.floors[shape]:
                        counts[shape] = counts.get(shape, 0) + 1
        conflicts = shapes.conflicts or ()
        chosen: set[int] = set()
        for shape in sorted(counts, key=lambda shape: (-counts[shape], shape)):
            if chosen.isdisjoint(conflicts[shape]):
                chosen.add(shape)
        return sorted(chosen)


def local_search(shapes: Shapes, top: TopPlacement, order: Sequence[int], budget: int) -> list[int]:
    """Place repeatedly; shapes that end above the target move forward in the order by a random step.

    Args:
        top: which shapes may be at the top; its limit ends the search.
        order: to begin with.
        budget: shapes visited at most.

    Returns:
        The offsets in units of the lowest placement. Pseudorandom with a fixed seed: the same each time.
    """
    count = len(order)
    rank = [0] * count
    for place, shape in enumerate(top.order(order)):
        rank[shape] = place * _RANK
    state = 1
    best: list[int] = []
    best_height = -1
    flipped = shapes.upside_down()
    limit = top.limit
    ranges = [_ranges(flipped, shape) for shape in range(count)]
    for _ in range(max(budget // shapes.pass_work, 1)):
        order = sorted(range(count), key=rank.__getitem__)
        offsets = fit(flipped, order, floors=top.floors, ranges=ranges)
        ends = list(map(add, offsets, shapes.units))
        if best_height < 0 or (max(ends) - min(offsets) - 1) * shapes.alignment < best_height:  # may be lower
            height = shapes.height(upright := shapes.mirrored(offsets))
            if best_height < 0 or height < best_height:
                best, best_height = upright, height
        over = [shape for shape, end in enumerate(ends) if end > limit]
        if not over:
            break
        for shape in over:
            state = (state * _MULTIPLIER + _INCREMENT) & _MASK
            rank[shape] -= (state >> 40) * count * _RANK >> 25  # up to half of the order
    return best


def sweep(shapes: Shapes, *, backwards: bool = False) -> list[int]:
    """Place shapes in one pass through time, each into the smallest free range that holds it.

    Used where the number of conflicts rules out all other methods.

    Returns:
        The offset of each shape, in units.
    """
    count = len(shapes.units)
    births = [-time for time in shapes.last] if backwards else shapes.first
    deaths = [-time for time in shapes.first] if backwards else shapes.last
    offsets = [0] * count
    free = _FreeRanges()
    dying: list[tuple[int, int]] = []
    for shape in sorted(
        range(count), key=lambda shape: (births[shape], -deaths[shape], -shapes.units[shape])
    ):
        while dying and dying[0][0] < births[shape]:
            gone = heapq.heappop(dying)[1]
            free.release(offsets[gone], shapes.units[gone])
        offsets[shape] = free.take(shapes.units[shape])
        heapq.heappush(dying, (deaths[shape], shape))
    return offsets


class _FreeRanges:
    """Free ranges below a moving top, indexed by start, by end and by length."""

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

    def release(self, start: int, units: int) -> None:
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
