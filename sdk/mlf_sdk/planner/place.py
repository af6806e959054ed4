# SPDX-License-Identifier: Apache-2.0
"""Offsets for buffers with known lifetimes: greedy first, then a local search, then an exact one."""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.planner.fit import Crown, fit, greedy_orders, improve, sweep
from mlf_sdk.planner.search import MAX_SHAPES, Exhausted, PlacementSearch
from mlf_sdk.planner.shapes import Shapes, build_shapes
from mlf_sdk.planner.storage import Buffer

# Work that may be spent, in shapes looked at.
_GREEDY_BUDGET = 2_000_000
_IMPROVE_BUDGET = 200_000
_SEARCH_BUDGET = 150_000
_QUICK_BUDGET = 20_000


def place(buffers: Sequence[Buffer], alignment: int, target: int) -> tuple[list[int], int]:
    """The byte offset of every buffer, and the exact end of the highest one.

    Args:
        buffers: with their lifetimes; empty ones get offset 0.
        alignment: all offsets are multiples of it.
        target: the lower bound in bytes; the search ends when it is reached.
    """
    solid = [index for index, buffer in enumerate(buffers) if buffer.size_bytes]
    shapes = build_shapes([buffers[index] for index in solid], alignment)
    units = _best_placement(shapes, target) if solid else []
    offsets = [0] * len(buffers)
    for index, unit in zip(solid, units, strict=True):
        offsets[index] = unit * alignment
    return offsets, shapes.height(units)


class _Best:
    """The lowest placement so far."""

    def __init__(self, shapes: Shapes, target: int) -> None:
        self._shapes = shapes
        self.target = target
        self.offsets: list[int] = []
        self.height = -1

    @property
    def reached(self) -> bool:
        return 0 <= self.height <= self.target

    @property
    def haste(self) -> int:
        """What to divide budgets by: with less than a unit left to gain, little is spent on it."""
        return 1 if self.height - self.target >= self._shapes.alignment else 6

    def offer(self, offsets: list[int]) -> bool:
        """Take a placement, or its mirror image, if it is lower; True when the target is reached."""
        for candidate in (offsets, self._shapes.mirrored(offsets)):
            height = self._shapes.height(candidate)
            if self.height < 0 or height < self.height:
                self.offsets, self.height = candidate, height
        return self.reached


def _best_placement(shapes: Shapes, target: int) -> list[int]:
    best = _Best(shapes, target)
    if shapes.near is None:
        if not best.offer(sweep(shapes)):
            best.offer(sweep(shapes, backwards=True))
        return best.offsets
    spent = 0
    crown = Crown(shapes, target)
    orders: list[tuple[int, list[int]]] = []
    for order in greedy_orders(shapes):
        for tightest in (False, True):
            if best.offer(offsets := fit(shapes, order, tightest=tightest)):
                return best.offsets
            spent += shapes.overlaps
            if not tightest:
                orders.append((shapes.height(offsets), order))
        if best.offer(fit(shapes, crown.order(order), floors=crown.floors)):
            return best.offsets
        if spent > _GREEDY_BUDGET:
            return best.offsets
    orders.sort(key=lambda entry: entry[0])
    _refine(shapes, best, crown, [order for _, order in orders[:3]])
    return best.offsets


def _refine(shapes: Shapes, best: _Best, crown: Crown, orders: list[list[int]]) -> None:
    """A short exact search, which settles small problems; a local search; a longer exact search."""
    search = PlacementSearch(shapes, _SEARCH_BUDGET) if len(shapes.units) <= MAX_SHAPES else None
    known = search is not None and _settle(search, best, orders[:1], _QUICK_BUDGET)
    if known and (best.reached or (search and _lower(search, best, orders[0], _QUICK_BUDGET))):
        return
    for order in orders[:2]:
        if best.offer(improve(shapes, crown, order, _IMPROVE_BUDGET // best.haste)):
            return
    share = _SEARCH_BUDGET // (6 * best.haste)
    if search is None:
        return
    if not known:
        _settle(search, best, orders, share)
    if not best.reached:
        _lower(search, best, orders[0], 3 * share)


def _settle(search: PlacementSearch, best: _Best, orders: list[list[int]], share: int) -> bool:
    """Whether it is now known if the target can be reached; it is then."""
    for order in orders:
        try:
            found = search.below(best.target, order, share)
        except Exhausted:
            continue
        if found is not None:
            best.offer(found)
        return True
    return False


def _lower(search: PlacementSearch, best: _Best, order: list[int], share: int) -> bool:
    """Lower the best placement step by step; whether it is now known to be the lowest there is."""
    try:
        while (found := search.below(best.height - 1, order, share)) is not None:
            best.offer(found)
    except Exhausted:
        return False
    return True
