# SPDX-License-Identifier: Apache-2.0
"""The command ``inspect``: what an archive holds, or what a firmware was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlf_sdk import pipeline as api
from mlf_sdk.cli import options as opt
from mlf_sdk.cli.output import show, status
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.firmware import inspect_firmware, is_firmware
from mlf_sdk.planner.layout import lay_out
from mlf_sdk.report import terminal, values
from mlf_sdk.report.firmware import firmware_parts, firmware_values


def inspect(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="ARCHIVE|FIRMWARE",
            help="Archive (.tar, .tar.gz, .tar.xz) or unpacked folder; or a linked ELF file.",
        ),
    ],
    module: opt.Module = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Show what an archive holds, or what a firmware was made from.

    Example: mlf-sdk inspect digits.tar

    Example: mlf-sdk inspect app/build/app.elf
    """
    with status(as_json=json) as progress:
        progress.say(f"reading {target.name}")
        if is_firmware(target):
            if module is not None:
                raise InputError("a firmware shows all of its models", where="--module")
            found = inspect_firmware(target)
            parts, result = firmware_parts(found), firmware_values(found)
        else:
            model = api.load(target, module=module)
            layout = lay_out(model)
            parts, result = terminal.model_parts(model, layout), values.model_values(model, layout)
    show(parts, result, as_json=json)
