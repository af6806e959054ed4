# SPDX-License-Identifier: Apache-2.0
"""The command ``triage``: a fault line from a console, explained."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mlf_sdk.cli import options as opt
from mlf_sdk.cli.output import show, status
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.triage import MOST_LOG_BYTES, find_firmware, triage_log
from mlf_sdk.report.triage import triage_parts
from mlf_sdk.triage.explain import triage_values

Image = Annotated[
    Path | None,
    typer.Option(
        "--elf", metavar="ELF|DIR", help="The image that the board runs, or the folder of its project."
    ),
]


def triage(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="What the console showed: a file, or - for standard input.")
    ],
    elf: Image = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Explain a fault line: where, how it got there, why.

    Example: mlf-sdk triage console.log --elf app/build/app.elf

    Example: mlf-sdk triage console.log --elf app
    """
    with status(as_json=json) as progress:
        text = _read(log)
        progress.say(f"looking for faults in {log}")
        firmware = find_firmware(elf) if elf is not None else None
        found = triage_log(text, firmware)
    values = {"elf": str(firmware.elf) if firmware else None, "faults": [triage_values(f) for f in found]}
    show(triage_parts(found, firmware), values, as_json=json)


def _read(log: Path) -> bytes:
    if str(log) == "-":
        return sys.stdin.buffer.read(MOST_LOG_BYTES)
    if not log.is_file():
        raise InputError("there is no such file", where=str(log), hint="Give a saved console log, or -.")
    with log.open("rb") as file:
        return file.read(MOST_LOG_BYTES)
