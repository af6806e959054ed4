# SPDX-License-Identifier: Apache-2.0
"""The notes of an ELF section: owner, type, description (System V ABI, "Note Section")."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

SHT_NOTE = 7
NT_GNU_BUILD_ID = 3
GNU = "GNU"
_ALIGNMENT = 4
_MAX_OWNER_BYTES = 256


class NoteFormatError(ValueError):
    """Malformed notes; the text gives the reason."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One note; ``description`` without its padding."""

    owner: str
    type: int
    description: bytes


def read_notes(section: memoryview, *, little_endian: bool) -> Iterator[Note]:
    """The notes of a section whose notes are padded to 4 bytes.

    Raises:
        NoteFormatError: one is cut off, or its owner is no text.
    """
    head = struct.Struct("<III" if little_endian else ">III")
    at = 0
    while at < len(section):
        if len(section) - at < head.size:
            raise NoteFormatError(f"a note is cut off after {len(section) - at} bytes of its head")
        owner_size, size, kind = head.unpack_from(section, at)
        at += head.size
        left = len(section) - at
        if owner_size > min(left, _MAX_OWNER_BYTES):
            raise NoteFormatError(f"a note's owner has {owner_size} bytes; {left} are there")
        owner = bytes(section[at : at + owner_size])
        start = _padded(owner_size)
        if size > left - min(start, left):
            raise NoteFormatError(f"a note has {size} bytes; {left - min(start, left)} are there")
        yield Note(
            owner=_text(owner),
            type=kind,
            description=bytes(section[at + start : at + start + size]),
        )
        at += start + _padded(size)


def _padded(size: int) -> int:
    return (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _text(owner: bytes) -> str:
    if not owner.endswith(b"\0"):
        raise NoteFormatError("a note's owner does not end with a zero byte")
    try:
        return owner[:-1].decode("ascii")
    except UnicodeDecodeError as error:
        raise NoteFormatError("a note's owner is no text") from error
