# SPDX-License-Identifier: Apache-2.0
"""Parameter blobs: what is written is read again, and nothing else is."""

from __future__ import annotations

import struct
import zlib

import pytest

from mlf_sdk.codegen import paramsblob
from mlf_sdk.codegen.paramsblob import ParamsBlob, read_params_blob, read_params_header
from mlf_sdk.errors import InputError

PARAMS = ParamsBlob(graph_id=bytes(range(32)), archive_sha256=bytes(32), data=bytes(range(40)))


def with_field(at: int, layout: str, value: int) -> bytes:
    """The blob with another number in its header, and a header's CRC that is right."""
    blob = bytearray(PARAMS.pack())
    struct.pack_into(layout, blob, at, value)
    struct.pack_into("<I", blob, 20, 0)
    struct.pack_into("<I", blob, 20, zlib.crc32(blob[:96]))
    return bytes(blob)


def test_params_are_read_as_they_were_written() -> None:
    blob = PARAMS.pack()
    assert len(blob) == 96 + 40
    assert read_params_blob(blob) == PARAMS
    header = read_params_header(blob[:96])
    assert header.header_crc == PARAMS.header_crc == struct.unpack_from("<I", blob, 20)[0]
    assert (header.blob_bytes, header.data_bytes) == (136, 40)


def test_params_with_any_flipped_bit_or_cut_are_refused() -> None:
    blob = PARAMS.pack()
    for bit in range(len(blob) * 8):
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InputError):
            read_params_blob(bytes(damaged))
    for size in range(len(blob)):
        with pytest.raises(InputError):
            read_params_blob(blob[:size])


def test_nothing_is_a_blob_too() -> None:
    empty = ParamsBlob(graph_id=bytes(32), archive_sha256=bytes(32), data=b"")
    assert len(empty.pack()) == 96
    assert read_params_blob(empty.pack()) == empty


def test_what_lies_behind_it_is_not_looked_at() -> None:
    assert read_params_blob(PARAMS.pack() + b"\xff" * 9) == PARAMS


@pytest.mark.parametrize(
    ("at", "layout", "value", "what"),
    [
        (0, "<I", 0, "no parameter blob of a version"),
        (4, "<H", 2, "no parameter blob of a version"),
        (6, "<H", 95, "no parameter blob of a version"),
        (8, "<I", 137, "sizes in the parameter blob's header disagree"),
        (12, "<I", 41, "sizes in the parameter blob's header disagree"),
        (16, "<I", 0, "the parameters in the blob are damaged"),
        (24, "<Q", 1, "header of the parameter blob is damaged"),
    ],
)
def test_a_field_that_is_wrong_under_a_good_crc(at: int, layout: str, value: int, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        read_params_blob(with_field(at, layout, value), "slot 1")
    assert caught.value.where == "slot 1"


def test_more_than_a_blob_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paramsblob.MAX_BYTES + 96 == 2**32 - 1
    monkeypatch.setattr(paramsblob, "MAX_BYTES", 39)
    with pytest.raises(InputError, match="40 bytes of parameters do not fit"):
        PARAMS.pack()
