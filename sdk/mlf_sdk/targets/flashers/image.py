# SPDX-License-Identifier: Apache-2.0
"""The bytes of a linked image that a board's memory must hold, and the files that runners take."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.errors import InputError

_MAX_SPAN = 64 << 20  # of a flat binary
_FILL = 0xFF  # erased flash
_HEX_DATA = 16
_UF2_PAYLOAD = 256
_UF2_BLOCK = struct.Struct("<8I476sI")
_UF2_START = (0x0A324655, 0x9E5D5157)
_UF2_END = 0x0AB16F30
_UF2_HAS_FAMILY = 0x2000


class LoadedBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes at a load address."""

    address: int
    data: bytes

    @property
    def end(self) -> int:
        """End address (exclusive)."""
        return self.address + len(self.data)


def load_segments(elf: Path) -> tuple[LoadedBytes, ...]:
    """The bytes that an image loads, by address; what start-up code clears is not in it.

    Raises:
        InputError: no ELF file, nothing to load, or parts that overlap.
    """
    image = read_image(elf)
    loaded_bytes = [LoadedBytes(address=s.load_address, data=s.data) for s in image.segments if s.data]
    segments = sorted(loaded_bytes, key=lambda s: s.address)
    where = str(elf)
    if not segments:
        raise InputError("the image has nothing to load", where=where)
    for one, two in pairwise(segments):
        if two.address < one.end:
            raise InputError(f"two parts of the image overlap at {two.address:#x}", where=where)
    if segments[-1].end > 1 << 32:
        raise InputError("the image ends beyond the address space", where=where)
    return tuple(segments)


def vector_table(elf: Path, segments: Sequence[LoadedBytes]) -> int:
    """The address of the vector table: the symbol ``__mlf_vectors``, else the lowest load address."""
    named = read_image(elf).find("__mlf_vectors")
    return named.address if named is not None else segments[0].address


def flat_binary(segments: Sequence[LoadedBytes]) -> bytes:
    """All segments as one run of bytes from the lowest address on; gaps are erased flash.

    Raises:
        InputError: they lie too far apart.
    """
    start, end = segments[0].address, segments[-1].end
    if end - start > _MAX_SPAN:
        raise InputError(
            f"the image spans {end - start:,} bytes: too far apart for one binary file",
            hint="Use a runner that takes an ELF or Intel HEX file.",
        )
    data = bytearray([_FILL]) * (end - start)
    for segment in segments:
        data[segment.address - start : segment.end - start] = segment.data
    return bytes(data)


def intel_hex(segments: Sequence[LoadedBytes]) -> bytes:
    """All segments as Intel HEX with 32-bit linear addresses."""
    lines = []
    upper = 0
    for segment in segments:
        for address, data in _pieces(segment, _HEX_DATA):
            if address >> 16 != upper:
                upper = address >> 16
                lines.append(_hex_record(0, 4, upper.to_bytes(2, "big")))
            lines.append(_hex_record(address & 0xFFFF, 0, data))
    return "".join([*lines, _hex_record(0, 1, b"")]).encode()


def _pieces(segment: LoadedBytes, size: int) -> Iterator[tuple[int, bytes]]:
    """Pieces that do not cross a multiple of ``size``."""
    address = segment.address
    while address < segment.end:
        stop = min(segment.end, (address // size + 1) * size)
        yield address, segment.data[address - segment.address : stop - segment.address]
        address = stop


def _hex_record(address: int, kind: int, data: bytes) -> str:
    record = bytes([len(data), address >> 8, address & 0xFF, kind]) + data
    return f":{record.hex().upper()}{-sum(record) & 0xFF:02X}\n"


def uf2(segments: Sequence[LoadedBytes], family: int) -> bytes:
    """All segments as UF2: whole pages of 256 bytes, what lies between is erased flash.

    Args:
        family: id of the chip's family; a bootloader refuses any other.
    """
    pages: dict[int, bytearray] = {}
    for segment in segments:
        for address, data in _pieces(segment, _UF2_PAYLOAD):
            base = address - address % _UF2_PAYLOAD
            page = pages.setdefault(base, bytearray([_FILL]) * _UF2_PAYLOAD)
            page[address - base : address - base + len(data)] = data
    return b"".join(
        _UF2_BLOCK.pack(
            *_UF2_START,
            _UF2_HAS_FAMILY,
            base,
            _UF2_PAYLOAD,
            number,
            len(pages),
            family,
            bytes(page),
            _UF2_END,
        )
        for number, (base, page) in enumerate(sorted(pages.items()))
    )
