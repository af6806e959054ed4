# SPDX-License-Identifier: Apache-2.0
"""Memories of a bare-metal board for the planner: room for models, and the sections of the linker script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.errors import InputError
from mlf_sdk.planner.layout import Bank
from mlf_sdk.planner.memories import parse_pins
from mlf_sdk.targets.boards.requirements import server_bytes
from mlf_sdk.targets.boards.row import Board, Memory

RUNTIME_BYTES: Final = 2048  # of .data and .bss beside the server's buffers
CODE_BYTES: Final = 64 << 10  # kept free in the first flash for code and tables


def banks_of(board: Board, options: ProjectOptions) -> tuple[Bank, ...]:
    """Memories that models can lie in, in the order of the row; none where the row has none.

    The stack, the runtime's variables and the code come first in the first RAM and the first flash; a memory
    that kernels run from holds them alone.
    """
    if board.platform != "baremetal":
        return ()
    ram, flash = board.ram.name, board.flash.name
    taken = {
        ram: board.stack_bytes + server_bytes(board, options) + RUNTIME_BYTES,
        flash: CODE_BYTES,
    }
    code = parse_pins(options.place).code if options.place else ""
    boot = board.boot_memory.name
    return tuple(
        Bank(
            name=memory.name,
            is_ram=memory.kind == "ram",
            size_bytes=max(0, memory.size_bytes - taken.get(memory.name, 0)),
            read_cycles=memory.read_cycles,
            write_cycles=memory.write_cycles,
            **_sections(memory, is_first=memory.name in taken),
        )
        for memory in board.memories
        if (memory.kind == "ram" or memory.name in (flash,) or memory.name != boot) and memory.name != code
    )


def code_memory(board: Board, place: Sequence[str]) -> Memory | None:
    """Memory that the user chose for kernels; None: the first flash.

    Raises:
        InputError: the board has no such memory, or functions can't run from it.
    """
    name = parse_pins(place).code
    if not name:
        return None
    able = [memory for memory in board.memories if memory.code]
    chosen = next((memory for memory in able if memory.name == name), None)
    if chosen is None:
        known = ", ".join(f"{m.name} ({m.size_bytes:,} bytes)" for m in able) or "none"
        raise InputError(
            f"board {board.name} has no memory '{name}' for code",
            where="--place",
            hint=f"Code can run from: {known} (code = true in the board's row).",
        )
    return chosen


def _sections(memory: Memory, *, is_first: bool) -> dict[str, str]:
    """Beginnings of the names of sections that the linker script puts into a memory."""
    head = "" if is_first else f".mlf.{memory.name}"
    if memory.kind == "flash":
        return {"rodata": f"{head}.rodata"}
    return {"noinit": ".bss.noinit" if is_first else f"{head}.noinit", "data": f"{head}.data"}
