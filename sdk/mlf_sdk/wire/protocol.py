# SPDX-License-Identifier: Apache-2.0
"""The messages of ``crt/PROTOCOL.md``: numbers, and the layout of each request and reply body.

All integers are little-endian. A request's ``pack`` gives its body; a reply's body starts with the
status, which is not part of the classes here.
"""

from __future__ import annotations

import struct
from typing import ClassVar, TypeVar

import msgspec

from mlf_sdk.errors import TargetError
from mlf_sdk.tools.checks import DeviceText, device_text
from mlf_sdk.wire.codes import Flag

VERSION = 2
REPLY = 0x80
PREFIX = struct.Struct("<BBH")  # version, opcode, sequence number: the same in all versions
HEADER = struct.Struct("<BBHI")  # the prefix, and the session
STATUS_SIZE = 1
NO_STEP = -1
TICKS = struct.Struct("<Q")


class MessageError(TargetError):
    """A valid frame that holds no message of this protocol."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A payload: the header and a body.

    Attributes:
        opcode: of the request, in a reply with ``REPLY`` set.
        sequence: number of the request.
        session: number of the session; a reply carries that of its request.
        body: all behind the header; that of a reply starts with the status.
        version: of the protocol.
    """

    opcode: int
    sequence: int
    session: int
    body: bytes
    version: int = VERSION

    def pack(self) -> bytes:
        """Return the payload."""
        return HEADER.pack(self.version, self.opcode, self.sequence, self.session) + self.body

    @classmethod
    def unpack(cls, payload: bytes) -> Message:
        """Return the message in a payload; raises MessageError when it has no header."""
        if len(payload) < HEADER.size:
            raise MessageError("a message is shorter than its header")
        version, opcode, sequence, session = HEADER.unpack_from(payload)
        return cls(
            version=version, opcode=opcode, sequence=sequence, session=session, body=payload[HEADER.size :]
        )


_B = TypeVar("_B", bound="Body")


class Body(msgspec.Struct, frozen=True):
    """A body, or the beginning of one, of fixed layout: the fields in order, packed by ``LAYOUT``."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("")

    def pack(self) -> bytes:
        """Return the body."""
        return self.LAYOUT.pack(*msgspec.structs.astuple(self))

    @classmethod
    def unpack(cls: type[_B], body: bytes) -> _B:
        """Return the fields of a body; raises MessageError when its size is wrong."""
        if len(body) != cls.LAYOUT.size:
            raise MessageError(f"{cls.__name__} has {len(body)} bytes instead of {cls.LAYOUT.size}")
        return cls(*cls.LAYOUT.unpack(body))


# ---- requests ---------------------------------------------------------------------------------


class ModelRequest(Body, frozen=True):
    """MODEL and STATS: the index of the model."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<B")
    model: int


class TensorRequest(Body, frozen=True):
    """TENSOR: model, Direction, and index of the tensor."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BBB")
    model: int
    direction: int
    index: int


class WriteRequest(Body, frozen=True):
    """WRITE: model, index of the input, offset in bytes; the data follows."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BBI")
    model: int
    index: int
    offset: int


class RunRequest(Body, frozen=True):
    """RUN: model, and number of runs."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BI")
    model: int
    count: int


class ReadRequest(Body, frozen=True):
    """READ: model, Direction, index of the tensor, offset and size in bytes."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BBBIH")
    model: int
    direction: int
    index: int
    offset: int
    size: int


class PrepareRequest(Body, frozen=True):
    """PREPARE: model, and the byte to paint with."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BB")
    model: int
    pattern: int


class BaudRequest(Body, frozen=True):
    """BAUD: bits a second; 0: the rate that the device started with."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<I")
    baud: int


class StepRequest(Body, frozen=True):
    """STEP: model, and index of the step in the order of execution."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BH")
    model: int
    step: int


class AdvanceRequest(Body, frozen=True):
    """ADVANCE: model, the first step to run (the device's position, or 0 to begin), and how many."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BHH")
    model: int
    first: int
    count: int


class PeekRequest(Body, frozen=True):
    """PEEK: model, step, Direction, index of the argument, offset and size in bytes."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BHBHIH")
    model: int
    step: int
    direction: int
    index: int
    offset: int
    size: int


# ---- replies, behind their status -------------------------------------------------------------


class VersionReply(Body, frozen=True):
    """Refusal of another version: a whole payload without a session, the same in all versions.

    ``lowest`` and ``highest`` are the versions that the device speaks.
    """

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BBHbBB")
    version: int
    opcode: int
    sequence: int
    status: int
    lowest: int
    highest: int


class SessionReply(Body, frozen=True):
    """Refusal of another session (Status.SESSION): the current one; 0: none since the device started."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<I")
    current: int


class HelloReply(Body, frozen=True):
    """HELLO: the device; flags and the SDK version as a name follow."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BHBHHII")
    version: int
    max_payload: int
    num_models: int
    capabilities: int
    window_bytes: int
    boot_nonce: int
    ticks_hz: int


class ModelReply(Body, frozen=True):
    """MODEL: one model; flags and name follow."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<32sIIHBB")
    archive_sha256: bytes
    arena_bytes: int
    params_bytes: int
    num_steps: int
    num_inputs: int
    num_outputs: int


class TensorReply(Body, frozen=True):
    """TENSOR: one tensor; ``ndim`` extents of 32 bits, then flags and name follow."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<IBBBB")
    size_bytes: int
    type_code: int
    bits: int
    lanes: int
    ndim: int


class WriteReply(Body, frozen=True):
    """WRITE, also with Status.GAP: how many bytes are written without a gap from the beginning."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<I")
    written: int


class RunReply(Body, frozen=True):
    """RUN: the step that failed or NO_STEP, complete runs, and ticks of all of them together."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<iIQ")
    step: int
    runs: int
    ticks: int


class StatsReply(Body, frozen=True):
    """STATS: measurements since PREPARE; ``painted``: bit 0 the arena, bit 1 the stack.

    ``guards``: two for each region of the model; ``guard``: 1 + the first one that was written, 0: none.
    """

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BIIIIIIIHH")
    painted: int
    arena_high_water_bytes: int
    workspace_high_water_bytes: int
    workspace_requests: int
    refused_bytes: int
    stack_bytes: int
    stack_high_water_bytes: int
    dropped_frames: int
    guards: int = 0
    guard: int = 0


def unpack_stats(body: bytes) -> tuple[StatsReply, tuple[int, ...]]:
    """Return the figures of STATS, and the marks of further arenas: a count, then 32 bits each.

    Raises:
        MessageError: the size is wrong.
    """
    fixed = StatsReply.LAYOUT.size
    reply, rest = StatsReply.unpack(body[:fixed]), body[fixed:]
    if rest and len(rest) != 1 + 4 * rest[0]:
        raise MessageError(f"StatsReply has {len(rest)} bytes behind its fields")
    return reply, struct.unpack_from(f"<{rest[0]}I", rest, 1) if rest else ()


class StepReply(Body, frozen=True):
    """STEP: the step's number in the archive, how many inputs and outputs; flags and name follow."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<HHH")
    number: int
    num_inputs: int
    num_outputs: int


class AdvanceReply(Body, frozen=True):
    """ADVANCE: the step that failed or NO_STEP, steps that have run, CRC-32 of the last one's outputs,
    and ticks between two looks at the counter; the ticks of each step follow.
    """

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<iHIQ")
    step: int
    position: int
    crc32: int
    empty_ticks: int


def split(layout: type[_B], body: bytes) -> tuple[_B, bytes]:
    """Return a fixed beginning and the rest of a body; raises MessageError when it is too short."""
    size = layout.LAYOUT.size
    return layout.unpack(body[:size]), body[size:]


def unpack_shape(body: bytes, ndim: int) -> tuple[tuple[int, ...], bytes]:
    """Return ``ndim`` extents and the rest of a body."""
    if len(body) < 4 * ndim:
        raise MessageError("a shape is cut off")
    return struct.unpack_from(f"<{ndim}I", body), body[4 * ndim :]


def pack_name(name: str, room: int, flags: int = 0) -> bytes:
    """Return flags, size and as much of a name as fits ``room`` bytes, cut between characters."""
    data = name.encode()
    limit = min(room - 2, 255)
    if len(data) > limit:
        data = data[:limit].decode(errors="ignore").encode()
        flags |= Flag.NAME_CUT
    return struct.pack("<BB", flags, len(data)) + data


def unpack_name(body: bytes) -> tuple[Flag, DeviceText]:
    """Return the flags and the name at the end of a body."""
    if len(body) < 2 or len(body) != 2 + body[1]:
        raise MessageError("a name has the wrong size")
    return Flag(body[0]), device_text(body[2:])


def unpack_ticks(body: bytes) -> tuple[int, ...]:
    """Return the ticks of each step, which follow an AdvanceReply."""
    if len(body) % TICKS.size:
        raise MessageError("the ticks of a step are cut off")
    return tuple(ticks for (ticks,) in TICKS.iter_unpack(body))
