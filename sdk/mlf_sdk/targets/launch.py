# SPDX-License-Identifier: Apache-2.0
"""Starts what runs an image and opens a session with it: an emulated board, or a host program."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.targets.boards.load import Board
from mlf_sdk.targets.qemu import start_qemu
from mlf_sdk.targets.slots import stored
from mlf_sdk.tools.process import RunningProcess, start_process
from mlf_sdk.triage.explain import triage
from mlf_sdk.triage.sanitizer import add_sanitizer_report, sanitizer_summary
from mlf_sdk.wire.errors import DeviceError, NoAnswerError
from mlf_sdk.wire.link import DeviceFaultError, Timeouts
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import PipeTransport, SocketTransport

Console = Callable[[str], None]
_END_S = 2.0  # for a program that closed its connection to be gone
_WORDS = 2000
# What QEMU and the address sanitizer write and nobody needs: an unused network card, dumps of shadow memory.
_NOISE = re.compile(r"warning: nic \S+ has no peer|^(  |=>)0x[0-9a-f]+:|^Shadow byte|^=+$|DEADLYSIGNAL$")

_FRAME_NUMBER = re.compile(r"^\s*#\d+ ")


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
    board, slots = stored(board, elf)
    if board.platform == "host" or board.zephyr.native:
        with start_process([str(elf)], env={**_host_environment(), **slots}, pipes=True) as process:
            transport = PipeTransport(process.stdout_fd, process.stdin_fd, name=f"host program {elf.name}")
            with (
                Session(transport, timeouts=timeouts, console=console) as session,
                _explained(process, elf),
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
            _explained(machine.process, elf),
        ):
            yield session


@contextmanager
def _explained(process: RunningProcess, elf: Path) -> Iterator[None]:
    """Adds to a target's failure what the program or emulator knows of it: its end, its last words.

    A fault is explained by ``elf``, or by what a sanitizer wrote.
    """
    try:
        yield
    except TargetError as error:
        words = _words(process.stderr_tail())
        if isinstance(error, DeviceFaultError):
            process.wait(_END_S if not error.fault.registers else 0)  # a host program says more at its end
            words = _words(process.stderr_tail())
            found = triage(error.fault, elf, step_name=error.found.step_name)
            error.explain(add_sanitizer_report(found, words, elf.parent.parent))
        elif (
            not isinstance(error, DeviceError | NoAnswerError) and (code := process.wait(_END_S)) is not None
        ):
            words = _words(process.stderr_tail())
            error.what = ": ".join(filter(None, [_ended(code), sanitizer_summary(words)]))
        if words:
            error.hint = "\n".join(filter(None, [error.hint, "It wrote:", words]))
        raise


def _ended(code: int) -> str:
    return f"the program ended with {f'exit code {code}' if code >= 0 else f'signal {-code}'}"


def _words(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not _NOISE.search(line)]
    once = [next(same) for _, same in groupby(lines, lambda line: _FRAME_NUMBER.sub("", line))]
    return "\n".join(once)[-_WORDS:]


def _host_environment() -> dict[str, str]:
    options = "abort_on_error=0:handle_abort=1:detect_leaks=0:exitcode=99:print_legend=0"
    return {**os.environ, "ASAN_OPTIONS": options}
