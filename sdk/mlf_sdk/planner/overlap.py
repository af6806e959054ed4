# SPDX-License-Identifier: Apache-2.0
"""Outputs of steps that lie over an input which nothing needs later: rules, and the memory that they save."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mlf_sdk.planner.problem import PlanStep


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """Permission to place ``output`` over ``input``, ``distance`` bytes before it or further.

    Attributes:
        input, output: indices of storages, or keys of buffers.
        distance: between their starts; a multiple of the alignment.
    """

    input: int
    output: int
    distance: int


def storage_overlaps(
    step: PlanStep, alignment: int, storage_of: Mapping[int, int], sizes: Sequence[int]
) -> tuple[Overlay, ...]:
    """Overlaps of a step that can save memory; one for each pair of storages.

    Args:
        storage_of: storage of each tensor.
        sizes: bytes of each storage.
    """
    if not step.overlaps:
        return ()
    written = {storage_of[access.tensor] for access in step.writes}
    result: dict[tuple[int, int], int] = {}
    for overlap in step.overlaps:
        pair = storage_of[overlap.input], storage_of[overlap.output]
        result[pair] = max(result.get(pair, 0), -(-overlap.distance_bytes // alignment) * alignment)
    return tuple(
        Overlay(input=x, output=y, distance=distance)
        for (x, y), distance in sorted(result.items())
        if x not in written and sizes[x] and distance < sizes[y]
    )


class Extent(msgspec.Struct, frozen=True):
    """Aligned bytes of an operand of an overlap, and the times, both included, in which it is live."""

    size: int
    first: int
    last: int


def savings(overlaps: Iterable[Overlay], extents: Mapping[Any, Extent]) -> Iterator[tuple[int, int, int]]:
    """Most bytes that overlaps can save: (bytes, first, last time) of each span with the same live buffers.

    Inputs lie apart from each other, outputs too. An output that lies over any input begins before all of
    them, by the least of its distances: those bytes are over none. So inputs and outputs together take at
    least the bytes of the outputs, and at least those of the inputs and of all that lies before them.
    """
    pairs = [(o, extents[o.input], extents[o.output]) for o in overlaps]
    times = sorted({time for _, x, y in pairs for time in (y.first, x.last + 1)})
    waiting = sorted(pairs, key=lambda pair: pair[2].first, reverse=True)
    live: list[tuple[Overlay, Extent, Extent]] = []  # those of one time: few, however many steps there are
    for first, end in itertools.pairwise(times):
        while waiting and waiting[-1][2].first <= first:
            live.append(waiting.pop())
        live = [pair for pair in live if first <= pair[1].last]
        now = [overlap for overlap, _, _ in live]
        inputs = sum(extents[x].size for x in {o.input for o in now})
        before: dict[int, int] = {}
        for o in now:
            before[o.output] = min(before.get(o.output, o.distance), o.distance)
        outputs = sum(extents[y].size for y in before)
        yield inputs + outputs - max(outputs, inputs + sum(before.values())), first, end - 1
