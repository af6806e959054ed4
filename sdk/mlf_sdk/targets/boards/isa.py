# SPDX-License-Identifier: Apache-2.0
"""The instruction set architecture of a board, and what the board makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.isas import Isa, isa_of_cpu, load_isas
from mlf_sdk.tools.programs import is_installed

if TYPE_CHECKING:
    from mlf_sdk.tools.toolchains import Toolchain


def isa_of(board: Board) -> Isa | None:
    """The architecture that a board names, or that has its CPU; None: the host's, or not known."""
    return load_isas().get(board.isa) if board.isa else isa_of_cpu(board.cpu)


def cross_isa(board: Board) -> Isa:
    """The architecture that images of a board are compiled for.

    Raises:
        InputError: it is not known.
    """
    result = isa_of(board)
    if result is None:
        raise InputError(
            f"the CPU '{board.cpu}' is not known",
            where=f"board {board.name}",
            hint=f"Known: {', '.join(name for isa in load_isas().values() for name in isa.cpus)}.",
        )
    return result


def board_flags(board: Board) -> tuple[str, ...]:
    """Flags of the cross compiler for a board's CPU.

    Raises:
        InputError: its architecture is not known.
    """
    return cross_isa(board).compiler_flags(board.cpu, board.fpu, board.float_abi)


def board_toolchain(board: Board, name: str) -> Toolchain:
    """The toolchain of a name, for a board's CPU.

    Raises:
        InputError: the CPU is not known, or not to the toolchain.
    """
    from mlf_sdk.tools.toolchains import toolchain_for  # projects for this machine have none

    isa = cross_isa(board)
    return toolchain_for(name, isa, cpu=board.cpu, fpu=board.fpu, float_abi=board.float_abi, dsp=board.dsp)


def counter_source(board: Board) -> str:
    """The file of ``crt`` that has the driver of a board's tick counter.

    Raises:
        InputError: its architecture is not known.
    """
    drivers, named = cross_isa(board).counters, board.counter.driver if board.counter is not None else ""
    return drivers[named] if named else next(iter(drivers.values()))


def lacks_tools(board: Board) -> bool:
    """True where compiler or emulator of a board are missing, and its architecture is optional."""
    isa = isa_of(board)
    if isa is None or not isa.optional:
        return False
    return not all(
        is_installed(name, None, None) for name in (isa.tools.c, isa.tools.objcopy, isa.tools.emulator)
    )
