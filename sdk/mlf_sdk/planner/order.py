# SPDX-License-Identifier: Apache-2.0
"""Search for an execution order with a lower memory bound than the original order.

A state of the search is the set of steps that have run: it alone decides what is live, so only the best
path to a state matters. `find_order` first proves, where it can, that no order beats
the original (chains, and most convolutional networks, end there). Then it searches all states, lowest
peak first, which is exact; when its budget runs out, a beam search goes through the steps level by
level. Budgets count work, not time: the result does not depend on the machine.
"""

from __future__ import annotations

import heapq

from mlf_sdk.planner.space import ExecutionState, Move, OrderSpace, bits_of
from mlf_sdk.planner.storage import StorageGraph

_MAX_STEPS = 2000  # beyond this the original order is kept
_EXACT_BUDGET = 12_000  # storages visited
_BEAM_BUDGET = 24_000

_Path = tuple[int, "_Path"] | None  # last step first


def find_order(graph: StorageGraph, bound: int) -> tuple[int, ...] | None:
    """Find a legal order of the steps with a smaller lower bound; deterministic.

    Args:
        bound: lower bound of the original order, in bytes.

    Returns:
        Step indices in the order with the lowest bound that the budget allowed to find; None when the
        original order stays.
    """
    if len(graph.uses) > _MAX_STEPS or graph.is_chain:
        return None
    space = OrderSpace(graph)
    floor = space.peak_lower_bound()
    if floor >= bound:
        return None
    result, path = _search_exact(space, floor, bound)
    if not result:
        path = _search_beam(space, floor, bound)
    return tuple(_unwind(path)) if path else None


def _search_exact(space: OrderSpace, floor: int, bound: int) -> tuple[bool, _Path]:
    """Search all states, lowest peak first.

    Returns:
        (True, path to the lowest peak below ``bound`` or None); (False, None) when the budget is used up.
    """
    start = space.start()
    queue: list[tuple[int, int, int, int]] = [(floor, 0, start.live_bytes, 0)]
    entries: list[tuple[ExecutionState, _Path]] = [(start, None)]
    best = {start.done: floor}
    limit = space.work + _EXACT_BUDGET
    while queue:
        peak, depth, _, number = heapq.heappop(queue)
        state, path = entries[number]
        if state.done == space.all_done:
            return True, path
        if peak > best[state.done]:
            continue
        for move in _moves(space, state, peak, bound, limit):
            reached = max(peak, move.peak)
            if reached >= best.get(move.state.done, bound):
                continue
            best[move.state.done] = reached
            heapq.heappush(queue, (reached, depth - 1, move.state.live_bytes, len(entries)))
            entries.append((move.state, (move.step, path)))
        if space.work > limit:
            return False, None
    return True, None


def _moves(space: OrderSpace, state: ExecutionState, peak: int, bound: int, limit: int) -> list[Move]:
    """Moves to try: a single safe one, or all below ``bound``; none beyond the ``limit`` of work."""
    moves: list[Move] = []
    for step in bits_of(state.ready):
        if space.work > limit:
            break
        move = space.move(state, step)
        if move.is_safe and move.peak <= peak:
            return [move]
        if move.peak < bound:
            moves.append(move)
    return moves


def _search_beam(space: OrderSpace, floor: int, bound: int) -> _Path:
    """Beam search for a path with a peak below ``bound``; None when none is found."""
    count = len(space.needed)
    level: list[tuple[int, ExecutionState, _Path]] = [(floor, space.start(), None)]
    share = max(_BEAM_BUDGET // count, 12)
    for _ in range(count):
        limit = space.work + share
        best: dict[int, tuple[int, ExecutionState, _Path]] = {}
        for peak, state, path in level:
            for move in _moves(space, state, peak, bound, limit):
                reached = max(peak, move.peak)
                known = best.get(move.state.done)
                if known is None or reached < known[0]:
                    best[move.state.done] = (reached, move.state, (move.step, path))
        level = sorted(best.values(), key=lambda entry: (entry[0], entry[1].live_bytes))[:64]
        if not level:
            return None
    return level[0][2]


def _unwind(path: _Path) -> list[int]:
    steps: list[int] = []
    while path is not None:
        step, path = path
        steps.append(step)
    return steps[::-1]
