# SPDX-License-Identifier: Apache-2.0
"""Start of an image on a simulated core, its UART on a private socket pair."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.qemu import QemuMachine
from mlf_sdk.targets.rtl.build import simulator
from mlf_sdk.tools.process import start_process
from mlf_sdk.tools.rtlmodels import find_model

SIMULATOR_TITLE = "Verilator"


def simulator_argv(program: Path, board: Board, elf: Path, *, console_fd: int) -> list[str]:
    """The command that runs an image on a simulated board; its arguments: ``board_templates/rtl/README.md``.

    Raises:
        InputError: the board is not simulated.
    """
    row, uart = board.rtl, board.uart
    if row is None or uart is None or uart.base is None:
        raise InputError("the board is not simulated", where=f"board {board.name}")
    return [
        str(program),
        f"elf={elf}",
        f"fd={console_fd}",
        f"uart={uart.base:#x}",
        f"exit={row.exit_register:#x}",
        f"wait={row.flash_wait_states}",
        *(f"{memory.kind}={memory.origin:#x}:{memory.size_bytes:#x}" for memory in board.memories),
        *row.args,
    ]


@contextmanager
def start_simulation(board: Board, elf: Path) -> Iterator[QemuMachine]:
    """Boot ``elf`` on the simulated ``board``; leaving the block ends it.

    Raises:
        InputError: the board is not simulated, or there is no such image.
        ToolError: the simulator can't be made.
    """
    if board.rtl is None or not elf.is_file():
        raise InputError("there is no such image", where=str(elf), hint="Build the project first.")
    program = simulator(find_model(board.rtl.model), board.rtl.parameters, board.boot_memory.origin)
    with ExitStack() as kept, ExitStack() as handed_over:
        ours, theirs = socket.socketpair()
        kept.enter_context(ours)
        handed_over.enter_context(theirs)
        argv = simulator_argv(program, board, elf.resolve(), console_fd=theirs.fileno())
        process = start_process(argv, pass_fds=(theirs.fileno(),))
        handed_over.close()
        with process:
            yield QemuMachine(process, ours)
