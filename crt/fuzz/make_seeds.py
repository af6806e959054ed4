# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz targets: ``make_seeds.py FOLDER``. They are then minimised into corpus/."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

from mlf_sdk.ir.dtype import UINT, DType
from mlf_sdk.codegen.graphblob import BlobName, BlobStep, BlobTensor, GraphBlob
from mlf_sdk.codegen.paramsblob import ParamsBlob

VECTORS = Path(__file__).parents[2] / "tests/support/vectors/rpc.json"
TINY_PARAMS = 80
BLOB_AT = 64
SLOT = 256
TINY_GRAPH_ID = bytes(0xA0 + i for i in range(32))


def tiny_graph(**changes: int) -> bytes:
    """The graph of crt/tests/tiny_model.c, from Python."""

    def tensor(offset: int, size: int, in_params: bool = False) -> BlobTensor:
        return BlobTensor(dtype=DType(code=UINT, bits=8), shape=(size,), offset=offset, in_params=in_params)

    return GraphBlob(
        name="tiny",
        tensors=(tensor(0, 16), tensor(0, TINY_PARAMS, True), tensor(16, 16), tensor(32, 16)),
        steps=(
            BlobStep(kernel=0, args=(0, 1, 2)),
            BlobStep(kernel=1, args=(2, 3), slots=((48, changes.get("workspace", 16)),)),
        ),
        inputs=(BlobName(tensor=0, name="x"),),
        outputs=(BlobName(tensor=3, name="y"),),
        params=(BlobName(tensor=1, name="w"),),
        arena_bytes=changes.get("arena", 64),
        params_bytes=TINY_PARAMS,
        num_kernels=2,
        inputs_kept=bool(changes.get("kept", 0)),
        code_id=bytes(32),
        archive_sha256=bytes(32),
    ).pack()


def tiny_params(seed: int) -> bytes:
    """A parameter blob that fits."""
    data = bytes((seed * 31 + i * 7) & 0xFF for i in range(TINY_PARAMS))
    return ParamsBlob(graph_id=TINY_GRAPH_ID, archive_sha256=bytes(32), data=data).pack()


def slot(seed: int, generation: int) -> bytes:
    """A slot that holds parameters."""
    blob = tiny_params(seed)
    record = b"MLFS" + struct.pack("<HHII", 1, 32, generation, len(blob)) + blob[20:24] + bytes(8)
    record += struct.pack("<I", zlib.crc32(record))
    return (record.ljust(BLOB_AT, b"\xff") + blob).ljust(SLOT, b"\xff")


def graph_seeds() -> Iterable[bytes]:
    """A flags byte, and a blob."""
    for flags in (0, 3):
        yield bytes([flags]) + tiny_graph()
        yield bytes([flags]) + tiny_graph(kept=1, arena=128)
    yield b"\x03" + tiny_graph(workspace=8)


def params_seeds() -> Iterable[bytes]:
    """A flags byte, then a blob, or two slots and requests."""
    yield b"\x01" + tiny_params(1)
    yield b"\x03" + tiny_params(2)
    push = bytes([4, 0]) + bytes([2, 64]) * 3 + bytes([3, 0])
    blank = b"\xff" * SLOT
    for first, second in ((blank, blank), (slot(1, 1), blank), (slot(1, 1), slot(2, 2))):
        for flags in (0, 2):
            yield bytes([flags]) + first + second + push + push
    own = tiny_params(5)
    yield b"\x00" + blank + blank + bytes([4, 0, 5, len(own)]) + own + bytes([3, 0])


def rpc_seeds() -> Iterable[bytes]:
    """A flags byte, then a stream, or requests."""
    vectors = json.loads(VECTORS.read_text())
    for stream in _hex_texts(vectors):
        if 8 <= len(stream) <= 300:
            yield b"\x01" + stream

    def request(opcode: int, body: bytes, options: int = 0) -> bytes:
        payload = bytes([2, opcode, 0, 0, 1, 2, 3, 4]) + body
        return bytes([len(payload), options]) + payload

    infer = request(4, b"\0\0\0\0\0\0" + b"x" * 16) + request(5, b"\0\1\0\0\0")
    infer += request(6, b"\0\1\0\0\0\0\0\x10\0")
    blob = tiny_params(9)
    push = request(0x43, b"\0" + struct.pack("<I", len(blob)))
    push += request(0x44, b"\0" + struct.pack("<I", 0) + blob[:96])
    push += request(0x44, b"\0" + struct.pack("<I", 96) + blob[96:]) + request(0x45, b"\0")
    yield b"\x00" + infer
    yield b"\x00" + request(8, b"\0\x55") + infer + request(7, b"\0")
    yield (
        b"\x00" + request(2, b"\0") + request(3, b"\0\0\0") + request(3, b"\0\1\0") + request(9, b"\0\0\0\0")
    )
    yield b"\x00" + push + infer + request(0x40, b"\0")
    yield b"\x00" + request(0x41, b"\0" + struct.pack("<IH", 0, 200)) + request(0x42, b"\0\0\0\0\0\x60\0", 4)
    yield b"\x00" + request(1, b"") + request(5, b"\0\1\0\0\0", 4) + request(0x50, b"\0", 8)


def package_seeds() -> Iterable[bytes]:
    """A flags byte, then requests: begin, pieces of a package, commit; or slots."""
    push = bytes([0, 0, 2, 255, 2, 255, 3, 0])
    yield b"\x00" + push
    yield b"\x00" + push + bytes([4, 9]) + push + bytes([4, 8]) + push
    yield b"\x00" + bytes([0, 0, 2, 100, 2, 100, 2, 255, 2, 64, 2, 128, 2, 255, 3, 0])
    for change in (5, 6):
        for at in (8, 16, 20, 24, 26, 32, 64, 256, 290, 330, 384 + 8, 384 + 176 + 20):
            yield b"\x00" + bytes([change, at & 0xFF, at >> 8, at & 0xFF]) + push
    yield b"\x00" + bytes([7 | 0x40, 1, 0, 7 | 0x40, 5, 0, 1, 0, 0, 0]) + push
    yield b"\x01" + bytes(range(256)) * 4
    record = b"MLFS" + struct.pack("<HHIIIIII", 1, 32, 1, 176, 0, 464, 0, 0)
    head = b"MLFK" + struct.pack("<HHIIIIHBB", 1, 384, 9, 176, 80, 64, 2, 0, 0)
    head = head.ljust(32, b"\0") + bytes(0xA0 + i for i in range(64))
    slot_ = record.ljust(BLOB_AT, b"\xff") + tiny_params(3) + bytes(80) + head.ljust(384, b"\0")
    yield b"\x03" + slot_ + slot_
    yield b"\x01" + slot_ + slot_


def mlperf_seeds() -> Iterable[bytes]:
    """A byte of options, then the line: sessions as the runner has them, and what a device must refuse."""
    load = b"db load 6%db 000102%db fe80ff%"
    floats = b"db load 24%db " + struct.pack("<6f", 0, 1, -1, 1e9, -1e9, float("nan")).hex().encode() + b"%"
    for options in (0, 1, 2, 0x14, 0xF0):
        yield bytes([options]) + b"name%profile%" + load + b"db print%infer 3 2%results%"
    for options in (3, 7, 0x0B, 0x0F):
        yield bytes([options]) + floats + b"infer 1 0%timestamp%help%"
    yield b"\x00infer 1 0%" + load + b"infer 0 0%infer 1 -1%infer%infer 2%infer 999999999999 0%"
    yield b"\x00db%db 00%db load%db load 0%db load -3%db load 7%db load 6%db 0%db xy%db 00010203040506%db 00%"
    yield b"\x00" + b"x" * 80 + b"%" + b"y" * 81 + b"%%  name  %\r\nname\r\n%m-ready%"


def _hex_texts(value: object) -> Iterable[bytes]:
    if isinstance(value, str):
        try:
            yield bytes.fromhex(value)
        except ValueError:
            return
    elif isinstance(value, dict):
        for item in value.values():
            yield from _hex_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _hex_texts(item)


def main() -> None:
    """Write all seeds below the folder that the command line names."""
    root = Path(sys.argv[1])
    targets = {
        "graph": graph_seeds,
        "params": params_seeds,
        "rpc": rpc_seeds,
        "package": package_seeds,
        "mlperf": mlperf_seeds,
    }
    for name, make in targets.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for index, seed in enumerate(make()):
            (root / name / f"seed-{index:03}").write_bytes(seed)


if __name__ == "__main__":
    main()
