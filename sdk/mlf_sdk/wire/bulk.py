# SPDX-License-Identifier: Apache-2.0
"""Bulk transfer: pieces in flight up to the device's window, of a size that adapts to losses.

WRITE and READ may be repeated: a piece that was lost is asked for again under a new number, so that a
device needs to keep no more than its last reply. Replies come in the order of the requests; a reply to a
later request says that an earlier one, or its reply, is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from mlf_sdk.errors import TargetError
from mlf_sdk.wire import frames, protocol
from mlf_sdk.wire.codes import DeviceResetError, Opcode, Status
from mlf_sdk.wire.link import Link
from mlf_sdk.wire.protocol import Message
from mlf_sdk.wire.transport import Deadline

UNBOUNDED_WINDOW = 0xFFFF
_MOST_IN_FLIGHT = 8
_LEAST_PIECE = 48
_REPLIES_TO_GROW = 8
_LEAST_WAIT_S = 0.02


@dataclass(slots=True, kw_only=True)
class Pace:
    """Adaptive limits of a line: window, piece size, round-trip time; lives as long as the session.

    Attributes:
        window_bytes: bytes that the device takes while it is busy with a request.
        payload_bytes: the largest payload.
        most: requests in flight at most; piece_bytes: data bytes of a piece at most; both adapt.
        round_trip_s: smoothed time from request to reply; None: not known yet.
    """

    window_bytes: int
    payload_bytes: int
    most: int = _MOST_IN_FLIGHT
    piece_bytes: int = 1 << 16
    round_trip_s: float | None = None
    _good: int = field(default=0, repr=False)

    def good(self, round_trip_s: float) -> None:
        """Record a piece that came through at once."""
        known = self.round_trip_s
        self.round_trip_s = max(round_trip_s, 0.9 * (known or 0.0) + 0.1 * round_trip_s)
        self._good += 1
        if self._good >= _REPLIES_TO_GROW:
            self._good = 0
            self.piece_bytes = min(self.payload_bytes, self.piece_bytes + self.piece_bytes // 2)
            self.most = min(_MOST_IN_FLIGHT, self.most + 1)

    def lost(self) -> None:
        """Record a lost piece: shorter ones have better chances."""
        self._good = 0
        size = min(self.piece_bytes, self.payload_bytes)
        self.piece_bytes = max(_LEAST_PIECE, size // 2)
        self.most = max(2, self.most // 2)


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer of ``size_bytes`` in pieces of up to ``room_bytes``.

    Attributes:
        request: the body of the request for the bytes from start to end.
        take: handed start, end, and the body of the reply behind its status.
        where: the tensor, for errors.
    """

    opcode: Opcode
    size_bytes: int
    room_bytes: int
    request: Callable[[int, int], bytes]
    take: Callable[[int, int, bytes], None]
    where: str


class InFlight(msgspec.Struct, frozen=True):
    """A request without a reply yet: bytes from start to end, in a frame of so many bytes."""

    start: int
    end: int
    frame_bytes: int


def carry(link: Link, pace: Pace, transfer: Transfer, deadline: Deadline) -> None:
    """Carry all of a transfer.

    Raises:
        NoAnswerError: the device was silent for too long, or the deadline came.
        DeviceResetError, DeviceError: the device answered with an error.
    """
    _Carrier(link, pace, transfer, deadline).run()


def read_all(
    link: Link,
    pace: Pace,
    opcode: Opcode,
    size_bytes: int,
    request: Callable[[int, int], bytes],
    where: str,
    deadline: Deadline,
) -> bytearray:
    """Return ``size_bytes`` bytes that the device sends in pieces.

    Args:
        link, pace: the line.
        opcode: of the requests.
        size_bytes: of the whole.
        request: returns the body of the request for the bytes from start to end.
        where: the tensor, for errors.
        deadline: for all of it.

    Raises:
        TargetError: as :func:`carry`; a piece has another size than was asked for.
    """
    data = bytearray(size_bytes)

    def take(start: int, end: int, piece: bytes) -> None:
        if len(piece) != end - start:
            raise TargetError(f"the device sent {len(piece)} bytes instead of {end - start}", where=where)
        data[start:end] = piece

    transfer = Transfer(
        opcode=opcode,
        size_bytes=size_bytes,
        room_bytes=pace.payload_bytes - protocol.HEADER.size - protocol.STATUS_SIZE,
        request=request,
        take=take,
        where=where,
    )
    carry(link, pace, transfer, deadline)
    return data


class _Carrier:
    def __init__(self, link: Link, pace: Pace, transfer: Transfer, deadline: Deadline) -> None:
        self._link = link
        self._pace = pace
        self._transfer = transfer
        self._deadline = deadline
        self._waiting = [(0, transfer.size_bytes)]  # a heap: the lowest bytes go first
        self._in_flight: dict[int, InFlight] = {}  # by sequence number, in the order of sending
        self._sent_at: dict[int, float] = {}  # also of lost requests: a late reply gives the round trip

    def run(self) -> None:
        timeouts = self._link.timeouts
        started = heard = timeouts.clock()
        silent = 0
        while self._waiting or self._in_flight:
            self.send_window()
            wait_s = self._wait_s() * timeouts.back_off**silent
            if self.receive(self._deadline.within(wait_s)):
                heard, silent = timeouts.clock(), 0
                continue
            silent += 1
            if self._deadline.expired or timeouts.clock() - heard >= timeouts.silence_s - 1e-9:
                late = self._deadline.expired
                raise self._link.no_answer(
                    self._transfer.opcode, silent, started, self._transfer.where, late=late
                )
            self._pace.lost()
            self._resend_later(list(self._in_flight))

    # ---- out ----

    def send_window(self) -> None:
        """Send as many requests as the window takes."""
        while self._waiting and len(self._in_flight) < self._pace.most:
            start, end = heapq.heappop(self._waiting)
            cut = min(end, start + min(self._pace.piece_bytes, self._transfer.room_bytes))
            body = self._transfer.request(start, cut)
            size = frames.longest_frame(protocol.HEADER.size + len(body)) + 2
            if not self._fits(size):
                heapq.heappush(self._waiting, (start, end))
                return
            if cut < end:
                heapq.heappush(self._waiting, (cut, end))
            sequence = self._link.post(self._transfer.opcode, body, self._deadline)
            self._in_flight[sequence] = InFlight(start, cut, size)
            self._sent_at[sequence] = self._link.timeouts.clock()

    def _fits(self, frame_bytes: int) -> bool:
        """Return True when the device can take a frame besides the one that it is busy with."""
        if not self._in_flight or self._pace.window_bytes == UNBOUNDED_WINDOW:
            return True
        ahead = [flight.frame_bytes for flight in self._in_flight.values()][1:]
        return sum(ahead) + frame_bytes <= self._pace.window_bytes

    def _wait_s(self) -> float:
        known = self._pace.round_trip_s
        if known is not None:
            return min(_LEAST_WAIT_S, self._link.timeouts.first_try_s) + 4 * known
        size = sum(flight.frame_bytes for flight in self._in_flight.values())
        return self._link.timeouts.first_try_s + self._link.line_s(size + self._pace.payload_bytes)

    # ---- in ----

    def receive(self, deadline: Deadline) -> bool:
        """Wait for a reply to something in flight; False when none came in time."""
        while True:
            reply = self._link.next_reply(deadline, self._transfer.where)
            if reply is None:
                return False
            if reply.opcode != self._transfer.opcode | protocol.REPLY or not reply.body:
                continue
            sent_at = self._sent_at.pop(reply.sequence, None)
            if sent_at is None:
                continue
            round_trip_s = self._link.timeouts.clock() - sent_at
            if reply.sequence in self._in_flight:
                self._take(reply, round_trip_s)
                return True
            self._pace.round_trip_s = max(self._pace.round_trip_s or 0.0, round_trip_s)

    def _take(self, reply: Message, round_trip_s: float) -> None:
        earlier = []
        for sequence in self._in_flight:
            if sequence == reply.sequence:
                break
            earlier.append(sequence)
        if earlier:
            self._pace.lost()
            self._resend_later(earlier)
        flight = self._in_flight.pop(reply.sequence)
        if self._is_gap(reply, flight):
            heapq.heappush(self._waiting, (flight.start, flight.end))
            return
        body = self._link.result(self._transfer.opcode, reply, self._transfer.where)
        self._transfer.take(flight.start, flight.end, body)
        self._pace.good(round_trip_s)

    def _is_gap(self, reply: Message, flight: InFlight) -> bool:
        """Return True when a WRITE came too early, because the one before it was lost."""
        status = int.from_bytes(reply.body[: protocol.STATUS_SIZE], "little", signed=True)
        if self._transfer.opcode is not Opcode.WRITE or status != Status.GAP:
            return False
        written = protocol.WriteReply.unpack(reply.body[protocol.STATUS_SIZE :]).written
        outstanding = [flight.start, *(f.start for f in self._in_flight.values())]
        outstanding += [start for start, _ in self._waiting]
        if written < min(outstanding):
            raise DeviceResetError(
                "the device has lost what was written to it: it was reset, or somebody else uses it",
                where=self._transfer.where,
            )
        return True

    def _resend_later(self, sequences: list[int]) -> None:
        for sequence in sequences:
            flight = self._in_flight.pop(sequence)
            heapq.heappush(self._waiting, (flight.start, flight.end))
