# SPDX-License-Identifier: Apache-2.0
"""Figures of an arena from the lock of a project."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from mlf_sdk.codegen.lock import LockBuffer, LockModel
from mlf_sdk.reporting.html.data import Arena, ArenaRect, RectKind
from mlf_sdk.reporting.html.names import shared_prefix


def arena_of(model: LockModel, measured_bytes: int | None) -> Arena:
    """Make the figures of an arena: buffers, bytes in use over time, peak.

    Args:
        model: with its plan.
        measured_bytes: high-water mark on the target; None when not measured.
    """
    end = max([s.first + s.phases for s in model.steps], default=1)
    prefix = shared_prefix([step.name for step in model.steps]) or model.symbol_prefix
    rects = tuple(_rect(model, buffer, end, prefix) for buffer in model.buffers)
    live = live_bytes(rects)
    return Arena(
        size_bytes=model.arena_bytes,
        lower_bound_bytes=model.lower_bound_bytes,
        measured_bytes=measured_bytes,
        exact=all(step.exact for step in model.steps),
        rects=rects,
        live=live,
        peak=max(live, key=lambda point: (point[1], -point[0]), default=(0, 0))[0],
        end=end,
    )


def live_bytes(rects: Sequence[ArenaRect]) -> tuple[tuple[int, int], ...]:
    """Bytes of the arena in use over time, as (time, bytes) at every change.

    A byte that two buffers share (an output that is written over an input as that is read) counts once.
    """
    begins: dict[int, list[ArenaRect]] = {}
    for rect in rects:
        begins.setdefault(rect.first, []).append(rect)
        begins.setdefault(rect.last + 1, [])
    result, live = [], list[ArenaRect]()
    for time in sorted(begins):
        live = [rect for rect in live if rect.last >= time] + begins[time]
        result.append((time, _covered(live)))
    return tuple(result)


def _covered(rects: Sequence[ArenaRect]) -> int:
    """Bytes that lie in at least one buffer."""
    total = end = 0
    for rect in sorted(rects, key=lambda rect: rect.offset):
        after = rect.offset + rect.size_bytes
        total += max(after - max(rect.offset, end), 0)
        end = max(end, after)
    return total


def _rect(model: LockModel, buffer: LockBuffer, end: int, prefix: str) -> ArenaRect:
    starts = [step.first for step in model.steps]
    first = max(bisect.bisect_right(starts, buffer.first) - 1, 0)
    last = bisect.bisect_right(starts, min(buffer.last, end - 1)) - 1
    return ArenaRect(
        kind=_kind(model, buffer, end),
        name=buffer.name,
        label=buffer.name.removeprefix(prefix).removeprefix("fused_")
        if buffer.step is None
        else f"workspace of step {buffer.step}",
        offset=buffer.offset,
        size_bytes=buffer.size_bytes,
        first=buffer.first,
        last=buffer.last,
        steps=(first, last) if 0 <= first <= last else None,
    )


def _kind(model: LockModel, buffer: LockBuffer, end: int) -> RectKind:
    if buffer.step is not None:
        return "workspace"
    if buffer.first == 0:
        return "input"
    return "output" if buffer.last == end else "tensor"
