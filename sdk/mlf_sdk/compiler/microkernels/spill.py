# SPDX-License-Identifier: Apache-2.0
"""Values on the stack: registers that are more than there are live there between the places that use them.

The uses of virtual registers and the ranges where they are live stand first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import msgspec
from msgspec.structs import replace

from mlf_sdk.compiler.microkernels.builder import BRANCHES, MOVING, SKIPS, Operation, Register

Use = tuple[int, bool, bool]
"""A place where a register is read (second) or written (third); a pointer that moves is both."""


class Flow(msgspec.Struct, frozen=True):
    """Uses and ranges of all registers of a list of operations.

    Attributes:
        uses: of each register, in the order of places.
        ranges: first place where a register is live, and the first one behind that where it is not: one that
            is read last at place k is free at k for what is written there.
        depth: number of loops around each place.
        reserved: ranges of registers that wait for values which are stored together.
        walls: ends of blocks without a branch up to each place; between places of equal number there is none.
    """

    uses: dict[Register, list[Use]]
    ranges: dict[Register, tuple[int, int]]
    depth: list[int]
    walls: list[int]
    reserved: list[tuple[int, int]]

    def crowded(self, count: int) -> list[int]:
        """Places where more than ``count`` general registers are live."""
        change = [0] * (len(self.depth) + 1)
        live = [span for r, span in self.ranges.items() if not r.kind.file]
        for first, last in [*live, *self.reserved]:
            change[first] += 1
            change[last] -= 1
        return [at for at, number in enumerate(accumulate(change[:-1])) if number > count]


def flow_of(operations: Sequence[Operation]) -> Flow:
    """Analyse operations whose only branches are the ends of loops."""
    uses: dict[Register, list[Use]] = {}
    depth, walls, loops, open_loops = [], [], [], []
    wall = 0
    for at, o in enumerate(operations):
        name, operands, results = o.name, o.operands, o.results
        if name == "label":
            open_loops.append(at)
            wall += 1
        depth.append(len(open_loops))
        walls.append(wall)
        if name in BRANCHES:
            loops.append((open_loops.pop(), at))
        wall += name in BRANCHES or name in SKIPS
        if name in MOVING:
            results = (*results, operands[-1])
        for r in operands:
            places = uses.setdefault(r, [])
            if not places or places[-1][0] != at:
                places.append((at, True, r in results))
        for r in results:
            if r not in operands:
                uses.setdefault(r, []).append((at, False, True))
    ranges = {r: _range(result, loops) for r, result in uses.items()}
    ordered = sorted(ranges.items(), key=lambda item: (item[1], item[0].serial))
    return Flow(uses, dict(ordered), depth, walls, list(_reserved(operations, ranges)))


def _reserved(
    operations: Sequence[Operation], ranges: dict[Register, tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Ranges in front of values that are stored together, from the first one of them on."""
    for o in operations:
        if o.name == "store_many":
            firsts = [ranges[r][0] for r in o.operands[:-1]]
            yield from ((min(firsts), first) for first in firsts if first > min(firsts))


def _range(uses: list[Use], loops: list[tuple[int, int]]) -> tuple[int, int]:
    """Live range; inner loops come first. One that a loop reads before it writes it is live in all of it."""
    first, (last, _, is_written) = uses[0][0], uses[-1]
    last += is_written
    for start, end in loops:
        if first > end or last <= start:
            continue
        at, reads, _ = uses[bisect_left(uses, (start,))]
        if at <= end and reads:
            first, last = min(first, start), max(last, end + 1)
    return first, max(last, first + 1)


_LOOP_COST = 8  # of an instruction in a loop, for one outside
_SHARED_COST = 4  # that two loads in one save
_WALLS = BRANCHES | SKIPS | {"label"}


class Part:
    """A run of uses between which a register is not free for others."""

    def __init__(self, uses: list[Use]) -> None:
        """Hold the uses, at least one."""
        self.places = [at for at, _, _ in uses]
        self.first, self.last = self.places[0], self.places[-1]
        self.reload = uses[0][1]
        self.writes = [at for at, _, writes in uses if writes]

    def cost(self, depth: list[int]) -> int:
        """Loads and stores around it, weighted by loops."""
        stores = _LOOP_COST ** depth[self.writes[0]] if self.writes else 0
        return stores + (_LOOP_COST ** depth[self.first] if self.reload else 0)


def spilled(operations: list[Operation], count: int, *, merge: bool = True) -> tuple[list[Operation], int]:
    """Move values to the stack, cheapest first, until ``count`` registers are enough; also the words used.

    Each word has a number, which is the constant of its stores and loads.

    Args:
        merge: loads and stores of several words are instructions.
    """
    slots, temporary = 0, set[Register]()
    while True:
        flow = flow_of(operations)
        crowded = flow.crowded(count)
        if not crowded:
            return (_merged(operations, count) if merge else operations), slots
        shared = merge and slots % 2 == 1
        register, parts = _cheapest(operations, flow, crowded, temporary, shared=shared)
        for number, part in reversed(list(enumerate(parts))):
            new = Register(f"{register.name}_{number}", register.kind, register.serial)
            temporary.add(new)
            _move(operations, register, new, part, slots)
        slots += 1


def _cheapest(
    operations: Sequence[Operation], flow: Flow, crowded: list[int], temporary: set[Register], *, shared: bool
) -> tuple[Register, list[Part]]:
    """Register, with its parts, whose loads and stores cost the least for each crowded place it frees."""
    best: tuple[float, Register, list[Part]] | None = None
    before = _counted(len(operations), crowded)
    for register, (first, last) in flow.ranges.items():
        if (
            register.kind.file
            or register.kind.group
            or not first <= crowded[0] < last
            or register in temporary
        ):
            continue
        parts = _parts(flow, flow.uses[register], before, last)
        held = sum(before[min(p.last + 1, last)] - before[p.first] for p in parts)
        freed = before[last] - before[first] - held
        if any(p.first <= crowded[0] <= p.last for p in parts):
            continue
        cost: float = sum(p.cost(flow.depth) for p in parts)
        if shared and any(o.name in BRANCHES for o in operations[first:last]):
            cost -= _SHARED_COST
        cost /= max(freed, 1)
        if best is None or cost < best[0]:
            best = cost, register, parts
    if best is None:
        raise ValueError(f"operation {crowded[0]} needs more registers than there are")
    return best[1], best[2]


def _counted(length: int, places: list[int]) -> list[int]:
    """Number of ``places`` in front of each place."""
    result, chosen = [0], set(places)
    for at in range(length):
        result.append(result[-1] + (at in chosen))
    return result


def _parts(flow: Flow, uses: list[Use], before: list[int], last: int) -> list[Part]:
    """Runs of uses; ``last``: the first place where the register is not live."""
    parts = [[uses[0]]]
    for (one, _, _), use in pairwise(uses):
        free = before[use[0]] - before[one + 1]
        if free or flow.walls[one] != flow.walls[use[0]]:
            parts.append([])
        parts[-1].append(use)
    result = [Part(p) for p in parts]
    at, _, is_written = uses[-1]
    if last <= at + is_written:  # nothing reads it again
        result[-1].writes = []
    return result


def _move(operations: list[Operation], old: Register, new: Register, part: Part, slot: int) -> None:
    """Let a part use a register of its own, with a load before it and a store behind what it writes."""
    for at in part.places:
        o = operations[at]
        operations[at] = replace(
            o,
            operands=tuple(new if r is old else r for r in o.operands),
            results=tuple(new if r is old else r for r in o.results),
        )
    if part.writes:
        operations.insert(part.writes[-1] + 1, Operation("spill", (), (new,), slot))
    if part.reload:
        operations.insert(part.first, Operation("reload", (new,), (), slot))


def _merged(operations: list[Operation], count: int) -> list[Operation]:
    """Merge loads, or stores, of several words where there are registers for it."""
    operations = _gathered(operations, count)
    for name in ("spill", "reload"):
        number = 0
        while True:
            at = [k for k, o in enumerate(operations) if o.name == name][number : number + 2]
            if len(at) < 2:
                break
            merged = _pair(operations, *at)
            number += 1
            if merged is not None and not flow_of(merged).crowded(count):
                operations, number = merged, max(number - 2, 0)
    return operations


def _gathered(operations: list[Operation], count: int) -> list[Operation]:
    """Merge the longest run of loads that may stand at the first one, of three or more: words 0 and on."""
    best: list[int] = []
    for loads in _loads_of_blocks(operations):
        for at, first in enumerate(loads):
            if len(loads) - at <= max(len(best), 2):
                break
            run = [first]
            for k in loads[at + 1 :]:
                if _may_move(operations, first, k):
                    if flow_of(_with_run(operations, [*run, k])).crowded(count):
                        break
                    run.append(k)
            if len(run) > max(len(best), 2):
                best = run
    if not best:
        return operations
    first_words = [operations[k].i for k in best]
    others = sorted({o.i for o in operations if o.name in ("spill", "reload")} - {*first_words})
    number = {word: k for k, word in enumerate([*first_words, *others])}
    return [
        replace(o, i=number[o.i]) if o.name in ("spill", "reload") else o for o in _with_run(operations, best)
    ]


def _loads_of_blocks(operations: list[Operation]) -> list[list[int]]:
    """Places of the loads of each run of operations without a branch."""
    blocks: list[list[int]] = [[]]
    for at, o in enumerate(operations):
        if o.name in _WALLS:
            blocks.append([])
        elif o.name == "reload":
            blocks[-1].append(at)
    return blocks


def _with_run(operations: list[Operation], run: list[int]) -> list[Operation]:
    """Operations with a run of loads as one, where the first of them is."""
    results = tuple(r for k in run for r in operations[k].results)
    result = [o for k, o in enumerate(operations) if k not in run[1:]]
    result[run[0]] = Operation("reload_many", results)
    return result


def _may_move(operations: list[Operation], first: int, second: int) -> bool:
    """True where the load at ``second`` gives the same in front of ``first``."""
    word = operations[second].i
    return not any(o.name in ("spill", "reload") and o.i == word for o in operations[first:second])


def _pair(operations: list[Operation], first: int, second: int) -> list[Operation] | None:
    """Operations with two stores as one at the second, or two loads as one at the first; None: impossible."""
    low, high = sorted((operations[first], operations[second]), key=lambda o: o.i)
    name = low.name
    moved = operations[first if name == "spill" else second]
    for o in operations[first + 1 : second]:
        is_changed = not {*o.results}.isdisjoint(moved.operands) or (
            o.name in ("spill", "reload") and o.i == moved.i
        )
        if is_changed or o.name in _WALLS:
            return None
    if high.i - low.i != 1:
        return None
    both = Operation(f"{name}_two", low.results + high.results, low.operands + high.operands, low.i)
    if name == "spill":
        return [*operations[:first], *operations[first + 1 : second], both, *operations[second + 1 :]]
    return [*operations[:first], both, *operations[first + 1 : second], *operations[second + 1 :]]
