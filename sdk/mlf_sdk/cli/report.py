# SPDX-License-Identifier: Apache-2.0
"""``mlf-sdk report``: one page for a design review."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlf_sdk.cli import options as opt
from mlf_sdk.cli.output import show, status
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.report import ReportRequest, gather
from mlf_sdk.report.html.collect import collect
from mlf_sdk.report.html.page import render_page
from mlf_sdk.report.overview import overview_parts, report_values
from mlf_sdk.tools.files import write_whole


def report(  # noqa: PLR0913, PLR0917 (a command's options)
    target: Annotated[
        Path, typer.Argument(metavar="ARCHIVE|DIR", help="An archive, or the folder of a generated project.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the page here; without it, no page."),
    ] = None,
    board: opt.RunBoardName = None,
    board_file: opt.BoardFile = None,
    module: opt.Module = None,
    inputs: Annotated[
        Path | None, typer.Option("--inputs", metavar="FILE", help="npz file with the inputs, as for run.")
    ] = None,
    expect: Annotated[
        Path | None,
        typer.Option("--expect", metavar="FILE", help="npz file with the expected outputs, as for run."),
    ] = None,
    with_run: Annotated[
        bool, typer.Option("--run/--no-run", help="Boot the image and measure, or look at the image alone.")
    ] = True,
    with_profile: Annotated[
        bool, typer.Option("--profile/--no-profile", help="Measure each step as well, or leave that out.")
    ] = True,
    timeout: opt.RunTimeout = 120.0,
    params: opt.ParamsPlace = opt.Params.FLASH,
    cflags: opt.Cflags = None,
    keep_inputs: opt.KeepInputs = False,
    cmsis_nn: opt.CmsisNn = None,
    platform: opt.PlatformName = None,
    zephyr_base: opt.ZephyrBase = None,
    zephyr_module: opt.ZephyrModule = None,
    west: opt.West = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Show memory, time and verdicts as one HTML page.

    Example: mlf-sdk report digits.tar -o report.html
    """
    chosen = opt.project_options(params=params, cflags=cflags, keep_inputs=keep_inputs, cmsis_nn=cmsis_nn)
    opt.check_options_of_project(target, board, board_file, chosen)
    if output is not None and not output.parent.is_dir():
        raise InputError(
            "the folder of the report is not there",
            where=str(output),
            hint="Make the folder, or give another.",
        )
    request = ReportRequest(
        board=board,
        board_file=board_file,
        module=module,
        options=chosen,
        platform=opt.platform_name(platform),
        zephyr=opt.zephyr_setup(zephyr_base, zephyr_module, west),
        inputs=inputs,
        expect=expect,
        with_run=with_run,
        with_profile=with_profile,
        timeout_s=timeout,
    )
    with status(as_json=json) as progress:
        found = collect(gather(target, request, say=progress.say))
    if output is not None:
        write_whole(output, render_page(found))
    show(overview_parts(found, output), report_values(found, output), as_json=json)
    if not found.ok:
        raise typer.Exit(1)
