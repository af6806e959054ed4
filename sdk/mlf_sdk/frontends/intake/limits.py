# SPDX-License-Identifier: Apache-2.0
"""Bounds on archives, beyond which they are refused."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on an archive; what goes beyond one is a fault.

    Attributes:
        members: files and folders.
        file_bytes: uncompressed size of one member.
        total_bytes: uncompressed size of the whole archive, and of the file itself.
        ratio: uncompressed to compressed size, looked at beyond ``ratio_free_bytes``.
        ratio_free_bytes: uncompressed bytes that may come from any compression.
        path_chars: characters of a member's path.
        xz_memory_bytes: memory that the xz decoder may take (its strongest preset takes 65 MiB).
    """

    members: int = 4096
    file_bytes: int = 256 << 20
    total_bytes: int = 512 << 20
    ratio: int = 200
    ratio_free_bytes: int = 1 << 20
    path_chars: int = 240
    xz_memory_bytes: int = 96 << 20


DEFAULT_LIMITS = Limits()


class StopReadingError(Exception):
    """An archive cannot be read on safely: what is wrong, and in which member if one is known."""

    def __init__(self, what: str, *, member: str = "") -> None:
        """Set the message; ``member`` is empty if it concerns the whole archive."""
        super().__init__(what)
        self.what = what
        self.member = member
