# SPDX-License-Identifier: Apache-2.0
"""A session with a device: write inputs, run, read outputs; lost and damaged frames are repaired.

A request that is not answered is sent again with the same sequence number, and the device answers a
repeated request from its last reply: nothing is ever run twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, cast

import numpy as np

from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire import device, protocol
from mlf_sdk.wire.bulk import Pace
from mlf_sdk.wire.codes import Capability, Direction, Flag, NoAnswerError, Opcode
from mlf_sdk.wire.device import DeviceInfo, Inputs, ModelInfo, RunResult, Stats, TensorInfo
from mlf_sdk.wire.link import Link, Timeouts
from mlf_sdk.wire.rate import LineRate
from mlf_sdk.wire.transport import Deadline, Transport

if TYPE_CHECKING:
    from mlf_sdk.tools.signing import Signer

__all__ = ["Session", "Timeouts"]

ModelKey = int | str | ModelInfo

_LEAST_PAYLOAD = 64


class Session:
    """A session over a transport, which belongs to it from now on.

    Args:
        transport: bytes to and from the device.
        timeouts: how long to wait, and how often to try.
        console: called with each piece of text that the device prints between messages.
        max_baud: ``hello`` raises the rate of the line to this, when the device, the port and the line can.
        draw: returns a number below its argument; makes session and sequence numbers.

    Attributes:
        runs: how often the device was asked to run something, also step by step.
        signer: opens secured sessions; None: only devices that ask for no key can be talked to.

    Every method may raise NoAnswerError, DeviceResetError, SessionTakenError and DeviceError, all of them
    TargetError.
    Where no deadline is given, one is made from ``timeouts``.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        timeouts: Timeouts | None = None,
        console: Callable[[str], None] | None = None,
        max_baud: int = 0,
        draw: Callable[[int], int] = secrets.randbelow,
    ) -> None:
        self.timeouts = timeouts or Timeouts()
        self._link = Link(transport, self.timeouts, console=console, sequence=draw(1 << 16))
        self._draw = draw
        self._rate = LineRate(self._link, transport)
        self._max_baud = max_baud
        self._pace = Pace(window_bytes=0, payload_bytes=_LEAST_PAYLOAD)
        self._info: DeviceInfo | None = None
        self.runs = 0
        self.signer: Signer | None = None

    def __enter__(self) -> Session:
        """Return the session; leaving the block closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the transport."""
        self.close()

    def close(self) -> None:
        """Close the transport; a rate that was raised is taken back first, as far as that is possible."""
        self._rate.restore()
        self._link.close()

    @property
    def baud(self) -> int:
        """Bits a second of the line; 0: unknown, or it has none."""
        return self._rate.baud

    def raise_baud(self, baud: int, deadline: Deadline | None = None) -> int:
        """Run the line faster, if the device, the port and the line can; returns the rate in force.

        Raises:
            NoAnswerError: the device can't be reached any more.
        """
        if Capability.BAUD in self.info.capabilities:
            self._rate.raise_to(baud, deadline or self._link.after(self.timeouts.hello_s))
        return self.baud

    @property
    def console_text(self) -> str:
        """Return the text that the device printed so far (the last part of a long one)."""
        return self._link.console_text

    @property
    def info(self) -> DeviceInfo:
        """Return the description that ``hello`` got; raises TargetError before it was called."""
        if self._info is None:
            raise TargetError("no session was started", hint="Call hello() first.")
        return self._info

    @property
    def has_begun(self) -> bool:
        """Return whether the device answered a ``hello``."""
        return self._info is not None

    # ---- description ----------------------------------------------------------------------------

    def hello(self, deadline: Deadline | None = None) -> DeviceInfo:
        """Start a session and return what the device holds; waits for a device that is still booting.

        Nothing that an earlier session left on the device is valid afterwards. The rate of the line is
        raised, if that was asked for; a line that does not carry it stays at its first one.
        """
        until = deadline or self._link.after(self.timeouts.hello_s)
        self._link.session = self._draw((1 << 32) - 1) + 1
        self._link.seal = None
        hello, rest = protocol.split(protocol.HelloReply, self._greet(until))
        if Capability.SECURE in Capability(hello.capabilities) or self.signer is not None:
            hello, rest = self._unlock(Capability(hello.capabilities), until)
        if hello.max_payload < _LEAST_PAYLOAD:
            raise TargetError(f"the device's largest message has {hello.max_payload} bytes, which is too few")
        self._rate.boot_nonce = hello.boot_nonce
        self._pace = Pace(window_bytes=hello.window_bytes, payload_bytes=hello.max_payload)
        self._info = DeviceInfo(
            protocol_version=hello.version,
            sdk_version=protocol.unpack_name(rest)[1],
            max_payload=hello.max_payload,
            capabilities=Capability(hello.capabilities),
            boot_nonce=hello.boot_nonce,
            ticks_hz=hello.ticks_hz,
            window_bytes=hello.window_bytes,
            build_id=self._build_id(Capability(hello.capabilities), until),
            models=tuple(self._describe_model(index, until) for index in range(hello.num_models)),
        )
        self.raise_baud(self._max_baud, until)
        return self._info

    def _greet(self, until: Deadline) -> bytes:
        """Send HELLO at the present rate, then at the first one, which a device has after a reset."""
        if self._rate.is_raised:
            with suppress(NoAnswerError):
                return self._link.call(Opcode.HELLO, b"", until.within(self.timeouts.confirm_s))
            self._rate.fall_back()
        return self._link.call(Opcode.HELLO, b"", until)

    def _unlock(self, can: Capability, until: Deadline) -> tuple[protocol.HelloReply, bytes]:
        """Open a secured session; return the parts of the HELLO that the device answers in it."""
        from mlf_sdk.wire import secure  # few devices are locked

        if Capability.SECURE not in can:
            raise secure.not_locked_error()
        build_id = bytes.fromhex(self._build_id(can, until))
        if self.signer is None:
            raise secure.locked_error(build_id)
        secure.open_secured(self._link, self.signer, build_id, until)
        return protocol.split(protocol.HelloReply, self._link.call(Opcode.HELLO, b"", until))

    def _build_id(self, can: Capability, deadline: Deadline) -> str:
        return self._link.call(Opcode.BUILD, b"", deadline).hex() if Capability.BUILD in can else ""

    def _describe_model(self, index: int, deadline: Deadline) -> ModelInfo:
        where = f"model {index}"
        body = self._link.call(Opcode.MODEL, protocol.ModelRequest(index).pack(), deadline, where=where)
        reply, rest = protocol.split(protocol.ModelReply, body)
        flags, name = protocol.unpack_name(rest)

        def tensors(direction: Direction, count: int) -> tuple[TensorInfo, ...]:
            return tuple(self._describe_tensor(index, direction, i, deadline) for i in range(count))

        return ModelInfo(
            index=index,
            name=name,
            name_cut=Flag.NAME_CUT in flags,
            archive_sha256=reply.archive_sha256.hex(),
            num_steps=reply.num_steps,
            arena_bytes=reply.arena_bytes,
            params_bytes=reply.params_bytes,
            inputs_kept=Flag.INPUTS_KEPT in flags,
            inputs=tensors(Direction.INPUT, reply.num_inputs),
            outputs=tensors(Direction.OUTPUT, reply.num_outputs),
        )

    def _describe_tensor(
        self, model: int, direction: Direction, index: int, deadline: Deadline
    ) -> TensorInfo:
        request = protocol.TensorRequest(model, direction, index)
        where = f"model {model}, {direction.name.lower()} {index}"
        body = self._link.call(Opcode.TENSOR, request.pack(), deadline, where=where)
        reply, rest = protocol.split(protocol.TensorReply, body)
        shape, rest = protocol.unpack_shape(rest, reply.ndim)
        flags, name = protocol.unpack_name(rest)
        return TensorInfo(
            direction=direction,
            index=index,
            name=name,
            name_cut=Flag.NAME_CUT in flags,
            shape=shape,
            type_code=reply.type_code,
            bits=reply.bits,
            lanes=reply.lanes,
            size_bytes=reply.size_bytes,
            streamed=Flag.STREAMED in flags,
        )

    def model(self, key: ModelKey) -> ModelInfo:
        """Return a model by index, by name, or by its description; raises InputError."""
        models = self.info.models
        if isinstance(key, ModelInfo):
            key = key.index
        result = [model for model in models if key in (model.index, model.name)]
        if len(result) != 1:
            names = ", ".join(model.label for model in models) or "none"
            raise InputError(f"the device has no single model {key!r}", hint=f"It has: {names}.")
        return result[0]

    # ---- inference ------------------------------------------------------------------------------

    def write_input(
        self, model: ModelKey, index: int, array: Array, deadline: Deadline | None = None
    ) -> None:
        """Write an input; ``array`` has exactly its shape and element type (else InputError)."""
        info = self.model(model)
        tensor = device.pick(info, info.inputs, index)
        data = device.bytes_of(array, tensor, info)
        until = deadline or self._link.after(self.timeouts.transfer_s)
        device.write_tensor(self._link, self._pace, info, tensor, data, until)

    def write_inputs(self, model: ModelKey, inputs: Inputs, deadline: Deadline | None = None) -> None:
        """Write all inputs: an array for each, in order, or by name (or by index as text)."""
        info = self.model(model)
        for index, array in enumerate(device.arrays_of(info, inputs)):
            self.write_input(info, index, array, deadline)

    def run(self, model: ModelKey, count: int = 1, deadline: Deadline | None = None) -> RunResult:
        """Run a model ``count`` times on its inputs; more than once only if it keeps its inputs."""
        info = self.model(model)
        if not 1 <= count < 1 << 32:
            raise InputError(f"a model cannot be run {count} times", where=info.label)
        until = deadline or self._link.after(self.timeouts.run_s)
        request = protocol.RunRequest(info.index, count).pack()
        self.runs += count
        body = self._link.call(Opcode.RUN, request, until, where=info.label)
        reply = protocol.RunReply.unpack(body)
        return RunResult(runs=reply.runs, ticks=reply.ticks)

    def read_output(self, model: ModelKey, index: int, deadline: Deadline | None = None) -> Array:
        """Return an output of the last run as a new array."""
        info = self.model(model)
        return self._read(info, device.pick(info, info.outputs, index), deadline)

    def read_outputs(self, model: ModelKey, deadline: Deadline | None = None) -> list[Array]:
        """Return all outputs of the last run as new arrays."""
        info = self.model(model)
        return [self._read(info, tensor, deadline) for tensor in info.outputs]

    def read_input(self, model: ModelKey, index: int, deadline: Deadline | None = None) -> Array:
        """Return the content of an input as a new array; it must be completely written."""
        info = self.model(model)
        return self._read(info, device.pick(info, info.inputs, index), deadline)

    def _read(self, info: ModelInfo, tensor: TensorInfo, deadline: Deadline | None) -> Array:
        dtype = tensor.dtype
        until = deadline or self._link.after(self.timeouts.transfer_s)
        data = device.read_tensor(self._link, self._pace, info, tensor, until)
        return np.frombuffer(data, dtype=dtype).reshape(tensor.shape)

    def infer(self, model: ModelKey, inputs: Inputs, deadline: Deadline | None = None) -> list[Array]:
        """Write all inputs, run once and return all outputs.

        Args:
            model: which.
            inputs: an array for each input, in order, or by name (or by index as text).
            deadline: for all of it together.
        """
        self.write_inputs(model, inputs, deadline)
        self.run(model, deadline=deadline)
        return self.read_outputs(model, deadline)

    @property
    def line(self) -> tuple[Link, Pace]:
        """Return the link and its pace, for other modules of this package."""
        return self._link, self._pace

    def extension(
        self, opcode: IntEnum, body: bytes, *, where: str = "", deadline: Deadline | None = None
    ) -> bytes:
        """Send a request of a firmware's extension; return the body of the reply behind its status."""
        until = deadline or self._link.after(self.timeouts.transfer_s)
        self.runs += 1  # it may run steps
        return self._link.call(cast(Opcode, opcode), body, until, where=where)

    # ---- measuring ------------------------------------------------------------------------------

    def prepare(self, model: ModelKey, pattern: int, deadline: Deadline | None = None) -> None:
        """Paint the arena and the free stack with a byte, and reset the measurements.

        The inputs are not written and the outputs not valid afterwards.
        """
        info = self.model(model)
        if not 0 <= pattern <= 0xFF:
            raise InputError(f"{pattern} is not a byte", where=info.label)
        until = deadline or self._link.after(self.timeouts.transfer_s)
        request = protocol.PrepareRequest(info.index, pattern).pack()
        if self._link.call(Opcode.PREPARE, request, until, where=info.label):
            raise protocol.MessageError("the reply to PREPARE has a body", where=info.label)

    def stats(self, model: ModelKey, deadline: Deadline | None = None) -> Stats:
        """Return the measurements since ``prepare``."""
        info = self.model(model)
        until = deadline or self._link.after(self.timeouts.transfer_s)
        body = self._link.call(
            Opcode.STATS, protocol.ModelRequest(info.index).pack(), until, where=info.label
        )
        reply, more = protocol.unpack_stats(body)
        can = self.info.capabilities
        trace, stack = Capability.TRACE in can, Capability.STACK in can
        return Stats(
            arena_high_water_bytes=reply.arena_high_water_bytes if reply.painted & 1 else None,
            more_high_water_bytes=more if reply.painted & 1 else (),
            workspace_high_water_bytes=reply.workspace_high_water_bytes if trace else None,
            workspace_requests=reply.workspace_requests if trace else None,
            refused_bytes=reply.refused_bytes if trace else None,
            stack_bytes=reply.stack_bytes if stack else None,
            stack_high_water_bytes=reply.stack_high_water_bytes if reply.painted & 2 else None,
            dropped_frames=reply.dropped_frames,
            guards=reply.guards or None,
            written_guard=reply.guard - 1 if reply.guard else None,
        )
