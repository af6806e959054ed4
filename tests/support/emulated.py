# SPDX-License-Identifier: Apache-2.0
"""An emulated board whose console a test reads."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlf_sdk.errors import MissingToolError, TargetError
from mlf_sdk.targets import qemu
from mlf_sdk.targets.boards.isa import cross_isa
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.qemu import QemuMachine, QemuOptions
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.triage.fault_report import parse_fault

_LAST_WORDS_S = 1.0  # between the end of the console and the end of the emulator


def missing_board_tools(name: str) -> list[str]:
    """Compiler and emulator of a board that are not installed here."""
    tools = cross_isa(find_board(name)).tools
    return [program for program in (tools.c, tools.objcopy, tools.emulator) if shutil.which(program) is None]


def need_board_tools(name: str) -> None:
    """Skip the test where the compiler or the emulator of a board is missing."""
    missing = missing_board_tools(name)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def need_board(name: str) -> None:
    """Skip the test where nothing that is installed builds for a board and starts it."""
    try:
        resolve_target(TargetChoice(board=name)).check_programs(start=True)
    except MissingToolError as error:
        pytest.skip(error.what)


class EmulatedBoard:
    """A board that runs.

    Attributes:
        process: the emulator.
        socket: the console.
    """

    def __init__(self, board: Board, machine: QemuMachine, deadline: float) -> None:
        self.board = board
        self.process = machine.process
        self.socket = machine.socket
        self._deadline = deadline

    def read_until(self, marker: bytes, *, timeout_s: float | None = None) -> bytes:
        """Read the console up to and with ``marker``.

        Args:
            marker: what to wait for.
            timeout_s: seconds; None: what is left of the board's time.

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

    def _failure(self, what: str, seen: bytes) -> TargetError:
        shown = seen[-1000:].decode("utf-8", "backslashreplace").replace("\0", "").strip()
        parts = [what, *(["the board's last output: " + shown] if shown else [])]
        words = self.process.stderr_tail().strip()
        parts += ["QEMU's last output: " + words[-1000:]] if words else []
        return TargetError("; ".join(parts), where=f"board {self.board.name} (QEMU)")


@contextmanager
def start_qemu(
    board: Board, elf: Path, *, timeout_s: float, options: QemuOptions | None = None
) -> Iterator[EmulatedBoard]:
    """Boot ``elf``; ``timeout_s`` is for all waiting for its console together."""
    deadline = time.monotonic() + timeout_s
    with qemu.start_qemu(board, elf, options) as machine:
        yield EmulatedBoard(board, machine, deadline)
