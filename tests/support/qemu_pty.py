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
from typing import TextIO

from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.qemu import QemuOptions, qemu_argv
from mlf_sdk.wire.transport import Deadline, RatedTransport
from serial_helpers import heard


class QemuPty:
    """A board that runs. ``port`` is its pty."""

    def __init__(self, process: subprocess.Popen[str], port: str, control: TextIO, trace: Path) -> None:
        self.process = process
        self.port = port
        self._control = control
        self._trace = trace
        self._read_bytes = 0
        self._cut_line = ""
        self._sent = 0
        self._changes: list[tuple[int, int]] = []
        self._control.readline()  # the greeting
        self._command("qmp_capabilities")

    def reset(self) -> None:
        """As by its reset button; returns when the CPU has started anew."""
        self._command("system_reset", until="RESET")

    @property
    def rates(self) -> list[int]:
        """Rates that the machine's UART was set to, one after the other."""
        return [rate for _, rate in self.changes]

    @property
    def changes(self) -> list[tuple[int, int]]:
        """Changes of the UART's rate: how many bytes it had sent before, and the rate."""
        with self._trace.open(encoding="utf-8") as trace:
            trace.seek(self._read_bytes)
            text = trace.read()
            self._read_bytes = trace.tell()
        *lines, self._cut_line = (self._cut_line + text).split("\n")
        for line in lines:
            if found := re.search(r"params set to (\d+)", line):
                self._changes.append((self._sent, int(found[1])))
            self._sent += "sent to backend" in line
        return self._changes

    @property
    def sent_bytes(self) -> int:
        """Bytes that the machine's UART has sent since it was started."""
        _ = self.changes
        return self._sent

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
    argv += ["-trace", "cmsdk_apb_uart_set_params", "-trace", "cmsdk_apb_uart_tx", "-D", str(trace)]
    with (
        ours,
        ours.makefile("rw") as control,
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
            yield QemuPty(process, found[1], control, trace)
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
        self._received = machine.sent_bytes

    @property
    def baud(self) -> int:
        return self._inner.baud

    def set_baud(self, baud: int) -> None:
        self._inner.set_baud(baud)

    def _as_heard(self, data: bytes, sent_baud: int, heard_baud: int) -> bytes:
        equal = abs(sent_baud - heard_baud) < heard_baud / 50  # as near as divisors come
        out = data if equal else heard(data, sent_baud, heard_baud)
        if sent_baud > 1.02 * self.best:
            out = bytes(byte & 0x5A for byte in out)
        self.garbled += out != data
        return out

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        """Each byte is heard as it was sent: at the rate of that moment, however late it is read."""
        data = self._inner.read(max_bytes, deadline)
        start, self._received = self._received, self._received + len(data)
        out, rate = b"", self.baud
        for at, new in [*self._machine.changes, (self._received, 0)]:
            piece = data[: max(0, at - start)]
            out += self._as_heard(piece, rate, self.baud) if piece else b""
            data, start, rate = data[len(piece) :], start + len(piece), new
        return out

    def write(self, data: bytes, deadline: Deadline) -> None:
        device_baud = (self._machine.rates or [self.baud])[-1]  # before it has booted it hears nothing anyway
        out = self._as_heard(data, self.baud, device_baud)
        if out:
            self._inner.write(out, deadline)

    def close(self) -> None:
        self._inner.close()
