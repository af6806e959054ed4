# SPDX-License-Identifier: Apache-2.0
"""Resets of real servers, a process of this machine and an emulated board, over bad lines.

At every byte of a request and of a reply: no wrong result, no run twice, an error of a type, in time.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.serial.stream import open_port
from mlf_sdk.testing.badline import Faults, FaultTransport, Reset
from mlf_sdk.wire.codes import DeviceError, DeviceResetError, NoAnswerError
from mlf_sdk.wire.session import Session, Timeouts
from mlf_sdk.wire.transport import Deadline, PipeTransport
from qemu_pty import QemuPty, qemu_pty
from rpc_models import X

ARCHIVE = Path(__file__).parents[2] / "examples" / "digits" / "digits-graph-tvm0.11.1.tar"
BOARD = find_board("mps2-an386")
INFER_S = 60.0
TIMEOUTS = Timeouts(first_try_s=0.01, back_off=1.3, tries=27, hello_retry_s=0.02, hello_s=INFER_S)


class ServerProcess:
    """The C server in a process that is killed and started anew, as a transport that stays.

    Attributes:
        boots: processes so far; each has a boot nonce of its own.
    """

    def __init__(self, program: Path, runs_file: Path) -> None:
        self._program = program
        self._runs_file = runs_file
        self.boots = 0
        self._boot()

    def _boot(self) -> None:
        self.boots += 1
        self._process = subprocess.Popen(
            [str(self._program), str(self.boots), str(self._runs_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._pipe = PipeTransport(self._process.stdout.fileno(), self._process.stdin.fileno())

    def reset(self) -> None:
        """Kill it, and start it anew."""
        self._end()
        self._boot()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    @property
    def runs(self) -> int:
        """Runs that were started by all of the processes."""
        return self._runs_file.stat().st_size if self._runs_file.exists() else 0

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        return self._pipe.read(max_bytes, deadline)

    def write(self, data: bytes, deadline: Deadline) -> None:
        self._pipe.write(data, deadline)

    def close(self) -> None:
        if self._process.returncode is None:
            self._end()


@pytest.fixture
def server(small_server: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(small_server, tmp_path / "runs")
    yield made
    made.close()


def wanted(number: int) -> tuple[np.ndarray, np.ndarray]:
    """An input that tells the inference, and its sum."""
    y = np.array([number & 0x7F, 2, 3, number >> 7, 5], np.uint8)
    return y, (2 * X.ravel().astype(np.int32) + y[[0, 1, 2, 3, 4, 0]].astype(np.int32)).reshape(X.shape)


def attempt(session: Session, number: int) -> str:
    """Infer once: the right result, or the name of the error, which came within its deadline."""
    y, total = wanted(number)
    deadline = Deadline.after(INFER_S)
    try:
        found = session.infer(0, [X, y], deadline)
    except (DeviceResetError, NoAnswerError) as error:
        assert not deadline.expired
        return type(error).__name__
    np.testing.assert_array_equal(found[0], total)
    np.testing.assert_array_equal(found[1], y)
    return "right"


def bytes_of_an_inference(server: ServerProcess) -> tuple[int, int]:
    """To the host and to the device, on a good line."""
    line = FaultTransport(server)
    session = Session(line, timeouts=TIMEOUTS)
    session.hello()
    before = (line.to_host.counts.given, line.to_device.counts.given)
    assert attempt(session, 0) == "right"
    return line.to_host.counts.given - before[0], line.to_device.counts.given - before[1]


@pytest.mark.slow
@pytest.mark.parametrize("to_device", [True, False])
def test_a_reset_at_every_byte_of_an_inference(server: ServerProcess, to_device: bool) -> None:
    """Of the requests WRITE, RUN and READ, and of their replies."""
    span = bytes_of_an_inference(server)[to_device]
    assert 80 < span < 300
    line = FaultTransport(server)
    session = Session(line, timeouts=TIMEOUTS)
    outcomes: Counter[str] = Counter()
    for offset in range(span + 1):
        session.hello()
        boots, runs = server.boots, server.runs
        line.reset_after(Reset(after_bytes=offset, to_device=to_device, action=server.reset))
        said = attempt(session, offset)
        outcomes[said] += 1
        assert server.runs - runs == 1 if said == "right" else server.runs - runs in (0, 1)
        assert said == "right" or server.boots == boots + 1
        line.reset_after(None)
    assert outcomes["DeviceResetError"] > span // 2
    assert outcomes["NoAnswerError"] == 0
    assert session.hello().boot_nonce == server.boots


@pytest.mark.slow
def test_a_thousand_inferences_with_faults_and_resets(server: ServerProcess) -> None:
    """Every third one with a reset, at the next byte of the requests and of the replies."""
    to_host, to_device = bytes_of_an_inference(server)
    moments = [(True, n) for n in range(to_device)] + [(False, n) for n in range(to_host)]
    chance = 3e-4
    faults = Faults(flip=chance, drop=chance, double=chance, delay=chance, delay_s=0.002, seed=8)
    line = FaultTransport(server, faults)
    session = Session(line, timeouts=TIMEOUTS)
    session.hello()
    outcomes: Counter[str] = Counter()
    for number in range(1000):
        if number % 3 == 0:
            direction, offset = moments[number // 3 % len(moments)]
            line.reset_after(Reset(after_bytes=offset, to_device=direction, action=server.reset))
        said = ""
        while said != "right":
            boots, runs = server.boots, server.runs
            said = attempt(session, number)
            outcomes[said] += 1
            assert server.runs - runs == 1 if said == "right" else server.runs - runs in (0, 1)
            if said != "right":
                assert server.boots == boots + 1
                assert session.hello().boot_nonce == server.boots
    assert outcomes["right"] == 1000
    assert outcomes["DeviceResetError"] > 150 and outcomes["NoAnswerError"] == 0
    for counts in (line.to_device.counts, line.to_host.counts):
        assert min(counts.flipped, counts.dropped, counts.doubled, counts.delayed) > 10


# ---- an emulated board ----


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QemuPty]:
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("QEMU is not installed")
    folder = tmp_path_factory.mktemp("digits")
    mlf_sdk.generate(ARCHIVE, folder / "app", board=BOARD.name)
    mlf_sdk.build(folder / "app")
    with qemu_pty(BOARD, folder / "app" / "build" / "app.elf", folder) as running:
        yield running


@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.parametrize("to_device", [True, False])
def test_a_reset_of_the_machine_at_every_byte_of_a_run(machine: QemuPty, to_device: bool) -> None:
    """The workspaces that its kernels asked for since PREPARE tell how often it ran."""
    timeouts = Timeouts(first_try_s=0.3, back_off=1.5, tries=12, hello_retry_s=0.3, hello_s=INFER_S)
    line = FaultTransport(open_port(machine.port))
    with Session(line, timeouts=timeouts) as session:
        tensor = session.hello().models[0].inputs[0]
        sample = np.ones(tensor.shape, tensor.dtype)
        session.prepare(0, 0xA5)
        good = session.infer(0, [sample])
        once = session.stats(0).workspace_requests
        assert once
        outcomes: Counter[str] = Counter()
        for offset in range(22 if to_device else 34):
            nonce = session.hello().boot_nonce
            session.prepare(0, 0xA5)
            session.write_input(0, 0, sample)
            line.reset_after(Reset(after_bytes=offset, to_device=to_device, action=machine.reset))
            try:
                session.run(0, deadline=Deadline.after(INFER_S))
                assert session.stats(0).workspace_requests == once
                np.testing.assert_array_equal(session.read_output(0, 0), good[0])
                outcomes["right"] += 1
            except (DeviceResetError, DeviceError, NoAnswerError) as error:
                outcomes[type(error).__name__] += 1
            was_reset = line._reset is None
            line.reset_after(None)
            assert (session.hello().boot_nonce != nonce) == was_reset
    assert outcomes["DeviceResetError"] > 10
    assert outcomes["NoAnswerError"] == outcomes["DeviceError"] == 0
