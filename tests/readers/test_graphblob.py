# SPDX-License-Identifier: Apache-2.0
"""Graph blobs: what is written is read again, and nothing else is."""

from __future__ import annotations

import dataclasses
import random
import struct
import zlib
from typing import Any

import pytest

from mlf_sdk.codegen.graphblob import BlobName, BlobStep, BlobTensor, GraphBlob, read_graph_blob
from mlf_sdk.errors import InputError
from mlf_sdk.ir.dtype import FLOAT, INT, DType

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


def test_equal_shapes_are_kept_once() -> None:
    graph = dataclasses.replace(GRAPH, tensors=(*GRAPH.tensors, tensor(32, 1, 8)))
    blob = graph.pack()
    assert read_graph_blob(blob) == graph
    assert len(blob) == len(BLOB) + 20  # a row, and no extents


def test_a_zero_in_a_name_does_not_end_it() -> None:
    graph = dataclasses.replace(GRAPH, name="a\0b")
    assert read_graph_blob(graph.pack()).name == "a\N{REPLACEMENT CHARACTER}b"


BAD_GRAPHS = {
    "tensor not aligned": ({"tensors": (tensor(8, 8), *GRAPH.tensors[1:])}, "has 8 bytes at 8 of 64"),
    "tensor longer than the arena": ({"arena_bytes": 63}, "has 16 bytes at 48 of 63"),
    "tensor behind the arena": (
        {"tensors": (*GRAPH.tensors[:4], tensor(80, 0, 5))},
        "has 0 bytes at 80 of 64",
    ),
    "tensor longer than the parameters": ({"params_bytes": 39}, "has 24 bytes at 16 of 39"),
    "extent of 33 bits": (
        {"tensors": (*GRAPH.tensors[:4], tensor(32, 2**32, 0))},
        r"has a tensor of shape \(4294967296, 0\)",
    ),
    "extent below zero": (
        {"tensors": (*GRAPH.tensors[:4], tensor(32, -4, -5, 0))},
        r"has a tensor of shape \(-4, -5, 0\)",
    ),
    "workspace outside": ({"steps": (BlobStep(kernel=0, args=(), slots=((64, 1),)),)}, "has 1 bytes at 64"),
    "kernel that is not there": ({"steps": (BlobStep(kernel=2, args=()),)}, "has a step that breaks a rule"),
    "argument that is not there": ({"steps": (BlobStep(kernel=0, args=(5,)),)}, "names tensor 5 of 5"),
    "input that is not there": ({"inputs": (BlobName(tensor=6, name="x"),)}, "names tensor 6 of 5"),
    "input among the parameters": (
        {"inputs": (BlobName(tensor=2, name="data"),)},
        "has an input among the parameters",
    ),
}


@pytest.mark.parametrize(("changes", "what"), BAD_GRAPHS.values(), ids=BAD_GRAPHS)
def test_a_graph_that_breaks_a_rule(changes: dict[str, Any], what: str) -> None:
    blob = dataclasses.replace(GRAPH, **changes).pack()
    with pytest.raises(InputError, match=f"the graph blob {what}") as caught:
        read_graph_blob(blob, "model.bin")
    assert caught.value.where == "model.bin"


EXTENTS = 152
TENSORS = EXTENTS + 8 * 7  # (1, 8), (2, 3), (4), (), (0, 5)
SLOTS = TENSORS + 20 * 5
STEPS = SLOTS + 8 * 2
NAMED = STEPS + 8 * 3
ARGS = NAMED + 8 * 5
NAMES = ARGS + 2 * 6

BAD_FIELDS = {
    "version": (4, "<H", 2, "is no blob of a version that is known"),
    "size below the header": (8, "<I", 151, "is cut off"),
    "size beyond the end": (8, "<I", len(BLOB) + 1, "is cut off"),
    "more extents than bytes": (32, "<I", 2**32 - 1, "is shorter than its header says"),
    "more arguments than bytes": (36, "<I", 40, "is shorter than its header says"),
    "length of the names": (44, "<I", 3, "does not end with its names"),
    "last byte": (len(BLOB) - 1, "<B", 65, "does not end with its names"),
    "flag": (50, "<B", 3, "has fields that are not known"),
    "zero": (51, "<B", 1, "has fields that are not known"),
    "another identity": (56, "<B", BLOB[56] ^ 1, "is not written as it must be"),
    "size of a tensor": (TENSORS + 4, "<I", 9, r"has a tensor of 9 bytes for \(1, 8\) int8"),
    "first extent": (TENSORS + 8, "<I", 8, "has a tensor that breaks a rule"),
    "place": (TENSORS + 12, "<B", 2, "has a tensor that breaks a rule"),
    "number of extents": (TENSORS + 13, "<B", 8, "has a tensor that breaks a rule"),
    "zero of a tensor": (TENSORS + 18, "<H", 1, "has a tensor that breaks a rule"),
    "arguments of a step": (STEPS + 2, "<H", 7, "has a step that breaks a rule"),
    "workspaces of a step": (STEPS + 4, "<H", 3, "has a step that breaks a rule"),
    "zero of a step": (STEPS + 6, "<H", 1, "has a step that breaks a rule"),
    "arguments left over": (STEPS + 10, "<H", 2, "has arguments or workspaces that belong to no step"),
    "workspaces left over": (STEPS + 12, "<H", 1, "has arguments or workspaces that belong to no step"),
    "zero of a name": (NAMED + 2, "<H", 1, "has a name that breaks a rule"),
    "place of a name": (NAMED + 4, "<I", len(BLOB) - NAMES, "has a name that breaks a rule"),
    "name inside another": (NAMED + 4, "<I", 1, "is not written as it must be"),
}


@pytest.mark.parametrize(("at", "layout", "value", "what"), BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_a_field_that_is_wrong_under_a_good_crc(at: int, layout: str, value: int, what: str) -> None:
    blob = bytearray(BLOB)
    struct.pack_into(layout, blob, at, value)
    with pytest.raises(InputError, match=f"the graph blob {what}"):
        read_graph_blob(with_crc(bytes(blob)))
