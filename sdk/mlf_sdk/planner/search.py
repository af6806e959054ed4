# SPDX-License-Identifier: Apache-2.0
"""Exact search for a placement below a given height: branch and bound, within a budget.

Any placement can be pushed down until every buffer stands on the floor or on another one. Built up in
order of offset, such a placement puts each buffer on top of those that it overlaps in time. So the
search goes through the orders in which the offsets never fall, and gives up a branch as soon as some
section of time cannot hold what is still to come.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.planner.shapes import Shapes, sections

MAX_SHAPES = 250  # the search recurses once a shape


class Exhausted(Exception):
    """The budget is used up: nothing is known."""


class PlacementSearch:
    """Searches the placements of some shapes; one budget (shapes looked at) for all calls."""

    def __init__(self, shapes: Shapes, budget: int) -> None:
        """Nothing is searched yet."""
        self._shapes = shapes
        self._near = shapes.near or ()
        self._sections = sections(shapes)
        self._sections_of: list[list[int]] = [[] for _ in shapes.units]
        for number, members in enumerate(self._sections):
            for shape in members:
                self._sections_of[shape].append(number)
        self._padding = [
            units * shapes.alignment - size for units, size in zip(shapes.units, shapes.sizes, strict=True)
        ]
        self._budget = budget

    def below(self, height: int, order: Sequence[int], share: int) -> list[int] | None:
        """Offsets in units that end at `height` bytes or lower, or None when there are none.

        `order` decides what is tried first, `share` is the part of the budget to spend.

        Raises:
            Exhausted: the share, or the whole budget, is used up.
        """
        shapes = self._shapes
        count = len(shapes.units)
        self._end = min(share, self._budget)
        self._budget -= self._end
        self._most = [(height - size) // shapes.alignment for size in shapes.sizes]
        self._height = height
        self._low = [0] * count
        self._demand = [sum(shapes.units[shape] for shape in members) for members in self._sections]
        self._rank = [0] * count
        for rank, shape in enumerate(order):
            self._rank[shape] = rank
        found = self._descend(list(order), 0, -1)
        self._budget += self._end
        return list(self._low) if found else None

    def _descend(self, waiting: list[int], level: int, last_rank: int) -> bool:
        """Place all that wait, at `level` or above; those at `level` in order of rank."""
        if not waiting:
            return True
        self._end -= len(waiting)
        if self._end < 0:
            self._end = 0
            raise Exhausted
        low, units = self._low, self._shapes.units
        if not self._possible(waiting, level):
            return False
        ceiling = min(low[shape] + units[shape] for shape in waiting)
        chosen = [
            shape
            for shape in waiting
            if level <= low[shape] < ceiling and (low[shape] > level or self._rank[shape] > last_rank)
        ]
        chosen.sort(key=lambda shape: (low[shape], self._rank[shape]))
        for shape in chosen:
            offset = low[shape]
            rest = [other for other in waiting if other != shape]
            raised = self._put(shape, rest)
            if self._descend(rest, offset, self._rank[shape]):
                return True
            for other, before in raised:
                low[other] = before
            for number in self._sections_of[shape]:
                self._demand[number] += units[shape]
        return False

    def _put(self, shape: int, rest: list[int]) -> list[tuple[int, int]]:
        """Place a shape at its lowest offset; returns what it raised, with the offsets before."""
        low = self._low
        top = low[shape] + self._shapes.units[shape]
        waiting = set(rest)
        raised = [(other, low[other]) for other in self._near[shape] if other in waiting and low[other] < top]
        for other, _ in raised:
            low[other] = top
        for number in self._sections_of[shape]:
            self._demand[number] -= self._shapes.units[shape]
        return raised

    def _possible(self, waiting: list[int], level: int) -> bool:
        """Every shape, and every section of time, still fits below the height.

        The top of a section with waiting shapes will be one of these; only its padding doesn't count.
        """
        low, most, padding = self._low, self._most, self._padding
        floors: dict[int, int] = {}
        spare: dict[int, int] = {}
        for shape in waiting:
            floor = max(low[shape], level)
            if floor > most[shape]:
                return False
            for number in self._sections_of[shape]:
                if number not in floors:
                    floors[number], spare[number] = floor, padding[shape]
                    continue
                floors[number] = min(floors[number], floor)
                spare[number] = max(spare[number], padding[shape])
        self._end -= len(floors)
        unit = self._shapes.alignment
        return all(
            (floor + self._demand[number]) * unit - spare[number] <= self._height
            for number, floor in floors.items()
        )
