# SPDX-License-Identifier: Apache-2.0
"""The rate of the line: raised when both ends and the line can, else as it was."""

from __future__ import annotations

import numpy as np
import pytest

from mlf_sdk.testing.fake import FakeClock
from mlf_sdk.wire.codes import Capability, DeviceResetError, NoAnswerError, PortError
from mlf_sdk.wire.session import Session, Timeouts
from mlf_sdk.wire.transport import LoopbackTransport
from rpc_models import SUM, X, Y, fake_device, numbers
from serial_helpers import TwoRates, heard

FAST = 1_000_000


def over(line: LoopbackTransport, clock: FakeClock, first: int = 65530, max_baud: int = 0) -> Session:
    return Session(line, timeouts=Timeouts(clock=clock), draw=numbers(first), max_baud=max_baud)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def line(clock: FakeClock) -> TwoRates:
    return TwoRates(clock.sleep)


@pytest.fixture
def session(line: TwoRates, clock: FakeClock) -> Session:
    made = over(line, clock)
    made.hello()
    return made


def works(session: Session) -> bool:
    return bool(np.array_equal(session.infer(0, [X, Y])[0], SUM))


def test_the_receiver_of_the_tests_hears_what_a_uart_hears() -> None:
    data = bytes(range(256))
    assert heard(data, 9600, 9792) == data == heard(data, 9600, 9408)
    assert heard(data, 115_200, FAST) != data and len(heard(data, 115_200, FAST)) > 256
    assert len(heard(data, FAST, 115_200)) < 64
    assert set(heard(b"\0", 115_200, FAST)) == {0}


def test_both_ends_change_and_nothing_is_lost(session: Session, line: TwoRates) -> None:
    assert Capability.BAUD in session.info.capabilities
    session.write_input(0, 0, X)
    assert session.raise_baud(FAST) == FAST == line.device_baud == session.baud
    session.write_input(0, 1, Y)
    session.run(0)
    assert np.array_equal(session.read_output(0, 0), SUM)
    assert session.raise_baud(9600) == FAST  # only upward
    session.close()
    assert (line.device_baud, line.baud) == (115_200, 115_200)


def test_a_rate_that_the_device_refuses(session: Session, line: TwoRates, clock: FakeClock) -> None:
    assert session.raise_baud(4_000_000) == 115_200 == line.device_baud
    assert works(session) and clock.now == 0


def test_a_line_that_does_not_carry_the_rate(session: Session, line: TwoRates, clock: FakeClock) -> None:
    line.best = 500_000
    session.write_input(0, 0, X)
    assert session.raise_baud(FAST) == 115_200 == line.device_baud
    assert clock.now < 8
    session.write_input(0, 1, Y)
    session.run(0)
    assert line.device.runs == 1


def test_the_reply_to_the_change_is_lost(session: Session, line: TwoRates, clock: FakeClock) -> None:
    line.lose_next_reply = True
    assert session.raise_baud(FAST) == 115_200 == line.device_baud
    assert works(session)


@pytest.mark.parametrize("baud", [230_400, 460_800, 921_600, FAST, 3_000_000])
def test_the_next_host_finds_a_device_that_was_left_fast(line: TwoRates, clock: FakeClock, baud: int) -> None:
    """Whatever the ratio of the rates makes of what it says."""
    for first in (65530, 700, 3):
        session = over(line, clock, first)
        session.hello()
        assert session.raise_baud(baud) == baud
        line.set_baud(115_200)  # the first host is gone without a word
        started = clock.now
        second = over(line, clock, first + 50)
        second.hello()
        assert line.device_baud == 115_200
        assert works(second) and clock.now - started < 15


def test_a_second_rate_that_the_line_does_not_carry(
    session: Session, line: TwoRates, clock: FakeClock
) -> None:
    """The device falls back to the rate that it started with, and there the host must look for it."""
    assert session.raise_baud(460_800) == 460_800
    line.best = 500_000
    assert session.raise_baud(FAST) == 115_200 == line.device_baud
    assert works(session) and clock.now < 10


def test_a_port_that_cannot_run_at_the_rate(
    session: Session, line: TwoRates, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = line.set_baud

    def refuse(baud: int) -> None:
        if baud == FAST:
            raise PortError("the port can't run at that")
        real(baud)

    monkeypatch.setattr(line, "set_baud", refuse)
    assert session.raise_baud(FAST) == 115_200 == line.device_baud
    assert works(session)


def test_a_reset_during_the_change_is_noticed(session: Session, line: TwoRates) -> None:
    line.best = 500_000
    line.device.boot_nonce = 99
    with pytest.raises(DeviceResetError):
        session.raise_baud(FAST)


def test_a_device_that_falls_silent(session: Session, line: TwoRates, clock: FakeClock) -> None:
    line.best = 0
    with pytest.raises(NoAnswerError):
        session.raise_baud(FAST)
    assert clock.now <= session.timeouts.hello_s + 1


def test_ends_that_cannot(clock: FakeClock) -> None:
    fixed = Session(LoopbackTransport(fake_device().feed, idle=clock.sleep), draw=numbers())
    fixed.hello()
    assert fixed.raise_baud(FAST) == 0
    line = TwoRates(clock.sleep)
    line.device.baud = None
    old = over(line, clock)
    old.hello()
    assert old.raise_baud(FAST) == 115_200 and works(old)


# ---- a session that raises it by itself ----


def test_hello_raises_the_rate_and_a_new_one_keeps_it(line: TwoRates, clock: FakeClock) -> None:
    session = over(line, clock, max_baud=FAST)
    session.hello()
    assert session.baud == line.device_baud == FAST
    session.hello()
    assert session.baud == line.device_baud == FAST and clock.now == 0
    assert works(session)


def test_hello_over_a_line_that_does_not_carry_the_rate(line: TwoRates, clock: FakeClock) -> None:
    line.best = 500_000
    session = over(line, clock, max_baud=FAST)
    assert session.hello().models
    assert session.baud == line.device_baud == 115_200 and works(session)


def test_a_reset_at_a_raised_rate_is_told(line: TwoRates, clock: FakeClock) -> None:
    """The device is back at its first rate, so that nothing of what it says is understood."""
    session = over(line, clock, max_baud=FAST)
    session.hello()
    session.write_input(0, 0, X)
    line.reset()
    with pytest.raises(DeviceResetError, match="first rate"):
        session.write_input(0, 1, Y)
    assert clock.now < 25
    session.hello()
    assert session.baud == line.device_baud == FAST and works(session)
    assert line.device.runs == 1


def test_hello_finds_a_device_that_was_reset_at_a_raised_rate(line: TwoRates, clock: FakeClock) -> None:
    session = over(line, clock, max_baud=FAST)
    session.hello()
    line.reset()
    session.hello()
    assert session.baud == line.device_baud == FAST and clock.now < 5
