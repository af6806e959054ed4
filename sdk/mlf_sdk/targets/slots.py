# SPDX-License-Identifier: Apache-2.0
"""Slots for parameters that outlive an emulated board or a host program: files beside its image.

A file ``NAME_PARAMS_STORE.bin`` in the folder of the image is what the slots are kept in: for the host
that of the model ``NAME``, for QEMU (``QEMU_PARAMS_STORE.bin``) the machine's main RAM. Where there is
none, the slots are gone when the program or the emulator ends.
"""

from __future__ import annotations

from pathlib import Path

from mlf_sdk.codegen.lock import Lock
from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.load import machine_of
from mlf_sdk.targets.boards.row import Board, MachineMemory, with_arguments

_END = "_PARAMS_STORE"
_QEMU_FILE = f"QEMU{_END}.bin"


def host_slots(elf: Path) -> dict[str, str]:
    """Return variables of the environment with which a host program finds its slots again."""
    return {path.stem: str(path.resolve()) for path in _files(elf)}


def with_slots(board: Board, elf: Path) -> Board:
    """Return an emulated board whose memory of the slots is kept in their file, if there is one."""
    files, memory = _files(elf), _kept_memory(board)
    if not files or memory is None:
        return board
    path = str(files[0].resolve()).replace(",", ",,")
    backend = f"memory-backend-file,id=mlf-store,size={memory.size_bytes},mem-path={path},share=on"
    return with_arguments(board, ("-object", backend, "-machine", "memory-backend=mlf-store"))


def keep_host_slots(lock: Lock, elf: Path) -> None:
    """Create the files of a host program's slots where they are missing.

    Raises:
        InputError: the project has no slots.
    """
    _check_replaceable(lock)
    for model in lock.models:
        (elf.parent / f"{model.c_name.upper()}{_END}.bin").touch()


def keep_emulated_slots(lock: Lock, board: Board, elf: Path) -> None:
    """Create the file of an emulated board's slots where it is missing.

    Raises:
        InputError: the project has no slots, or the emulator can't keep their memory.
    """
    _check_replaceable(lock)
    memory = _kept_memory(board)
    if memory is None:
        raise InputError(
            "the emulator can't keep the memory that the parameters would be in",
            where=f"board {board.name}",
            hint="Push to a board on a port (--port), or choose mps2-an386.",
        )
    path = elf.parent / _QEMU_FILE
    if not path.exists():
        with path.open("wb") as file:
            file.truncate(memory.size_bytes)


def _files(elf: Path) -> list[Path]:
    return sorted(elf.parent.glob(f"*{_END}.bin"))


def _check_replaceable(lock: Lock) -> None:
    if lock.options.executor != "graph":
        raise InputError(
            "the parameters of this project can't be replaced",
            where=lock.board,
            hint="Generate it again with --executor graph.",
        )


def _kept_memory(board: Board) -> MachineMemory | None:
    """Return the machine's memory that can be kept in a file, if the board has its slots there."""
    machine = machine_of(board)
    if machine is None:
        return None
    more = [m.origin for m in board.memories if m.kind == "ram" and m.name != board.ram.name]
    main = (m for m in machine.memories if m.main)
    return next((m for m in main if any(0 <= at - m.origin < m.size_bytes for at in more)), None)
