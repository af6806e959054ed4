# SPDX-License-Identifier: Apache-2.0
"""Buffers for the placement algorithms: sizes in units of the alignment, conflicts in time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlf_sdk.planner.problem import Overlay
from mlf_sdk.planner.storage import Buffer

_MAX_PAIRS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """The non-empty buffers of a plan; a shape is an index into all of these.

    Attributes:
        alignment: bytes of one unit.
        sizes: exact bytes.
        units: bytes rounded up, in units.
        first, last: global times, both included.
        conflicts: per shape, the shapes that are live at a common time; None beyond a million pairs.
        pass_work: shapes visited by one greedy placement.
        gaps: by the lower and then the upper of two shapes, the least distance in units between their starts;
            the units of the lower one for all pairs that are not listed.
    """

    alignment: int
    sizes: tuple[int, ...]
    units: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    conflicts: tuple[tuple[int, ...], ...] | None
    pass_work: int
    gaps: Mapping[int, Mapping[int, int]] = field(default_factory=dict)

    def gap(self, lower: int, upper: int) -> int:
        """Least distance in units from the start of ``lower`` to that of ``upper``, if both are live."""
        row = self.gaps.get(lower)
        return self.units[lower] if row is None else row.get(upper, self.units[lower])

    def upside_down(self) -> Shapes:
        """The same shapes with offsets counted from the top; see `mirrored`."""
        gaps: dict[int, dict[int, int]] = {}
        for lower, row in self.gaps.items():
            for upper, distance in row.items():
                gaps.setdefault(upper, {})[lower] = distance + self.units[upper] - self.units[lower]
        return dataclasses.replace(self, gaps=gaps)

    def height(self, offsets: Sequence[int]) -> int:
        """Exact end of a placement in bytes; ``offsets`` are in units."""
        tops = (offset * self.alignment + size for offset, size in zip(offsets, self.sizes, strict=True))
        return max(tops, default=0)

    def mirrored(self, offsets: Sequence[int]) -> list[int]:
        """Offsets in units of the placement turned upside down, which puts another padding on top."""
        top = max((offset + unit for offset, unit in zip(offsets, self.units, strict=True)), default=0)
        return [top - offset - unit for offset, unit in zip(offsets, self.units, strict=True)]


def build_shapes(buffers: Sequence[Buffer], alignment: int, over: Sequence[Overlay] = ()) -> Shapes:
    """Build the shapes of non-empty buffers, in the order given.

    Args:
        buffers: with sizes in bytes and lifetimes.
        alignment: bytes of a unit, a power of two.
        over: buffers that may lie over others.
    """
    number = {buffer.key: shape for shape, buffer in enumerate(buffers)}
    gaps: dict[int, dict[int, int]] = {}
    first = tuple(buffer.first for buffer in buffers)
    last = tuple(buffer.last for buffer in buffers)
    conflicts = _conflicts(first, last)
    for overlay in over if conflicts is not None else ():
        gaps.setdefault(number[overlay.output], {})[number[overlay.input]] = overlay.distance // alignment
    return Shapes(
        alignment=alignment,
        sizes=tuple(buffer.size_bytes for buffer in buffers),
        units=tuple(-(-buffer.size_bytes // alignment) for buffer in buffers),
        first=first,
        last=last,
        conflicts=conflicts,
        pass_work=len(buffers) + sum(len(others) for others in conflicts or ()),
        gaps=gaps,
    )


def maximal_live_sets(shapes: Shapes) -> list[list[int]]:
    """Sets of shapes live at one time that no other such set contains, in order of time."""
    live: list[int] = []
    result: list[list[int]] = []
    grown = False
    for shape in sorted(range(len(shapes.units)), key=lambda shape: shapes.first[shape]):
        now = shapes.first[shape]
        alive = [other for other in live if shapes.last[other] >= now]
        if grown and len(alive) < len(live):
            result.append(live)
        live = [*alive, shape]
        grown = True
    return [*result, live] if live else result


def _conflicts(first: Sequence[int], last: Sequence[int]) -> tuple[tuple[int, ...], ...] | None:
    result: list[list[int]] = [[] for _ in first]
    live: list[int] = []
    pairs = 0
    for shape in sorted(range(len(first)), key=lambda shape: first[shape]):
        live = [other for other in live if last[other] >= first[shape]]
        pairs += len(live)
        if pairs > _MAX_PAIRS:
            return None
        for other in live:
            result[other].append(shape)
        result[shape] += live
        live.append(shape)
    return tuple(tuple(others) for others in result)
