# SPDX-License-Identifier: Apache-2.0
"""Buffers for the placement algorithms: sizes in units of the alignment, conflicts in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    """

    alignment: int
    sizes: tuple[int, ...]
    units: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    conflicts: tuple[tuple[int, ...], ...] | None
    pass_work: int

    def height(self, offsets: Sequence[int]) -> int:
        """Exact end of a placement in bytes; ``offsets`` are in units."""
        tops = (offset * self.alignment + size for offset, size in zip(offsets, self.sizes, strict=True))
        return max(tops, default=0)

    def mirrored(self, offsets: Sequence[int]) -> list[int]:
        """Offsets in units of the placement turned upside down, which puts another padding on top."""
        top = max((offset + unit for offset, unit in zip(offsets, self.units, strict=True)), default=0)
        return [top - offset - unit for offset, unit in zip(offsets, self.units, strict=True)]


def build_shapes(buffers: Sequence[Buffer], alignment: int) -> Shapes:
    """Build the shapes of non-empty buffers, in the order given.

    Args:
        buffers: with sizes in bytes and lifetimes.
        alignment: bytes of a unit, a power of two.
    """
    first = tuple(buffer.first for buffer in buffers)
    last = tuple(buffer.last for buffer in buffers)
    conflicts = _conflicts(first, last)
    return Shapes(
        alignment=alignment,
        sizes=tuple(buffer.size_bytes for buffer in buffers),
        units=tuple(-(-buffer.size_bytes // alignment) for buffer in buffers),
        first=first,
        last=last,
        conflicts=conflicts,
        pass_work=len(buffers) + sum(len(others) for others in conflicts or ()),
    )


def maximal_live_sets(shapes: Shapes) -> list[list[int]]:
    """Sets of shapes live at one time that no other such set contains, in order of time."""
    live: list[int] = []
    found: list[list[int]] = []
    grown = False
    for shape in sorted(range(len(shapes.units)), key=lambda shape: shapes.first[shape]):
        now = shapes.first[shape]
        alive = [other for other in live if shapes.last[other] >= now]
        if grown and len(alive) < len(live):
            found.append(live)
        live = [*alive, shape]
        grown = True
    return [*found, live] if live else found


def _conflicts(first: Sequence[int], last: Sequence[int]) -> tuple[tuple[int, ...], ...] | None:
    found: list[list[int]] = [[] for _ in first]
    live: list[int] = []
    pairs = 0
    for shape in sorted(range(len(first)), key=lambda shape: first[shape]):
        live = [other for other in live if last[other] >= first[shape]]
        pairs += len(live)
        if pairs > _MAX_PAIRS:
            return None
        for other in live:
            found[other].append(shape)
        found[shape] += live
        live.append(shape)
    return tuple(tuple(others) for others in found)
