# SPDX-License-Identifier: Apache-2.0
"""Buffers as the packing algorithms see them: whole units of the alignment, and who overlaps whom in time."""

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
        near: per shape, the shapes live at a common time; None when there are too many pairs.
        overlaps: work of one pass over `near`.
    """

    alignment: int
    sizes: tuple[int, ...]
    units: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    near: tuple[tuple[int, ...], ...] | None
    overlaps: int

    def height(self, offsets: Sequence[int]) -> int:
        """The exact end in bytes of a placement; offsets in units."""
        tops = (offset * self.alignment + size for offset, size in zip(offsets, self.sizes, strict=True))
        return max(tops, default=0)

    def mirrored(self, offsets: Sequence[int]) -> list[int]:
        """The same placement upside down: another buffer, with another padding, is on top."""
        top = max((offset + unit for offset, unit in zip(offsets, self.units, strict=True)), default=0)
        return [top - offset - unit for offset, unit in zip(offsets, self.units, strict=True)]


def build_shapes(buffers: Sequence[Buffer], alignment: int) -> Shapes:
    """Shapes of non-empty buffers, in the order given."""
    first = tuple(buffer.first for buffer in buffers)
    last = tuple(buffer.last for buffer in buffers)
    near = _neighbours(first, last)
    return Shapes(
        alignment=alignment,
        sizes=tuple(buffer.size_bytes for buffer in buffers),
        units=tuple(-(-buffer.size_bytes // alignment) for buffer in buffers),
        first=first,
        last=last,
        near=near,
        overlaps=len(buffers) + (sum(len(others) for others in near) if near is not None else 0),
    )


def sections(shapes: Shapes) -> list[list[int]]:
    """The sets of shapes live at once that are not contained in another such set, in order of time."""
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


def _neighbours(first: Sequence[int], last: Sequence[int]) -> tuple[tuple[int, ...], ...] | None:
    near: list[list[int]] = [[] for _ in first]
    live: list[int] = []
    pairs = 0
    for shape in sorted(range(len(first)), key=lambda shape: first[shape]):
        live = [other for other in live if last[other] >= first[shape]]
        pairs += len(live)
        if pairs > _MAX_PAIRS:
            return None
        for other in live:
            near[other].append(shape)
        near[shape] += live
        live.append(shape)
    return tuple(tuple(others) for others in near)
