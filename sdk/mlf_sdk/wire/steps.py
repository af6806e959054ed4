# SPDX-License-Identifier: Apache-2.0
"""Single steps of a model on a device: description, ticks, inputs and outputs."""

from __future__ import annotations

import msgspec

from mlf_sdk.tools.checks import DeviceText
from mlf_sdk.wire import protocol
from mlf_sdk.wire.bulk import read_all
from mlf_sdk.wire.codes import Capability, Direction, Opcode
from mlf_sdk.wire.device import ModelInfo
from mlf_sdk.wire.session import ModelKey, Session
from mlf_sdk.wire.transport import Deadline


class StepInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a step by the device.

    Attributes:
        index: position in the device's order of execution.
        number: of the same step in the archive.
        num_inputs, num_outputs: arguments that can be read; both 0: not known.
    """

    index: int
    number: int
    num_inputs: int
    num_outputs: int
    name: DeviceText


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """Result of steps that were run.

    Attributes:
        position: steps that have run since the beginning.
        crc32: of the outputs of the last one, all together.
        ticks: of each, without those that looking at the counter takes.
    """

    position: int
    crc32: int
    ticks: tuple[int, ...]


def can_step(session: Session) -> bool:
    """Return True when the device runs models step by step."""
    return Capability.STEP in session.info.capabilities


def describe_steps(
    session: Session, model: ModelKey, deadline: Deadline | None = None
) -> tuple[StepInfo, ...]:
    """Return all steps of a model in the device's order."""
    info = session.model(model)
    result = []
    for index in range(info.num_steps):
        body = session.extension(
            Opcode.STEP,
            protocol.StepRequest(info.index, index).pack(),
            where=_where(info, index),
            deadline=deadline,
        )
        reply, rest = protocol.split(protocol.StepReply, body)
        name = protocol.unpack_name(rest)[1]
        result.append(
            StepInfo(
                index=index,
                number=reply.number,
                num_inputs=reply.num_inputs,
                num_outputs=reply.num_outputs,
                name=name,
            )
        )
    return tuple(result)


def advance(
    session: Session, model: ModelKey, first: int, count: int, deadline: Deadline | None = None
) -> Advance:
    """Run the steps from ``first`` on; at most as many as one reply describes.

    ``first`` is the position of the model, or 0: it begins anew, with inputs that are written.
    """
    info = session.model(model)
    until = deadline or Deadline.after(session.timeouts.run_s, session.timeouts.clock)
    request = protocol.AdvanceRequest(info.index, first, count)
    body = session.extension(Opcode.ADVANCE, request.pack(), where=_where(info, first), deadline=until)
    reply, rest = protocol.split(protocol.AdvanceReply, body)
    ticks = protocol.unpack_ticks(rest)
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
    """Return all bytes of an argument of a step.

    An input can be read right before its step runs, an output right after: later ones may use the memory.
    """
    info = session.model(model)
    where = f"{_where(info, step)}, {direction.name.lower()} {index}"

    def request(start: int, end: int) -> bytes:
        return protocol.PeekRequest(info.index, step, direction, index, start, end - start).pack()

    link, pace = session.line
    until = deadline or link.after(session.timeouts.transfer_s)
    return bytes(read_all(link, pace, Opcode.PEEK, size_bytes, request, where, until))


def _where(info: ModelInfo, step: int) -> str:
    return f"{info.label}, step {step}"
