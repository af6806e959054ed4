# SPDX-License-Identifier: Apache-2.0
"""Runs an image on an emulated board: qemu-system-arm, its UART on a private socket pair.

Time in the emulator is counted in instructions (``-icount``): one instruction takes ``2**shift``
nanoseconds of the machine's time whatever the host does, so that a counter of the machine counts
instructions, and the same run gives the same count (see qemu/README.md).
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.targets.boards.row import QemuRow
from mlf_sdk.tools.process import RunningProcess, start_process
from mlf_sdk.triage.fault_report import parse_fault

QEMU = "qemu-system-arm"
_NS_PER_S = 1_000_000_000
_LAST_WORDS_S = 1.0  # between the end of the console and the end of the emulator


class EmulatedBoard(Protocol):
    """Properties of a board that the emulation needs."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def qemu(self) -> QemuRow | None:
        """QEMU row of the board; None if it is not emulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QemuOptions:
    """Options of the emulation.

    Attributes:
        icount_shift: one instruction takes ``2**icount_shift`` ns (0 to 10); None: as long as it takes.
        one_cpu: keep all of QEMU's threads on one CPU of the host. They take turns, and a hand-over
            within a CPU is faster: input over the UART runs at three times the speed.
        real_time: the machine's clock never runs ahead of the host's (with ``icount_shift``).
        semihosting: the image ends the emulator with an exit code (built with MLF_SEMIHOSTING=1).
        args: more arguments.
    """

    icount_shift: int | None = 0
    one_cpu: bool = True
    real_time: bool = False
    semihosting: bool = False
    args: tuple[str, ...] = ()


class ProcessStarter(Protocol):
    """Starter of QEMU: :func:`start_process`, or a test's stand-in."""

    def __call__(
        self, argv: Sequence[str], *, pass_fds: Sequence[int] = (), cpus: set[int] | None = None
    ) -> RunningProcess:
        """Start ``argv``; see :func:`start_process`."""


def instructions(ticks: int, hz: int, *, icount_shift: int = 0) -> int:
    """Instructions in ``ticks`` of a counter of ``hz``.

    To within one when an instruction takes a tick or more (``2**icount_shift >= 1e9 / hz``), else to
    within the instructions of a tick.
    """
    scaled = hz << icount_shift
    return (ticks * _NS_PER_S + scaled // 2) // scaled


def tick_instructions(hz: int) -> int:
    """Instructions in one tick of a counter of ``hz``, rounded up: the resolution of a count by the clock."""
    return -(-_NS_PER_S // hz)


class QemuMachine:
    """Running emulated board; a context manager that ends it.

    Attributes:
        socket: the console, a connected stream socket. Whoever takes it over closes it.
    """

    def __init__(
        self, board: EmulatedBoard, process: RunningProcess, console: socket.socket, deadline: float
    ) -> None:
        self.board = board
        self.process = process
        self.socket = console
        self._deadline = deadline

    def __enter__(self) -> QemuMachine:
        """Use it in a with block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the program."""
        self.stop()

    def stderr_tail(self) -> str:
        """End of QEMU's standard error."""
        return self.process.stderr_tail()

    def read_until(self, marker: bytes, *, timeout_s: float | None = None) -> bytes:
        """Read the console up to and with ``marker``.

        Args:
            marker: what to wait for.
            timeout_s: seconds; None: what is left of the machine's time.

        Raises:
            TargetError: it did not come in time, the board faulted, or QEMU ended.
        """
        deadline = self._deadline if timeout_s is None else time.monotonic() + timeout_s
        seen = b""
        while True:
            data = self._peek(deadline, marker, seen)
            if not data:
                self.process.wait(_LAST_WORDS_S)
                raise self._failure("the emulator ended", seen)
            at = (seen + data).find(marker)
            seen += self.socket.recv(len(data) if at < 0 else at + len(marker) - len(seen))
            if at >= 0:
                return seen
            if parse_fault(seen) is not None:
                raise self._failure("the board faulted", seen)

    def _peek(self, deadline: float, marker: bytes, seen: bytes) -> bytes:
        """Return the next bytes from the board, left in the socket; none when QEMU is gone."""
        left_s = deadline - time.monotonic()
        try:
            if left_s <= 0:
                raise TimeoutError
            self.socket.settimeout(left_s)
            return self.socket.recv(4096, socket.MSG_PEEK)
        except TimeoutError:
            raise self._failure(f"{marker!r} did not come in time", seen) from None
        except OSError:
            return b""

    def wait(self, *, timeout_s: float) -> int:
        """Wait until the image ends the emulator (semihosting); its exit code.

        Raises:
            TargetError: it still runs after ``timeout_s``.
        """
        code = self.process.wait(timeout_s)
        if code is None:
            raise self._failure(f"it still ran after {timeout_s:g} s", b"")
        return code

    def stop(self) -> None:
        """End QEMU; harmless when it has ended."""
        self.process.stop()
        self.socket.close()

    def _failure(self, what: str, seen: bytes) -> TargetError:
        shown = seen[-1000:].decode("utf-8", "backslashreplace").replace("\0", "").strip()
        parts = [what, *(["the board's last output: " + shown] if shown else [])]
        words = self.stderr_tail().strip()
        parts += ["QEMU's last output: " + words[-1000:]] if words else []
        return TargetError("; ".join(parts), where=f"board {self.board.name} (QEMU)")


def qemu_argv(board: EmulatedBoard, elf: Path, *, console_fd: int | None, options: QemuOptions) -> list[str]:
    """The command that emulates ``board`` with the image ``elf``, its console on a socket or a pty.

    Args:
        console_fd: the socket; None: a pty, which QEMU names on its standard output.

    Raises:
        InputError: the board is not emulated.
    """
    row = board.qemu
    if row is None:
        raise InputError(
            "the board is not emulated",
            where=f"board {board.name}",
            hint="Choose one that is (mlf-sdk boards), or give its row a table [qemu].",
        )
    argv = [QEMU, "-machine", row.machine, "-nodefaults", "-no-reboot", "-display", "none"]
    argv += ["-monitor", "none", "-nic", "none"]
    if row.cpu:
        argv += ["-cpu", row.cpu]
    kind = "pty,id=console" if console_fd is None else f"socket,id=console,fd={console_fd}"
    argv += ["-chardev", kind]
    for _ in range(row.serial_index):
        argv += ["-serial", "null"]
    argv += ["-serial", "chardev:console"]
    if options.icount_shift is not None:
        align = ",align=on" if options.real_time else ""
        argv += ["-icount", f"shift={options.icount_shift}{align}"]
    if options.semihosting:
        argv += ["-semihosting-config", "enable=on,target=native"]
    return [*argv, *row.args, *options.args, "-kernel", str(elf)]


def start_qemu(
    board: EmulatedBoard,
    elf: Path,
    *,
    timeout_s: float,
    options: QemuOptions | None = None,
    starter: ProcessStarter = start_process,
) -> QemuMachine:
    """Boot ``elf`` on the emulated ``board``; use the result as a context manager.

    The console is connected before the CPU runs its first instruction: nothing is lost.

    Args:
        board: its row has a table ``[qemu]``.
        elf: the image.
        timeout_s: seconds that waiting for the console may take in all.
        options: how to emulate.
        starter: what starts the program.

    Raises:
        InputError: the board is not emulated, or there is no such image.
        ToolError: QEMU is not installed.
    """
    chosen = options or QemuOptions()
    deadline = time.monotonic() + timeout_s
    if not elf.is_file():
        raise InputError("there is no such image", where=str(elf), hint="Build the project first.")
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            argv = qemu_argv(board, elf.resolve(), console_fd=theirs.fileno(), options=chosen)
            process = starter(argv, pass_fds=(theirs.fileno(),), cpus=one_cpu() if chosen.one_cpu else None)
    except BaseException:
        ours.close()
        raise
    return QemuMachine(board, process, ours, deadline)


def one_cpu() -> set[int] | None:
    """Choose one of the CPUs that we may use, by chance: several emulators spread out."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    return {random.choice(sorted(os.sched_getaffinity(0)))}  # noqa: S311
