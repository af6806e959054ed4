# SPDX-License-Identifier: Apache-2.0
"""Exact search for a placement within a given height: branch and bound, with a budget.

Any placement can be pushed down until every buffer stands on the floor or on another one. Built up in
order of offset, such a placement puts each buffer on top of those that it overlaps in time. The
search enumerates the orders in which the offsets never fall, and abandons a branch as soon as some set of
shapes that are live at one time cannot be completed within the height.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.planner.shapes import Shapes, maximal_live_sets

MAX_SHAPES = 250  # the search recurses once per shape


class BudgetExceeded(Exception):
    """The budget is used up before the search came to a result."""


class PlacementSearch:
    """Search of the placements of some shapes; one budget for all calls."""

    def __init__(self, shapes: Shapes, budget: int) -> None:
        """Prepare the search.

        Args:
            budget: shapes visited at most, over all calls.
        """
        self._shapes = shapes
        self._gaps = [
            [(other, shapes.gap(shape, other)) for other in others]
            for shape, others in enumerate(shapes.conflicts or ())
        ]
        self._live_sets = maximal_live_sets(shapes)
        self._live_sets_of: list[list[int]] = [[] for _ in shapes.units]
        for number, members in enumerate(self._live_sets):
            for shape in members:
                self._live_sets_of[shape].append(number)
        self._padding = [
            units * shapes.alignment - size for units, size in zip(shapes.units, shapes.sizes, strict=True)
        ]
        self._saved = self._savings()
        self._zero = {upper for row in shapes.gaps.values() for upper, gap in row.items() if not gap}
        self._budget = budget

    def find_within(self, height: int, order: Sequence[int], share: int) -> list[int] | None:
        """Find a placement that ends at ``height`` or lower.

        Args:
            height: in bytes.
            order: of the shapes; decides which placements are tried first.
            share: part of the budget to spend.

        Returns:
            The offset of each shape in units; None when no such placement exists.

        Raises:
            BudgetExceeded: the share, or the whole budget, is used up.
        """
        shapes = self._shapes
        count = len(shapes.units)
        self._end = min(share, self._budget)
        self._budget -= self._end
        self._most = [(height - size) // shapes.alignment for size in shapes.sizes]
        self._height = height
        self._low = [0] * count
        self._waits = [True] * count
        self._demand = [
            sum(shapes.units[shape] for shape in members) - self._saved_among(members)
            for members in self._live_sets
        ]
        self._rank = [0] * count
        for rank, shape in enumerate(order):
            self._rank[shape] = rank
        result = self._descend(list(order), 0, -1)
        self._budget += self._end
        return list(self._low) if result else None

    def _descend(self, waiting: list[int], level: int, last_rank: int) -> bool:
        """Place all waiting shapes at ``level`` or above; those at ``level`` in order of rank."""
        if not waiting:
            return True
        self._end -= len(waiting)
        if self._end < 0:
            self._end = 0
            raise BudgetExceeded
        low, units = self._low, self._shapes.units
        if not self._is_feasible(waiting, level):
            return False
        ceiling = min([low[shape] + units[shape] for shape in waiting])
        chosen = [
            shape
            for shape in waiting
            if level <= low[shape] < ceiling
            and (low[shape] > level or self._rank[shape] > last_rank or shape in self._zero)
        ]
        chosen.sort(key=lambda shape: (low[shape], self._rank[shape]))
        for shape in chosen:
            offset = low[shape]
            rest = [other for other in waiting if other != shape]
            raised = self._place(shape)
            if self._descend(rest, offset, self._rank[shape]):
                return True
            for other, before in raised:
                low[other] = before
            for number in self._live_sets_of[shape]:
                self._demand[number] += units[shape]
            self._save(shape, -1)
            self._waits[shape] = True
        return False

    def _place(self, shape: int) -> list[tuple[int, int]]:
        """Place a shape at its lowest offset; return the shapes that it raised, with their former offsets."""
        low, waits = self._low, self._waits
        start = low[shape]
        waits[shape] = False
        raised = []
        for other, gap in self._gaps[shape]:
            if waits[other] and low[other] < start + gap:
                raised.append((other, low[other]))
                low[other] = start + gap
        for number in self._live_sets_of[shape]:
            self._demand[number] -= self._shapes.units[shape]
        self._save(shape, 1)
        return raised

    def _savings(self) -> dict[int, dict[int, int]]:
        """Units, for each shape of an overlap and its partner, that the two take less than each alone."""
        units = self._shapes.units
        saved: dict[int, dict[int, int]] = {}
        for lower, row in self._shapes.gaps.items():
            for upper, gap in row.items():
                common = min(units[upper], units[lower] - gap)
                saved.setdefault(lower, {})[upper] = saved.setdefault(upper, {})[lower] = common
        return saved

    def _saved_among(self, members: Sequence[int]) -> int:
        """Most units that overlaps save among shapes that are all waiting."""
        both = set(members)
        return sum(s for m in members for other, s in self._saved.get(m, {}).items() if other in both) // 2

    def _save(self, shape: int, sign: int) -> None:
        """Count what a shape that is placed (or taken back) can't save any more, or can again."""
        for partner, units in self._saved.get(shape, {}).items():
            if self._waits[partner]:
                for number in set(self._live_sets_of[shape]) & set(self._live_sets_of[partner]):
                    self._demand[number] += sign * units

    def _is_feasible(self, waiting: list[int], level: int) -> bool:
        """Check that every shape and every live set can still end within the height.

        The top of a live set with waiting shapes will be one of these; only its padding is not counted.
        """
        low, most, padding, live_sets_of = self._low, self._most, self._padding, self._live_sets_of
        floors: dict[int, int] = {}
        spare: dict[int, int] = {}
        for shape in waiting:
            floor = low[shape] if low[shape] > level else level
            if floor > most[shape]:
                return False
            pad = padding[shape]
            for number in live_sets_of[shape]:
                if number not in floors:
                    floors[number], spare[number] = floor, pad
                    continue
                floors[number] = min(floors[number], floor)
                spare[number] = max(spare[number], pad)
        self._end -= len(floors)
        unit, height, demand = self._shapes.alignment, self._height, self._demand
        for number, floor in floors.items():
            if (floor + demand[number]) * unit - spare[number] > height:
                return False
        return True
