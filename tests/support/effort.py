# SPDX-License-Identifier: Apache-2.0
"""Effort of a computation as a count: the same on every machine, idle or busy."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def effort(action: Callable[[], Result]) -> tuple[Result, int]:
    """Run ``action``; its result, and how many functions were called, of Python and of C."""
    profile = cProfile.Profile()
    result = profile.runcall(action)
    return result, sum(entry.callcount for entry in profile.getstats())
