# SPDX-License-Identifier: Apache-2.0
"""Ports: found by what they say of themselves, opened, locked, and gone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import serial
import serial.rfc2217

from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.serial.lock import lock_port
from mlf_sdk.targets.serial.ports import Port, find_port, list_serial_ports, ports_of, resolve_port
from mlf_sdk.targets.serial.session import port_session, start_baud
from mlf_sdk.targets.serial.stream import SerialTransport, open_port
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.wire.codes import PortBusyError, PortError, PortMissingError, PortVanishedError
from mlf_sdk.wire.session import Session, Timeouts
from mlf_sdk.wire.transport import Deadline, RatedTransport
from rpc_models import SUM, X, Y, fake_device
from serial_helpers import PtyDevice

MICROBIT = find_board("microbit")
QUICK = Timeouts(first_try_s=0.2, tries=2, hello_s=2)


def usb(device: str, usb_id: str = "0d28:0204", serial_number: str = "") -> Port:
    return Port(device=device, usb_id=usb_id, serial_number=serial_number, description="a probe")


def seen(*ports: Port) -> Callable[[], list[Port]]:
    return lambda: list(ports)


# ---- finding ----


def test_the_port_of_a_board_is_the_one_with_its_usb_id() -> None:
    other = usb("/dev/ttyACM0", "2341:0043")
    mine = usb("/dev/ttyACM1")
    assert find_port(MICROBIT, seen=seen(other, mine)) == mine
    assert ports_of(MICROBIT, [other, mine]) == [mine]
    assert resolve_port("auto", MICROBIT, seen=seen(other, mine)) == "/dev/ttyACM1"


def test_no_port_of_the_board_tells_what_there_is() -> None:
    with pytest.raises(PortMissingError, match="no port has USB id 0d28:0204") as error:
        find_port(MICROBIT, seen=seen(usb("/dev/ttyUSB7", "0403:6001", "A7")))
    assert "/dev/ttyUSB7 (0403:6001 A7 a probe)" in error.value.hint
    assert error.value.exit_code == 4
    with pytest.raises(PortMissingError) as error:
        find_port(MICROBIT, seen=seen())
    assert "no port at all" in error.value.hint


def test_several_ports_are_listed_and_a_serial_number_chooses() -> None:
    ports = seen(usb("/dev/ttyACM0", serial_number="9900AA"), usb("/dev/ttyACM1", serial_number="9900BB"))
    with pytest.raises(PortMissingError, match="2 ports have USB id") as error:
        find_port(MICROBIT, seen=ports)
    assert all(text in error.value.hint for text in ("--port", "/dev/ttyACM0", "/dev/ttyACM1", "9900BB"))
    assert find_port(MICROBIT, serial_number="aa", seen=ports).device == "/dev/ttyACM0"
    assert resolve_port("auto:9900bb", MICROBIT, seen=ports) == "/dev/ttyACM1"
    assert resolve_port("usb:d28:204:bb", seen=ports) == "/dev/ttyACM1"
    with pytest.raises(PortMissingError, match="serial number 77"):
        find_port(MICROBIT, serial_number="77", seen=ports)


def test_ports_that_cannot_be_told() -> None:
    with pytest.raises(InputError, match="no USB ids"):
        find_port(find_board("mps2-an386"), seen=seen())
    with pytest.raises(InputError, match="which board"):
        resolve_port("auto", seen=seen())
    for spec in ("usb:", "usb:0d28", "usb::1"):
        with pytest.raises(InputError, match="no USB id"):
            resolve_port(spec, seen=seen())
    assert resolve_port("/dev/ttyACM3") == "/dev/ttyACM3"


def test_the_ports_of_this_machine_can_be_listed() -> None:
    assert all(port.device and port.label.startswith(port.device) for port in list_serial_ports())


# ---- opening ----


def test_a_pty_is_a_serial_port(pty_device: PtyDevice) -> None:
    with port_session(TargetChoice(port=pty_device.path), timeout_s=10) as session:
        assert len(session.hello().models) == 3
        np.testing.assert_array_equal(session.infer(0, [X, Y])[0], SUM)
    with port_session(
        TargetChoice(port=pty_device.path), timeout_s=10
    ) as session:  # again, after the first has closed it
        assert session.hello().boot_nonce == 0xB0070001


def test_the_rate_of_a_port(pty_device: PtyDevice) -> None:
    transport = open_port(pty_device.path, baud=57600)
    assert isinstance(transport, SerialTransport) and isinstance(transport, RatedTransport)
    assert transport.baud == 57600
    transport.set_baud(230_400)
    assert transport.baud == 230_400
    with pytest.raises(PortError, match="can't run at"):
        transport.set_baud(-5)
    transport.close()
    transport.close()
    with pytest.raises(TargetError, match="closed"):
        transport.set_baud(9600)
    assert start_baud(TargetChoice(), None) == start_baud(TargetChoice(), MICROBIT) == 115_200
    assert start_baud(TargetChoice(baud=300), MICROBIT) == 300


@pytest.mark.parametrize("spec", ["", "ftp://host:1", "socket://host", "rfc2217://:5", "socket://h:x"])
def test_what_names_no_port_is_an_input_error(spec: str) -> None:
    with pytest.raises(InputError) as error:
        open_port(spec)
    assert error.value.hint


@pytest.mark.parametrize("baud", [0, -1, 1 << 40])
def test_a_rate_that_is_none(baud: int, pty_device: PtyDevice) -> None:
    with pytest.raises(InputError, match="no rate"):
        open_port(pty_device.path, baud=baud)


def test_ports_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(PortMissingError, match="no such port") as error:
        open_port("/dev/ttyACM99")
    assert error.value.where == "/dev/ttyACM99" and "mlf-sdk ports" in error.value.hint
    plain = tmp_path / "file"
    plain.touch()
    for path in (plain, tmp_path, "/dev/null"):
        with pytest.raises(InputError, match="no serial port"):
            open_port(str(path))
    for scheme in ("socket", "rfc2217"):
        with pytest.raises(PortMissingError, match="no connection"):
            open_port(f"{scheme}://127.0.0.1:1", connect_timeout_s=2)


def test_a_failed_opening_gives_its_lock_back(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match="no serial port"):
            open_port("/dev/null")
    lock_port("/dev/null").close()


def test_a_port_that_vanishes(pty_device: PtyDevice) -> None:
    with Session(open_port(pty_device.path), timeouts=QUICK) as session:
        session.hello()
        pty_device.unplug()
        with pytest.raises(PortVanishedError, match="vanished") as error:
            session.infer(0, [X, Y])
        assert error.value.where == pty_device.path
    with pytest.raises(PortError):
        open_port(pty_device.path)


@pytest.fixture
def tcp_device() -> Iterator[str]:
    """The fake device behind a TCP port, for one host after another."""
    device = fake_device()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:
                    return
                with connection:
                    while data := connection.recv(4096):
                        connection.sendall(device.feed(data))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"socket://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_a_port_over_tcp(tcp_device: str) -> None:
    with port_session(TargetChoice(port=tcp_device), timeout_s=10) as session:
        session.hello()
        np.testing.assert_array_equal(session.infer(0, [X, Y])[0], SUM)
        assert session.baud == 0 == session.raise_baud(1_000_000)
        with pytest.raises(PortBusyError):
            open_port(tcp_device)
    open_port(tcp_device).close()


@pytest.fixture
def rfc2217_device() -> Iterator[str]:
    """The fake device behind a server of RFC 2217, for one host."""
    device = fake_device()
    stop = threading.Event()

    def serve(server: socket.socket, port: serial.SerialBase) -> None:
        connection = server.accept()[0]
        with connection, suppress(ConnectionError):
            connection.settimeout(0.02)
            manager = serial.rfc2217.PortManager(port, SimpleNamespace(write=connection.sendall))
            while not stop.is_set():
                with suppress(TimeoutError):
                    data = connection.recv(4096)
                    if not data:
                        return
                    sent = device.feed(b"".join(manager.filter(data)))
                    connection.sendall(b"".join(manager.escape(sent)))

    with socket.create_server(("127.0.0.1", 0)) as server, serial.serial_for_url("loop://") as port:
        thread = threading.Thread(target=serve, args=(server, port), daemon=True)
        thread.start()
        yield f"rfc2217://127.0.0.1:{server.getsockname()[1]}"
        stop.set()
        thread.join(5)


def test_a_port_over_rfc2217(rfc2217_device: str) -> None:
    with port_session(TargetChoice(port=rfc2217_device, baud=57600), timeout_s=20) as session:
        session.hello()
        assert session.baud == 57600
        np.testing.assert_array_equal(session.infer(0, [X, Y])[0], SUM)
        with pytest.raises(PortBusyError):
            open_port(rfc2217_device)
    with pytest.raises(TargetError, match="closed"):
        session.stats(0)


# ---- one process a port ----


def test_the_second_is_told_who_has_the_port(pty_device: PtyDevice, tmp_path: Path) -> None:
    link = tmp_path / "board"
    link.symlink_to(pty_device.path)
    first = open_port(pty_device.path)
    for name in (pty_device.path, str(link)):
        with pytest.raises(PortBusyError, match=f"in use by process {os.getpid()} \\(") as error:
            open_port(name)
        assert error.value.where == name and error.value.hint
    first.close()
    open_port(str(link)).close()


def holder(name: str, user: int | None = None) -> subprocess.Popen[bytes]:
    """Start a process, as another user if one is given, that holds the lock of a port, or says who has it."""
    script = (
        "import os, sys\n"
        "from mlf_sdk.targets.serial.lock import lock_port\n"
        "if len(sys.argv) > 2: os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
        "held = lock_port(sys.argv[1])\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", script, name, *([str(user)] if user else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
    )


def said(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def test_a_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    name = str(tmp_path / "ttyX")
    with holder(name) as process:
        assert said(process) == b"held\n"
        with pytest.raises(PortBusyError, match=rf"process {process.pid} \(.*{tmp_path.name}"):
            lock_port(name)
        process.kill()
        process.wait(10)
    first = lock_port(name)
    with pytest.raises(PortBusyError, match=f"process {os.getpid()}"):
        lock_port(name)
    first.close()
    first.close()
    lock_port(name).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_a_lock_holds_against_other_users(tmp_path: Path) -> None:
    """In both directions; neither needs a folder that both may write to."""
    name = str(tmp_path / "ttyX")
    with holder(name, user=65534) as process:
        assert said(process) == b"held\n"
        with pytest.raises(PortBusyError, match=f"process {process.pid} "):
            lock_port(name)
        process.kill()
    with lock_port(name), holder(name, user=65534) as process:
        assert process.stdout is not None
        assert f"in use by process {os.getpid()} (" in process.stdout.read().decode()


@pytest.mark.parametrize(
    "spelling",
    [
        "socket://127.0.0.1:{}",
        "socket://127.1:{}",
        "socket://[::1]:{}",
        "rfc2217://LOCALHOST:{}?logging=info",
    ],
)
def test_a_lock_covers_all_spellings_of_an_address(spelling: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        with lock_port(f"socket://localhost:{number}"):
            with pytest.raises(PortBusyError, match="in use"):
                lock_port(spelling.format(number))
            lock_port(spelling.format(number - 1)).close()
            lock_port(f"socket://192.0.2.7:{number}").close()  # another machine


def test_a_port_that_another_program_has_locked(pty_device: PtyDevice) -> None:
    with (
        serial.Serial(pty_device.path, exclusive=True),
        pytest.raises(PortBusyError, match="another program"),
    ):
        open_port(pty_device.path)


def test_reading_ends_with_the_deadline(pty_device: PtyDevice) -> None:
    transport = open_port(pty_device.path)
    assert transport.read(100, Deadline.after(0.05)) == b""
    pty_device.say(b"hello")
    assert transport.read(100, Deadline.after(5)) == b"hello"
    transport.close()
