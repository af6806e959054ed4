# SPDX-License-Identifier: Apache-2.0
"""Jobs whose attempts were lost: each waits longer before the next, until there were too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set

from mlf_sdk.sweep.job import Spec

MOST_LOSSES = 6
FIRST_WAIT_S = 0.5  # doubled with each attempt


class Losses:
    """Counter of lost attempts, and the cells that wait for their next.

    Args:
        clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._count: Counter[str] = Counter()
        self._waiting: list[tuple[float, Spec]] = []

    def __bool__(self) -> bool:
        """Return whether a cell waits."""
        return bool(self._waiting)

    def note(self, name: str) -> float | None:
        """Count a lost attempt at a job; seconds to wait before the next, None: there were too many."""
        self._count[name] += 1
        count = self._count[name]
        return None if count >= MOST_LOSSES else FIRST_WAIT_S * 2.0 ** (count - 1)

    def delay(self, specs: Iterable[Spec], wait_s: float) -> None:
        """Keep cells for ``wait_s`` seconds."""
        due = self._clock() + wait_s
        self._waiting += [(due, spec) for spec in specs]

    def due(self) -> Iterator[Spec]:
        """Give back the cells that have waited long enough, the last one first."""
        now = self._clock()
        ready = [spec for due, spec in self._waiting if due <= now]
        self._waiting = [(due, spec) for due, spec in self._waiting if due > now]
        return reversed(ready)

    def drop(self, names: Set[str]) -> None:
        """Forget cells."""
        self._waiting = [(due, spec) for due, spec in self._waiting if spec.name not in names]
