# SPDX-License-Identifier: Apache-2.0
"""What each object file put into an image, from GNU ld's map."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PIECE = re.compile(r"^ (\.\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S.*)$")
_DISCARDED = "Discarded input sections"
_LINKED = "Linker script and memory map"
_CODE = (".text", ".rodata")
_RAM = (".data", ".bss", ".noinit", ".mlf.arena")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A section of an object file: linked at ``address``, or left out."""

    section: str
    address: int
    size_bytes: int
    source: str
    linked: bool

    @property
    def is_code(self) -> bool:
        """Instructions or constants."""
        return self.section.startswith(_CODE)

    @property
    def is_ram(self) -> bool:
        """Variables, set at start or not."""
        return self.section.startswith(_RAM)


def read_map(path: Path) -> tuple[Piece, ...]:
    """All pieces with code, constants or variables."""
    return tuple(
        piece for piece in _pieces(path.read_text(encoding="utf-8")) if piece.is_code or piece.is_ram
    )


def _pieces(text: str) -> Iterator[Piece]:
    _, _, rest = text.partition(_DISCARDED)
    discarded, _, linked = rest.partition(_LINKED)
    for part, is_linked in ((discarded, False), (linked, True)):
        # A long section name stands in a line of its own.
        for line in re.sub(r"\n (\.\S+)\n\s+", r"\n \1 ", part).splitlines():
            found = _PIECE.match(line)
            if found and int(found.group(3), 16):
                yield Piece(
                    section=found.group(1),
                    address=int(found.group(2), 16),
                    size_bytes=int(found.group(3), 16),
                    source=found.group(4),
                    linked=is_linked,
                )
