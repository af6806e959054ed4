# SPDX-License-Identifier: Apache-2.0
"""The fake device's answers to STEP, ADVANCE and PEEK."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from mlf_sdk.testing.fake_model import FakeArgument, FakeFailure, FakeModel, FakeRefusal, FakeStep
from mlf_sdk.wire import protocol
from mlf_sdk.wire.codes import Direction, Status


def describe(model: FakeModel, body: bytes, room: int) -> bytes:
    """Answer STEP."""
    step = _step(model, protocol.StepRequest.unpack(body).step)
    reply = protocol.StepReply(step.number, len(step.inputs), len(step.outputs)).pack()
    return reply + protocol.pack_name(step.name, room - len(reply))


def advance(
    model: FakeModel, body: bytes, room: int, ticks: int, begin: Callable[[FakeModel], None]
) -> bytes:
    """Answer ADVANCE; ``begin`` invalidates the results of earlier runs."""
    request = protocol.AdvanceRequest.unpack(body)
    first, count = request.first, request.count
    if not count or first + count > model.num_steps:
        raise FakeRefusal(Status.ARGUMENT)
    if not model.complete if first == 0 else first != model.position:
        raise FakeRefusal(Status.STATE)
    if first == 0:
        begin(model)
    count = min(count, (room - protocol.AdvanceReply.LAYOUT.size) // protocol.TICKS.size)
    for position in range(first, first + count):
        try:
            model.steps[position].run(model.arena)
        except FakeFailure as failure:
            model.position = 0
            reply = protocol.AdvanceReply(failure.step, position, 0, ticks).pack()
            raise FakeRefusal(
                failure.status, reply + protocol.TICKS.pack(ticks) * (position - first)
            ) from None
    model.position = first + count
    model.has_outputs = model.position == model.num_steps
    crc = 0
    for output in model.steps[model.position - 1].outputs:
        crc = zlib.crc32(_bytes(model, output), crc)
    return (
        protocol.AdvanceReply(protocol.NO_STEP, model.position, crc, ticks).pack()
        + protocol.TICKS.pack(ticks) * count
    )


def peek(model: FakeModel, body: bytes, room: int) -> bytes:
    """Answer PEEK."""
    request = protocol.PeekRequest.unpack(body)
    step = _step(model, request.step)
    known = {Direction.INPUT.value: step.inputs, Direction.OUTPUT.value: step.outputs}
    arguments = known.get(request.direction, ())
    if request.index >= len(arguments):
        raise FakeRefusal(Status.TENSOR)
    data = _bytes(model, arguments[request.index])
    if request.offset + request.size > len(data):
        raise FakeRefusal(Status.RANGE)
    wanted = request.step + (request.direction == Direction.OUTPUT)
    if model.position != wanted or (wanted == 0 and not model.complete):
        raise FakeRefusal(Status.STATE)
    if request.size > room:
        raise FakeRefusal(Status.CAPACITY)
    return data[request.offset : request.offset + request.size]


def _step(model: FakeModel, index: int) -> FakeStep:
    if index >= model.num_steps:
        raise FakeRefusal(Status.STEP)
    return model.steps[index]


def _bytes(model: FakeModel, argument: FakeArgument) -> bytes:
    if isinstance(argument, bytes):
        return argument
    return bytes(model.arena[argument[0] : argument[0] + argument[1]])
