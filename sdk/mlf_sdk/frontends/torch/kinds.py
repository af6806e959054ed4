# SPDX-License-Identifier: Apache-2.0
"""Kinds of files that PyTorch writes, by their bytes: nothing is unpickled."""

from __future__ import annotations

import enum
import struct
from pathlib import Path
from typing import Final

_TAIL_BYTES: Final = 1 << 20  # holds the directory of a zip archive
_ENTRY: Final = b"PK\x01\x02"
_ENTRY_BYTES: Final = 46
_PICKLES: Final = ("data.pkl", "constants.pkl", "serialized_exported_program.json")


class TorchFile(enum.Enum):
    """Kinds of files."""

    PROGRAM = "an exported program"
    PICKLE = "a pickle"


def kind_of(path: Path) -> TorchFile | None:
    """Kind of a file; None for one that PyTorch does not write. Cheap, and bounded for any file.

    Programs that were exported before PyTorch 2.8 hold their weights as pickles, and count as such.
    """
    if not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(4)
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read(_TAIL_BYTES)
    if head == b"PK\x03\x04":
        return _of_zip({name.rpartition("/")[2] for name in entries(tail)})
    is_pickle = len(head) == 4 and head[0] == 0x80 and 2 <= head[1] <= 5 and tail.endswith(b".")
    return TorchFile.PICKLE if is_pickle or (head[:1] == b"\x80" and _is_named(path)) else None


def entries(tail: bytes) -> list[str]:
    """Names of members in the end of a zip archive, as its directory there lists them."""
    result = []
    at = tail.find(_ENTRY)
    while at >= 0 and at + _ENTRY_BYTES <= len(tail):
        (length,) = struct.unpack_from("<H", tail, at + 28)
        start = at + _ENTRY_BYTES
        result.append(tail[start : start + length].decode("utf-8", "replace"))
        at = tail.find(_ENTRY, start + length)
    return result


def _of_zip(names: set[str]) -> TorchFile | None:
    if "archive_format" in names:
        return TorchFile.PROGRAM
    return TorchFile.PICKLE if names & set(_PICKLES) else None


def _is_named(path: Path) -> bool:
    return path.suffix in (".pt", ".pth")
