# SPDX-License-Identifier: Apache-2.0
"""The parameter blob that a device loads (``crt/BLOBS.md``): the writer, and a reader of its header."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Final

import msgspec

from mlf_sdk.errors import InputError

MAGIC: Final = b"MLFP"
VERSION: Final = 1
ALIGNMENT: Final = 16
HEADER: Final = struct.Struct("<4sHHIIIIQ32s32s")
MAX_BYTES: Final = 0xFFFFFFFF - HEADER.size
_HEADER_CRC_AT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamsBlob:
    """Parameters for one graph.

    Attributes:
        graph_id: of the graph that they are laid out for; 32 bytes.
        archive_sha256: of the file that they came from; 32 bytes.
        data: all parameters at the offsets of that graph.
    """

    graph_id: bytes
    archive_sha256: bytes
    data: bytes = field(repr=False)

    def pack(self) -> bytes:
        """Encode the blob.

        Raises:
            InputError: the parameters are larger than a blob can say.
        """
        if len(self.data) > MAX_BYTES:
            raise InputError(f"{len(self.data):,} bytes of parameters do not fit a blob")
        header = self._header(0)
        return self._header(zlib.crc32(header)) + self.data

    @property
    def header_crc(self) -> int:
        """CRC-32 of the header, which identifies the whole blob."""
        return zlib.crc32(self._header(0))

    def _header(self, crc: int) -> bytes:
        size = HEADER.size + len(self.data)
        data_crc = zlib.crc32(self.data)
        counts = (VERSION, HEADER.size, size, len(self.data), data_crc, crc)
        return HEADER.pack(MAGIC, *counts, 0, self.graph_id, self.archive_sha256)


class ParamsHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Header of a blob: sizes in bytes, CRCs, hashes."""

    blob_bytes: int
    data_bytes: int
    data_crc: int
    header_crc: int
    graph_id: bytes
    archive_sha256: bytes


def read_params_header(data: bytes, where: str = "") -> ParamsHeader:
    """Decode the header at the beginning of ``data``.

    Raises:
        InputError: it is cut off, of another kind or version, or damaged.
    """
    if len(data) < HEADER.size:
        raise InputError(f"{len(data)} bytes are no parameter blob", where=where)
    magic, version, header, blob, size, data_crc, header_crc, zero, graph_id, archive = HEADER.unpack_from(
        data
    )
    if (magic, version, header) != (MAGIC, VERSION, HEADER.size):
        raise InputError("this is no parameter blob of a version that is known", where=where)
    zeroed = data[:_HEADER_CRC_AT] + bytes(4) + data[_HEADER_CRC_AT + 4 : HEADER.size]
    if zlib.crc32(zeroed) != header_crc or zero != 0:
        raise InputError("the header of the parameter blob is damaged", where=where)
    if blob != HEADER.size + size:
        raise InputError("the sizes in the parameter blob's header disagree", where=where)
    return ParamsHeader(
        blob_bytes=blob,
        data_bytes=size,
        data_crc=data_crc,
        header_crc=header_crc,
        graph_id=graph_id,
        archive_sha256=archive,
    )
