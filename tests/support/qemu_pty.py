# SPDX-License-Identifier: Apache-2.0
"""An emulated board behind a pty that QEMU opens: reset and ended from outside, its UART's rate known."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlf_sdk.targets.boards.load import Board
from mlf_sdk.targets.qemu import QemuOptions, qemu_argv
from mlf_sdk.wire.deadline import Deadline
from mlf_sdk.wire.transport import RatedTransport
from serial_helpers import heard


class QemuPty:
    """A board that runs. ``port`` is its pty."""

    def __init__(
        self, process: subprocess.Popen[str], port: str, control: socket.socket, trace: Path
    ) -> None:
        self.process = process
        self.port = port
        self._control = control.makefile("rw")
        self._trace = trace
        self._control.readline()  # the greeting
        self._command("qmp_capabilities")

    def reset(self) -> None:
        """As by its reset button; returns when the CPU has started anew."""
        self._command("system_reset", until="RESET")

    @property
    def rates(self) -> list[int]:
        """What the machine's UART was set to, one after the other."""
        return [int(rate) for rate in re.findall(r"params set to (\d+)", self._trace.read_text())]

    def _command(self, name: str, until: str = "") -> None:
        self._control.write(json.dumps({"execute": name}) + "\n")
        self._control.flush()
        wanted = {"return"} | ({"event"} if until else set())
        while wanted:
            said = json.loads(self._control.readline())
            wanted -= {key for key in said if key != "event" or said["event"] == until}


@contextmanager
def qemu_pty(board: Board, elf: Path, folder: Path) -> Iterator[QemuPty]:
    """Boot ``elf``; the machine is gone at the end of the block."""
    ours, theirs = socket.socketpair()
    trace = folder / "trace.log"
    argv = qemu_argv(board, elf, console_fd=0, options=QemuOptions())
    argv = ["pty,id=console" if a.startswith("socket,id=console") else a for a in argv if a != "-no-reboot"]
    argv += ["-chardev", f"socket,id=control,fd={theirs.fileno()}", "-qmp", "chardev:control"]
    argv += ["-trace", "cmsdk_apb_uart_set_params", "-D", str(trace)]
    with (
        ours,
        subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=[theirs.fileno()]
        ) as process,
    ):
        theirs.close()
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if found := re.search(r"char device redirected to (\S+)", line):
                    break
            assert found is not None
            yield QemuPty(process, found[1], ours, trace)
        finally:
            process.kill()


class RateLine:
    """A line to an emulated board on which each end hears the other at its own rate.

    Attributes:
        best: the cable carries no more than this: what is faster becomes noise.
    """

    def __init__(self, inner: RatedTransport, machine: QemuPty, *, best: int = 1 << 30) -> None:
        self._inner = inner
        self._machine = machine
        self.best = best
        self.garbled = 0

    @property
    def baud(self) -> int:
        return self._inner.baud

    def set_baud(self, baud: int) -> None:
        self._inner.set_baud(baud)

    def _as_heard(self, data: bytes, sent_baud: int, heard_baud: int) -> bytes:
        out = heard(data, sent_baud, heard_baud)
        if sent_baud > self.best:
            out = bytes(byte & 0x5A for byte in out)
        self.garbled += out != data
        return out

    def _device_baud(self) -> int:
        rate = (self._machine.rates or [self.baud])[-1]  # before it has booted it hears nothing anyway
        return self.baud if abs(rate - self.baud) < self.baud / 50 else rate

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        before = self._device_baud()  # what it sends before a change
        data = self._inner.read(max_bytes, deadline)
        return self._as_heard(data, before, self.baud)

    def write(self, data: bytes, deadline: Deadline) -> None:
        out = self._as_heard(data, self.baud, self._device_baud())
        if out:
            self._inner.write(out, deadline)

    def close(self) -> None:
        self._inner.close()
