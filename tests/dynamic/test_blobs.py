# SPDX-License-Identifier: Apache-2.0
"""Graph and parameter blobs: what is written is read again, and nothing else is."""

from __future__ import annotations

import dataclasses
import random
import struct
import zlib

import pytest

from mlf_sdk.errors import InputError
from mlf_sdk.formats.dtype import FLOAT, INT, DType
from mlf_sdk.formats.graphblob import BlobName, BlobStep, BlobTensor, GraphBlob, read_graph_blob
from mlf_sdk.formats.paramsblob import ParamsBlob, read_params_blob, read_params_header

F32 = DType(code=FLOAT, bits=32)
I8 = DType(code=INT, bits=8)


def tensor(offset: int, *shape: int, dtype: DType = I8, in_params: bool = False) -> BlobTensor:
    return BlobTensor(dtype=dtype, shape=shape, offset=offset, in_params=in_params)


GRAPH = GraphBlob(
    name="two ä",
    tensors=(
        tensor(0, 1, 8),
        tensor(16, 2, 3, dtype=F32, in_params=True),
        tensor(0, 4, in_params=True),
        tensor(16),
        tensor(32, 0, 5),
    ),
    steps=(
        BlobStep(kernel=1, args=(0, 1, 3)),
        BlobStep(kernel=0, args=(3, 2, 4), slots=((48, 16), (0, 4))),
        BlobStep(kernel=0, args=()),
    ),
    inputs=(BlobName(tensor=0, name="data"),),
    outputs=(BlobName(tensor=4, name="output"), BlobName(tensor=1, name="weights")),
    params=(BlobName(tensor=1, name="p0"), BlobName(tensor=2, name="data")),
    arena_bytes=64,
    params_bytes=40,
    num_kernels=2,
    inputs_kept=True,
    code_id=bytes(range(32)),
    archive_sha256=bytes(range(32, 64)),
)
BLOB = GRAPH.pack()
PARAMS = ParamsBlob(graph_id=GRAPH.graph_id, archive_sha256=bytes(32), data=bytes(range(40)))


def with_crc(blob: bytes) -> bytes:
    """``blob`` with its CRC set right."""
    zeroed = blob[:12] + bytes(4) + blob[16:]
    return blob[:12] + struct.pack("<I", zlib.crc32(zeroed)) + blob[16:]


def test_a_graph_is_read_as_it_was_written() -> None:
    assert read_graph_blob(BLOB) == GRAPH
    assert read_graph_blob(BLOB + b"more") == GRAPH
    assert BLOB[56:88] == GRAPH.graph_id
    assert len(BLOB) == struct.unpack_from("<I", BLOB, 8)[0]


def test_the_identity_is_the_structure_and_the_code() -> None:
    assert dataclasses.replace(GRAPH, archive_sha256=bytes(32)).graph_id == GRAPH.graph_id
    others = [
        dataclasses.replace(GRAPH, code_id=bytes(32)),
        dataclasses.replace(GRAPH, arena_bytes=128),
        dataclasses.replace(GRAPH, params_bytes=48),
        dataclasses.replace(GRAPH, steps=GRAPH.steps[:2]),
    ]
    assert len({GRAPH.graph_id, *(g.graph_id for g in others)}) == 5


def test_a_graph_that_is_cut_is_refused() -> None:
    for size in range(len(BLOB)):
        with pytest.raises(InputError, match="cut off"):
            read_graph_blob(BLOB[:size])


def test_a_graph_with_any_flipped_bit_is_refused() -> None:
    for bit in range(len(BLOB) * 8):
        blob = bytearray(BLOB)
        blob[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InputError):
            read_graph_blob(bytes(blob))


def test_a_graph_with_a_good_crc_and_any_other_byte_is_refused_or_another_graph() -> None:
    numbers = random.Random(7)
    refused = 0
    for at in (*range(12), *range(16, len(BLOB))):
        blob = bytearray(BLOB)
        blob[at] ^= numbers.randrange(1, 256)
        try:
            found = read_graph_blob(with_crc(bytes(blob)))
        except InputError:
            refused += 1
        else:
            assert found != GRAPH
    assert refused == len(BLOB) - 4 - 32  # only the archive's hash is free


def test_a_model_too_large_for_the_fields_is_an_error() -> None:
    with pytest.raises(InputError, match="too large"):
        dataclasses.replace(GRAPH, inputs=GRAPH.inputs * 256).pack()


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
