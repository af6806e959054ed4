# SPDX-License-Identifier: Apache-2.0
"""Boards as data: one TOML row each.

The SDK's rows lie in ``board_templates/boards``; a user adds one with a file of his own, checked in
the same way (:mod:`mlf_sdk.targets.boards.check`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.check import row_faults
from mlf_sdk.targets.boards.isa import cross_isa, isa_of
from mlf_sdk.targets.boards.row import Board, Machine, Memory
from mlf_sdk.tools.checks import name_hint
from mlf_sdk.tools.rowfile import read_checked, read_row

OWN_BOARD = "board/board.toml"  # of a project: a copy of the user's board row
_MAX_SOURCE_BYTES = 1 << 20
_GUARD_BYTES = 32 << 10  # below the stack; the reset handler (crt/baremetal) makes it a forbidden region


def load_boards(extra_file: str | Path | None = None) -> dict[str, Board]:
    """All boards by name, sorted; a user's file may replace one of the SDK's.

    Raises:
        InputError: a row is not as it must be; all that is wrong with it, by field.
    """
    rows = dict(_rows_in(data_dir("board_templates") / "boards"))
    if extra_file:
        own = load_board(Path(extra_file))
        rows[own.name] = own
    return dict(sorted(rows.items()))


@cache
def _rows_in(folder: Path) -> Mapping[str, Board]:
    """The SDK's rows, which stay as they are while it runs; a run looks boards up some thirty times."""
    return {row.name: row for row in map(load_board, sorted(folder.glob("*.toml")))}


def own_sources(row: Board, board_file: Path) -> dict[str, bytes]:
    """The sources of a user's board, by their path in a project.

    Raises:
        InputError: one is not there, or is too large.
    """
    result = {}
    for name in row.sources:
        path = board_file.parent / name
        try:
            with path.open("rb") as stream:
                data = stream.read(_MAX_SOURCE_BYTES + 1)
        except OSError as error:
            raise InputError(
                f"a source of the board can't be read: {error.strerror}",
                where=str(path),
                hint="It must lie beside the file of the board.",
            ) from error
        if len(data) > _MAX_SOURCE_BYTES:
            raise InputError(f"it is longer than {_MAX_SOURCE_BYTES:,} bytes", where=str(path))
        result[f"board/{name}"] = data
    return result


def find_board(name: str, extra_file: str | Path | None = None) -> Board:
    """The board ``name``.

    Raises:
        InputError: there is none (with the names that are close), or a row is broken.
    """
    rows = load_boards(extra_file)
    if name in rows:
        return rows[name]
    raise InputError(f"there is no board '{name}'", where="--board", hint=_hint(name, rows))


def _hint(name: str, rows: Mapping[str, Board]) -> str:
    """Ways to a board that has no row: one that is close, or, of a chip or a board of Zephyr, what to do."""
    from mlf_sdk.targets.chips.load import chips_named

    chips = chips_named(name)
    if not chips:
        more = " Your own: --board-file FILE; of Zephyr: --platform zephyr; chips: mlf-sdk chips."
        return name_hint(name, rows) + more
    boards = [board for chip in chips for board in chip.zephyr_boards]
    is_board = name.lower() in {board.partition("/")[0] for board in boards}
    what = "Zephyr has this board" if is_board else f"It is a chip ({chips[0].name}): see mlf-sdk chips"
    of = name.lower() if is_board or not boards else boards[0]
    return (
        f"{what}. On Zephyr: --platform zephyr --board {of}; on bare metal: {rows_of(name, rows)}"
        "--board-file FILE with a row of your own (docs/howto-board.md)."
    )


def rows_of(name: str, rows: Mapping[str, Board]) -> str:
    """Options for the rows with the chip that ``name`` means, for a hint: ``--board nucleo-f411re, or``."""
    from mlf_sdk.targets.chips.load import chips_named

    chips = {chip.name for chip in chips_named(name)}
    return "".join(f"--board {row.name}, or " for row in rows.values() if row.chip in chips)


def load_board(path: Path) -> Board:
    """One row from a file, checked by itself and against the facts of its QEMU machine.

    Raises:
        InputError: it can't be read, or is not as it must be.
    """
    row, faults = read_checked(path, Board)
    if row is not None:
        faults = [*faults, *row_faults(row, machine_of(row))]
    if faults or row is None:
        raise InputError(
            "the board row is not as it must be:\n  " + "\n  ".join(faults),
            where=str(path),
            hint="Compare it with a row that is known: mlf-sdk boards.",
        )
    return row


@cache
def load_machines() -> dict[tuple[str, str], Machine]:
    """The facts of the emulated machines, by architecture and QEMU's name.

    Raises:
        InputError: a file is not as it must be.
    """
    folder = data_dir("qemu") / "machines"
    rows = (read_row(path, Machine) for path in sorted(folder.glob("*.toml")))
    return {(row.isa, row.machine): row for row in rows}


def machine_of(board: Board) -> Machine | None:
    """The facts of the machine that a board is emulated on; None: it is not, or they are not known."""
    isa = isa_of(board)
    if board.qemu is None or isa is None:
        return None
    return load_machines().get((isa.name, board.qemu.machine))


def counter_hz(board: Board) -> int | None:
    """Rate of the tick counter of the board's emulated machine, as QEMU has it; None: not known."""
    machine = machine_of(board)
    return machine.counter_hz if machine is not None else None


def baremetal_context(board: Board, code: Memory | None = None, *, slots_bytes: int = 0) -> dict[str, Any]:
    """Values for the templates of ``board_templates/baremetal`` (documented at the top of each).

    Args:
        code: memory that kernels run from; None: the first flash.
        slots_bytes: at the end of the first flash, of the slots for parameters.

    Raises:
        InputError: the board is not for bare metal.
    """
    if board.platform != "baremetal" or board.uart is None or board.counter is None:
        raise InputError("the board is not for bare metal", where=f"board {board.name}")
    isa = cross_isa(board)
    named = {board.flash.name, board.ram.name, board.boot_memory.name}
    others = [m for m in board.memories if m.name not in named]
    return {
        "board_name": board.name,
        "memories": [
            {
                "name": m.name,
                "origin": m.origin,
                "size_bytes": m.size_bytes - (slots_bytes if m == board.flash else 0),
                "is_flash": m.kind == "flash",
            }
            for m in board.memories
        ],
        "slots": {"origin": board.flash.end - slots_bytes, "size_bytes": slots_bytes},
        "vectors_memory": board.boot_memory.name,
        "flash": board.flash.name,
        "ram": board.ram.name,
        "more_ram": [m.name for m in others if m.kind == "ram"],
        "more_flash": [m.name for m in others if m.kind == "flash"],
        "code_memory": code.name if code is not None else "",
        "code_is_ram": code is not None and code.kind == "ram",
        "stack_bytes": board.stack_bytes,
        "stack_guard": _stack_guard(board),
        "clock_hz": board.clock_hz,
        "tick_hz": board.counter.hz,
        "isa": {
            "fragment": isa.fragment,
            "stack_alignment_bytes": isa.stack_alignment_bytes,
            "vectors_alignment_bytes": isa.vectors_alignment_bytes,
        },
        "irq_base": board.interrupts.base if board.interrupts is not None else None,
        "uart_clock_hz": board.uart.clock_hz or board.clock_hz,
        "uart": msgspec.to_builtins(board.uart),
        "entropy": msgspec.to_builtins(board.entropy),
        "flash_controller": msgspec.to_builtins(board.flash_controller),
        "irq_handlers": irq_handlers(board),
        "caches": board.caches,
        "trap_alignment_bytes": board.trap_alignment_bytes,
        "second_stage": _second_stage(board),
        "exit_register": board.rtl.exit_register if board.rtl is not None else None,
        "init": [
            {**msgspec.to_builtins(write), "wait_address": write.wait_address or write.address}
            for write in board.init
        ],
    }


def _second_stage(board: Board) -> list[int]:
    """Words of the second stage of the boot ROM; none: the board wants none."""
    if not board.second_stage:
        return []
    from mlf_sdk.targets.boards.stage import second_stage

    data = second_stage(board.second_stage, cross_isa(board).second_stage, board.boot_memory.origin)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def with_arguments(board: Board, arguments: Iterable[str]) -> Board:
    """Return an emulated board with more arguments for its emulator.

    Raises:
        ToolError: it is not emulated.
    """
    if board.qemu is None:
        raise ToolError("only an emulated board counts instructions", where=f"board {board.name}")
    qemu = msgspec.structs.replace(board.qemu, args=(*board.qemu.args, *arguments))
    return msgspec.structs.replace(board, qemu=qemu)


def irq_handlers(board: Board) -> list[str]:
    """The handlers of the device's interrupts, in the order of their numbers.

    A row without ``interrupts`` has those up to the UART's.
    """
    names: dict[int, str] = {}
    count = 0 if board.uart is None or board.uart.irq is None else board.uart.irq + 1
    if board.interrupts is not None:
        count = board.interrupts.count
        names = {number: name for name, number in board.interrupts.handlers.items()}
    return [names.get(number, f"IRQ{number}_Handler") for number in range(count)]


def _stack_guard(board: Board) -> int:
    """Address of 32 kB without memory right below the stack, aligned to their size; 0: none."""
    low = board.ram.origin - _GUARD_BYTES
    free = all(m.end <= low or m.origin >= board.ram.origin for m in board.memories)
    return low if low > 0 and low % _GUARD_BYTES == 0 and free else 0
