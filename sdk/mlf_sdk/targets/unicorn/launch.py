# SPDX-License-Identifier: Apache-2.0
"""The choice of the emulator of a board, and the command that starts Unicorn's."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from mlf_sdk.errors import MissingToolError, ToolError
from mlf_sdk.resources import cache_dir, data_dir
from mlf_sdk.targets.boards.isa import cross_isa
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.process import run_process
from mlf_sdk.tools.programs import find_program, install_command, is_installed, missing_hint

_DRIVERS = ("cmsdk",)  # UARTs that the machine has
_OPTIONS = ("-plugin", "-object", "-machine")  # of QEMU that it understands
_FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_TIMEOUT_S = 120.0


def uses_unicorn(board: Board, more: Sequence[str] = ()) -> bool:
    """True where QEMU is missing, Unicorn is installed, and has the board's core and devices.

    Args:
        more: arguments of QEMU beside those of the board's row.
    """
    if board.qemu is None or find_program(cross_isa(board).tools.emulator) is not None:
        return False
    return not unicorn_lacks(board, more) and find_spec("unicorn") is not None


def unicorn_lacks(board: Board, more: Sequence[str] = ()) -> str:
    """Reason why Unicorn can't take QEMU's place for a board; empty: it can."""
    if board.platform != "baremetal":
        return f"Unicorn has no interrupts with priorities, as {board.platform.title()} needs them"
    if not core_name(board):
        return f"Unicorn does not run the instructions of {board.cpu}"
    if board.uart is None or board.uart.driver not in _DRIVERS:
        return f"Unicorn has no UART '{board.uart.driver if board.uart is not None else ''}'"
    if "-gdb" in more:
        return "Unicorn has no server for a debugger"
    given = (*(board.qemu.args if board.qemu is not None else ()), *more)
    other = next((one for one in given if one.startswith("-") and one not in _OPTIONS), "")
    return f"Unicorn has no option {other}" if other else ""


def check_emulator(board: Board, more: Sequence[str] = ()) -> None:
    """Refuse to start an image without an emulator; the error says what Unicorn lacks for it.

    Args:
        more: arguments of QEMU beside those of the board's row.

    Raises:
        MissingToolError: QEMU is not installed, and Unicorn is not either, or can't take its place.
    """
    emulator = cross_isa(board).tools.emulator
    if board.qemu is None or is_installed(emulator, None, None) or uses_unicorn(board, more):
        return
    lacks, hint = unicorn_lacks(board, more), missing_hint(emulator)
    if not lacks:
        hint += f"\nWithout root, Unicorn takes its place: {install_command('unicorn')}"
    elif find_spec("unicorn") is not None:
        hint = f"{lacks}. {hint}"
    raise MissingToolError(f"'{emulator}' is not installed", where=f"starting {board.name}", hint=hint)


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
