# SPDX-License-Identifier: Apache-2.0
"""Deadlines: one object with the end time, passed through every wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A moment on a monotonic clock.

    Attributes:
        at: the moment, in seconds of ``clock``.
        clock: returns the seconds now.
    """

    at: float
    clock: Clock = field(default=time.monotonic, repr=False, compare=False)

    @classmethod
    def after(cls, seconds: float, clock: Clock = time.monotonic) -> Deadline:
        """Return the deadline ``seconds`` from now."""
        return cls(at=clock() + seconds, clock=clock)

    def remaining(self) -> float:
        """Return the seconds left, never below 0."""
        return max(0.0, self.at - self.clock())

    @property
    def expired(self) -> bool:
        """Return True when the moment has come."""
        return self.clock() >= self.at

    def within(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and the one ``seconds`` from now."""
        return Deadline(at=min(self.at, self.clock() + seconds), clock=self.clock)
