# SPDX-License-Identifier: Apache-2.0
"""Targets that fault or end: what the session says, at once and not at the end of its time."""

from __future__ import annotations

import os
import signal
import stat
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from archives import build, write
from mlf_sdk.errors import TargetError, ToolError
from mlf_sdk.targets.launch import open_program
from mlf_sdk.wire.codes import DeviceFaultError, NoAnswerError
from mlf_sdk.wire.link import Timeouts
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import Deadline

FAULT = (
    b"\0mlf-fault: usagefault pc=00001582 lr=0000008f sp=20001e68 r0=00000001 r1=00000000 r2=00000000 "
    b"r3=00000000 r12=00000000 xpsr=61000000 cfsr=00010000 hfsr=00000000 mmfar=00000000 bfar=00000000 "
    b"step=7 model=digits\n\0"
)


class Pieces:
    """A transport that never answers and hands over its bytes in pieces; its clock moves when it has none."""

    def __init__(self, data: bytes, size: int) -> None:
        self.pieces = [data[at : at + size] for at in range(0, len(data), size)]
        self.now = 0.0

    def read(self, _max_bytes: int, deadline: Deadline) -> bytes:
        if self.pieces:
            return self.pieces.pop(0)
        self.now = max(self.now, deadline.at)
        return b""

    def write(self, data: bytes, deadline: Deadline) -> None:
        """Requests go nowhere."""

    def close(self) -> None:
        """Nothing to close."""


def say_hello(data: bytes, size: int) -> tuple[TargetError, float]:
    """What a hello raises with such a device, and after how many seconds."""
    transport = Pieces(data, size)
    with Session(transport, timeouts=Timeouts(clock=lambda: transport.now)) as session:
        with pytest.raises(TargetError) as caught:
            session.hello()
        return caught.value, transport.now


@pytest.mark.parametrize("size", [1, 2, 7, 64, 4096])
@pytest.mark.parametrize("before", [b"", b"boot: ok\n", b"\0\0noise \xff\xfe\0", b"mlf-fault is a word\n"])
def test_a_fault_ends_the_wait(size: int, before: bytes) -> None:
    error, seconds = say_hello(before + FAULT, size)
    assert isinstance(error, DeviceFaultError)
    assert seconds == 0.0
    assert error.fault.kind == "usagefault"
    assert (error.fault.step, error.fault.model) == (7, "digits")
    assert error.fault.registers["pc"] == 0x1582
    for text in (
        "usagefault",
        "in step 7",
        "pc=0x00001582",
        "lr=0x0000008f",
        "cfsr=0x00010000",
        "model digits",
    ):
        assert text in str(error)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_half_a_fault_is_shown_as_last_words(cut: int) -> None:
    """A device that dies while it reports: the wait goes on, and what came is shown."""
    error, seconds = say_hello(FAULT[: len(FAULT) - 1 - cut], 16)
    assert isinstance(error, NoAnswerError)
    assert seconds >= 20.0
    assert "mlf-fault: usagefault" in error.hint


def test_a_fault_before_any_step() -> None:
    error, _ = say_hello(FAULT.replace(b"step=7 model=digits", b"step=-1 model=-"), 64)
    assert "step" not in error.what
    assert error.where == ""


def test_silence() -> None:
    error, seconds = say_hello(b"", 1)
    assert isinstance(error, NoAnswerError)
    assert 20.0 <= seconds < 25.0
    assert "HELLO" in error.what
    assert "It printed nothing." in error.hint


# ---- programs of the host ----


def program(folder: Path, body: str) -> Path:
    path = folder / "app.elf"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("exit 3", "the program ended with exit code 3"),
        ("kill -SEGV $$", "the program ended with signal 11"),
        ("echo boom >&2; exit 1", "boom"),
        (
            "echo 'SUMMARY: AddressSanitizer: heap-buffer-overflow x.c:1' >&2; exit 99",
            "heap-buffer-overflow x.c:1",
        ),
        ("echo 'x.c:7:3: runtime error: shift exponent 99' >&2; exit 99", "x.c:7:3: runtime error"),
    ],
)
def test_a_program_that_ends(body: str, says: str, tmp_path: Path) -> None:
    with (
        pytest.raises(TargetError) as caught,
        open_program(program(tmp_path, body), timeout_s=86_400) as session,
    ):
        session.hello()
    assert says in str(caught.value)
    assert caught.value.exit_code == 4


@pytest.mark.toolchain
@pytest.mark.usefixtures("needs_host")
def test_a_program_that_gets_no_processor_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped for longer than a board may be silent; the waits are shorter here."""
    monkeypatch.setattr("mlf_sdk.targets.launch.Timeouts", partial(Timeouts, first_try_s=0.01))
    mlf_sdk.generate(write(build(), tmp_path / "tiny.tar"), tmp_path / "app", board="host")
    elf, number = mlf_sdk.build(tmp_path / "app").elf, tmp_path / "number"
    with open_program(program(tmp_path, f"echo $$ > {number}; exec {elf}"), timeout_s=60) as session:
        session.hello()
        process = int(number.read_text())
        os.kill(process, signal.SIGSTOP)
        goes_on = threading.Timer(1.0, os.kill, (process, signal.SIGCONT))
        goes_on.start()
        (output,) = session.infer(0, [np.zeros((1, 8), np.float32)])
        goes_on.join()
    assert output.size


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    with (
        pytest.raises(ToolError, match=r"app\.elf"),
        open_program(tmp_path / "app.elf", timeout_s=5),
    ):
        pass
