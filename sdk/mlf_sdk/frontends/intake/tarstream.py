# SPDX-License-Identifier: Apache-2.0
"""A strict reader of tar headers: ustar, GNU long names and pax, one member after the other.

It reads names, kinds and sizes only; nothing is written, no owner, mode, link or time is looked at.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mlf_sdk.frontends.intake.bytestream import ArchiveStream
from mlf_sdk.frontends.intake.limits import StopReadingError
from mlf_sdk.tools.checks import shown

_BLOCK: Final = 512
_ZEROS: Final = bytes(_BLOCK)
_MAX_EXTENSION_BYTES: Final = 64 << 10
_MAX_EXTENSIONS: Final = 4
_OCTAL: Final = re.compile(rb"[0-7]+")
_DECIMAL: Final = re.compile(rb"[0-9]{1,19}")
_KINDS: Final = {
    b"0": "file",
    b"\x00": "file",
    b"5": "folder",
    b"1": "hard link",
    b"2": "symbolic link",
    b"3": "character device",
    b"4": "block device",
    b"6": "fifo",
    b"7": "contiguous file",
    b"K": "link with a long name",
    b"S": "sparse file",
}


class TarMember(msgspec.Struct, frozen=True, kw_only=True):
    """One member as its headers describe it.

    Attributes:
        name: as stored; bytes that are not UTF-8 become surrogates.
        kind: ``file``, ``folder``, or what it is instead.
        size_bytes: of its content, which follows in the stream.
    """

    name: str
    kind: str
    size_bytes: int


class TarReader:
    """Walks through the members of a tar; every method raises StopReadingError on damage."""

    def __init__(self, stream: ArchiveStream) -> None:
        """Start at the first member of an archive that has not been read from."""
        self._stream = stream
        self._position = 0
        self._unread = 0
        self._padding = 0

    def next(self) -> TarMember | None:
        """Go to the next member, past what was not read of the last one; None at the end mark."""
        self._skip(self._unread + self._padding)
        self._unread = self._padding = 0
        extended: dict[str, bytes] = {}
        for _ in range(_MAX_EXTENSIONS):
            offset = self._position
            header = self._take(_BLOCK, "header")
            if header == _ZEROS:
                if extended:
                    raise StopReadingError("an extended header describes no member", member=f"byte {offset}")
                return None
            kind, size = self._checked(header, offset)
            if kind not in (b"x", b"g", b"L"):
                return self._member(header, kind, size, extended, offset)
            extended.update(self._extension(kind, size, offset))
        raise StopReadingError("too many extended headers in a row", member=f"byte {self._position}")

    def read(self) -> bytes:
        """Give the whole content of the current member."""
        size, self._unread = self._unread, 0
        return self._take(size, "content")

    def _take(self, size: int, what: str) -> bytes:
        data = self._stream.read(size)
        if len(data) != size and self._position == 0:
            raise StopReadingError("not a tar archive")
        if len(data) != size:
            place = f"byte {self._position + len(data)}"
            raise StopReadingError(
                f"the archive is cut short: {len(data)} of {size} bytes of a {what}", member=place
            )
        self._position += size
        return data

    def _skip(self, size: int) -> None:
        there = self._stream.skip(size)
        self._position += there
        if there != size:
            raise StopReadingError("the archive is cut short", member=f"byte {self._position}")

    def _checked(self, header: bytes, offset: int) -> tuple[bytes, int]:
        sum_bytes = sum(header[:148]) + 8 * 0x20 + sum(header[156:])
        digits = header[148:156].strip(b" \x00")
        if not _OCTAL.fullmatch(digits) or int(digits, 8) != sum_bytes:
            what = "not a tar archive" if offset == 0 else "a tar header is damaged"
            raise StopReadingError(what, member=f"byte {offset}")
        return header[156:157], self._number(header[124:136], "size", offset)

    def _number(self, field: bytes, name: str, offset: int) -> int:
        if field[0] & 0x80:
            value = int.from_bytes(field, "big") - (0x80 << 8 * (len(field) - 1))
            if field[0] & 0x40 or value >= 1 << 63:
                raise StopReadingError(f"the {name} in a tar header is out of range", member=f"byte {offset}")
            return value
        digits = field.strip(b" \x00")
        if digits and not _OCTAL.fullmatch(digits):
            raise StopReadingError(f"the {name} in a tar header is no number", member=f"byte {offset}")
        return int(digits or b"0", 8)

    def _extension(self, kind: bytes, size: int, offset: int) -> dict[str, bytes]:
        """Read a pax header or a GNU long name; only ``path`` and ``size`` matter."""
        if size > _MAX_EXTENSION_BYTES:
            raise StopReadingError(f"an extended header of {size} bytes", member=f"byte {offset}")
        data = self._take(size, "header")
        self._skip(-size % _BLOCK)
        if kind == b"L":
            return {"path": data.rstrip(b"\x00")}
        records = _pax_records(data, offset)
        if any(key.startswith("GNU.sparse") for key in records):
            raise StopReadingError("a sparse file", member=f"byte {offset}")
        wanted = {key: value for key, value in records.items() if key in ("path", "size")}
        if kind == b"g" and wanted:
            raise StopReadingError("a global header sets a path or a size", member=f"byte {offset}")
        return wanted

    def _member(
        self, header: bytes, kind: bytes, size: int, extended: dict[str, bytes], offset: int
    ) -> TarMember:
        if "size" in extended:
            if not _DECIMAL.fullmatch(extended["size"]):
                raise StopReadingError("the size in a pax header is no number", member=f"byte {offset}")
            size = int(extended["size"])
        raw = extended.get("path", _ustar_name(header))
        name = raw.decode("utf-8", "surrogateescape")
        self._unread, self._padding = size, -size % _BLOCK
        what = _KINDS.get(kind, f"member of the unknown kind {shown(kind.decode('latin-1'))}")
        if what == "file" and name.endswith("/"):
            what = "folder"
        return TarMember(name=name, kind=what, size_bytes=size)


def _ustar_name(header: bytes) -> bytes:
    name = header[:100].split(b"\x00", 1)[0]
    prefix = header[345:500].split(b"\x00", 1)[0] if header[257:263] == b"ustar\x00" else b""
    return prefix + b"/" + name if prefix else name


def _pax_records(data: bytes, offset: int) -> dict[str, bytes]:
    """Split ``length key=value\\n`` records; StopReadingError when they do not add up."""
    records: dict[str, bytes] = {}
    position = 0
    while position < len(data):
        digits, space, _ = data[position : position + 20].partition(b" ")
        length = int(digits) if space and _DECIMAL.fullmatch(digits) else 0
        record = data[position + len(digits) + 1 : position + length]
        key, equals, value = record.removesuffix(b"\n").partition(b"=")
        if not equals or len(record) != length - len(digits) - 1 or not record.endswith(b"\n"):
            raise StopReadingError("a pax header is damaged", member=f"byte {offset}")
        records[key.decode("utf-8", "replace")] = value
        position += length
    return records
