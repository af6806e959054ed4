# SPDX-License-Identifier: Apache-2.0
"""Devices behind MCUmgr's SMP: over a line and UDP, with losses, refusals and text of the device."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("smpclient")

from fake_smp import FakeSmp, UdpServer
from mlf_sdk.errors import InputError, TargetError, ToolError
from mlf_sdk.targets.serial import session as serial_session
from mlf_sdk.targets.serial.lock import lock_port
from mlf_sdk.targets.serial.session import port_session
from mlf_sdk.targets.serial.smp import open_smp
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.testing.fake import FakeDevice
from mlf_sdk.wire.codes import DeviceFaultError, NoAnswerError, PortBusyError, PortMissingError
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import Deadline
from rpc_models import SUM, X, Y, fake_device
from serial_helpers import PtyDevice


@contextmanager
def behind_a_line(device: FakeDevice, **options: object) -> Iterator[tuple[Session, FakeSmp, PtyDevice]]:
    server = FakeSmp(device.feed, **options)  # type: ignore[arg-type]
    with (
        PtyDevice(server.line) as line,
        port_session(TargetChoice(port=f"smp:{line.path}"), timeout_s=20) as session,
    ):
        yield session, server, line


def check_outputs(session: Session) -> None:
    session.hello()
    np.testing.assert_array_equal(session.infer("twins", [X, Y])[0], SUM)


def test_a_line_carries_requests_that_fit_the_servers_buffer() -> None:
    device = fake_device(window_bytes=512)
    with behind_a_line(device) as (session, server, _):
        check_outputs(session)
        large = np.arange(130, dtype=np.float32)
        session.write_input(1, 0, large)
        np.testing.assert_array_equal(session.read_input(1, 0), large)
    assert 150 < max(server.requests) <= FakeSmp.BUFFER_BYTES - 4
    assert device.runs == 1


def test_udp_carries_them_as_well() -> None:
    device = fake_device()
    with (
        UdpServer(FakeSmp(device.feed)) as server,
        port_session(TargetChoice(port=f"smp:udp:127.0.0.1:{server.port}"), timeout_s=20) as session,
    ):
        check_outputs(session)


@pytest.mark.parametrize(
    "options",
    [{"takes": 9, "gives": 40}, {"answers_late": 3}, {"knows_sizes": False}],
    ids=str,
)
def test_a_server_with_little_room_or_time(options: dict[str, object]) -> None:
    device = fake_device()
    with behind_a_line(device, **options) as (session, _, _):
        check_outputs(session)
    assert device.runs == 1


def test_lost_responses_are_asked_for_again_and_nothing_runs_twice() -> None:
    device = fake_device()
    with behind_a_line(device, lost=range(4, 60, 12)) as (session, server, _):
        check_outputs(session)
    assert len(server.requests) > 11
    assert device.runs == 1


@pytest.mark.parametrize("rc", [5, 8])
def test_a_server_without_the_group(rc: int) -> None:
    with (
        behind_a_line(fake_device(), rc=rc) as (session, _, _),
        pytest.raises(InputError, match="has no group for models") as error,
    ):
        session.hello()
    assert "smp.conf" in (error.value.hint or "")


def test_a_server_that_refuses() -> None:
    with (
        behind_a_line(fake_device(), rc=10) as (session, _, _),
        pytest.raises(TargetError, match="refused the request"),
    ):
        session.hello()


def test_text_of_the_device_arrives_beside_its_messages() -> None:
    with behind_a_line(fake_device()) as (session, _, line):
        session.hello()
        line.say(b"*** Booting Zephyr ***\r\n")
        check_outputs(session)
        assert "Booting Zephyr" in session.console_text


def test_a_fault_is_told_where_no_response_comes() -> None:
    device = fake_device()
    with behind_a_line(device, lost=range(8, 1000)) as (session, _, line):
        line.say(b"\r\nmlf-fault: busfault pc=00000123 lr=00000456 step=2 model=twins\r\n")
        with pytest.raises(DeviceFaultError):
            check_outputs(session)


def test_who_does_not_answer_is_said_to_be_silent() -> None:
    with (
        PtyDevice(lambda _: b"") as line,
        port_session(TargetChoice(port=f"smp:{line.path}"), timeout_s=1) as session,
        pytest.raises(NoAnswerError),
    ):
        session.hello()


@pytest.mark.parametrize(
    ("address", "error", "what"),
    [
        ("/dev/no-such-line", PortMissingError, "no such port"),
        ("socket://127.0.0.1:5", InputError, "serial devices and UDP only"),
        ("udp:", InputError, "host and port are missing"),
        ("udp:host:70000", InputError, "host and port are missing"),
        ("udp:no-such-host.invalid", PortMissingError, "no connection"),
        ("", InputError, "no port was given"),
    ],
)
def test_addresses_that_can_not_be_opened(address: str, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        open_smp(address)


def test_a_line_is_for_one_process() -> None:
    with PtyDevice() as line:
        with lock_port(line.path), pytest.raises(PortBusyError):
            open_smp(line.path)
        stream = open_smp(line.path)
        stream.close()
        stream.close()
        with pytest.raises(TargetError, match="was closed here"):
            stream.read(1, Deadline.after(1))
        open_smp(line.path).close()  # the lock was given back


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mlf_sdk.targets.serial.smp")
    monkeypatch.setitem(sys.modules, "smp.exceptions", None)
    choice = TargetChoice(port="smp:/dev/ttyACM0")
    with pytest.raises(ToolError, match="smpclient") as error:
        serial_session.open_chosen_port(choice)
    assert "mlf-sdk[smp]" in (error.value.hint or "")
