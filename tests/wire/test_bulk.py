# SPDX-License-Identifier: Apache-2.0
"""Bulk transfer over a line that the test rules: windows, gaps, losses and late replies, on a made-up clock."""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from mlf_sdk.errors import TargetError
from mlf_sdk.wire import frames, protocol
from mlf_sdk.wire.bulk import UNBOUNDED_WINDOW, Pace, Transfer, carry, read_all
from mlf_sdk.wire.codes import DeviceError, DeviceResetError, Opcode, Status
from mlf_sdk.wire.link import Link, Timeouts
from mlf_sdk.wire.protocol import Message
from mlf_sdk.wire.transport import Deadline

SPAN = struct.Struct("<II")
PIECE = 64


def frame_bytes(data: int) -> int:
    """Bytes of a WRITE of so much data on the line."""
    return frames.longest_frame(protocol.HEADER.size + SPAN.size + data) + 2


@dataclass
class Device:
    """A device behind a line: it takes requests in order, and those beyond its window are lost.

    ``lose(n)``: the n-th request that arrives is lost, or its reply ("request", "reply", "").
    """

    content: bytes = b""
    window_bytes: int = UNBOUNDED_WINDOW
    lose: Callable[[int], str] = lambda n: ""
    answer: Callable[[Message], Message] = lambda reply: reply
    memory: bytearray = field(default_factory=bytearray)
    written: int = 0
    queue: deque[Message] = field(default_factory=deque)
    now: float = 0.0
    arrived: int = 0
    before: int = 0  # requests of earlier transfers: numbers have 16 bits
    asked: int = 0
    foreign: deque[Message] = field(default_factory=deque)  # replies to nothing, which come first
    overrun: bool = False
    most_queued: int = 0
    gaps: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)

    @property
    def timeouts(self) -> Timeouts:
        return Timeouts(clock=lambda: self.now)

    def line_s(self, size_bytes: int) -> float:
        return size_bytes * 1e-4

    def post(self, opcode: Opcode, body: bytes, deadline: Deadline) -> int:
        self.arrived += 1
        assert self.arrived < 5_000, "the transfer does not end"
        sequence = (self.before + self.arrived) & 0xFFFF
        request = Message(opcode=opcode, sequence=sequence, session=7, body=body)
        if self.lose(self.arrived) != "request":
            self.queue.append(request)
        ahead = [len(m.body) - SPAN.size for m in self.queue][1:]  # it is busy with the first
        self.overrun |= sum(map(frame_bytes, ahead)) > self.window_bytes
        self.most_queued = max(self.most_queued, len(self.queue))
        return sequence

    def next_reply(self, deadline: Deadline, where: str) -> Message | None:
        self.asked += 1
        assert self.asked + self.arrived < 5_000, "the transfer does not end"
        if self.foreign:
            return self.foreign.popleft()
        while self.queue:
            request = self.queue.popleft()
            self.now += 0.001
            status, body = self._carry_out(request)
            if self.lose(request.sequence) == "reply":
                continue
            reply = Message(
                opcode=request.opcode | protocol.REPLY,
                sequence=request.sequence,
                session=7,
                body=status.to_bytes(1, "little", signed=True) + body,
            )
            return self.answer(reply)
        self.now = max(self.now, deadline.at)
        return None

    def _carry_out(self, request: Message) -> tuple[Status, bytes]:
        start, end = SPAN.unpack_from(request.body)
        self.spans.append((start, end))
        if request.opcode == Opcode.READ:
            return Status.OK, self.content[start:end]
        if start > self.written:
            self.gaps += 1
            return Status.GAP, protocol.WriteReply(self.written).pack()
        self.memory[start:end] = request.body[SPAN.size :]
        self.written = max(self.written, end)
        return Status.OK, protocol.WriteReply(self.written).pack()

    result = Link.result
    _last_words = Link._last_words
    console_text = ""

    def no_answer(self, opcode: Opcode, tries: int, started: float, where: str, *, late: bool) -> TargetError:
        return TargetError(f"no answer to {opcode.name} after {tries} silences, late: {late}", where=where)


def pace(device: Device, **limits: Any) -> Pace:
    return Pace(window_bytes=device.window_bytes, payload_bytes=1024, piece_bytes=PIECE, **limits)


def write(
    device: Device, data: bytes, limits: Pace | None = None, *, room_bytes: int = 1000
) -> list[tuple[int, int, bytes]]:
    """Carry ``data`` to the device; what was taken as done."""
    taken: list[tuple[int, int, bytes]] = []
    transfer = Transfer(
        opcode=Opcode.WRITE,
        size_bytes=len(data),
        room_bytes=room_bytes,
        request=lambda start, end: SPAN.pack(start, end) + data[start:end],
        take=lambda start, end, body: taken.append((start, end, body)),
        where="x",
    )
    link = cast(Link, device)
    carry(link, limits or pace(device), transfer, Deadline.after(1000, lambda: device.now))
    return taken


DATA = bytes(range(256)) * 4


def test_all_bytes_arrive_in_order() -> None:
    device = Device()
    taken = write(device, DATA)
    assert device.memory == DATA and device.gaps == 0
    assert sorted(span[:2] for span in taken) == sorted(device.spans)
    assert device.spans == sorted(device.spans) and device.most_queued == 8


@pytest.mark.parametrize(("fits", "queued"), [(0, 2), (-1, 1)])
def test_window_to_the_byte(fits: int, queued: int) -> None:
    """One frame besides the one that is worked on, exactly when the window holds all of it."""
    device = Device(window_bytes=frame_bytes(PIECE) + fits)
    write(device, DATA[: 3 * PIECE])
    assert (device.most_queued, device.overrun) == (queued, False)


@pytest.mark.parametrize(("fits", "queued"), [(0, 3), (-1, 2)])
def test_window_of_two_frames(fits: int, queued: int) -> None:
    device = Device(window_bytes=2 * frame_bytes(PIECE) + fits)
    write(device, DATA[: 5 * PIECE])
    assert (device.most_queued, device.overrun) == (queued, False)


def test_a_window_smaller_than_a_frame_still_carries() -> None:
    device = Device(window_bytes=0)
    write(device, DATA)
    assert device.memory == DATA and device.most_queued == 1


def test_a_window_without_bounds_takes_more_than_its_number_says() -> None:
    size = UNBOUNDED_WINDOW // 4
    device, data = Device(), bytes(8 * size)
    limits = Pace(window_bytes=UNBOUNDED_WINDOW, payload_bytes=2 * size, piece_bytes=size)
    write(device, data, limits, room_bytes=2 * size)
    assert device.memory == data and device.most_queued == 8


def test_a_loss_is_seen_after_four_known_round_trips() -> None:
    device = Device(lose=lambda n: "request" if n == 1 else "")
    write(device, DATA[:40], pace(device, round_trip_s=1.0))
    assert device.now == pytest.approx(0.02 + 4 * 1.0 + 0.001)


def test_a_lost_request_leaves_gaps_that_are_filled() -> None:
    """What follows the lost piece came too early: the device says GAP, and it is sent again."""
    device = Device(lose=lambda n: "request" if n == 2 else "")
    taken = write(device, DATA)
    assert device.gaps > 0 and device.memory == DATA
    assert sorted(span[:2] for span in taken)[0] == (0, PIECE)
    assert sum(end - start for start, end, _ in taken) == len(DATA)


def test_a_gap_at_the_last_piece_alone() -> None:
    device = Device(lose=lambda n: "request" if n == 1 else "")
    taken = write(device, DATA[: 2 * PIECE])
    assert device.gaps == 1 and device.memory == DATA[: 2 * PIECE]
    assert sorted(span[:2] for span in taken)[-1][1] == 2 * PIECE


def test_a_gap_below_what_was_confirmed_is_a_reset() -> None:
    """The device has forgotten bytes that it had confirmed."""
    device = Device()

    def forgetful(reply: Message) -> Message:
        if reply.sequence == 2:
            device.written = 0  # reset behind its second reply
        return reply

    device.answer = forgetful
    with pytest.raises(DeviceResetError, match="has lost what was written"):
        write(device, DATA, pace(device, most=2))


def test_a_gap_at_exactly_what_is_outstanding_is_none() -> None:
    """The byte that the device waits for is the first that was not confirmed."""
    device = Device(lose=lambda n: "request" if n == 3 else "")
    write(device, DATA)
    assert device.memory == DATA and device.gaps > 0


@pytest.mark.parametrize("opcode", [opcode for opcode in Opcode if opcode is not Opcode.WRITE])
def test_a_status_gap_to_anything_but_a_write_is_an_error(opcode: Opcode) -> None:
    device = Device(content=DATA)

    def refused(reply: Message) -> Message:
        body = Status.GAP.to_bytes(1, "little", signed=True) + protocol.WriteReply(0).pack()
        return Message(opcode=reply.opcode, sequence=reply.sequence, session=7, body=body)

    device.answer = refused
    with pytest.raises(DeviceError):
        read(device, 100, opcode)


def read(device: Device, size: int, opcode: Opcode = Opcode.READ) -> bytearray:
    until = Deadline.after(1000, lambda: device.now)
    return read_all(cast(Link, device), pace(device), opcode, size, SPAN.pack, "y", until)


def test_after_a_loss_half_as_many_requests_are_in_flight() -> None:
    """Of eight the first is lost: nothing is sent before less than four of the others have no reply."""
    device = Device(content=DATA, lose=lambda n: "request" if n == 1 else "")
    sent: list[int] = []

    def noted(reply: Message) -> Message:
        sent.append(device.arrived)
        return reply

    device.answer = noted
    assert read(device, len(DATA)) == DATA
    assert sent[:6] == [8, 8, 8, 8, 9, 10]


def test_losses_where_the_numbers_of_requests_begin_anew() -> None:
    """Request 0 follows 65535: its reply says that 65535 is lost, which is sent again without a wait."""
    device = Device(content=DATA, before=0xFFFE, lose=lambda n: "request" if n == 1 else "")
    assert read(device, 4 * PIECE) == DATA[: 4 * PIECE]
    assert device.arrived > 4 and device.now == pytest.approx(0.001 * len(device.spans))  # no wait


def test_read_in_any_order_of_losses() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        lost = {n: rng.choice(["request", "reply"]) for n in range(1, 200) if rng.random() < 0.3}
        device = Device(content=DATA, lose=lambda n, lost=lost: lost.get(n, ""))
        assert read(device, len(DATA)) == DATA


def test_write_in_any_order_of_losses() -> None:
    gaps = 0
    for seed in range(60):
        rng = random.Random(seed)
        lost = {n: rng.choice(["request", "reply"]) for n in range(1, 200) if rng.random() < 0.3}
        window = rng.choice([0, 100, 200, 300, UNBOUNDED_WINDOW])
        device = Device(lose=lambda n, lost=lost: lost.get(n, ""), window_bytes=window)
        taken = write(device, DATA)
        assert device.memory == DATA and not device.overrun
        assert sum(end - start for start, end, _ in taken) == len(DATA)  # each byte is confirmed once
        gaps += device.gaps
    assert gaps > 50


@pytest.mark.parametrize(
    "opcode", [Opcode.WRITE, Opcode.RUN | protocol.REPLY, Opcode.PEEK | protocol.REPLY, 0]
)
def test_a_reply_with_another_opcode_is_none(opcode: int) -> None:
    """A READ is answered by READ's reply and no other, whatever number that has."""
    device = Device(content=DATA)
    turned: list[int] = []

    def other(reply: Message) -> Message:
        if reply.sequence != 1:
            return reply
        turned.append(reply.sequence)
        body = reply.body[:1] + bytes(len(reply.body) - 1)
        return Message(opcode=opcode, sequence=reply.sequence, session=7, body=body)

    device.answer = other
    assert read(device, 200) == DATA[:200] and turned == [1]


def test_an_empty_reply_and_one_to_nothing_are_none() -> None:
    device = Device(content=DATA)

    def odd(reply: Message) -> Message:
        if reply.sequence == 1:
            return Message(opcode=reply.opcode, sequence=1, session=7, body=b"")
        sequence = 999 if reply.sequence == 2 else reply.sequence
        return Message(opcode=reply.opcode, sequence=sequence, session=7, body=reply.body)

    device.answer = odd
    assert read(device, 300) == DATA[:300]


def test_foreign_replies_are_no_silence() -> None:
    """They are passed over: the true replies behind them are taken at once, and nothing is sent again."""
    device = Device(content=DATA)
    answers = [(Opcode.RUN | protocol.REPLY, 1, b"\0"), (Opcode.READ | protocol.REPLY, 1, b"")]
    answers += [(Opcode.READ | protocol.REPLY, 999, b"\0"), (int(Opcode.READ), 1, b"\0")]
    device.foreign.extend(Message(opcode=o, sequence=s, session=7, body=b) for o, s, b in answers)
    assert read(device, 4 * PIECE) == DATA[: 4 * PIECE]
    assert device.arrived == 4 and device.now < 0.1


def test_pieces_of_a_read_fill_the_payload() -> None:
    """All of the payload but the header and the status, and no byte more."""
    device = Device(content=DATA)
    limits = Pace(window_bytes=0, payload_bytes=300)
    until = Deadline.after(1000, lambda: device.now)
    read_all(cast(Link, device), limits, Opcode.READ, len(DATA), SPAN.pack, "y", until)
    room = 300 - protocol.HEADER.size - protocol.STATUS_SIZE
    assert device.spans[:2] == [(0, room), (room, 2 * room)]


def test_a_late_reply_teaches_the_round_trip() -> None:
    """A reply that comes after its piece was given up is no data, but says how long the line takes."""
    device = Device(content=DATA)
    limits = pace(device)
    late = deque[Message]()

    def slow(reply: Message) -> Message:
        if reply.sequence == 1 and not late:
            late.append(reply)
            device.now += 3.0
            device.foreign.append(reply)
            return Message(opcode=reply.opcode, sequence=999, session=7, body=b"\0")
        return reply

    device.answer = slow
    until = Deadline.after(1000, lambda: device.now)
    assert read_all(cast(Link, device), limits, Opcode.READ, 40, SPAN.pack, "y", until) == DATA[:40]
    assert limits.round_trip_s is not None and limits.round_trip_s >= 3.0


def test_a_piece_of_another_size_is_an_error() -> None:
    device = Device(content=DATA[:100])
    with pytest.raises(TargetError, match="sent 36 bytes instead of 64"):
        read(device, 200)


def test_the_first_wait_has_time_for_the_request_and_the_longest_reply() -> None:
    device = Device(content=DATA, lose=lambda n: "request" if n == 1 else "")
    read(device, 40)
    assert device.now == pytest.approx(0.5 + device.line_s(frame_bytes(0) + 1024) + 0.001)


@pytest.mark.parametrize("start_s", [0.0, 1e5])
def test_waits_double_up_to_the_longest_silence(start_s: float) -> None:
    """On a line that takes no time: the waits of all tries, and not one more, whenever it begins."""
    device = Device(lose=lambda n: "request", now=start_s)
    device.line_s = lambda size_bytes: 0.0  # type: ignore[method-assign]
    with pytest.raises(TargetError, match="after 5 silences"):
        write(device, DATA[:PIECE])
    assert device.now - start_s == pytest.approx(0.5 + 1 + 2 + 4 + 8) == device.timeouts.silence_s


def test_silence_ends() -> None:
    device = Device(lose=lambda n: "request")
    with pytest.raises(TargetError, match="no answer to WRITE after 5 silences, late: False"):
        write(device, DATA)
    assert device.timeouts.silence_s <= device.now <= 1.3 * device.timeouts.silence_s


def test_the_deadline_ends_it() -> None:
    device = Device(content=DATA, lose=lambda n: "reply")
    until = Deadline.after(0.6, lambda: device.now)
    with pytest.raises(TargetError, match="late: True"):
        read_all(cast(Link, device), pace(device), Opcode.READ, 99, SPAN.pack, "y", until)


# ---- the pace ----


def test_pace_grows_after_good_pieces_and_shrinks_after_losses() -> None:
    found = Pace(window_bytes=100, payload_bytes=1000, most=4, piece_bytes=100)
    for _ in range(7):
        found.good(0.5)
    assert (found.piece_bytes, found.most) == (100, 4)
    found.good(0.5)
    assert (found.piece_bytes, found.most) == (150, 5)
    found.lost()
    assert (found.piece_bytes, found.most) == (75, 2)
    for _ in range(3):
        found.lost()
    assert (found.piece_bytes, found.most) == (48, 2)
    for _ in range(7):
        found.good(0.5)
    found.lost()  # seven good ones before it count for nothing
    found.good(0.5)
    assert found.piece_bytes == 48


def test_requests_in_flight_are_halved_and_grow_by_one() -> None:
    found = Pace(window_bytes=100, payload_bytes=1000, most=8, piece_bytes=100)
    found.lost()
    assert found.most == 4
    for most in (5, 6, 7, 8, 8):
        for _ in range(8):
            found.good(0.5)
        assert found.most == most


def test_pace_stays_within_the_payload_and_eight_requests() -> None:
    found = Pace(window_bytes=100, payload_bytes=120, most=8, piece_bytes=100)
    for _ in range(8):
        found.good(0.1)
    assert (found.piece_bytes, found.most) == (120, 8)
    found.piece_bytes = 1 << 16
    found.lost()
    assert found.piece_bytes == 60


def test_round_trip_is_smoothed_downwards_and_followed_upwards() -> None:
    found = Pace(window_bytes=100, payload_bytes=100)
    found.good(1.0)
    assert found.round_trip_s == pytest.approx(1.0)
    found.good(0.5)
    assert found.round_trip_s == pytest.approx(0.95)
    found.good(2.0)
    assert found.round_trip_s == pytest.approx(2.0)


def test_half_of_an_odd_piece_is_a_whole_number() -> None:
    found = Pace(window_bytes=100, payload_bytes=1000, piece_bytes=151)
    found.lost()
    assert (found.piece_bytes, type(found.piece_bytes)) == (75, int)


def test_a_piece_that_is_too_long_is_an_error() -> None:
    device = Device(content=DATA)
    device.answer = lambda r: Message(opcode=r.opcode, sequence=r.sequence, session=7, body=r.body + b"x")
    with pytest.raises(TargetError, match="sent 65 bytes instead of 64"):
        read(device, 200)


def test_another_status_than_gap_ends_a_write() -> None:
    device = Device()
    body = Status.CAPACITY.to_bytes(1, "little", signed=True) + protocol.WriteReply(0).pack()
    device.answer = lambda r: Message(opcode=r.opcode, sequence=r.sequence, session=7, body=body)
    with pytest.raises(DeviceError, match="CAPACITY"):
        write(device, DATA)
