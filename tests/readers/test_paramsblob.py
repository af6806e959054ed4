# SPDX-License-Identifier: Apache-2.0
"""Parameter blobs: what is written is read again, and nothing else is."""

from __future__ import annotations

import struct
import zlib

import pytest

from mlf_sdk.codegen import paramsblob
from mlf_sdk.codegen.paramsblob import HEADER, ParamsBlob, ParamsHeader, read_params_header
from mlf_sdk.errors import InputError

PARAMS = ParamsBlob(graph_id=bytes(range(32)), archive_sha256=bytes(32), data=bytes(range(40)))


def with_field(at: int, layout: str, value: int) -> bytes:
    """The blob with another number in its header, and a header's CRC that is right."""
    blob = bytearray(PARAMS.pack())
    struct.pack_into(layout, blob, at, value)
    struct.pack_into("<I", blob, 20, 0)
    struct.pack_into("<I", blob, 20, zlib.crc32(blob[:96]))
    return bytes(blob)


def header_of(params: ParamsBlob) -> ParamsHeader:
    return ParamsHeader(
        blob_bytes=HEADER.size + len(params.data),
        data_bytes=len(params.data),
        data_crc=zlib.crc32(params.data),
        header_crc=params.header_crc,
        graph_id=params.graph_id,
        archive_sha256=params.archive_sha256,
    )


def test_headers_are_read_as_they_were_written() -> None:
    blob = PARAMS.pack()
    assert blob[96:] == PARAMS.data
    assert read_params_header(blob) == read_params_header(blob[:96]) == header_of(PARAMS)
    assert PARAMS.header_crc == struct.unpack_from("<I", blob, 20)[0]


def test_a_header_with_any_flipped_bit_or_cut_is_refused() -> None:
    blob = PARAMS.pack()[:96]
    for bit in range(len(blob) * 8):
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InputError):
            read_params_header(bytes(damaged))
    for size in range(len(blob)):
        with pytest.raises(InputError):
            read_params_header(blob[:size])


def test_nothing_is_a_blob_too() -> None:
    empty = ParamsBlob(graph_id=bytes(32), archive_sha256=bytes(32), data=b"")
    assert len(empty.pack()) == 96
    assert read_params_header(empty.pack()) == header_of(empty)


@pytest.mark.parametrize(
    ("at", "layout", "value", "what"),
    [
        (0, "<I", 0, "no parameter blob of a version"),
        (4, "<H", 2, "no parameter blob of a version"),
        (6, "<H", 95, "no parameter blob of a version"),
        (8, "<I", 137, "sizes in the parameter blob's header disagree"),
        (12, "<I", 41, "sizes in the parameter blob's header disagree"),
        (24, "<Q", 1, "header of the parameter blob is damaged"),
    ],
)
def test_a_field_that_is_wrong_under_a_good_crc(at: int, layout: str, value: int, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        read_params_header(with_field(at, layout, value), "slot 1")
    assert caught.value.where == "slot 1"


def test_more_than_a_blob_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paramsblob.MAX_BYTES + 96 == 2**32 - 1
    monkeypatch.setattr(paramsblob, "MAX_BYTES", 39)
    with pytest.raises(InputError, match="40 bytes of parameters do not fit"):
        PARAMS.pack()
