# SPDX-License-Identifier: Apache-2.0
"""Boards: the known ones, and files of new ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.cli.command import Command, Outcome
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.declare import Options, between, option, positive
from mlf_sdk.pipeline.request import Request

if TYPE_CHECKING:
    from mlf_sdk.pipeline.progress import Progress

_new_option = partial(option, group="Target")
_DRIVERS = ("16550", "cmsdk", "nrf51", "pl011", "sifive", "stm32", "own")


def _number(value: str | None, flag: str) -> None:
    """Check a number, decimal or with 0x; None is allowed."""
    try:
        if value is None or 0 <= int(value.replace("_", ""), 0) <= 0xFFFFFFFF:
            return
    except ValueError:
        pass
    raise InputError(f"invalid value {value!r}", where=flag, hint="Give a number, such as 0x40004400.")


def _board_name(value: str, flag: str) -> None:
    """Check the name of a board; an empty one stands for the default."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,63}|", value):
        hint = "Small letters, digits, dots, dashes and underscores, at most 64."
        raise InputError(f"invalid value {value!r}", where=flag, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardsOptions(Options):
    """Options of ``boards``."""

    words: tuple[str, ...] = option(
        (), "new CHIP: write the file of a board with this chip.", count="many", metavar="[new CHIP]"
    )
    output: str | None = option(
        None, "Board file to write, with new.", flags=("--output", "-o"), metavar="FILE"
    )
    name: str = _new_option("", "Name of a new board; default: my-CHIP.", metavar="NAME", check=_board_name)
    clock: int | None = _new_option(
        None,
        "Rate of a new board's core when main() is called, in Hz; default: that after a reset, if known.",
        metavar="HZ",
        check=partial(positive, most=0xFFFFFFFF),
    )
    uart: str | None = _new_option(
        None, "Driver of a new board's console; default: that of the chip's family.", choices=_DRIVERS
    )
    uart_base: str | None = _new_option(
        None, "Address of the console's registers.", metavar="ADDRESS", check=_number
    )
    uart_irq: int | None = _new_option(
        None, "Number of the console's interrupt.", metavar="N", check=between(0, 479)
    )
    tx_pin: int | None = _new_option(
        None, "Pin that the console transmits on (nrf51).", metavar="N", check=between(0, 255)
    )
    rx_pin: int | None = _new_option(
        None, "Pin that the console receives on (nrf51).", metavar="N", check=between(0, 255)
    )
    baud: int | None = _new_option(
        None, "Bits a second of a new board's console.", metavar="N", check=positive
    )


def boards(request: Request, own: BoardsOptions, progress: Progress) -> Outcome:
    """List the known boards, or write the file of a new one from the row of its chip.

    A new file states what is known of the chip, with sources, and asks what is not.

    Example: mlf-sdk boards

    Example: mlf-sdk boards new stm32f411xe -o board.toml
    """
    from mlf_sdk.reporting.terminal import boards_parts
    from mlf_sdk.targets.boards.load import load_boards

    if own.words:
        return _new(own)
    if own.output is not None:
        raise InputError("nothing to write", where="--output", hint="mlf-sdk boards new CHIP -o FILE")
    rows = list(load_boards(request.board_file).values())
    return Outcome(parts=boards_parts(rows), values={"boards": rows})


def _new(own: BoardsOptions) -> Outcome:
    from mlf_sdk.reporting.newboard import new_board_parts
    from mlf_sdk.targets.boards.new import BoardAnswers, new_board
    from mlf_sdk.targets.chips.load import find_chip
    from mlf_sdk.tools.files import write_whole

    hint = "mlf-sdk boards new CHIP -o FILE; chips: mlf-sdk chips"
    if own.words[0] != "new" or len(own.words) > 2:
        raise InputError(f"unexpected argument '{own.words[-1]}'", where="mlf-sdk boards", hint=hint)
    if len(own.words) < 2 or own.output is None:
        missing = "CHIP" if len(own.words) < 2 else "--output"
        raise InputError(f"{missing} is missing", where="mlf-sdk boards new", hint=hint)
    path = Path(own.output)
    if path.exists():
        raise InputError("it exists already", where=str(path), hint="Choose another name with -o.")
    answers = BoardAnswers(
        name=own.name,
        clock_hz=own.clock,
        driver=own.uart,
        base=int(own.uart_base.replace("_", ""), 0) if own.uart_base is not None else None,
        irq=own.uart_irq,
        tx_pin=own.tx_pin,
        rx_pin=own.rx_pin,
        baud=own.baud,
    )
    made = new_board(find_chip(own.words[1]), answers)
    write_whole(path, made.text.encode())
    values = {"file": str(path), "name": made.name, "questions": made.questions, "faults": made.faults}
    return Outcome(parts=new_board_parts(made, path), values=values)


COMMANDS = {"boards": Command(call=boards, takes=("board_file",), own=BoardsOptions)}
