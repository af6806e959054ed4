# SPDX-License-Identifier: Apache-2.0
"""The command ``flash``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mlf_sdk.cli import options as opt
from mlf_sdk.cli.output import show, status
from mlf_sdk.pipeline.flash import FlashReport
from mlf_sdk.pipeline.flash import flash as flash_project
from mlf_sdk.report.layout import Parts, line, lines, size, verdict


def flash(  # noqa: PLR0913, PLR0917 (a command's options)
    folder: opt.Folder,
    extra: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]", help="More arguments for the runner.")
    ] = None,
    runner: Annotated[
        str | None,
        typer.Option(
            "--runner",
            metavar="NAME",
            help="gdb, openocd, pyocd, jlink, ...; a board's row may name its own.",
        ),
    ] = None,
    runner_file: Annotated[
        Path | None,
        typer.Option("--runner-file", metavar="FILE", help="TOML file with a runner of your own."),
    ] = None,
    port: Annotated[
        str | None,
        typer.Option(
            "--port",
            metavar="PORT",
            help="The board's serial port; with gdb the debug server (localhost:3333), to copy the volume.",
        ),
    ] = None,
    console: Annotated[
        str | None,
        typer.Option(
            "--console", metavar="PORT", help="The board's serial port, where --port is something else."
        ),
    ] = None,
    sign: opt.SignKey = None,
    unproven_ok: Annotated[
        bool,
        typer.Option("--unproven-ok", help="Flash even when the board can't prove that it runs the image."),
    ] = False,
    zephyr_base: opt.ZephyrBase = None,
    timeout: opt.FlashTimeout = 120.0,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Flash a built project and prove it by the device.

    The board must answer with the build id of the image; where it can't, nothing is flashed without
    --unproven-ok. A Zephyr project is flashed by west, and what stands after -- goes to its runner.

    Example: mlf-sdk flash app --port /dev/ttyACM0

    Example: mlf-sdk flash app --runner gdb --port localhost:3333 --console /dev/ttyACM0
    """
    with status(as_json=json) as progress:
        report = flash_project(
            folder,
            runner=runner,
            runner_file=runner_file,
            port=port,
            console=console,
            extra=tuple(extra or ()),
            sign=sign,
            unproven_ok=unproven_ok,
            zephyr=opt.zephyr_setup(zephyr_base),
            timeout_s=timeout,
            watch=None if json else progress.tell,
            say=progress.say,
        )
    show(_parts(report), _values(report), as_json=json)


def _parts(report: FlashReport) -> Parts:
    what = f"{size(report.run.image_bytes)} to {report.board.name} with {report.runner.name}"
    parts: Parts = [line("flashed", f"{what} in {report.run.seconds:.1f} s")]
    if report.device is not None:
        models = [f"{m.name} ({m.archive_sha256[:12]})" for m in report.device.models]
        parts += [*lines("answers", models), line("build id", report.device.build_id or "not told")]
    if not report.proven:
        return [*parts, line("unproven", report.unproven)]
    return [*parts, line("verdict", verdict(True))]


def _values(report: FlashReport) -> dict[str, Any]:
    device = report.device
    return {
        "ok": True,
        "proven": report.proven,
        "unproven": report.unproven or None,
        "project": str(report.folder),
        "board": report.board.name,
        "runner": report.runner.name,
        "argv": list(report.run.argv),
        "seconds": round(report.run.seconds, 3),
        "image_bytes": report.run.image_bytes,
        "console": report.console,
        "build_id": report.build_id or None,
        "models": None
        if device is None
        else [{"name": m.name, "archive_sha256": m.archive_sha256} for m in device.models],
        "output": report.run.output,
    }
