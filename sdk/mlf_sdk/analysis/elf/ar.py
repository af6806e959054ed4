# SPDX-License-Identifier: Apache-2.0
"""Bounded reader of `ar` archives of objects (GNU and BSD names). Names of members are text, never paths."""

from __future__ import annotations

import msgspec

AR_MAGIC = b"!<arch>\n"
MAX_MEMBERS = 4096
MAX_NAME_BYTES = 4096

_THIN = b"!<thin>\n"
_HEADER_BYTES = 60
_END = b"`\n"
_INDEXES = ("/", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED")


class ArFormatError(ValueError):
    """Malformed archive; the text gives the reason."""


class ArMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of an archive.

    Attributes:
        name: as stored; may look like any path.
    """

    name: str
    data: bytes


def read_ar(data: bytes) -> tuple[ArMember, ...]:
    """Read the members of an archive, without its symbol index and its table of names.

    Raises:
        ArFormatError: it is malformed, thin, without symbol index, or beyond the bounds of this module.
    """
    if data[: len(_THIN)] == _THIN:
        raise ArFormatError("it is a thin archive, which holds names of files only")
    if data[: len(AR_MAGIC)] != AR_MAGIC:
        raise ArFormatError("it is not an ar archive")
    names = b""
    has_index = False
    result: list[ArMember] = []
    position = len(AR_MAGIC)
    while position < len(data):
        header = data[position : position + _HEADER_BYTES]
        start = position + _HEADER_BYTES
        if len(header) < _HEADER_BYTES or header[58:] != _END:
            raise ArFormatError(f"the header of a member is broken at byte {position}")
        size = _number(header[48:58], "the size of a member")
        if size > len(data) - start:
            raise ArFormatError(f"a member lies beyond the end, at byte {position}")
        content = data[start : start + size]
        raw = header[:16].decode("latin-1").rstrip(" ")
        name, content = _name(raw, content, names)
        if raw == "//":
            names = content
        elif name in _INDEXES:
            has_index = True
        else:
            result.append(ArMember(name=name, data=content))
        if len(result) > MAX_MEMBERS:
            raise ArFormatError(f"it has more than {MAX_MEMBERS} members")
        position = start + size + size % 2
    if not has_index:
        raise ArFormatError("it has no symbol index: make one with ranlib")
    return tuple(result)


def _name(raw: str, content: bytes, names: bytes) -> tuple[str, bytes]:
    """Name of a member, and its content without a name that BSD's format puts before it."""
    if raw.startswith("#1/"):
        length = _number(raw[3:].encode("latin-1"), "the length of a name")
        if length > min(len(content), MAX_NAME_BYTES):
            raise ArFormatError("a name lies beyond its member")
        return content[:length].rstrip(b"\0").decode("latin-1"), content[length:]
    if raw in ("//", *_INDEXES):
        return raw, content
    if raw.startswith("/"):
        start = _number(raw[1:].encode("latin-1"), "the place of a name")
        end = names.find(b"/\n", start, start + MAX_NAME_BYTES)
        if end < 0:
            raise ArFormatError("a name lies outside the table of names")
        return names[start:end].decode("latin-1"), content
    return raw.removesuffix("/"), content


def _number(text: bytes, what: str) -> int:
    digits = text.strip(b" ")
    if not digits.isdigit():
        raise ArFormatError(f"{what} is not a number")
    return int(digits)
