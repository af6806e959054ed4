# SPDX-License-Identifier: Apache-2.0
"""The deepest stack below a function. Kept apart: results hold it, and need no decoder."""

from __future__ import annotations

import msgspec

Path = tuple[tuple[str, int], ...]
"""Functions from the outermost to the innermost, each with the bytes that it has on the stack."""


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """The deepest stack below an entry.

    Attributes:
        bytes: of all functions of ``path`` together.
        unknown: what could make it deeper, for people: recursion, calls with unknown targets.
    """

    bytes: int
    path: Path
    unknown: tuple[str, ...]
