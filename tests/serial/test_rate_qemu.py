# SPDX-License-Identifier: Apache-2.0
"""The line of a generated image, on an emulated board: its rate as both ends agreed on, and its window."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from archives import write
from cli_helpers import Caller
from injected import choosing, faulty
from mlf_sdk.errors import TargetError
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.serial.session import port_session
from mlf_sdk.targets.serial.stream import open_port
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.wire.codes import Capability, DeviceFaultError, DeviceResetError, Opcode, Status
from mlf_sdk.wire.protocol import REPLY, WriteRequest
from mlf_sdk.wire.session import Session, Timeouts
from mlf_sdk.wire.transport import RatedTransport
from qemu_pty import QemuPty, RateLine, qemu_pty

ARCHIVE = Path(__file__).parents[2] / "examples" / "digits" / "digits-graph-tvm0.11.1.tar"
BOARD = find_board("mps2-an386")
FIRST, FAST = 115_207, 1_000_000  # 25 MHz / 217 is as near to 115200 as the divisor comes
PATIENT = Timeouts(tries=8, hello_s=300, transfer_s=300, run_s=300, confirm_s=120)

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="QEMU is not installed"),
]


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits") / "app"
    mlf_sdk.generate(ARCHIVE, folder, board=BOARD.name)
    mlf_sdk.build(folder)
    return folder / "build" / "app.elf"


@pytest.fixture
def machine(elf: Path, tmp_path: Path) -> Iterator[QemuPty]:
    with qemu_pty(BOARD, elf, tmp_path) as running:
        yield running


def soon(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 60
    while not holds() and time.monotonic() < until:
        time.sleep(0.02)
    return holds()


def raise_rate(session: Session, baud: int = FAST) -> None:
    assert session.raise_baud(baud) == baud


def infer(session: Session) -> np.ndarray:
    tensor = session.info.models[0].inputs[0]
    return session.infer(0, [np.ones(tensor.shape, tensor.dtype)])[0]


def rated(machine: QemuPty, best: int) -> RateLine:
    port = open_port(machine.port)
    assert isinstance(port, RatedTransport)
    return RateLine(port, machine, best=best)


def test_the_rate_is_raised_and_taken_back(machine: QemuPty) -> None:
    with Session(open_port(machine.port), timeouts=PATIENT, max_baud=FAST) as session:
        assert Capability.BAUD in session.hello().capabilities
        raise_rate(session)
        assert machine.rates == [FIRST, FAST]
        infer(session)
    assert soon(lambda: machine.rates[-1] == FIRST)
    before = len(machine.rates)
    with Session(open_port(machine.port), timeouts=PATIENT) as session:
        session.hello()
        assert session.baud == 115_200
        for refused in (1_000_001, 4_000_000, 700_000_000):
            assert session.raise_baud(refused) == 115_200
        assert len(machine.rates) == before
        raise_rate(session, 921_600)
        assert machine.rates[-1] == 25_000_000 // 27
        infer(session)
    assert soon(lambda: machine.rates[-1] == FIRST)


def test_a_command_raises_it(machine: QemuPty, elf: Path, call: Caller) -> None:
    done = call("run", elf.parents[1], "--port", machine.port, "--json")
    assert (done.code, done.value["ok"]) == (0, True), done.err
    assert FAST in machine.rates
    before = len(machine.rates)
    assert call("run", elf.parents[1], "--port", machine.port, "--max-baud", "0").code == 0
    assert len(machine.rates) == before or machine.rates[before:] == [FIRST]


@pytest.mark.parametrize("best", [500_000, 115_200])
def test_a_cable_that_does_not_carry_it(machine: QemuPty, best: int) -> None:
    """Both ends fall back by themselves, and the session goes on."""
    line = rated(machine, best)
    first = Session(line, timeouts=dataclasses.replace(PATIENT, confirm_s=1), max_baud=FAST)
    first.hello()
    assert first.baud == 115_200
    assert machine.rates == [FIRST, FAST, FIRST]
    assert line.garbled >= 2
    infer(first)
    line.best = 1 << 30
    with Session(line, timeouts=PATIENT) as second:
        second.hello()
        raise_rate(second)
        infer(second)


def test_a_host_that_went_without_a_word(machine: QemuPty) -> None:
    """The next one starts at the first rate; the device finds back."""
    first = Session(rated(machine, FAST), timeouts=PATIENT, max_baud=FAST)
    first.hello()
    raise_rate(first)
    first._link.close()
    assert machine.rates[-1] == FAST
    with Session(rated(machine, FAST), timeouts=PATIENT) as second:
        second.hello()
        assert machine.rates[-1] == FIRST
        infer(second)


def test_a_reset_at_a_raised_rate(machine: QemuPty) -> None:
    with Session(rated(machine, FAST), timeouts=PATIENT, max_baud=FAST) as session:
        session.hello()
        raise_rate(session)
        nonce = session.info.boot_nonce
        machine.reset()
        assert soon(lambda: machine.rates[-1] == FIRST)
        session._link.timeouts = dataclasses.replace(PATIENT, tries=3)  # it will not answer at this rate
        with pytest.raises(DeviceResetError, match="first rate"):
            infer(session)
        session._link.timeouts = PATIENT
        assert session.hello().boot_nonce != nonce
        raise_rate(session)
        infer(session)
    assert issubclass(DeviceResetError, TargetError)


@pytest.fixture(scope="module")
def faulty_elf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faulty")
    mlf_sdk.generate(write(faulty(), folder / "bad.tar"), folder / "app", board=BOARD.name)
    mlf_sdk.build(folder / "app")
    return folder / "app" / "build" / "app.elf"


def test_a_crash_at_a_raised_rate(faulty_elf: Path, tmp_path: Path) -> None:
    """It is told at that rate, and the board answers the next host when it has been reset."""
    with qemu_pty(BOARD, faulty_elf, tmp_path) as machine:
        with Session(rated(machine, FAST), timeouts=PATIENT, max_baud=FAST) as session:
            session.hello()
            raise_rate(session)
            with pytest.raises(DeviceFaultError) as error:
                session.infer(0, choosing("null-call"))
            assert error.value.fault.model == "tiny" and error.value.fault.registers
        machine.reset()
        with Session(rated(machine, FAST), timeouts=PATIENT, max_baud=FAST) as session:
            session.hello()
            raise_rate(session)
            assert np.isfinite(session.infer(0, choosing("nothing"))[0]).all()


def test_the_window_holds_what_it_promises(machine: QemuPty) -> None:
    """Requests that come while others are carried out are kept, up to the window; what is more is lost."""
    with port_session(TargetChoice(port=machine.port), board=BOARD, timeout_s=30) as session:
        tensor = session.hello().models[0].inputs[0]
        assert session.info.window_bytes == BOARD.rpc.window_bytes == 8192
        data = bytes(range(tensor.size_bytes))
        link, _ = session.line
        body = WriteRequest(0, 0, 0).pack() + data

        def flood(frames: int, answered: int) -> None:
            """Send ``frames`` at once and wait, however long it takes here, until ``answered`` are answered."""
            deadline = link.after(3600)
            sent = [link.post(Opcode.WRITE, body, deadline) for _ in range(frames)]
            got: list[int] = []
            while len(got) < answered and (reply := link.next_reply(deadline, "")) is not None:
                assert reply.opcode == Opcode.WRITE | REPLY and reply.body[0] == Status.OK
                got.append(reply.sequence)
            assert got == [number for number in sent if number in got]
            assert len(got) == answered

        frames = session.info.window_bytes // (len(body) + 12)
        for _ in range(3):  # the ring goes round
            flood(frames, frames)
        assert session.stats(0).dropped_frames == 0
        flood(4 * frames, frames)
        assert session.read_input(0, 0).tobytes() == data
        infer(session)
