# SPDX-License-Identifier: Apache-2.0
"""A device in this process that answers like the C server, for tests without a target.

Give ``FakeDevice.feed`` to a ``LoopbackTransport``. The shared vectors hold it to the C server.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec

from mlf_sdk.testing import fake_steps
from mlf_sdk.testing.fake_model import FakeClock, FakeFailure, FakeModel, FakeStep, FakeStream, FakeTensor
from mlf_sdk.testing.fake_model import FakeRefusal as _Refused
from mlf_sdk.wire import frames, protocol
from mlf_sdk.wire.codes import Capability, Direction, Flag, Opcode, Status
from mlf_sdk.wire.protocol import Message

__all__ = ["FakeClock", "FakeDevice", "FakeFailure", "FakeModel", "FakeStep", "FakeStream", "FakeTensor"]


_MAX_CONSECUTIVE_DROPS = 9  # as in mlf_rpc.c
_DROPS_AT_NEW_BAUD = 6
_MOST_ZEROS = 8


class FakeDevice:
    """A device without a stack or a workspace trace.

    Attributes:
        runs: how many runs were started since the device was made, to prove that none was doubled.
    """

    def __init__(  # noqa: PLR0913 (one keyword for each fault it can play)
        self,
        models: list[FakeModel],
        *,
        max_payload: int = 512,
        boot_nonce: int = 1,
        ticks_hz: int = 1_000_000,
        ticks_per_call: int = 1000,
        sdk_version: str = "",
        window_bytes: int = 0,
        baud: Callable[[int, bool], bool] | None = None,
        observe: bool = False,
        build_id: bytes = b"",
    ) -> None:
        self.models = models
        self.max_payload = max_payload
        self.boot_nonce = boot_nonce
        self.ticks_hz = ticks_hz
        self.ticks_per_call = ticks_per_call
        self.sdk_version = sdk_version
        self.window_bytes = window_bytes
        self.baud = baud
        self.observe = observe
        self.build_id = build_id
        self.runs = 0
        self.reset()

    def reset(self) -> None:
        """Start anew, as after power-on; the boot nonce is the caller's to change."""
        self._pending = b""
        self._dropped = 0
        self._session = 0
        self._last: tuple[int, bytes] | None = None
        self._reply = b""
        self._next_baud: int | None = None
        self._consecutive_drops = 0
        self._zeros = 0
        for model in self.models:
            model.forget()

    def feed(self, data: bytes) -> bytes:
        """Take received bytes and return what the device sends for them."""
        *chunks, self._pending = (self._pending + data).split(frames.DELIMITER)
        sent = b""
        for chunk in chunks:
            self._zeros = 0 if chunk else self._zeros + 1
            if not chunk:
                if self._zeros % _MOST_ZEROS == 0:
                    self._count_drop()
                continue
            sent += self._receive(chunk)
            if self._next_baud is not None:
                baud, self._next_baud = self._next_baud, None
                self._change_baud(baud)
        return sent

    def _receive(self, chunk: bytes) -> bytes:
        try:
            payload = frames.decode(chunk)
        except frames.FrameError:
            payload = b""
        least = protocol.HEADER.size if payload[:1] == bytes([protocol.VERSION]) else protocol.PREFIX.size
        if least <= len(payload) <= self.max_payload and not payload[1] & protocol.REPLY:
            return self._handle(payload)
        self._dropped += 1
        self._count_drop()
        return b""

    def _count_drop(self) -> None:
        if self._consecutive_drops:
            self._consecutive_drops += 1
            if self._consecutive_drops > _MAX_CONSECUTIVE_DROPS:
                self._change_baud(0)

    # ---- sessions and sequence numbers ----------------------------------------------------------

    def _handle(self, payload: bytes) -> bytes:
        self._consecutive_drops = min(self._consecutive_drops, 1)
        version, opcode, sequence = protocol.PREFIX.unpack_from(payload)
        if version != protocol.VERSION:
            speaks = (protocol.VERSION, protocol.VERSION)
            refusal = (protocol.VERSION, opcode | protocol.REPLY, sequence, Status.VERSION, *speaks)
            return frames.encode(protocol.VersionReply(*refusal).pack())
        request = Message.unpack(payload)
        if opcode == Opcode.HELLO and not request.body:
            self._start_session(request.session)
        if self._session == 0 or request.session != self._session:
            return _frame(request, Status.SESSION, protocol.SessionReply(self._session).pack())
        if self._last is not None:
            ahead = (request.sequence - self._last[0]) & 0xFFFF
            if ahead == 0 and payload == self._last[1]:
                return self._reply
            if ahead == 0 or ahead >= 0x8000:
                return _frame(request, Status.SEQUENCE)
        self._last = (request.sequence, payload)
        try:
            self._reply = _frame(request, Status.OK, self._carry_out(request))
        except _Refused as refused:
            self._reply = _frame(request, refused.status, refused.body)
        return self._reply

    def _start_session(self, session: int) -> None:
        if session not in (0, self._session):
            self._session = session
            self._last = None
            for model in self.models:
                model.forget()

    def _carry_out(self, request: Message) -> bytes:
        if request.opcode == Opcode.BAUD and self.baud is not None:
            return self._baud(request.body)
        if request.opcode == Opcode.BUILD:
            return self._build(request.body)
        handlers: dict[int, tuple[Callable[[FakeModel, bytes], bytes], int, bool]] = {
            Opcode.MODEL: (self._model, 1, False),
            Opcode.TENSOR: (self._tensor, 3, False),
            Opcode.WRITE: (self._write, 6, True),
            Opcode.RUN: (self._run, 5, False),
            Opcode.READ: (self._read, 9, False),
            Opcode.STATS: (self._stats, 1, False),
            Opcode.PREPARE: (self._prepare, 2, False),
        }
        if self.observe:
            handlers[Opcode.STEP] = (self._step, 3, False)
            handlers[Opcode.ADVANCE] = (self._advance, 5, False)
            handlers[Opcode.PEEK] = (self._peek, 12, False)
        if request.opcode == Opcode.HELLO:
            return self._hello(request.body)
        if request.opcode not in handlers:
            raise _Refused(Status.OPCODE)
        handler, size, more = handlers[request.opcode]
        if len(request.body) < size or (len(request.body) > size and not more):
            raise _Refused(Status.LENGTH)
        if request.body[0] >= len(self.models):
            raise _Refused(Status.MODEL)
        return handler(self.models[request.body[0]], request.body)

    # ---- requests -------------------------------------------------------------------------------

    def _room(self, body: bytes) -> int:
        return self.max_payload - protocol.HEADER.size - protocol.STATUS_SIZE - len(body)

    def _hello(self, body: bytes) -> bytes:
        if body:
            raise _Refused(Status.LENGTH)
        reply = protocol.HelloReply(
            protocol.VERSION,
            self.max_payload,
            len(self.models),
            Capability.TICKS
            | (Capability.BAUD if self.baud else 0)
            | (Capability.BUILD if self.build_id else 0)
            | (Capability.STEP if self.observe else 0),
            self.window_bytes,
            self.boot_nonce,
            self.ticks_hz,
        ).pack()
        return reply + protocol.pack_name(self.sdk_version, self._room(reply))

    def _build(self, body: bytes) -> bytes:
        if body:
            raise _Refused(Status.LENGTH)
        if not self.build_id:
            raise _Refused(Status.OPCODE)
        return self.build_id

    def _model(self, model: FakeModel, _: bytes) -> bytes:
        reply = protocol.ModelReply(
            model.archive_sha256,
            len(model.arena),
            model.params_bytes,
            model.num_steps,
            len(model.inputs),
            len(model.outputs),
        ).pack()
        flags = Flag.INPUTS_KEPT if model.inputs_kept else 0
        return reply + protocol.pack_name(model.name, self._room(reply), flags)

    def _tensor(self, model: FakeModel, body: bytes) -> bytes:
        request = protocol.TensorRequest.unpack(body)
        tensor = _find(model, request.direction, request.index)
        reply = protocol.TensorReply(
            tensor.size_bytes, tensor.type_code, tensor.bits, tensor.lanes, len(tensor.shape)
        ).pack()
        if max((0, *tensor.shape)) > 0xFFFFFFFF:
            raise _Refused(Status.CAPACITY)
        reply += struct.pack(f"<{len(tensor.shape)}I", *tensor.shape)
        if self._room(reply) < 2:
            raise _Refused(Status.CAPACITY)
        flags = Flag.STREAMED if model.is_streamed(request.direction, request.index) else 0
        return reply + protocol.pack_name(tensor.name, self._room(reply), flags)

    def _write(self, model: FakeModel, body: bytes) -> bytes:
        request, data = protocol.split(protocol.WriteRequest, body)
        tensor = _find(model, Direction.INPUT, request.index)
        end = request.offset + len(data)
        if end > tensor.size_bytes:
            raise _Refused(Status.RANGE)
        written = model.written[request.index]
        if request.offset > written:
            raise _Refused(Status.GAP, protocol.WriteReply(written).pack())
        if model.is_streamed(Direction.INPUT, request.index):
            if model.take(request.offset, data):
                self._disturb(model)
            return protocol.WriteReply(model.written[request.index]).pack()
        if data:
            self._disturb(model)
            model.has_outputs = model.has_outputs and model.inputs_kept
            model.position = 0
            start = tensor.offset + request.offset
            model.arena[start : start + len(data)] = data
        model.written[request.index] = max(written, end)
        return protocol.WriteReply(model.written[request.index]).pack()

    def _run(self, model: FakeModel, body: bytes) -> bytes:
        count = protocol.RunRequest.unpack(body).count
        if count == 0 or (count > 1 and not model.inputs_kept):
            raise _Refused(Status.ARGUMENT)
        if not model.complete:
            raise _Refused(Status.STATE)
        self._begin(model)
        for done in range(count):
            self.runs += 1
            try:
                model.run(model.arena)
            except FakeFailure as failure:
                reply = protocol.RunReply(failure.step, done, self.ticks_per_call)
                raise _Refused(failure.status, reply.pack()) from None
        model.has_outputs = True
        return protocol.RunReply(protocol.NO_STEP, count, self.ticks_per_call).pack()

    def _begin(self, model: FakeModel) -> None:
        self._disturb(model)
        model.has_outputs = False
        model.position = 0
        if not model.inputs_kept:
            model.written = [0] * len(model.inputs)

    def _step(self, model: FakeModel, body: bytes) -> bytes:
        return fake_steps.describe(model, body, self._room(b""))

    def _advance(self, model: FakeModel, body: bytes) -> bytes:
        return fake_steps.advance(model, body, self._room(b""), self.ticks_per_call, self._begin)

    def _peek(self, model: FakeModel, body: bytes) -> bytes:
        return fake_steps.peek(model, body, self._room(b""))

    def _read(self, model: FakeModel, body: bytes) -> bytes:
        request = protocol.ReadRequest.unpack(body)
        tensor = _find(model, request.direction, request.index)
        if request.offset + request.size > tensor.size_bytes:
            raise _Refused(Status.RANGE)
        streamed = model.is_streamed(request.direction, request.index)
        output = request.direction == Direction.OUTPUT
        valid = model.has_outputs if output else model.written[request.index] == tensor.size_bytes
        if streamed or not valid:
            raise _Refused(Status.STATE)
        if request.size > self._room(b""):
            raise _Refused(Status.CAPACITY)
        start = tensor.offset + request.offset
        return bytes(model.arena[start : start + request.size])

    def _stats(self, model: FakeModel, _: bytes) -> bytes:
        high_water = 0
        if model.pattern is not None:
            high_water = len(model.arena.rstrip(bytes([model.pattern])))
        painted = model.pattern is not None and bool(model.arena)
        return protocol.StatsReply(painted, high_water, 0, 0, 0, 0, 0, self._dropped).pack()

    def _prepare(self, model: FakeModel, body: bytes) -> bytes:
        self._disturb(model)
        model.forget()
        model.pattern = protocol.PrepareRequest.unpack(body).pattern
        model.arena[:] = bytes([model.pattern]) * len(model.arena)
        return b""

    def _baud(self, body: bytes) -> bytes:
        if len(body) != protocol.BaudRequest.LAYOUT.size:
            raise _Refused(Status.LENGTH)
        wanted = protocol.BaudRequest.unpack(body).baud
        if wanted and self.baud is not None and not self.baud(wanted, False):
            raise _Refused(Status.ARGUMENT)
        self._next_baud = wanted
        return b""

    def _change_baud(self, baud: int) -> None:
        self._consecutive_drops = _DROPS_AT_NEW_BAUD if baud else 0
        if self.baud is not None:
            self.baud(baud, True)

    def _disturb(self, model: FakeModel) -> None:
        for other in self.models:
            if other is not model and other.arena is model.arena:
                other.forget()


def _frame(request: Message, status: int, body: bytes = b"") -> bytes:
    head = status.to_bytes(protocol.STATUS_SIZE, "little", signed=True)
    reply = msgspec.structs.replace(request, opcode=request.opcode | protocol.REPLY, body=head + body)
    return frames.encode(reply.pack())


def _find(model: FakeModel, direction: int, index: int) -> FakeTensor:
    tensors = {Direction.INPUT.value: model.inputs, Direction.OUTPUT.value: model.outputs}.get(direction, ())
    if index >= len(tensors):
        raise _Refused(Status.TENSOR)
    return tensors[index]
