# SPDX-License-Identifier: Apache-2.0
"""One request, one reply, over a transport that may lose or damage what it carries."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlf_sdk.errors import TargetError
from mlf_sdk.tools.checks import console_text
from mlf_sdk.wire import frames, protocol
from mlf_sdk.wire.codes import (
    DeviceError,
    DeviceFaultError,
    DeviceResetError,
    NoAnswerError,
    Opcode,
    SessionTakenError,
    Status,
)
from mlf_sdk.wire.protocol import Message
from mlf_sdk.wire.transport import Clock, Deadline, RatedTransport, Transport

if TYPE_CHECKING:
    from mlf_sdk.wire.secure import Seal

_LARGEST_PAYLOAD = 16384
_READ_SIZE = 4096
_CONSOLE_PIECES = 4096
_CONSOLE_TAIL = 2000
_BITS = 10  # of a byte on a serial line
_MORE_TIME = "Allow more time (--timeout) if the model is that slow; else a kernel does not return.\n"
_TIME_IS_UP = "The time for all of it ran out: allow more (--timeout) if line or model are that slow.\n"
_FAULT_MARK = "mlf-fault:"
_RUNNING = (Opcode.RUN, Opcode.ADVANCE)  # take as long as the model does
_UNTIL_THE_DEADLINE = (Opcode.HELLO, *_RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Waits in seconds, and the number of tries.

    Attributes:
        first_try_s: wait after the first try; each further wait is ``back_off`` times longer.
        tries: transmissions of a request; HELLO and RUN go on until their deadline.
        back_off: growth of the waits.
        hello_first_s: wait after the first HELLO; None: ``first_try_s``.
        hello_retry_s: the longest wait between two HELLOs.
        hello_s: for a device to boot and to describe itself.
        transfer_s: for all of a tensor.
        run_s: for a run.
        confirm_s: for the first answer at another rate of the line.
        clock: what all of these are measured with.
    """

    first_try_s: float = 0.5
    tries: int = 5
    back_off: float = 2.0
    hello_first_s: float | None = None
    hello_retry_s: float = 1.0
    hello_s: float = 20.0
    transfer_s: float = 60.0
    run_s: float = 60.0
    confirm_s: float = 2.0
    clock: Clock = time.monotonic

    @property
    def silence_s(self) -> float:
        """Longest silence of a device in a transfer, in seconds: the waits of all tries."""
        return sum(self.first_try_s * self.back_off**i for i in range(self.tries))

    def waits(self, opcode: Opcode) -> Iterator[float]:
        """Yield how long to wait for an answer after each transmission of a request."""
        early = self.hello_first_s if opcode is Opcode.HELLO else None
        wait = self.first_try_s if early is None else early
        tries = 0
        while opcode in _UNTIL_THE_DEADLINE or tries < self.tries:
            yield wait
            tries += 1
            wait *= self.back_off
            if opcode is Opcode.HELLO:
                wait = min(wait, self.hello_retry_s)


class Link:
    """Carries requests to a device and its replies back.

    Args:
        transport: the byte stream, closed by ``close``.
        timeouts: waits and tries.
        console: called with each piece of text between messages; None: only collected.
        sequence: number of the first request.

    Attributes:
        session: number of the session, in each request and each reply that is taken.
        seal: codes of the messages of a secured session; None: they have none.
        last_sequence: number of the last request.
        on_silence: called before NoAnswerError; may raise a better explanation.
    """

    def __init__(
        self,
        transport: Transport,
        timeouts: Timeouts,
        *,
        console: Callable[[str], None] | None,
        sequence: int,
    ) -> None:
        self._transport = transport
        self.timeouts = timeouts
        self._listener = console
        self._sequence = sequence
        self._console: deque[str] = deque(maxlen=_CONSOLE_PIECES)
        self._recent = ""
        self._deframer = frames.Deframer(_LARGEST_PAYLOAD, self._on_text)
        self._received: deque[bytes] = deque()
        self.session = 0
        self.seal: Seal | None = None
        self.last_sequence = 0
        self.on_silence: Callable[[Opcode], None] | None = None

    @property
    def console_text(self) -> str:
        """Text that the device printed between messages."""
        return "".join(self._console)

    def close(self) -> None:
        """Close the transport."""
        self._transport.close()

    def after(self, seconds: float) -> Deadline:
        """Return a deadline on the clock of the timeouts."""
        return Deadline.after(seconds, self.timeouts.clock)

    def line_s(self, size_bytes: int) -> float:
        """Return the seconds that bytes are on the line; 0 when its rate is not known."""
        if not isinstance(self._transport, RatedTransport):
            return 0.0
        return size_bytes * _BITS / self._transport.baud

    def _make(self, opcode: Opcode, body: bytes) -> tuple[Message, bytes]:
        """Return the next request, and its frame."""
        request = Message(opcode=opcode, sequence=self._sequence, session=self.session, body=body)
        self.last_sequence = self._sequence
        self._sequence = (self._sequence + 1) & 0xFFFF
        payload = request.pack()
        return request, frames.encode(self.seal.pack(payload, request.sequence) if self.seal else payload)

    def call(self, opcode: Opcode, body: bytes, deadline: Deadline, *, where: str = "") -> bytes:
        """Send a request until it is answered; return the body of the reply behind its status.

        Args:
            opcode: what to ask for.
            body: of the request.
            deadline: for the answer, whatever the number of tries.
            where: the model or tensor it is about, for errors.

        Raises:
            NoAnswerError: the tries or the time ran out.
            DeviceFaultError: the device stopped with a fault.
            DeviceResetError, SessionTakenError, DeviceError: the device answered with an error.
        """
        request, frame = self._make(opcode, body)
        on_line_s = self.line_s(len(frame))
        started = self.timeouts.clock()
        tries = 0
        for wait in self.timeouts.waits(opcode):
            if deadline.expired:
                break
            tries += 1
            self._transport.write(frame, deadline)
            reply = self._receive(request, deadline.within(wait + on_line_s), where)
            if reply is not None:
                return self.result(opcode, reply, where)
        raise self.no_answer(opcode, tries, started, where, late=deadline.expired)

    def post(self, opcode: Opcode, body: bytes, deadline: Deadline) -> int:
        """Send a request once and don't wait; returns its sequence number."""
        request, frame = self._make(opcode, body)
        self._transport.write(frame, deadline)
        return request.sequence

    def next_reply(self, deadline: Deadline, where: str) -> Message | None:
        """Return the next reply to any request of this session; None if the deadline comes first.

        Raises:
            DeviceFaultError: the device stopped with a fault.
        """
        while (payload := self._next_payload(deadline, where)) is not None:
            with suppress(protocol.MessageError):
                reply = Message.unpack(payload)
                if reply.session == self.session:
                    return reply
        return None

    def no_answer(self, opcode: Opcode, tries: int, started: float, where: str, *, late: bool) -> TargetError:
        """Return the exception for a missing answer; raises DeviceFaultError if a fault was reported.

        ``late``: the deadline came, which may be that of more than this request.
        """
        self._deframer.flush(quiet=True)
        self._raise_fault(where)
        waited_s = self.timeouts.clock() - started
        advice = _MORE_TIME if opcode in _RUNNING else _TIME_IS_UP if late and opcode > Opcode.HELLO else ""
        error = NoAnswerError(
            f"the device did not answer {opcode.name} (sent {tries} times) within {waited_s:.1f} s",
            where=where,
            hint=advice + self._last_words(),
        )
        if self.on_silence is not None:
            self.on_silence(opcode)
        return error

    def _receive(self, request: Message, deadline: Deadline, where: str) -> Message | None:
        while (payload := self._next_payload(deadline, where)) is not None:
            _check_version(request, payload)
            reply = _reply_to(request, payload)
            if reply is not None:
                return reply
        return None

    def _next_payload(self, deadline: Deadline, where: str) -> bytes | None:
        while True:
            while self._received:
                payload = self._received.popleft()
                message = self.seal.unpack(payload) if self.seal else payload
                if message is not None:
                    return message
            self._raise_fault(where)
            if deadline.expired:
                return None
            data = self._transport.read(_READ_SIZE, deadline)
            self._received.extend(self._deframer.feed(data))
            if not data:
                self._deframer.flush()

    def result(self, opcode: Opcode, reply: Message, where: str) -> bytes:
        """Return the body of a reply behind its status.

        Raises:
            DeviceResetError, SessionTakenError, DeviceError: the status is not OK.
        """
        status = int.from_bytes(reply.body[: protocol.STATUS_SIZE], "little", signed=True)
        body = reply.body[protocol.STATUS_SIZE :]
        if status == Status.OK:
            return body
        if status == Status.SESSION:
            raise self._session_lost(opcode, body, where)
        step = None
        if opcode in (Opcode.RUN, Opcode.ADVANCE) and len(body) >= 4:  # both begin with the step
            failed = int.from_bytes(body[:4], "little", signed=True)
            step = failed if failed != protocol.NO_STEP else None
        raise DeviceError(status, opcode, where=where, step=step, body=body)

    def _session_lost(self, opcode: Opcode, body: bytes, where: str) -> TargetError:
        if protocol.SessionReply.unpack(body).current == 0:
            return DeviceResetError(
                f"the device was reset before {opcode.name}", where=where, hint=self._last_words()
            )
        return SessionTakenError(
            f"another host has started a session with the device before {opcode.name}",
            where=where,
            hint="End the other program, on this machine or at the other end of the line, and start again.",
        )

    def _on_text(self, data: bytes) -> None:
        text = console_text(data)
        self._console.append(text)
        self._recent = (self._recent + text)[-_CONSOLE_TAIL:]
        if self._listener is not None:
            self._listener(text)

    def _raise_fault(self, where: str) -> None:
        """Raise the fault that the handler reported, once, if any."""
        if _FAULT_MARK not in self._recent:
            return
        from mlf_sdk.triage.fault_report import parse_fault

        fault = parse_fault(self._recent.encode())
        if fault is not None:
            self._recent = ""
            raise DeviceFaultError(fault, where=where)

    def _last_words(self) -> str:
        text = self.console_text[-_CONSOLE_TAIL:].strip()
        return f"The last it printed:\n{text}" if text else "It printed nothing."


def _reply_to(request: Message, payload: bytes) -> Message | None:
    """Return a payload as the reply to a request, or None if it is not one."""
    try:
        reply = Message.unpack(payload)
    except protocol.MessageError:
        return None
    answered = Message(
        opcode=request.opcode | protocol.REPLY,
        sequence=request.sequence,
        session=request.session,
        body=reply.body,
    )
    return reply if reply == answered and reply.body else None


def _check_version(request: Message, payload: bytes) -> None:
    """Raise the DeviceError of a device that refuses HELLO because it speaks other versions."""
    if len(payload) != protocol.VersionReply.LAYOUT.size or request.opcode != Opcode.HELLO:
        return
    reply = protocol.VersionReply.unpack(payload)
    answered = (reply.opcode, reply.sequence) == (request.opcode | protocol.REPLY, request.sequence)
    if answered and reply.status == Status.VERSION:
        error = DeviceError(Status.VERSION, Opcode.HELLO)
        error.hint = f"It speaks versions {reply.lowest} to {reply.highest}, this SDK {protocol.VERSION}."
        raise error
