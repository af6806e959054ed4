# SPDX-License-Identifier: Apache-2.0
"""Places where virtual registers are used, and ranges where they are live."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec

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
