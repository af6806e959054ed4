# SPDX-License-Identifier: Apache-2.0
"""The shared vectors: one conversation, byte for byte, that Python and C must both hold.

``python tests/support/rpc_vectors.py`` writes tests/support/vectors/rpc.json anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mlf_sdk.wire import frames, protocol
from mlf_sdk.wire.codes import Direction, Opcode
from mlf_sdk.wire.protocol import AdvanceRequest, Message, PeekRequest, StepRequest
from rpc_models import X, Y, vector_device

VECTORS = Path(__file__).parent / "vectors" / "rpc.json"
IN, OUT = Direction.INPUT, Direction.OUTPUT


FIRST, SECOND = 0xCAFE, 0xBEEF0000  # sessions


def request(
    sequence: int,
    opcode: int,
    body: bytes = b"",
    *,
    session: int = FIRST,
    version: int = protocol.VERSION,
) -> bytes:
    message = Message(opcode=opcode, sequence=sequence, session=session, body=body, version=version)
    return frames.encode(message.pack())


def write(model: int, index: int, offset: int, data: bytes) -> bytes:
    return protocol.WriteRequest(model, index, offset).pack() + data


def read(model: int, direction: int, index: int, offset: int, size: int) -> bytes:
    return protocol.ReadRequest(model, direction, index, offset, size).pack()


def run(model: int, count: int = 1) -> bytes:
    return protocol.RunRequest(model, count).pack()


def advance(model: int, first: int, count: int = 1) -> bytes:
    return AdvanceRequest(model, first, count).pack()


def peek(model: int, step: int, direction: int, index: int, offset: int, size: int) -> bytes:
    return PeekRequest(model, step, direction, index, offset, size).pack()


def _step_requests() -> list[tuple[str, int, bytes]]:
    """The same for models that are run step by step."""
    listed: list[tuple[str, int, bytes]] = [
        (f"step-{model}-{i}", Opcode.STEP, StepRequest(model, i).pack())
        for model, i in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0), (9, 0)]
    ]
    listed += [
        ("step-short", Opcode.STEP, b"\x00\x00"),
        ("advance-long", Opcode.ADVANCE, advance(0, 0) + b"\x00"),
        ("peek-short", Opcode.PEEK, peek(0, 0, IN, 0, 0, 1)[:-1]),
        ("advance-unwritten", Opcode.ADVANCE, advance(0, 0)),
        ("peek-unwritten", Opcode.PEEK, peek(0, 0, IN, 0, 0, 12)),
        ("steps-write-x", Opcode.WRITE, write(0, 0, 0, X.tobytes())),
        ("steps-write-y", Opcode.WRITE, write(0, 1, 0, Y.tobytes())),
        ("advance-nothing", Opcode.ADVANCE, advance(0, 0, 0)),
        ("advance-too-many", Opcode.ADVANCE, advance(0, 0, 4)),
        ("advance-beyond", Opcode.ADVANCE, advance(0, 4, 1)),
        ("advance-not-begun", Opcode.ADVANCE, advance(0, 1)),
        ("peek-first-input", Opcode.PEEK, peek(0, 0, IN, 1, 0, 5)),
        ("peek-first-output-early", Opcode.PEEK, peek(0, 0, OUT, 0, 0, 24)),
        ("advance-0", Opcode.ADVANCE, advance(0, 0)),
        ("peek-first-output", Opcode.PEEK, peek(0, 0, OUT, 0, 4, 20)),
        ("peek-first-input-late", Opcode.PEEK, peek(0, 0, IN, 1, 0, 5)),
        ("peek-second-input", Opcode.PEEK, peek(0, 1, IN, 0, 1, 4)),
        ("peek-second-output-early", Opcode.PEEK, peek(0, 1, OUT, 0, 0, 5)),
        ("peek-read-early", Opcode.READ, read(0, OUT, 0, 0, 24)),
        ("peek-step", Opcode.PEEK, peek(0, 3, OUT, 0, 0, 1)),
        ("peek-direction", Opcode.PEEK, peek(0, 0, 2, 0, 0, 1)),
        ("peek-tensor", Opcode.PEEK, peek(0, 0, OUT, 1, 0, 1)),
        ("peek-range", Opcode.PEEK, peek(0, 0, OUT, 0, 5, 20)),
        ("advance-wrong-first", Opcode.ADVANCE, advance(0, 2)),
        ("advance-rest", Opcode.ADVANCE, advance(0, 1, 2)),
        ("peek-constant-late", Opcode.PEEK, peek(0, 2, IN, 0, 0, 4)),
        ("peek-last-second-output", Opcode.PEEK, peek(0, 2, OUT, 1, 0, 5)),
        ("advance-at-the-end", Opcode.ADVANCE, advance(0, 3, 1)),
        ("advance-used-up", Opcode.ADVANCE, advance(0, 0)),
        ("steps-read-sum", Opcode.READ, read(0, OUT, 0, 0, 24)),
        ("lost-write-x", Opcode.WRITE, write(0, 0, 0, X.tobytes())),
        ("lost-write-y", Opcode.WRITE, write(0, 1, 0, Y.tobytes())),
        ("lost-advance", Opcode.ADVANCE, advance(0, 0, 2)),
        ("lost-peek-constant", Opcode.PEEK, peek(0, 2, IN, 0, 0, 4)),
        ("lost-write", Opcode.WRITE, write(0, 0, 0, b"\x01")),
        ("lost-peek", Opcode.PEEK, peek(0, 1, OUT, 0, 0, 5)),
        ("lost-position", Opcode.ADVANCE, advance(0, 2)),
        ("bad-write-x", Opcode.WRITE, write(0, 0, 0, X.tobytes())),
        ("bad-write-y", Opcode.WRITE, write(0, 1, 0, b"\xdd\x00\x00\x00\x00")),
        ("bad-advance", Opcode.ADVANCE, advance(0, 0, 3)),
        ("bad-position", Opcode.ADVANCE, advance(0, 1)),
        ("kept-advance", Opcode.ADVANCE, advance(1, 0)),
        ("kept-again", Opcode.ADVANCE, advance(1, 0)),
        ("kept-peek", Opcode.PEEK, peek(1, 0, OUT, 0, 0, 503)),
        ("kept-peek-capacity", Opcode.PEEK, peek(1, 0, OUT, 0, 0, 504)),
        ("kept-run", Opcode.RUN, run(1)),
        ("kept-peek-after-run", Opcode.PEEK, peek(1, 0, OUT, 0, 0, 1)),
        ("unknown-write", Opcode.WRITE, write(2, 0, 0, b"\x01\x02\x03\x04")),
        ("unknown-advance", Opcode.ADVANCE, advance(2, 0)),
        ("unknown-peek", Opcode.PEEK, peek(2, 0, OUT, 0, 0, 0)),
        ("no-steps", Opcode.ADVANCE, advance(3, 0)),
        ("no-steps-begin", Opcode.ADVANCE, advance(3, 0, 0)),
    ]
    return listed


def _requests() -> list[tuple[str, int, bytes]]:
    """What is sent with the next sequence number each: name, opcode, body."""
    model, prepare = protocol.ModelRequest, protocol.PrepareRequest
    floats = bytes(range(256)) * 2 + bytes(8)
    listed: list[tuple[str, int, bytes]] = [
        ("hello", Opcode.HELLO, b""),
        ("hello-again", Opcode.HELLO, b""),
    ]
    listed += [(f"model-{i}", Opcode.MODEL, model(i).pack()) for i in range(5)]
    for index, counts in enumerate([(2, 2), (1, 1), (1, 1), (0, 2)]):
        for direction, count in zip((IN, OUT), counts, strict=True):
            for i in range(count + 1):
                body = protocol.TensorRequest(index, direction, i).pack()
                listed.append((f"tensor-{index}-{direction}-{i}", Opcode.TENSOR, body))
    listed += [
        ("tensor-direction", Opcode.TENSOR, protocol.TensorRequest(0, 2, 0).pack()),
        ("stats-unprepared", Opcode.STATS, model(0).pack()),
        ("prepare", Opcode.PREPARE, prepare(0, 0xA5).pack()),
        ("read-unwritten", Opcode.READ, read(0, IN, 0, 0, 12)),
        ("run-unwritten", Opcode.RUN, run(0)),
        ("write-x", Opcode.WRITE, write(0, 0, 0, X.tobytes())),
        ("write-y-gap", Opcode.WRITE, write(0, 1, 1, Y[1:].tobytes())),
        ("write-y-first", Opcode.WRITE, write(0, 1, 0, Y[:2].tobytes())),
        ("run-incomplete", Opcode.RUN, run(0)),
        ("write-y-rest", Opcode.WRITE, write(0, 1, 2, Y[2:].tobytes())),
        ("write-range", Opcode.WRITE, write(0, 1, 5, b"\x01")),
        ("write-tensor", Opcode.WRITE, write(0, 2, 0, b"\x01")),
        ("read-input", Opcode.READ, read(0, IN, 0, 0, 12)),
        ("read-early", Opcode.READ, read(0, OUT, 0, 0, 24)),
        ("run-twice", Opcode.RUN, run(0, 2)),
        ("run-never", Opcode.RUN, run(0, 0)),
        ("run", Opcode.RUN, run(0)),
        ("run-used-up", Opcode.RUN, run(0)),
        ("read-sum", Opcode.READ, read(0, OUT, 0, 0, 24)),
        ("read-echo-piece", Opcode.READ, read(0, OUT, 1, 3, 2)),
        ("read-nothing", Opcode.READ, read(0, OUT, 1, 5, 0)),
        ("read-range", Opcode.READ, read(0, OUT, 1, 4, 2)),
        ("stats", Opcode.STATS, model(0).pack()),
        ("large-write-0", Opcode.WRITE, write(1, 0, 0, floats[:498])),
        ("large-write-1", Opcode.WRITE, write(1, 0, 498, floats[498:520])),
        ("large-run", Opcode.RUN, run(1, 3)),
        ("large-read-0", Opcode.READ, read(1, OUT, 0, 0, 503)),
        ("large-read-1", Opcode.READ, read(1, OUT, 0, 503, 17)),
        ("large-read-capacity", Opcode.READ, read(1, OUT, 0, 0, 504)),
        ("sharer-write", Opcode.WRITE, write(2, 0, 0, b"\x01\x02\x03\xff")),
        ("twins-outputs-lost", Opcode.READ, read(0, OUT, 0, 0, 24)),
        ("sharer-run", Opcode.RUN, run(2)),
        ("sharer-read", Opcode.READ, read(2, OUT, 0, 0, 4)),
        ("sharer-write-bad", Opcode.WRITE, write(2, 0, 0, b"\xee")),
        ("sharer-read-before", Opcode.READ, read(2, OUT, 0, 0, 4)),
        ("sharer-failing-run", Opcode.RUN, run(2, 3)),
        ("sharer-read-after", Opcode.READ, read(2, OUT, 0, 0, 4)),
        ("busy-write", Opcode.WRITE, write(2, 0, 0, b"\xbb\x00\x00\x00")),
        ("busy-run", Opcode.RUN, run(2)),
        ("failing-write-x", Opcode.WRITE, write(0, 0, 0, X.tobytes())),
        ("failing-write-y", Opcode.WRITE, write(0, 1, 0, b"\xee\x00\x00\x00\x00")),
        ("failing-run", Opcode.RUN, run(0)),
        ("failing-read", Opcode.READ, read(0, OUT, 0, 0, 1)),
        ("workspace-write-x", Opcode.WRITE, write(0, 0, 0, X.tobytes())),
        ("workspace-write-y", Opcode.WRITE, write(0, 1, 0, b"\xdd\x00\x00\x00\x00")),
        ("workspace-run", Opcode.RUN, run(0)),
        ("empty-run", Opcode.RUN, run(3)),
        *_step_requests(),
        ("baud", Opcode.BAUD, protocol.BaudRequest(230_400).pack()),
        ("baud-too-high", Opcode.BAUD, protocol.BaudRequest(1_000_001).pack()),
        ("baud-first", Opcode.BAUD, protocol.BaudRequest(0).pack()),
        ("baud-short", Opcode.BAUD, b"\x00\x01\x02"),
        ("build", Opcode.BUILD, b""),
        ("build-long", Opcode.BUILD, b"\x00"),
        ("unknown-opcode", 0x55, b"\x00"),
        ("hello-long", Opcode.HELLO, b"\x00"),
        ("short", Opcode.RUN, b"\x00\x01"),
        ("long", Opcode.STATS, b"\x00\x00"),
    ]
    return listed


def _sessions(sequence: int) -> list[tuple[str, bytes]]:
    """Return requests of other sessions, and of one that takes the place of the first."""
    model, old = protocol.ModelRequest(0).pack(), read(2, OUT, 0, 0, 4)
    return [
        ("foreign-session", request(sequence, Opcode.MODEL, model, session=SECOND)),
        ("foreign-hello-long", request(sequence, Opcode.HELLO, b"\x00", session=SECOND)),
        ("hello-zero", request(sequence, Opcode.HELLO, session=0)),
        ("zero-session", request(sequence, Opcode.MODEL, model, session=0)),
        ("still-first", request(sequence, Opcode.MODEL, model)),
        ("new-session", request(sequence + 1, Opcode.HELLO, session=SECOND)),
        ("after-new-session", request(sequence + 2, Opcode.READ, old, session=SECOND)),
        ("replaced-session", request(sequence + 3, Opcode.MODEL, model)),
        ("first-again", request(sequence + 4, Opcode.HELLO)),
    ]


def conversation() -> list[tuple[str, bytes]]:
    """All that is sent, in order: frames, repeated frames, and what is no frame."""
    model = protocol.ModelRequest(0).pack()
    sent: list[tuple[str, bytes]] = [
        ("no-session", request(65528, Opcode.MODEL, model)),
        ("console-text", b"a line of text\r\n\x00"),
    ]
    sequence = 65530
    for name, opcode, body in _requests():
        frame = request(sequence, opcode, body)
        sent.append((name, frame))
        if opcode in (Opcode.RUN, Opcode.HELLO, Opcode.BAUD, Opcode.ADVANCE):
            sent.append((name + "-repeated", frame))
        sequence = (sequence + 1) & 0xFFFF
    sent += _sessions(sequence)
    sequence += 5
    last = (sequence - 1) & 0xFFFF
    damaged = bytearray(request(sequence, Opcode.STATS, model))
    damaged[4] ^= 0x10
    sent += [
        ("same-number", request(last, Opcode.STATS, model)),
        ("old-number", request((last - 5) & 0xFFFF, Opcode.STATS, model)),
        ("version", request(sequence, Opcode.STATS, model, version=3)),
        ("reply-as-request", request(sequence, Opcode.STATS | protocol.REPLY, model)),
        ("no-prefix", frames.encode(b"\x02\x07\x00")),
        ("no-session-field", frames.encode(bytes([2, Opcode.STATS]) + bytes(5))),
        ("short-version", frames.encode(bytes([3, Opcode.STATS]) + bytes(2))),
        ("empty", b"\x00\x00\x00"),
        ("damaged", bytes(damaged)),
        ("too-long", request(sequence, Opcode.WRITE, bytes(505))),
        ("longest", request(sequence, Opcode.WRITE, bytes(504))),
        (
            "two-at-once",
            request(sequence + 1, Opcode.STATS, model) + request(sequence + 2, Opcode.MODEL, model),
        ),
    ]
    return sent


def build() -> dict[str, object]:
    """Return the vectors, the replies being those of the fake device."""
    device = vector_device()
    steps = []
    for name, sent in conversation():
        steps.append({"name": name, "send": sent.hex(), "receive": device.feed(sent).hex()})
    return {"max_payload": device.max_payload, "steps": steps}


def text_of(vectors: dict[str, list[dict[str, str]]]) -> str:
    """Return the vectors as lines for the C test: name, what to send, what must come back."""
    return "".join(
        f"{step['name']} {step['send'] or '-'} {step['receive'] or '-'}\n" for step in vectors["steps"]
    )


def main() -> None:
    VECTORS.write_text(json.dumps(build(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
