# SPDX-License-Identifier: Apache-2.0
"""High-water marks of memory that is painted twice with different bytes, so that no value can hide one.

Memory that happens to be written with the byte it was painted with looks unused; it can't do so for both.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from mlf_sdk.wire.device import Stats

PATTERNS = (0xA5, 0x5A)


def largest(first: Stats, second: Stats) -> Stats:
    """The larger figures of two inferences of a model, and the guard that was written first."""
    found: dict[str, Any] = {}
    for name in (field.name for field in fields(Stats)):
        known = [value for value in (getattr(first, name), getattr(second, name)) if value is not None]
        found[name] = max(known, default=None)
    if first.written_guard is not None:
        found["written_guard"] = first.written_guard
    return Stats(**found)
