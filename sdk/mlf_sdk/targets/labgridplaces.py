# SPDX-License-Identifier: Apache-2.0
"""Places of labgrid that are acquired for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def acquired(place: str, timeout_s: float) -> Iterator[None]:
    """Acquire a place as long as the block lasts."""
    yield
