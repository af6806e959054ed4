# SPDX-License-Identifier: Apache-2.0
"""The command ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlf_sdk.cli import options as opt
from mlf_sdk.cli import serial as onport
from mlf_sdk.cli.output import show, status
from mlf_sdk.pipeline.compare import compare as run_everywhere
from mlf_sdk.report.compare import compare_parts, compare_values


def compare(  # noqa: PLR0913, PLR0917 (a command's options)
    target: Annotated[
        Path,
        typer.Argument(
            metavar="ARCHIVE|DIR", help="An archive, or the folder of a project made from --archive."
        ),
    ],
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="TARGETS",
            help="Targets, with commas: host, a board, dir:FOLDER (a project as it is), port:PORT (a board "
            "that holds the model). All are held against the first. Default: host,mps2-an386, or host and "
            "the project.",
        ),
    ] = None,
    archive: Annotated[
        Path | None, typer.Option("--archive", metavar="FILE", help="What the project DIR was made from.")
    ] = None,
    module: opt.Module = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="FILE",
            help="npz file: an array for each input, by its name; one more leading axis is a batch. "
            "Without it, a repeatable pattern.",
        ),
    ] = None,
    rtol: opt.Rtol = 1e-5,
    atol: opt.Atol = 1e-6,
    every_step: Annotated[
        bool,
        typer.Option(
            "--every-step/--outputs-only",
            help="Look at the steps also where the outputs agree (default), or not.",
        ),
    ] = True,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="DIR",
            help="Write the inputs and outputs of a step that differs to this folder.",
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
    baud: onport.Baud = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Find the first step in which targets differ.

    The same inputs run on all of them.

    Example: mlf-sdk compare digits.tar --on host,mps2-an386
    """
    with status(as_json=json) as progress:
        report = run_everywhere(
            target,
            on=None if on is None else [name.strip() for name in on.split(",") if name.strip()],
            archive=archive,
            module=module,
            inputs=inputs,
            rtol=rtol,
            atol=atol,
            every_step=every_step,
            save=save,
            options=opt.project_options(
                params=params, cflags=cflags, keep_inputs=keep_inputs, cmsis_nn=cmsis_nn
            ),
            platform=opt.platform_name(platform),
            zephyr=opt.zephyr_setup(zephyr_base, zephyr_module, west),
            baud=baud,
            timeout_s=timeout,
            say=progress.say,
        )
    show(compare_parts(report), compare_values(report), as_json=json)
    if not report.ok:
        raise typer.Exit(1)
