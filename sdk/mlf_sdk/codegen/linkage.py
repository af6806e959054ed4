# SPDX-License-Identifier: Apache-2.0
"""Symbols of a model that depend on what else is in the image."""

from __future__ import annotations

import msgspec

from mlf_sdk.ir.model import ALIGNMENT


class Linkage(msgspec.Struct, frozen=True, kw_only=True):
    """Symbols that depend on what else is in the image.

    Attributes:
        arena_symbol: the arena, shared by several models when asked for.
        owns_arena: this model's file defines it.
        arena_alignment: bytes.
        guard_bytes: on each side of the arena, states and parameters in RAM; 0: none.
        renames: archive symbol -> symbol in the image, where two archives collide.
    """

    arena_symbol: str
    owns_arena: bool
    arena_reserved_bytes: int
    renames: dict[str, str]
    arena_alignment: int = ALIGNMENT
    guard_bytes: int = 0

    def symbol(self, name: str) -> str:
        """Symbol in the image of the archive's symbol ``name``."""
        return self.renames.get(name, name)
