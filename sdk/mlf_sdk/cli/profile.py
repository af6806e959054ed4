# SPDX-License-Identifier: Apache-2.0
"""The command ``profile``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlf_sdk.cli import options as opt
from mlf_sdk.cli import serial as onport
from mlf_sdk.cli.output import show, status
from mlf_sdk.pipeline.places import is_place, located
from mlf_sdk.pipeline.profile import profile as measure
from mlf_sdk.report.profile import profile_parts, profile_values


def profile(  # noqa: PLR0913, PLR0917 (a command's options)
    target: Annotated[
        Path, typer.Argument(metavar="ARCHIVE|DIR", help="An archive, or the folder of a generated project.")
    ],
    board: opt.RunBoardName = None,
    board_file: opt.BoardFile = None,
    module: opt.Module = None,
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", metavar="FILE", help="npz file; its first inference is measured."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs",
            metavar="N",
            help="Inferences to measure: the table shows medians. Default: 1 where QEMU counts, else 10.",
        ),
    ] = None,
    timeout: opt.RunTimeout = 120.0,
    params: opt.ParamsPlace = opt.Params.FLASH,
    cflags: opt.Cflags = None,
    keep_inputs: opt.KeepInputs = False,
    cmsis_nn: opt.CmsisNn = None,
    platform: opt.PlatformName = None,
    zephyr_base: opt.ZephyrBase = None,
    zephyr_module: opt.ZephyrModule = None,
    west: opt.West = None,
    port: onport.PortName = None,
    baud: onport.Baud = None,
    max_baud: onport.MaxBaud = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Show what each step costs.

    Instructions or cycles, multiply-accumulates, bytes moved.

    Example: mlf-sdk profile digits.tar --board mps2-an386
    """
    chosen = opt.project_options(params=params, cflags=cflags, keep_inputs=keep_inputs, cmsis_nn=cmsis_nn)
    opt.check_options_of_project(target, None if is_place(board) else board, board_file, chosen)
    choice = onport.port_choice(port, baud, max_baud)
    with status(as_json=json) as progress, located(board, choice) as (name, place):
        found = measure(
            target,
            board=name,
            board_file=board_file,
            module=module,
            inputs=inputs,
            runs=runs,
            port=place,
            options=chosen,
            platform=opt.platform_name(platform),
            zephyr=opt.zephyr_setup(zephyr_base, zephyr_module, west),
            timeout_s=timeout,
            say=progress.say,
        )
    show(profile_parts(found), profile_values(found), as_json=json)
