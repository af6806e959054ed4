# SPDX-License-Identifier: Apache-2.0
"""Transfers with several requests under way: bounded by the device, repaired piece by piece."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mlf_sdk.errors import TargetError
from mlf_sdk.testing.fake import FakeClock, FakeDevice
from mlf_sdk.wire import frames
from mlf_sdk.wire.bulk import Pace
from mlf_sdk.wire.codes import DeviceResetError, NoAnswerError, Opcode
from mlf_sdk.wire.session import Session, Timeouts
from mlf_sdk.wire.transport import Deadline, LoopbackTransport
from rpc_models import fake_device, numbers

FLOATS = np.linspace(-3, 3, 130, dtype=np.float32)
Change = Callable[[int, bytes], bytes]


class Slow(LoopbackTransport):
    """A device that answers a round trip later; frames are numbered in each direction.

    Attributes:
        most_ahead: bytes that lay before the device besides the oldest frame, at most.
    """

    def __init__(self, device: FakeDevice, clock: FakeClock) -> None:
        super().__init__(lambda data: b"", idle=clock.sleep)
        self.device, self.clock = device, clock
        self.request: Change = lambda number, frame: frame
        self.reply: Change = lambda number, frame: frame
        self.waiting: list[bytes] = []
        self.requests: list[int] = []
        self.replies = 0
        self.most_ahead = 0
        self.most = 0

    def write(self, data: bytes, deadline: Deadline) -> None:
        self.waiting.append(data)
        self.most = max(self.most, len(self.waiting))
        self.most_ahead = max(self.most_ahead, sum(map(len, self.waiting[1:])))

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        if not self._incoming and self.waiting and deadline.remaining() >= 0.01:
            self.clock.sleep(0.01)
            frame = self.waiting.pop(0)
            self.requests.append(frames.decode(frame.strip(b"\0"))[1])
            sent = self.device.feed(self.request(len(self.requests), frame))
            if sent:
                self.replies += 1
                self._incoming += self.reply(self.replies, sent)
                return super().read(max_bytes, deadline)
        return super().read(max_bytes, deadline)


class Setup:
    def __init__(self, window_bytes: int, max_payload: int = 64, **timeouts: float) -> None:
        self.clock = FakeClock()
        self.device = fake_device(window_bytes=window_bytes, max_payload=max_payload)
        self.line = Slow(self.device, self.clock)
        self.session = Session(
            self.line,
            timeouts=Timeouts(clock=self.clock, **timeouts),
            draw=numbers(),  # type: ignore[arg-type]
        )
        self.session.hello()
        self.line.most = self.line.most_ahead = 0
        self.line.requests.clear()
        self.line.replies = 0

    def negate(self) -> None:
        before = self.device.runs
        np.testing.assert_array_equal(self.session.infer(1, [FLOATS])[0], -FLOATS)
        assert self.device.runs == before + 1


@pytest.mark.parametrize(("window_bytes", "most"), [(0, 1), (40, 1), (75, 2), (300, 5), (0xFFFF, 8)])
def test_no_more_is_under_way_than_the_device_takes(window_bytes: int, most: int) -> None:
    setup = Setup(window_bytes)
    assert setup.session.info.window_bytes == window_bytes
    setup.session.write_input(1, 0, FLOATS)
    assert setup.line.most == most
    assert setup.line.most_ahead <= window_bytes
    setup.negate()
    assert setup.line.requests.count(Opcode.RUN) == 1


@pytest.mark.parametrize("number", range(1, 24))
@pytest.mark.parametrize("direction", ["request", "reply"])
@pytest.mark.parametrize("window_bytes", [0, 300, 0xFFFF])
def test_any_lost_frame_is_repaired(number: int, direction: str, window_bytes: int) -> None:
    setup = Setup(window_bytes)
    setattr(setup.line, direction, lambda n, frame: b"" if n == number else frame)
    setup.negate()
    setup.negate()  # what was written before makes no gap: a lost piece is noticed all the same
    assert setup.clock.now < 8


def test_a_lost_piece_is_asked_for_at_once_and_not_after_a_time_out() -> None:
    setup = Setup(0xFFFF, first_try_s=10)
    setup.line.request = lambda n, frame: b"" if n == 3 else frame
    setup.session.write_input(1, 0, FLOATS)
    assert setup.clock.now < 1
    assert bytes(setup.device.models[1].arena[:520]) == FLOATS.tobytes()


def test_a_line_that_loses_long_frames_gets_short_ones() -> None:
    setup = Setup(0xFFFF, max_payload=512)
    setup.line.request = lambda n, frame: b"" if len(frame) > 150 else frame
    setup.line.reply = lambda n, frame: b"" if len(frame) > 150 else frame
    setup.session.write_input(1, 0, FLOATS)
    setup.session.run(1)
    np.testing.assert_array_equal(setup.session.read_output(1, 0), -FLOATS)


def test_silence_ends_a_transfer() -> None:
    setup = Setup(0xFFFF, first_try_s=1, back_off=2, tries=3)
    setup.line.request = lambda n, frame: b""
    with pytest.raises(NoAnswerError, match="did not answer WRITE") as error:
        setup.session.write_input(1, 0, FLOATS)
    assert error.value.where.startswith("model 1")
    assert error.value.hint == "It printed nothing."
    assert 7 <= setup.clock.now < 12


def test_a_transfer_that_never_ends_ends_with_its_deadline() -> None:
    setup = Setup(0xFFFF, transfer_s=3)
    setup.line.request = lambda n, frame: b"" if n % 2 or len(frame) > 40 else frame
    started = setup.clock.now
    with pytest.raises(NoAnswerError) as error:
        setup.session.write_input(1, 0, FLOATS)
    assert setup.clock.now - started < 3.02
    assert error.value.hint.startswith("The time for all of it ran out")


def test_a_reset_in_a_transfer_is_told() -> None:
    setup = Setup(0xFFFF)

    def reset(number: int, frame: bytes) -> bytes:
        if number == 4:
            setup.device.reset()
        return frame

    setup.line.request = reset
    with pytest.raises(DeviceResetError, match="was reset before WRITE"):
        setup.session.write_input(1, 0, FLOATS)


def test_a_device_that_lost_what_it_acknowledged_is_told() -> None:
    setup = Setup(0)

    def forget(number: int, frame: bytes) -> bytes:
        if number == 4:
            setup.device.models[1].forget()
        return frame

    setup.line.request = forget
    with pytest.raises(DeviceResetError, match="has lost what was written"):
        setup.session.write_input(1, 0, FLOATS)


def test_the_numbers_go_around() -> None:
    setup = Setup(0xFFFF, max_payload=64)
    setup.session._link._sequence = 65533
    setup.device.reset()
    setup.session.hello()
    for _ in range(3):
        setup.negate()


def test_a_pace_recovers() -> None:
    pace = Pace(window_bytes=0, payload_bytes=1000)
    for _ in range(20):
        pace.lost()
    worst = pace.piece_bytes
    assert worst < 64 and pace.most >= 2
    for _ in range(1000):
        pace.good(0.01)
    assert (pace.piece_bytes, pace.most) == (1000, 8)
    assert pace.round_trip_s == pytest.approx(0.01)


def test_an_answer_of_another_kind_is_no_answer() -> None:
    setup = Setup(0xFFFF)
    setup.line.reply = lambda n, frame: (frames.encode(b"\x01\x85\x00\x00\x00") if n == 2 else b"") + frame
    setup.negate()
    with pytest.raises(TargetError):
        setup.session.read_output(0, 0)
