# SPDX-License-Identifier: Apache-2.0
"""Bad lines and resets: no wrong result, none doubled, errors of a type and in time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench_line import bad_line, goodput, round_trip_bytes, server_size, throughput
from mlf_sdk.errors import TargetError
from mlf_sdk.testing.badline import Faults, FaultTransport, Reset
from mlf_sdk.testing.fake import FakeClock, FakeDevice
from mlf_sdk.wire.codes import DeviceResetError, NoAnswerError
from mlf_sdk.wire.session import Session, Timeouts
from mlf_sdk.wire.transport import Deadline, LoopbackTransport
from rpc_models import SUM, X, Y, fake_device, numbers

FLOATS = np.linspace(-3, 3, 130, dtype=np.float32)


class Echo:
    """A line to a device that sends back what it gets, on a clock of its own."""

    def __init__(self, faults: Faults, reset: Reset | None = None) -> None:
        self.clock = FakeClock()
        self.seen = b""
        inner = LoopbackTransport(self._echo, idle=self.clock.sleep)
        self.line = FaultTransport(inner, faults, reset=reset, clock=self.clock)

    def _echo(self, data: bytes) -> bytes:
        self.seen += data
        return data

    def exchange(self, data: bytes, seconds: float = 100) -> bytes:
        deadline = Deadline.after(seconds, self.clock)
        self.line.write(data, deadline)
        out = b""
        while len(out) < 10 * len(data) and not deadline.expired:
            out += self.line.read(7, deadline)
        return out


DATA = bytes(range(256)) * 40


def test_a_line_without_faults_changes_nothing() -> None:
    assert Echo(Faults()).exchange(DATA) == DATA


@pytest.mark.parametrize(
    ("faults", "size"),
    [
        (Faults(flip=0.01), 0),
        (Faults(drop=0.01), -1),
        (Faults(double=0.01), 1),
        (Faults(delay=0.001), 0),
    ],
)
def test_each_fault_does_what_it_says(faults: Faults, size: int) -> None:
    echo = Echo(faults)
    out = echo.exchange(DATA)
    counts = echo.line.to_device.counts
    assert counts.taken == len(DATA) and counts.given == len(echo.seen)
    assert np.sign(len(echo.seen) - len(DATA)) == size
    kinds = (counts.flipped, counts.dropped, counts.doubled, counts.delayed)
    assert sum(bool(kind) for kind in kinds) == 1
    assert (out == DATA) == bool(faults.delay)
    if faults.flip:
        assert sum(a != b for a, b in zip(echo.seen, DATA, strict=True)) == counts.flipped
        assert 50 < counts.flipped < 160


def test_the_same_seed_gives_the_same_faults() -> None:
    faults = Faults(flip=0.01, drop=0.01, double=0.01)
    assert Echo(faults).exchange(DATA) == Echo(faults).exchange(DATA)
    assert Echo(faults).exchange(DATA) != Echo(Faults(flip=0.01, drop=0.01, double=0.01, seed=2)).exchange(
        DATA
    )


def test_a_paced_line_takes_its_time() -> None:
    echo = Echo(Faults(baud=10_000))
    deadline = Deadline.after(100, echo.clock)
    echo.line.write(DATA[:1000], deadline)
    out = b""
    while len(out) < 1000:
        out += echo.line.read(4096, deadline)
    assert out == DATA[:1000]
    assert 1.0 <= echo.clock.now < 1.02  # there; the way back overlaps


def test_a_delay_holds_up_all_that_is_behind() -> None:
    echo = Echo(Faults(delay=1.0, delay_s=0.5))
    deadline = Deadline.after(10, echo.clock)
    echo.line.write(b"ab", deadline)
    assert echo.line.read(9, deadline) == b"a"
    assert echo.clock.now == pytest.approx(1.0)  # half a second each way
    assert echo.line.read(9, Deadline.after(0.1, echo.clock)) == b""
    assert echo.line.read(9, deadline) == b"b"


# ---- a thousand inferences ----


@pytest.mark.slow
def test_a_thousand_inferences_over_a_bad_line(small_server: Path) -> None:
    """Flips, drops, doublings and delays of a byte in a thousand each: the C server is the device."""
    faults = Faults(flip=1e-3, drop=1e-3, double=1e-3, delay=1e-3, delay_s=0.001, seed=5)
    timeouts = Timeouts(first_try_s=0.005, back_off=1.2, tries=60, hello_retry_s=0.05)
    with bad_line(small_server, faults, timeouts) as (session, line):
        for number in range(1000):
            y = np.array([number & 0x7F, 2, 3, number >> 7, 5], np.uint8)
            total, echo = session.infer(0, [X, y])
            np.testing.assert_array_equal(echo, y)
            np.testing.assert_array_equal(
                total.ravel(), 2 * X.ravel().astype(np.int32) + y[[0, 1, 2, 3, 4, 0]].astype(np.int32)
            )
        counts = (line.to_device.counts, line.to_host.counts)
    assert all(min(c.flipped, c.dropped, c.doubled, c.delayed) > 20 for c in counts)


def test_no_run_is_doubled_over_a_bad_line() -> None:
    """A thousand runs, each counted by the device."""
    clock = FakeClock()
    device = fake_device(window_bytes=0xFFFF)
    faults = Faults(flip=2e-3, drop=2e-3, double=2e-3, delay=1e-3, delay_s=0.03, seed=9)
    line = FaultTransport(LoopbackTransport(device.feed, idle=clock.sleep), faults, clock=clock)
    timeouts = Timeouts(first_try_s=0.1, back_off=1.2, tries=40, clock=clock)
    session = Session(line, timeouts=timeouts, draw=numbers())
    session.hello()
    for number in range(1000):
        y = np.array([number & 0x7F, 2, 3, number >> 7, 5], np.uint8)
        np.testing.assert_array_equal(session.infer(0, [X, y])[1], y)
        assert device.runs == number + 1
    assert device._dropped > 200


# ---- resets ----


class Resetting:
    """A device that is reset when so many bytes have gone one way, once."""

    def __init__(self, after_bytes: int, *, to_device: bool) -> None:
        self.clock = FakeClock()
        self.device: FakeDevice = fake_device(window_bytes=0xFFFF)
        self.done = False
        line = LoopbackTransport(self.device.feed, idle=self.clock.sleep)
        self.line = FaultTransport(line, clock=self.clock)
        self.session = Session(self.line, timeouts=Timeouts(clock=self.clock), draw=numbers())
        self.session.hello()
        self.session.write_input(0, 0, X)
        self.session.write_input(0, 1, Y)
        self.line.reset_after(Reset(after_bytes=after_bytes, to_device=to_device, action=self._reset))

    def _reset(self) -> None:
        self.done = True
        self.device.reset()
        self.device.boot_nonce += 1


@pytest.mark.parametrize("to_device", [True, False])
def test_a_reset_at_every_byte_of_a_run(to_device: bool) -> None:
    """Of the request and of the reply: the right result or a typed error, never a second run."""
    outcomes = set()
    for after_bytes in range(110):
        case = Resetting(after_bytes, to_device=to_device)
        try:
            case.session.run(0)
            np.testing.assert_array_equal(case.session.read_output(0, 0), SUM)
            outcomes.add("right")
        except (DeviceResetError, NoAnswerError) as error:
            outcomes.add(type(error).__name__)
            assert case.done
        assert case.device.runs <= 1
        assert case.clock.now <= case.session.timeouts.run_s
        if case.done:
            assert case.session.hello().boot_nonce == 0xB0070002
            np.testing.assert_array_equal(case.session.infer(0, [X, Y])[0], SUM)
    assert outcomes == {"right", "DeviceResetError"}


@pytest.mark.parametrize("to_device", [True, False])
def test_a_reset_at_every_byte_of_a_transfer(to_device: bool) -> None:
    ended = 0
    for after_bytes in range(0, 700, 3):
        case = Resetting(after_bytes, to_device=to_device)
        try:
            case.session.write_input(1, 0, FLOATS)
            case.session.run(1)
            np.testing.assert_array_equal(case.session.read_output(1, 0), -FLOATS)
        except (DeviceResetError, NoAnswerError):
            ended += 1
            assert case.done
        assert case.clock.now < 30
        assert case.device.runs <= 1
    assert ended > 10


def test_a_device_that_dies_is_an_error_in_time() -> None:
    case = Resetting(3, to_device=True)
    case.device.feed = lambda data: b""  # type: ignore[method-assign]
    case.line._inner = LoopbackTransport(lambda data: b"", idle=case.clock.sleep)
    for call in (lambda: case.session.write_input(0, 0, X), lambda: case.session.stats(0)):
        started = case.clock.now
        with pytest.raises(TargetError, match="did not answer"):
            call()
        assert case.clock.now - started <= 60


# ---- figures ----


@pytest.mark.parametrize("baud", [115_200, 1_000_000])
def test_throughput_is_measured_and_never_beyond_the_line(baud: int, bulk_server: Path) -> None:
    """How near it comes is a figure of `make bench`: a busy machine says nothing about the code."""
    figures = throughput(baud, bulk_server)
    assert min(figures["write_share"], figures["read_share"]) > 0
    assert max(figures["write_share"], figures["read_share"]) <= 1.0


def test_other_figures(bulk_server: Path, small_server: Path) -> None:
    assert round_trip_bytes(bulk_server) == {"request_bytes": 24, "reply_bytes": 16}
    bad = goodput(small_server, 1e-3, inferences=20)
    assert bad["wrong"] == 0 and 0.1 < bad["goodput_share"] < 1


@pytest.mark.toolchain
def test_the_server_stays_small(needs_arm: None) -> None:
    figures = server_size()
    assert figures["flash_bytes"] < 3500
    assert figures["ram_bytes"] < 2 * 512 + 100
