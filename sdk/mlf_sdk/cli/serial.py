# SPDX-License-Identifier: Apache-2.0
"""The commands for boards on ports: ``ports``, ``monitor``; the options of a port."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from mlf_sdk.cli import options as opt
from mlf_sdk.cli.output import printable, show
from mlf_sdk.pipeline import serial as api
from mlf_sdk.report.layout import Parts, table
from mlf_sdk.targets.serial.session import PortChoice

PortName = Annotated[
    str | None,
    typer.Option(
        "--port",
        metavar="PORT",
        help="A board that holds the image already: path, socket://HOST:PORT, rfc2217://HOST:PORT, "
        "usb:VID:PID[:SERIAL], or auto (by the board's USB ids).",
    ),
]
NeededPort = Annotated[
    str,
    typer.Option(
        "--port",
        metavar="PORT",
        help="Path, socket://HOST:PORT, rfc2217://HOST:PORT, usb:VID:PID[:SERIAL], or auto.",
    ),
]
Baud = Annotated[
    int | None,
    typer.Option(
        "--baud", metavar="N", help="Bits a second that the board starts with (default: of its row)."
    ),
]
MaxBaud = Annotated[
    int | None,
    typer.Option(
        "--max-baud",
        metavar="N",
        help="Raise the rate to this when both ends can (default: of its row; 0: never).",
    ),
]
BoardOfPort = Annotated[
    str | None,
    typer.Option(
        "--board",
        "-b",
        metavar="NAME",
        help="The board, for --port auto and the rate.",
        autocompletion=opt.complete_board,
    ),
]


def port_choice(port: str | None, baud: int | None, max_baud: int | None) -> PortChoice | None:
    """The port of the command line's words; None when none was given."""
    if port is None:
        for value, option in ((baud, "--baud"), (max_baud, "--max-baud")):
            if value is not None:
                raise typer.BadParameter(f"{option} is for a port: add --port PORT")
        return None
    return PortChoice(spec=port, baud=baud, max_baud=max_baud)


def ports(
    board: BoardOfPort = None,
    board_file: opt.BoardFile = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """List serial ports and the boards they may be.

    Example: mlf-sdk ports

    Example: mlf-sdk ports --board microbit
    """
    seen = api.ports(board, board_file)
    rows = [
        (s.port.device, s.port.usb_id or "-", s.port.serial_number or "-", ", ".join(s.boards) or "-",
         s.port.description)
        for s in seen
    ]  # fmt: skip
    columns = ("=port", "=usb id", "serial number", "board", "says")
    nothing = f"no serial port has a USB id of {board}" if board else "there is no serial port"
    parts: Parts = [table(columns, rows)] if rows else [nothing]
    show(parts, {"ports": [_port_values(s) for s in seen]}, as_json=json)


def _port_values(seen: api.SeenPort) -> dict[str, Any]:
    port = seen.port
    return {
        "port": port.device,
        "usb_id": port.usb_id or None,
        "serial_number": port.serial_number or None,
        "description": port.description or None,
        "boards": list(seen.boards),
    }


def monitor(
    port: NeededPort,
    board: BoardOfPort = None,
    baud: Baud = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Seconds; without it until Ctrl-C.")
    ] = None,
    elf: Annotated[
        Path | None,
        typer.Option(
            "--elf", metavar="ELF|DIR", help="Its image or project: faults that it prints are explained."
        ),
    ] = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Show what a board prints, until Ctrl-C.

    Example: mlf-sdk monitor --port /dev/ttyACM0
    """
    choice = PortChoice(spec=port, baud=baud)
    pieces: list[str] = []

    def take(text: str) -> None:
        if json:
            pieces.append(text)
        else:
            sys.stdout.write(printable(text))
            sys.stdout.flush()

    with suppress(KeyboardInterrupt):  # the way to end it
        api.monitor(choice, take, board=board, timeout_s=timeout, elf=elf)
    if json:
        show([], {"port": port, "text": "".join(pieces)}, as_json=True)
