# SPDX-License-Identifier: Apache-2.0
"""Starts what runs an image and opens a session with it: an emulated board, or a host program."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.platforms.boards import Board
from mlf_sdk.rpc.link import Timeouts
from mlf_sdk.rpc.session import Session
from mlf_sdk.rpc.transport import PipeTransport, SocketTransport
from mlf_sdk.tools.process import start_process
from mlf_sdk.tools.qemu import start_qemu

Console = Callable[[str], None]


@contextmanager
def open_session(
    board: Board, elf: Path, *, timeout_s: float, console: Console | None = None
) -> Iterator[Session]:
    """A session with the image ``elf`` on ``board``; whatever was started is gone afterwards.

    Raises:
        InputError: the board is neither emulated nor the host.
        ToolError: the emulator is missing or failed.
    """
    timeouts = Timeouts(run_s=timeout_s)
    if board.platform == "host":
        with start_process([str(elf)], env=_host_environment(), pipes=True) as process:
            transport = PipeTransport(process.stdout_fd, process.stdin_fd, name=f"host program {elf.name}")
            with (
                Session(transport, timeouts=timeouts, console=console) as session,
                _explained(process.stderr_tail),
            ):
                yield session
        return
    if board.qemu is None:
        raise InputError(
            "the board is not emulated",
            where=f"board {board.name}",
            hint="Flash it and run over its serial port, or choose an emulated board: mlf-sdk boards.",
        )
    with start_qemu(board, elf, timeout_s=timeout_s) as machine:
        transport = SocketTransport(machine.socket, name=f"{board.name} (QEMU)")
        with (
            Session(transport, timeouts=timeouts, console=console) as session,
            _explained(machine.stderr_tail),
        ):
            yield session


@contextmanager
def _explained(last_words: Callable[[], str]) -> Iterator[None]:
    """Adds what the program or emulator wrote to its standard error to a target's failure."""
    try:
        yield
    except TargetError as error:
        words = last_words().strip()
        if words:
            error.hint = "\n".join(filter(None, [error.hint, "It wrote:", words[-2000:]]))
        raise


def _host_environment() -> dict[str, str]:
    return {**os.environ, "ASAN_OPTIONS": "abort_on_error=0:detect_leaks=0:exitcode=99"}
