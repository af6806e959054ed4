# SPDX-License-Identifier: Apache-2.0
"""Difference of two versions of a package: pieces to send, and pieces that a device has at the same place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

LEAST_COPY_BYTES: Final = 32  # a request costs nearly as much
MOST_COPY_BYTES: Final = 4096  # written by one request, in its time


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A version that a device may have.

    Attributes:
        version: of its package; None: the parameters of the image.
        header_crc: of its parameter blob, which identifies that.
        content: parameter blob and, of a package, the cases behind it.
        params_bytes: of the blob.
    """

    version: int | None
    header_crc: int
    content: bytes = field(repr=False)
    params_bytes: int

    def known_to(self, *, header_crc: int, version: int) -> bytes:
        """Bytes of it that a device with these parameters and this version has."""
        if header_crc != self.header_crc:
            return b""
        return self.content if version == self.version else self.content[: self.params_bytes]


def pieces(new: bytes, old: bytes, unit: int) -> Iterator[tuple[int, int, bool]]:
    """Split ``new`` into pieces: offset, bytes, and True where ``old`` has the same bytes at the same place.

    Args:
        unit: all pieces but the last are a multiple of it.
    """
    start = 0
    for first, end in _copies(new, old, max(unit, 1)):
        if first > start:
            yield start, first - start, False
        for at in range(first, end, MOST_COPY_BYTES):
            yield at, min(MOST_COPY_BYTES, end - at), True
        start = end
    if start < len(new):
        yield start, len(new) - start, False


def _copies(new: bytes, old: bytes, unit: int) -> Iterator[tuple[int, int]]:
    """Runs of whole units that are equal and worth a request."""
    least = max(LEAST_COPY_BYTES, unit)
    common = min(len(new), len(old)) // unit * unit
    start = 0
    for at in range(0, common + unit, unit):
        if at < common and new[at : at + unit] == old[at : at + unit]:
            continue
        if at - start >= least:
            yield start, min(at, common)
        start = at + unit
