# SPDX-License-Identifier: Apache-2.0
"""A model on a device, step by step: what each step costs, takes and gives."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.errors import TargetError
from mlf_sdk.wire import protocol
from mlf_sdk.wire.bulk import Transfer, carry
from mlf_sdk.wire.deadline import Deadline
from mlf_sdk.wire.device import ModelInfo
from mlf_sdk.wire.protocol import Capability, Direction, Opcode
from mlf_sdk.wire.session import ModelKey, Session
from mlf_sdk.wire.stepmessages import (
    AdvanceReply,
    AdvanceRequest,
    PeekRequest,
    StepReply,
    StepRequest,
    unpack_ticks,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInfo:
    """A step as the device tells it.

    Attributes:
        index: position in the device's order of execution.
        number: of the same step in the archive.
        num_inputs, num_outputs: arguments that can be read; both 0: the device does not know them.
    """

    index: int
    number: int
    num_inputs: int
    num_outputs: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """Steps that were run.

    Attributes:
        position: steps that have run since the beginning.
        crc32: of the outputs of the last one, all together.
        ticks: of each, without those that looking at the counter takes.
    """

    position: int
    crc32: int
    ticks: tuple[int, ...]


def can_step(session: Session) -> bool:
    """Whether the device runs models step by step."""
    return Capability.STEP in session.info.capabilities


def describe_steps(
    session: Session, model: ModelKey, deadline: Deadline | None = None
) -> tuple[StepInfo, ...]:
    """All steps of a model in the device's order."""
    info = session.model(model)
    found = []
    for index in range(info.num_steps):
        body = session.extension(
            Opcode.STEP, StepRequest(info.index, index).pack(), where=_where(info, index), deadline=deadline
        )
        reply, rest = protocol.split(StepReply, body)
        name = protocol.unpack_name(rest)[1]
        found.append(
            StepInfo(
                index=index,
                number=reply.number,
                num_inputs=reply.num_inputs,
                num_outputs=reply.num_outputs,
                name=name,
            )
        )
    return tuple(found)


def advance(
    session: Session, model: ModelKey, first: int, count: int, deadline: Deadline | None = None
) -> Advance:
    """Run the steps from ``first`` on; as many as one reply tells of, if ``count`` is more.

    ``first`` is the position of the model, or 0: it begins anew, with inputs that are written.
    """
    info = session.model(model)
    until = deadline or Deadline.after(session.timeouts.run_s, session.timeouts.clock)
    request = AdvanceRequest(info.index, first, count)
    body = session.extension(Opcode.ADVANCE, request.pack(), where=_where(info, first), deadline=until)
    reply, rest = protocol.split(AdvanceReply, body)
    ticks = unpack_ticks(rest)
    if not ticks or reply.position != first + len(ticks):
        raise protocol.MessageError("the reply to ADVANCE contradicts itself", where=_where(info, first))
    return Advance(
        position=reply.position,
        crc32=reply.crc32,
        ticks=tuple(max(0, t - reply.empty_ticks) for t in ticks),
    )


def peek(
    session: Session,
    model: ModelKey,
    step: int,
    direction: Direction,
    index: int,
    size_bytes: int,
    deadline: Deadline | None = None,
) -> bytes:
    """All bytes of what a step takes or gives.

    An input can be read right before its step runs, an output right after: later ones may use the memory.
    """
    info = session.model(model)
    where = f"{_where(info, step)}, {direction.name.lower()} {index}"
    data = bytearray(size_bytes)

    def request(start: int, end: int) -> bytes:
        return PeekRequest(info.index, step, direction, index, start, end - start).pack()

    def take(start: int, end: int, piece: bytes) -> None:
        if len(piece) != end - start:
            raise TargetError(f"the device sent {len(piece)} bytes instead of {end - start}", where=where)
        data[start:end] = piece

    link, pace = session.line
    transfer = Transfer(
        opcode=Opcode.PEEK,
        size_bytes=size_bytes,
        room_bytes=pace.payload_bytes - protocol.HEADER.size - protocol.STATUS_SIZE,
        request=request,
        take=take,
        where=where,
    )
    carry(link, pace, transfer, deadline or link.after(session.timeouts.transfer_s))
    return bytes(data)


def _where(info: ModelInfo, step: int) -> str:
    return f"{info.label}, step {step}"
