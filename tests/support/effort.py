# SPDX-License-Identifier: Apache-2.0
"""Effort of a computation as a count: the same on every machine, idle or busy."""

from __future__ import annotations

import cProfile


class Effort:
    """Count of the function calls, Python's and C's, that are made in a ``with`` block."""

    def __init__(self) -> None:
        self._profile = cProfile.Profile()

    def __enter__(self) -> Effort:
        self._profile.enable()
        return self

    def __exit__(self, *_: object) -> None:
        self._profile.disable()

    @property
    def calls(self) -> int:
        """Calls that were counted."""
        return sum(entry.callcount for entry in self._profile.getstats())
