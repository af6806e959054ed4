# SPDX-License-Identifier: Apache-2.0
"""The choice of the emulator of a board, and the command that starts Unicorn's."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec

from mlf_sdk.errors import ToolError
from mlf_sdk.resources import cache_dir, data_dir
from mlf_sdk.targets.boards.isa import cross_isa
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.process import run_process
from mlf_sdk.tools.programs import find_program

_DRIVERS = ("cmsdk",)  # UARTs that the machine has
_FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_TIMEOUT_S = 120.0


def uses_unicorn(board: Board) -> bool:
    """True where QEMU is missing, Unicorn is installed, and has the board's core and UART."""
    if board.qemu is None or find_program(cross_isa(board).tools.emulator) is not None:
        return False
    known = bool(core_name(board)) and board.uart is not None and board.uart.driver in _DRIVERS
    return known and find_spec("unicorn") is not None


def core_name(board: Board) -> str:
    """Unicorn's name of the core that runs a board's code; empty: it has none."""
    return cross_isa(board).unicorn.get(board.cpu.partition("+")[0], "")


def emulator_title(board: Board) -> str:
    """Name of the emulator that a board is started on here."""
    return "Unicorn" if uses_unicorn(board) else "QEMU"


def unicorn_argv(board: Board, elf: Path, *, console_fd: int, more: tuple[str, ...] = ()) -> list[str]:
    """The command that emulates a board with an image, its UART on a socket.

    Args:
        more: arguments of QEMU; of these ``-plugin`` counts instructions between marks.

    Raises:
        ToolError: no compiler for the hook that counts instructions.
    """
    row = msgspec.json.encode(board).decode()
    argv = [sys.executable, "-m", "mlf_sdk.targets.unicorn.machine", row, str(elf), str(console_fd)]
    return [*argv, str(_build_hook()), *more]


def _build_hook() -> Path:
    """Build the hook that counts instructions, unless the same one is kept."""
    source = data_dir("qemu") / "unicorn" / "mlf_blocks.c"
    compiler = next((words for words in (("cc",), ("zig", "cc")) if find_program(words[0]) is not None), None)
    if compiler is None:
        raise ToolError(
            "no compiler for Unicorn's hook",
            where=str(source),
            hint="Install one: pip install 'mlf-sdk[zig]'.",
        )
    key = hashlib.sha256(source.read_bytes() + " ".join((*compiler, *_FLAGS)).encode()).hexdigest()[:16]
    library = cache_dir("plugins") / f"mlf_blocks-{key}.so"
    if not library.is_file():
        library.parent.mkdir(parents=True, exist_ok=True)
        fresh = library.with_name(f"{library.name}.{os.getpid()}")
        run_process([*compiler, *_FLAGS, "-o", str(fresh), str(source)], timeout_s=_TIMEOUT_S)
        fresh.replace(library)
    return library
