# SPDX-License-Identifier: Apache-2.0
"""The commands for boards on ports: ``ports``, ``verify``, ``monitor``; the options of a port."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from mlf_sdk.api import serial as api
from mlf_sdk.cli import options as opt
from mlf_sdk.cli.output import printable, show, status
from mlf_sdk.report.layout import Parts, line, table, verdict
from mlf_sdk.rpc.portsession import PortChoice

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
_BoardOfPort = Annotated[
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
    board: _BoardOfPort = None,
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


def verify(
    target: Annotated[
        Path, typer.Argument(metavar="ARCHIVE|DIR", help="An archive, or the folder of a generated project.")
    ],
    port: NeededPort,
    board: _BoardOfPort = None,
    module: opt.Module = None,
    baud: Baud = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds for the board's answer.")] = 20.0,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Ask a board whether it holds this very model.

    Example: mlf-sdk verify digits.tar --port /dev/ttyACM0
    """
    choice = PortChoice(spec=port, baud=baud)
    with status(as_json=json) as progress:
        progress.say(f"asking the board on {port}")
        found = api.verify_device(target, choice, board=board, module=module, timeout_s=timeout)
    show(_verify_parts(found), _verify_values(found), as_json=json)
    if not found.ok:
        raise typer.Exit(1)


def _verify_parts(found: api.Verification) -> Parts:
    held = found.device.models
    parts: Parts = [
        line("port", found.port),
        line("SDK", found.device.sdk_version or "the board does not say"),
    ]
    if found.sdk_version is not None and found.sdk_version != found.device.sdk_version:
        parts.append(line("expected", f"SDK {found.sdk_version}", verdict(False)))
    for wanted, model in zip(found.expected, found.found, strict=True):
        text = f"{wanted.name}  sha256 {wanted.archive_sha256}"
        parts.append(line("model", text, verdict(model is not None)))
    if not all(found.found):
        parts.append(
            line("board holds", ", ".join(f"{m.name} ({m.archive_sha256[:16]})" for m in held) or "nothing")
        )
    return [*parts, line("verdict", verdict(found.ok))]


def _verify_values(found: api.Verification) -> dict[str, Any]:
    return {
        "ok": found.ok,
        "port": found.port,
        "sdk_version": found.device.sdk_version or None,
        "expected_sdk_version": found.sdk_version,
        "boot_nonce": found.device.boot_nonce,
        "models": [
            {"name": wanted.name, "archive_sha256": wanted.archive_sha256, "found": model is not None}
            for wanted, model in zip(found.expected, found.found, strict=True)
        ],
        "device": [{"name": m.name, "archive_sha256": m.archive_sha256} for m in found.device.models],
    }


def monitor(
    port: NeededPort,
    board: _BoardOfPort = None,
    baud: Baud = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Seconds; without it until Ctrl-C.")
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
        api.monitor(choice, take, board=board, timeout_s=timeout)
    if json:
        show([], {"port": port, "text": "".join(pieces)}, as_json=True)
