# SPDX-License-Identifier: Apache-2.0
"""The command ``test``."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from mlf_sdk.cli import options as opt
from mlf_sdk.cli import serial as onport
from mlf_sdk.cli.output import show, status
from mlf_sdk.errors import InputError
from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.pipeline.cases import OUTCOMES, CasesReport, run_cases
from mlf_sdk.pipeline.places import located
from mlf_sdk.report.junit import junit_xml
from mlf_sdk.report.layout import Parts, counted, line, lines, verdict
from mlf_sdk.report.terminal import board_text
from mlf_sdk.report.values import comparison_values
from mlf_sdk.tools.files import write_whole

_SHOWN = 20


def _accuracy(value: float | None) -> float | None:
    if value is not None and not (0 <= value <= 1 and math.isfinite(value)):
        raise InputError(
            f"{value:g} is no accuracy", where="--min-accuracy", hint="Give a number from 0 to 1."
        )
    return value


def test(  # noqa: PLR0913, PLR0917 (a command's options)
    target: Annotated[
        Path, typer.Argument(metavar="ARCHIVE|DIR", help="An archive, or the folder of a generated project.")
    ],
    cases: Annotated[
        Path,
        typer.Option(
            "--cases",
            metavar="FILE",
            help="npz file: inputs by name, expected outputs by name or number; 'label' holds classes.",
        ),
    ],
    board: opt.RunBoardName = None,
    board_file: opt.BoardFile = None,
    port: onport.PortName = None,
    baud: onport.Baud = None,
    max_baud: onport.MaxBaud = None,
    module: opt.Module = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit XML report to this file.")
    ] = None,
    min_accuracy: Annotated[
        float | None,
        typer.Option(
            "--min-accuracy",
            metavar="SHARE",
            help="Least share of right classes, 0 to 1; it is one more case.",
            callback=_accuracy,
        ),
    ] = None,
    rtol: opt.Rtol = 1e-5,
    atol: opt.Atol = 1e-6,
    timeout: opt.RunTimeout = 120.0,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Run many cases: outputs within tolerance, or an accuracy.

    Example: mlf-sdk test digits.tar --cases test.npz --min-accuracy 0.95 --junit report.xml
    """
    if junit is not None and not junit.absolute().parent.is_dir():
        raise InputError("the folder of the report is not there", where=str(junit))
    choice = onport.port_choice(port, baud, max_baud)
    with status(as_json=json) as progress, located(board, choice) as (name, place):
        report = run_cases(
            target,
            cases,
            board=name,
            board_file=board_file,
            port=place,
            module=module,
            tolerance=Tolerance(rtol=rtol, atol=atol),
            min_accuracy=min_accuracy,
            timeout_s=timeout,
            say=progress.say,
            count=progress.count,
        )
    if junit is not None:
        write_whole(junit, junit_xml(report))
    show(_parts(report), _values(report), as_json=json)
    if report.error is not None:
        if not json:
            raise report.error
        raise typer.Exit(report.error.exit_code)
    if not report.ok:
        raise typer.Exit(1)


def _parts(report: CasesReport) -> Parts:
    where = report.port or board_text(report.board)
    counts = [f"{report.count(o):,} {o}" for o in OUTCOMES if report.count(o) or o == "passed"]
    bad = [c for c in report.cases if c.outcome in ("failed", "error")]
    shown = [f"{c.name}: {c.why.splitlines()[0]}" for c in bad[:_SHOWN]]
    if len(bad) > len(shown):
        shown.append(f"... and {len(bad) - len(shown):,} more (--junit or --json list all)")
    parts: Parts = [
        line("model", report.model.name),
        line("board", f"{report.board.name}: {where}"),
        line("cases", f"{counted(len(report.cases), 'case')} in {report.seconds:.1f} s: {', '.join(counts)}"),
    ]
    if report.accuracy is not None:
        least = "" if report.min_accuracy is None else f", at least {report.min_accuracy:g}"
        parts.append(line("accuracy", f"{report.accuracy:.4f}{least}"))
    return [*parts, *lines("wrong", shown), line("verdict", verdict(report.ok))]


def _values(report: CasesReport) -> dict[str, Any]:
    error = report.error
    return {
        "ok": report.ok,
        "model": report.model.name,
        "board": report.board.name,
        "port": report.port,
        "archive_sha256": report.model.archive_sha256,
        "accuracy": report.accuracy,
        "min_accuracy": report.min_accuracy,
        "seconds": round(report.seconds, 3),
        "counts": {o: report.count(o) for o in OUTCOMES},
        "cases": [
            {
                **{f.name: getattr(c, f.name) for f in dataclasses.fields(c) if f.name != "comparison"},
                "comparison": comparison_values(c.comparison),
            }
            for c in report.cases
        ],
        "console": report.console or None,
        "error": None if error is None else {"what": error.what, "where": error.where, "hint": error.hint},
    }
