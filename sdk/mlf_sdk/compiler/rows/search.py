# SPDX-License-Identifier: Apache-2.0
"""Exact choice of the regions of a graph: the front of RAM against a cost over all cuts of its order."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

Interval = tuple[int, int]
"""First position of an operator, and the position behind the last one."""


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A graph's order cut into intervals, each a region or one operator by itself.

    Attributes:
        peak_bytes: most RAM of an interval.
        cost: of all intervals together.
    """

    peak_bytes: int
    cost: float
    intervals: tuple[Interval, ...]


class _Label(msgspec.Struct, frozen=True):
    """A cut of the operators before a position, as its last interval and the label before."""

    peak: int
    cost: float
    start: int
    before: _Label | None


def front(
    count: int,
    memory: Callable[[int, int], int | None],
    cost: Callable[[int, int], float] = lambda start, end: end - start - 1,
    *,
    longest: int = 200,
) -> tuple[Cut, ...]:
    """Cuts of which no other takes less RAM at no more cost, the one of least RAM first.

    Args:
        count: of operators.
        memory: bytes that live while an interval runs; None: it can't be one region.
        cost: of an interval; by itself an operator has none. The usual one counts fused operators.
        longest: most operators of a region.

    Raises:
        ValueError: an operator can't run by itself.
    """
    labels: list[list[_Label]] = [[_Label(0, 0, 0, None)]]
    for end in range(1, count + 1):
        result: list[_Label] = []
        for start in range(max(0, end - longest), end):
            taken = memory(start, end)
            if taken is not None:
                more = cost(start, end)
                result += [_Label(max(one.peak, taken), one.cost + more, start, one) for one in labels[start]]
        labels.append(_undominated(result))
    if not labels[count]:
        raise ValueError(f"operator {max(k for k in range(count) if labels[k])} can't run by itself")
    return tuple(
        Cut(peak_bytes=one.peak, cost=one.cost, intervals=_intervals(one, count)) for one in labels[count]
    )


def _undominated(labels: list[_Label]) -> list[_Label]:
    """Labels by their peaks, each of less cost than those before it."""
    result: list[_Label] = []
    for one in sorted(labels, key=lambda label: (label.peak, label.cost)):
        if not result or one.cost < result[-1].cost:
            result.append(one)
    return result


def _intervals(label: _Label, count: int) -> tuple[Interval, ...]:
    result, end, now = [], count, label
    while now.before is not None:
        result.append((now.start, end))
        end, now = now.start, now.before
    return tuple(reversed(result))
