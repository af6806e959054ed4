# SPDX-License-Identifier: Apache-2.0
"""An emulated board whose UART is a pty, for programs that open serial ports themselves."""

from __future__ import annotations

import math
import os
import re
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mlf_sdk.errors import TargetError
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.qemu import QemuOptions, one_cpu, qemu_argv
from mlf_sdk.tools.process import RunningProcess, start_process

_NAMED: Final = re.compile(rb"char device redirected to (\S+)")
_START_S: Final = 30.0
_MOST_SHIFT: Final = 10


def clock_like(board: Board) -> QemuOptions:
    """Options with which an instruction takes about a cycle of the board's clock, no faster than real time.

    Time of the machine is then a count of instructions: the same in every run, however busy the host is.
    """
    shift = round(math.log2(1e9 / (board.clock_hz or 1_000_000_000)))
    return QemuOptions(icount_shift=max(0, min(_MOST_SHIFT, shift)), real_time=True)


@contextmanager
def start_pty_board(board: Board, elf: Path, options: QemuOptions) -> Iterator[str]:
    """Boot ``elf`` on the emulated ``board``, and yield the path of its pty.

    Raises:
        InputError: the board is not emulated.
        ToolError: QEMU is not installed.
        TargetError: QEMU ended at once.
    """
    argv = qemu_argv(board, elf.resolve(), console_fd=None, options=options)
    with start_process(argv, pipes=True, cpus=one_cpu()) as process:
        yield _pty_of(process, board)


def _pty_of(process: RunningProcess, board: Board) -> str:
    said, end = b"", time.monotonic() + _START_S
    output = process.stdout_fd
    try:
        while time.monotonic() < end:
            if select.select([output], [], [], 0.1)[0]:
                data = os.read(output, 4096)
                if not data:
                    break
                said += data
            if match := _NAMED.search(said):
                return os.fsdecode(match[1])
    finally:
        os.close(output)
    raise TargetError(
        f"the emulator opened no pty; its last output: {process.stderr_tail().strip()[-1000:]}",
        where=f"board {board.name} (QEMU)",
    )
