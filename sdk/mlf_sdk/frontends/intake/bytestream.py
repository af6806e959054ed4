# SPDX-License-Identifier: Apache-2.0
"""A forward-only, bounded stream over an archive file: plain, gzip or xz, recognised by content."""

from __future__ import annotations

import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, Protocol

from mlf_sdk.frontends.intake.limits import Limits, StopReadingError

_GZIP: Final = b"\x1f\x8b"
_XZ: Final = b"\xfd7zXZ\x00"
_CHUNK: Final = 64 << 10
_MAX_STREAMS: Final = 64
_NOT_READ: Final = {
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7z",
}


class _Decoder(Protocol):
    """One compressed stream, decoded a bounded piece at a time."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Gzip:
    """zlib's gzip decoder; keeps the input that a bounded output left over."""

    def __init__(self) -> None:
        self._z = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._z.eof

    @property
    def unused_data(self) -> bytes:
        return self._z.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._z.decompress(self._z.unconsumed_tail + data, max_length)


class ArchiveStream:
    """Reads an archive's bytes in order, hashes the file, and stops at every limit.

    All methods raise StopReadingError when the file is damaged or goes beyond a limit.
    """

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        """Start at the position of ``file``, which stays the caller's to close."""
        self._file = file
        self._limits = limits
        self._hash = hashlib.sha256()
        self._taken_bytes = 0
        self._given_bytes = 0
        self._ready = bytearray()
        self._pieces = self._open()

    def read(self, size: int) -> bytes:
        """Give the next ``size`` bytes, fewer only at the end of the archive."""
        while len(self._ready) < size:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._ready += piece
        data = bytes(memoryview(self._ready)[:size])
        del self._ready[:size]
        return data

    def skip(self, size: int) -> int:
        """Pass over ``size`` bytes; give how many were there."""
        left = size
        while left and (piece := self.read(min(left, _CHUNK))):
            left -= len(piece)
        return size - left

    def finish(self) -> str:
        """Read to the end, which may hold only zeros; give the file's SHA-256 in hex."""
        while piece := self.read(_CHUNK):
            if piece.strip(b"\x00"):
                raise StopReadingError("there is data behind the end of the archive")
        return self._hash.hexdigest()

    def _take(self) -> bytes:
        """Next bytes of the file, hashed; empty at its end."""
        data = self._file.read(_CHUNK)
        self._hash.update(data)
        self._taken_bytes += len(data)
        if self._taken_bytes > self._limits.total_bytes:
            raise StopReadingError(f"the file is larger than {self._limits.total_bytes} bytes")
        return data

    def _open(self) -> Iterator[bytes]:
        head = self._take()
        if not head:
            raise StopReadingError("the file is empty")
        for magic, name in _NOT_READ.items():
            if head.startswith(magic):
                raise StopReadingError(f"a {name} file; an archive is a .tar, .tar.gz, .tar.xz or a folder")
        if head.startswith(_GZIP):
            yield from self._inflate(head, _GZIP, _Gzip)
        elif head.startswith(_XZ):
            yield from self._inflate(head, _XZ, self._new_xz)
        else:
            while head:
                yield head
                head = self._take()

    def _new_xz(self) -> _Decoder:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=self._limits.xz_memory_bytes)

    def _inflate(self, data: bytes, magic: bytes, new: Callable[[], _Decoder]) -> Iterator[bytes]:
        for _ in range(_MAX_STREAMS):
            decoder = new()
            yield from self._inflate_one(decoder, data)
            data = self._after(decoder.unused_data, len(magic))
            if not data:
                return
            if not data.startswith(magic):
                raise StopReadingError("there is data behind the compressed archive")
        raise StopReadingError(f"more than {_MAX_STREAMS} compressed streams in one file")

    def _inflate_one(self, decoder: _Decoder, data: bytes) -> Iterator[bytes]:
        while not decoder.eof:
            try:
                out = decoder.decompress(data, _CHUNK)
            except (zlib.error, lzma.LZMAError) as error:
                raise StopReadingError(f"the compressed data is damaged ({error})") from error
            data = b""
            if out:
                self._check_growth(len(out))
                yield out
            elif not decoder.eof:
                data = self._take()
                if not data:
                    raise StopReadingError("the compressed data is cut short")

    def _after(self, data: bytes, enough: int) -> bytes:
        """Bytes behind a compressed stream, without the zeros that may pad a file."""
        data = data.lstrip(b"\x00")
        while len(data) < enough and (more := self._take()):
            data = (data + more).lstrip(b"\x00")
        return data

    def _check_growth(self, size: int) -> None:
        limits = self._limits
        self._given_bytes += size
        if self._given_bytes > limits.total_bytes:
            raise StopReadingError(f"unpacks to more than {limits.total_bytes} bytes")
        if self._given_bytes > max(limits.ratio_free_bytes, limits.ratio * self._taken_bytes):
            raise StopReadingError(f"unpacks to more than {limits.ratio} times its size")
