# SPDX-License-Identifier: Apache-2.0
"""The commands ``params push`` and ``params show``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mlf_sdk.cli import options as opt
from mlf_sdk.cli import serial as onport
from mlf_sdk.cli.output import show, status
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.params import ParamsReport, ParamsTarget, push_params, show_params
from mlf_sdk.report.layout import Parts, line

params = typer.Typer(
    name="params",
    help="Replace a model's parameters on a target.",
    no_args_is_help=True,
)

_Project = Annotated[
    Path | None,
    typer.Option(
        "--project",
        metavar="DIR",
        help="A project for an emulated board or the host: it is built and started, and its parameters are "
        "kept in its build folder.",
    ),
]
_ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="Which model of a firmware with several.")
]


@params.command()
def push(
    source: Annotated[
        Path,
        typer.Argument(metavar="PARAMS|ARCHIVE", help="A .params file, or an archive with the same code."),
    ],
    project: _Project = None,
    port: onport.PortName = None,
    baud: onport.Baud = None,
    max_baud: onport.MaxBaud = None,
    model: _ModelName = None,
    timeout: opt.RunTimeout = 60.0,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Replace the parameters: the old ones stay in force until the new ones are whole.

    Example: mlf-sdk params push retrained.params --port /dev/ttyACM0

    Example: mlf-sdk params push retrained.tar --project app
    """
    if not source.exists():
        raise InputError("there is no such file", where=str(source))
    target = _target(project, port, baud, max_baud, model, timeout)
    with status(as_json=json) as progress:
        report = push_params(source, target, say=progress.say)
    show(_parts(report), _values(report), as_json=json)


@params.command("show")
def show_(
    project: _Project = None,
    port: onport.PortName = None,
    baud: onport.Baud = None,
    max_baud: onport.MaxBaud = None,
    model: _ModelName = None,
    timeout: opt.RunTimeout = 60.0,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Show which parameters are in force.

    Example: mlf-sdk params show --port /dev/ttyACM0
    """
    target = _target(project, port, baud, max_baud, model, timeout)
    with status(as_json=json) as progress:
        report = show_params(target, say=progress.say)
    show(_parts(report), _values(report), as_json=json)


def _target(
    project: Path | None,
    port: str | None,
    baud: int | None,
    max_baud: int | None,
    model: str | None,
    timeout: float,
) -> ParamsTarget:
    choice = onport.port_choice(port, baud, max_baud)
    return ParamsTarget(project=project, port=choice, model=model, timeout_s=timeout)


def _parts(report: ParamsReport) -> Parts:
    header, info = report.header, report.info
    parts: Parts = [line("model", f"{report.model} ({report.archive_sha256[:12]})")]
    if header is None:
        return [*parts, line("params", "none: the constants are in the code")]
    count = len(report.graph.params)
    came = (
        "the firmware's archive" if header.archive_sha256.hex() == report.archive_sha256 else "another file"
    )
    parts += [
        line("params", f"{count} tensors, {header.data_bytes:,} B, CRC {header.data_crc:08x}"),
        line("from", f"{header.archive_sha256.hex()[:12]}: {came}"),
        line("in force", f"{info.place}, generation {info.generation}"),
    ]
    return parts


def _values(report: ParamsReport) -> dict[str, Any]:
    header, info = report.header, report.info
    return {
        "model": report.model,
        "archive_sha256": report.archive_sha256,
        "place": info.place,
        "generation": info.generation,
        "replaceable": bool(info.has_store),
        "params": None
        if header is None
        else {
            "tensors": [item.name for item in report.graph.params],
            "data_bytes": header.data_bytes,
            "data_crc": f"{header.data_crc:08x}",
            "source_sha256": header.archive_sha256.hex(),
        },
    }
