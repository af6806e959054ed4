# SPDX-License-Identifier: Apache-2.0
"""Numbers and layouts: equal to the C headers, to the specification, and to the vectors."""

import json
import re
from pathlib import Path

import pytest

from mlf_sdk.errors import TargetError
from mlf_sdk.testing.fake import FakeDevice
from mlf_sdk.wire import frames, protocol
from mlf_sdk.wire.codes import STATUS_TEXT, Capability, Direction, Flag, Opcode, Status
from mlf_sdk.wire.protocol import (
    AdvanceReply,
    AdvanceRequest,
    Message,
    MessageError,
    PeekRequest,
    StepReply,
    StepRequest,
)
from rpc_models import vector_device
from rpc_vectors import VECTORS, build, conversation

CRT = Path(__file__).parents[2] / "crt"
STEPS = json.loads(VECTORS.read_text(encoding="utf-8"))["steps"]

SECURED_OPCODES = {Opcode.CHALLENGE, Opcode.OPEN}
SECURED_STATUSES = {Status.LOCKED, Status.SIGNATURE, Status.WAIT, Status.ENTROPY}


def c_enum(path: Path, name: str) -> dict[str, int]:
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = re.search(r"typedef enum \{([^}]*)\} " + name + r"\s*;", text)
    assert found is not None, name
    return {key: int(value) for key, value in re.findall(r"(\w+)\s*=\s*(-?\d+)", found[1])}


def c_define(path: Path, name: str) -> int:
    found = re.search(rf"#define {name} (0x[0-9A-Fa-f]+|\d+)u?\b", path.read_text(encoding="utf-8"))
    assert found is not None, name
    return int(found[1], 0)


def test_numbers_equal_the_c_headers() -> None:
    rpc, mlf = CRT / "rpc/mlf_rpc.h", CRT / "include/mlf/mlf.h"
    assert c_enum(rpc, "mlf_rpc_opcode_t") == {f"MLF_RPC_{code.name}": code.value for code in Opcode}
    assert c_enum(rpc, "mlf_rpc_direction_t") == {f"MLF_RPC_{code.name}": code.value for code in Direction}
    assert c_enum(rpc, "mlf_rpc_capability_t") == {f"MLF_RPC_CAN_{bit.name}": bit.value for bit in Capability}
    assert c_enum(rpc, "mlf_rpc_flag_t") == {f"MLF_RPC_{bit.name}": bit.value for bit in Flag}
    executor = {f"MLF_E_{code.name}" if code else "MLF_OK": code.value for code in Status if code > -32}
    assert c_enum(mlf, "mlf_status_t") == executor
    assert c_enum(rpc, "mlf_rpc_status_t") == {f"MLF_RPC_E_{s.name}": s.value for s in Status if s <= -32}
    assert c_define(rpc, "MLF_RPC_VERSION") == protocol.VERSION
    assert c_define(rpc, "MLF_RPC_REPLY") == protocol.REPLY
    assert c_define(rpc, "MLF_RPC_HEADER_SIZE") == protocol.HEADER.size


def test_every_status_has_a_text() -> None:
    assert set(STATUS_TEXT) == set(Status)
    assert len(set(STATUS_TEXT.values())) == len(Status)


@pytest.mark.parametrize("kind", [Opcode, Status, Capability])
def test_the_specification_names_every_number(kind: type) -> None:
    text = (CRT / "PROTOCOL.md").read_text(encoding="utf-8")
    for member in kind:
        assert re.search(rf"^\| `{member.name}` *\| {member.value} ", text, re.MULTILINE), member


def test_body_sizes_are_those_of_the_specification() -> None:
    text = (CRT / "PROTOCOL.md").read_text(encoding="utf-8")
    layouts = {
        Opcode.HELLO: (None, protocol.HelloReply),
        Opcode.MODEL: (protocol.ModelRequest, protocol.ModelReply),
        Opcode.TENSOR: (protocol.TensorRequest, protocol.TensorReply),
        Opcode.WRITE: (protocol.WriteRequest, protocol.WriteReply),
        Opcode.RUN: (protocol.RunRequest, protocol.RunReply),
        Opcode.READ: (protocol.ReadRequest, None),
        Opcode.STATS: (protocol.ModelRequest, protocol.StatsReply),
        Opcode.PREPARE: (protocol.PrepareRequest, None),
        Opcode.BAUD: (protocol.BaudRequest, None),
        Opcode.STEP: (StepRequest, StepReply),
        Opcode.ADVANCE: (AdvanceRequest, AdvanceReply),
        Opcode.PEEK: (PeekRequest, None),
    }
    # BUILD: the bodies are empty and the id; those of secured sessions are bytes of fixed size
    assert set(layouts) | {Opcode.BUILD} | SECURED_OPCODES == set(Opcode)
    widths = {"u8": 1, "u16": 2, "u32": 4, "i32": 4, "u64": 8, "32 bytes": 32}
    for opcode, (request, reply) in layouts.items():
        section = re.search(rf"^### {opcode.name}\b(.*?)(?=^###? )", text, re.MULTILINE | re.DOTALL)
        assert section is not None
        for layout, role in ((request, "Request"), (reply, "Reply")):
            table = re.search(rf"^\| {role} \|.*?\n\n", section[1], re.MULTILINE | re.DOTALL)
            assert (table is None) == (layout is None)
            if table is not None:
                fields = re.findall(r"^\| `\w+` \| ([^|]+?) \|", table[0], re.MULTILINE)
                fixed = sum(widths[width] for width in fields if width in widths)
                assert fixed == layout.LAYOUT.size, (opcode, role)


def test_fixed_bodies_round_trip_and_check_their_size() -> None:
    reply = protocol.RunReply(-1, 7, 1 << 40)
    assert reply.pack() == bytes.fromhex("ffffffff07000000") + (1 << 40).to_bytes(8, "little")
    assert protocol.RunReply.unpack(reply.pack()) == reply
    for size in (0, 15, 17):
        with pytest.raises(MessageError, match="RunReply"):
            protocol.RunReply.unpack(bytes(size))
    with pytest.raises(MessageError):
        protocol.split(protocol.WriteRequest, bytes(5))
    assert protocol.split(protocol.ModelRequest, b"\x05rest") == (protocol.ModelRequest(5), b"rest")
    assert issubclass(MessageError, TargetError)


def test_messages() -> None:
    message = Message(opcode=Opcode.READ, sequence=0x1234, session=0x89ABCDEF, body=b"xy")
    assert message.pack() == b"\x02\x06\x34\x12\xef\xcd\xab\x89xy"
    assert Message.unpack(message.pack()) == message
    for size in range(8):
        with pytest.raises(MessageError):
            Message.unpack(bytes(size))


def test_shapes() -> None:
    assert protocol.unpack_shape(b"\x02\0\0\0\x03\0\0\0rest", 2) == ((2, 3), b"rest")
    assert protocol.unpack_shape(b"rest", 0) == ((), b"rest")
    with pytest.raises(MessageError):
        protocol.unpack_shape(bytes(7), 2)


def test_names_are_cut_between_characters() -> None:
    for room in range(2, 20):
        packed = protocol.pack_name("aä€😀z", room)
        assert len(packed) <= room
        flags, name = protocol.unpack_name(packed)
        assert "aä€😀z".startswith(name)
        assert (flags == Flag.NAME_CUT) == (name != "aä€😀z")
    assert len(protocol.pack_name("x" * 300, 1000)) == 2 + 255
    assert protocol.unpack_name(b"\x02\x01\xff") == (Flag.INPUTS_KEPT, r"\xff")
    for body in (b"", b"\0", b"\0\1", b"\0\1ab"):
        with pytest.raises(MessageError):
            protocol.unpack_name(body)


def test_the_vectors_are_what_the_script_makes() -> None:
    assert build() == json.loads(VECTORS.read_text(encoding="utf-8"))
    assert [step["name"] for step in STEPS] == [name for name, _ in conversation()]


def test_the_vectors_are_well_formed_frames() -> None:
    for step in STEPS:
        sent, received = bytes.fromhex(step["send"]), bytes.fromhex(step["receive"])
        asked = {frames.decode(part)[1:8] for part in sent.split(b"\0") if received and part}
        for chunk in filter(None, received.split(b"\0")):
            reply = frames.decode(chunk)
            assert reply[0] == protocol.VERSION
            assert reply[1] & protocol.REPLY
            header = bytes([reply[1] & ~protocol.REPLY]) + reply[2 : status_at(reply)]
            assert any(request.startswith(header) for request in asked)


def status_at(reply: bytes) -> int:
    """Offset of a reply's status: only the refusal of a version has no session before it."""
    refused = len(reply) == protocol.VersionReply.LAYOUT.size
    return (protocol.PREFIX if refused else protocol.HEADER).size


def status_of(name: str) -> Status:
    step = next(step for step in STEPS if step["name"] == name)
    payload = frames.decode(bytes.fromhex(step["receive"]).strip(b"\0"))
    at = status_at(payload)
    return Status(int.from_bytes(payload[at : at + 1], "little", signed=True))


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("no-session", Status.SESSION),
        ("hello", Status.OK),
        ("foreign-session", Status.SESSION),
        ("foreign-hello-long", Status.SESSION),
        ("hello-zero", Status.SESSION),
        ("zero-session", Status.SESSION),
        ("still-first", Status.OK),
        ("replaced-session", Status.SESSION),
        ("first-again", Status.OK),
        ("short-version", Status.VERSION),
        ("model-4", Status.MODEL),
        ("tensor-0-0-2", Status.TENSOR),
        ("tensor-3-1-0", Status.OK),
        ("tensor-3-1-1", Status.CAPACITY),
        ("run-unwritten", Status.STATE),
        ("write-y-gap", Status.GAP),
        ("write-range", Status.RANGE),
        ("run-twice", Status.ARGUMENT),
        ("run", Status.OK),
        ("run-used-up", Status.STATE),
        ("read-sum", Status.OK),
        ("large-read-capacity", Status.CAPACITY),
        ("twins-outputs-lost", Status.STATE),
        ("failing-run", Status.KERNEL),
        ("workspace-run", Status.WORKSPACE),
        ("busy-run", Status.BUSY),
        ("baud", Status.OK),
        ("baud-too-high", Status.ARGUMENT),
        ("baud-short", Status.LENGTH),
        ("unknown-opcode", Status.OPCODE),
        ("short", Status.LENGTH),
        ("after-new-session", Status.STATE),
        ("same-number", Status.SEQUENCE),
        ("old-number", Status.SEQUENCE),
        ("version", Status.VERSION),
    ],
)
def test_statuses_in_the_vectors(name: str, status: Status) -> None:
    assert status_of(name) == status


def test_the_vectors_cover_every_status_and_opcode() -> None:
    seen: set[int] = set()
    asked: set[int] = set()
    for step in STEPS:
        for chunk in filter(None, bytes.fromhex(step["receive"]).split(b"\0")):
            payload = frames.decode(chunk)
            asked.add(payload[1] & ~protocol.REPLY)
            at = status_at(payload)
            seen.add(int.from_bytes(payload[at : at + 1], "little", signed=True))
    assert seen == set(Status) - SECURED_STATUSES  # crt/tests/test_secure.c has those
    assert asked >= set(Opcode) - SECURED_OPCODES


def test_what_is_no_request_gets_no_reply() -> None:
    silent = {step["name"] for step in STEPS if not step["receive"]}
    assert silent == {
        "console-text",
        "reply-as-request",
        "no-prefix",
        "no-session-field",
        "empty",
        "damaged",
        "too-long",
    }


def test_the_fake_device_holds_the_vectors_in_pieces() -> None:
    device: FakeDevice = vector_device()
    for step in STEPS:
        sent = bytes.fromhex(step["send"])
        received = b"".join(device.feed(sent[at : at + 1]) for at in range(len(sent)))
        assert received.hex() == step["receive"], step["name"]
