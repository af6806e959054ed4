# SPDX-License-Identifier: Apache-2.0
"""Offsets of buffers with known lifetimes: greedy placement, then local search, then exact search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlf_sdk.planner.fit import TopPlacement, fit, greedy_orders, local_search, sweep
from mlf_sdk.planner.problem import Overlay
from mlf_sdk.planner.shapes import Shapes, build_shapes
from mlf_sdk.planner.storage import Buffer

if TYPE_CHECKING:
    from mlf_sdk.planner.search import PlacementSearch

# Budgets in shapes visited: the result does not depend on the speed of the machine.
_GREEDY_BUDGET = 2_000_000
_LOCAL_BUDGET = 200_000
_SEARCH_BUDGET = 150_000
_QUICK_BUDGET = 20_000


def place(
    buffers: Sequence[Buffer], alignment: int, target: int, over: Sequence[Overlay] = ()
) -> tuple[list[int], int]:
    """Place buffers so that no two that are live at one time overlap, but for those that may.

    Args:
        buffers: with their lifetimes; empty ones get offset 0.
        alignment: of all offsets, in bytes.
        target: lower bound in bytes; the search ends when it is reached.
        over: buffers that may lie over others.

    Returns:
        The offset of every buffer and the exact end of the highest one, in bytes.
    """
    solid = [index for index, buffer in enumerate(buffers) if buffer.size_bytes]
    shapes = build_shapes([buffers[index] for index in solid], alignment, over)
    units = _best_placement(shapes, target) if solid else []
    offsets = [0] * len(buffers)
    for index, unit in zip(solid, units, strict=True):
        offsets[index] = unit * alignment
    return offsets, shapes.height(units)


class _Best:
    """Lowest placement found so far, and the height in bytes that would be optimal."""

    def __init__(self, shapes: Shapes, target: int) -> None:
        self._shapes = shapes
        self.target = target
        self.offsets: list[int] = []
        self.height = -1

    @property
    def reached(self) -> bool:
        return 0 <= self.height <= self.target

    @property
    def budget_divisor(self) -> int:
        """Divisor of the budgets: little is spent where less than a unit is left to gain."""
        return 1 if self.height - self.target >= self._shapes.alignment else 6

    def offer(self, offsets: list[int], *, flipped: bool = False) -> bool:
        """Keep a placement, or its mirror image, if it is lower; return whether the target is reached.

        Args:
            flipped: it is one of the shapes upside down.
        """
        candidates = [offsets, self._shapes.mirrored(offsets)]
        if self._shapes.gaps:
            candidates = candidates[flipped:][:1]  # the other one is not the same placement
        for candidate in candidates:
            height = self._shapes.height(candidate)
            if self.height < 0 or height < self.height:
                self.offsets, self.height = candidate, height
        return self.reached


def _best_placement(shapes: Shapes, target: int) -> list[int]:
    best = _Best(shapes, target)
    if shapes.conflicts is None:
        if not best.offer(sweep(shapes)):
            best.offer(sweep(shapes, backwards=True))
        return best.offsets
    spent = 0
    top = TopPlacement(shapes, target)
    flipped = shapes.upside_down()
    orders: list[tuple[int, list[int]]] = []
    for order in greedy_orders(shapes):
        for best_fit in (False, True):
            if best.offer(offsets := fit(shapes, order, best_fit=best_fit)):
                return best.offsets
            spent += shapes.pass_work
            if not best_fit:
                orders.append((shapes.height(offsets), order))
        if best.offer(fit(flipped, top.order(order), floors=top.floors), flipped=True):
            return best.offsets
        if spent > _GREEDY_BUDGET:
            return best.offsets
    orders.sort(key=lambda entry: entry[0])
    _refine(shapes, best, top, [order for _, order in orders[:3]])
    return best.offsets


def _refine(shapes: Shapes, best: _Best, top: TopPlacement, orders: list[list[int]]) -> None:
    """Search exactly for a short time, which settles small problems, then locally, then exactly again."""
    from mlf_sdk.planner.search import MAX_SHAPES, PlacementSearch

    search = PlacementSearch(shapes, _SEARCH_BUDGET) if len(shapes.units) <= MAX_SHAPES else None
    known = search is not None and _settle(search, best, orders[:1], _QUICK_BUDGET)
    if known and (best.reached or (search and _lower(search, best, orders[0], _QUICK_BUDGET))):
        return
    for order in orders[:2]:
        if best.offer(local_search(shapes, top, order, _LOCAL_BUDGET // best.budget_divisor)):
            return
    share = _SEARCH_BUDGET // (6 * best.budget_divisor)
    if search is None:
        return
    if not known:
        _settle(search, best, orders, share)
    if not best.reached:
        _lower(search, best, orders[0], 3 * share)


def _settle(search: PlacementSearch, best: _Best, orders: list[list[int]], share: int) -> bool:
    """Reach the target or prove that it cannot be reached; return whether either was achieved."""
    from mlf_sdk.planner.search import BudgetExceeded

    for order in orders:
        try:
            result = search.find_within(best.target, order, share)
        except BudgetExceeded:
            continue
        if result is not None:
            best.offer(result)
        return True
    return False


def _lower(search: PlacementSearch, best: _Best, order: list[int], share: int) -> bool:
    """Lower the best placement step by step; return whether it is proven to be the lowest."""
    from mlf_sdk.planner.search import BudgetExceeded

    try:
        while (result := search.find_within(best.height - 1, order, share)) is not None:
            best.offer(result)
    except BudgetExceeded:
        return False
    return True
