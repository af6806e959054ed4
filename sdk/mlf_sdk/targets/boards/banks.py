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
KERNEL_BYTES: Final = 16 << 10  # of Zephyr's kernel and drivers, in its RAM
CODE_BYTES: Final = 64 << 10  # kept free in the first flash for code and tables
ZEPHYR_FLASH: Final = "FLASH"
ZEPHYR_RAM: Final = "RAM"


def banks_of(board: Board, options: ProjectOptions) -> tuple[Bank, ...]:
    """Memories that models can lie in, in the order of the row; none where the row has none.

    The stack, the runtime's variables and the code come first in the first RAM and the first flash; a memory
    that kernels run from holds them alone.
    """
    memories, flash, ram = _memories(board)
    if not (flash and ram):
        return ()
    system = KERNEL_BYTES if board.platform == "zephyr" else 0
    taken = {
        ram: options.stack_of(board.stack_bytes) + server_bytes(board, options) + RUNTIME_BYTES + system,
        flash: CODE_BYTES,
    }
    code = parse_pins(options.place).code if options.place else ""
    return tuple(
        Bank(
            name=memory.name,
            is_ram=memory.kind == "ram",
            size_bytes=max(0, memory.size_bytes - taken.get(memory.name, 0)),
            read_cycles=memory.read_cycles,
            write_cycles=memory.write_cycles,
            code_bytes=min(CODE_BYTES, memory.size_bytes) if memory.name == flash else 0,
            **_sections(memory, is_first=memory.name in taken),
        )
        for memory in memories
        if memory.name != code or (memory.name == flash and board.platform == "zephyr")
    )


def _memories(board: Board) -> tuple[tuple[Memory, ...], str, str]:
    """Memories for models, and the names of the one with the code and the one with the stack."""
    if board.platform == "zephyr":
        named = tuple(memory for memory in board.memories if memory.zephyr)
        by_region = {memory.zephyr: memory.name for memory in named}
        return named, by_region.get(ZEPHYR_FLASH, ""), by_region.get(ZEPHYR_RAM, "")
    if board.platform != "baremetal":
        return (), "", ""
    flash, boot = board.flash.name, board.boot_memory.name
    usable = (m for m in board.memories if m.kind == "ram" or m.name == flash or m.name != boot)
    return tuple(usable), flash, board.ram.name


def more_regions(board: Board) -> dict[str, str]:
    """Zephyr's regions beside FLASH and RAM, by the name of the memory in the row."""
    first = (ZEPHYR_FLASH, ZEPHYR_RAM)
    return {m.name: m.zephyr for m in board.memories if m.zephyr and m.zephyr not in first}


def placed_regions(board: Board, regions: Sequence[tuple[str, int, int]]) -> tuple[tuple[str, int, int], ...]:
    """Memories of an image (name, origin, size in bytes) by their names in the row."""
    names = {m.zephyr: m.name for m in board.memories if m.zephyr} if board.platform == "zephyr" else {}
    return tuple((names.get(name, name), origin, size) for name, origin, size in regions)


def code_memory(board: Board, place: Sequence[str]) -> Memory | None:
    """Memory that the user chose for kernels; None: the first flash.

    Raises:
        InputError: the board has no such memory, or functions can't run from it.
    """
    name = parse_pins(place).code
    if not name:
        return None
    on_zephyr = board.platform == "zephyr"
    able = [memory for memory in board.memories if memory.code and (memory.zephyr or not on_zephyr)]
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
