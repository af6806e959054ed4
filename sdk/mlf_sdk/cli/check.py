# SPDX-License-Identifier: Apache-2.0
"""The command ``check``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from mlf_sdk import pipeline as api
from mlf_sdk.cli import options as opt
from mlf_sdk.cli import serial as onport
from mlf_sdk.cli.output import show
from mlf_sdk.pipeline.gate import GateReport, GateRequest, gate
from mlf_sdk.pipeline.serial import check_device
from mlf_sdk.report.layout import Parts, line, number, table, verdict
from mlf_sdk.report.proof import check_parts
from mlf_sdk.report.values import check_values

_SHOWN = 30
_BUDGETS = "Budgets and baselines"


def _most(what: str, name: str) -> Any:  # noqa: ANN401 (an option)
    return typer.Option(
        f"--max-{name}", metavar="SIZE", help=f"Most {what}: 64K, 64KiB or bytes.", rich_help_panel=_BUDGETS
    )


def check(  # noqa: PLR0913, PLR0917 (a command's options)
    folder: opt.Folder,
    port: onport.PortName = None,
    baud: onport.Baud = None,
    max_flash: Annotated[str | None, _most("flash that the image takes", "flash")] = None,
    max_ram: Annotated[str | None, _most("RAM, the reserved stack included", "ram")] = None,
    max_stack: Annotated[str | None, _most("stack by the static bound", "stack")] = None,
    budget: Annotated[
        Path | None,
        typer.Option(
            "--budget",
            metavar="FILE",
            help="TOML file with limits of totals, sections, symbols, models; else mlf-budget.toml in DIR.",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline", metavar="FILE", help="Compare each symbol and section with an earlier build."
        ),
    ] = None,
    tolerance: Annotated[
        str, typer.Option("--tolerance", metavar="T", help="What may grow: 1%, bytes, or both: 1%,16.")
    ] = "0",
    save_baseline: Annotated[
        Path | None, typer.Option("--save-baseline", metavar="FILE", help="Keep the sizes of this build.")
    ] = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Compare a built image with plan, budget, baseline.

    Example: mlf-sdk check app

    Example: mlf-sdk check app --max-flash 64K --max-stack 2K --baseline sizes.json --tolerance 1%
    """
    choice = onport.port_choice(port, baud, None)
    request = GateRequest(
        most={"flash": max_flash, "ram": max_ram, "stack": max_stack},
        budget=budget,
        baseline=baseline,
        tolerance=tolerance,
        save=save_baseline,
    )
    report = api.check(folder) if choice is None else check_device(folder, choice)
    gated = gate(folder, report, request)
    ok = report.ok and gated.ok
    parts = [*check_parts(report)[:-1], *_gate_parts(gated), line("verdict", verdict(ok))]
    show(parts, {**check_values(report), **_gate_values(gated), "ok": ok}, as_json=json)
    if not ok:
        raise typer.Exit(1)


def _gate_parts(report: GateReport) -> Parts:
    parts: Parts = []
    if report.budget:
        rows = [
            (number(of.actual_bytes), number(of.limit.most_bytes), verdict(of.ok), of.limit.name, of.note)
            for of in report.budget
        ]
        parts += ["", table((">takes", ">of most", "=", "budget", ""), rows)]
    if report.changes is not None:
        shown = report.changes[:_SHOWN]
        changed = [
            (f"{c.growth:+,}", number(c.before), number(c.after), verdict(c.ok), c.word, f"{c.kind} {c.name}")
            for c in shown
        ]
        heads = (">change", ">before", ">now", "=", "=", "since the baseline")
        parts += ["", table(heads, changed) if changed else line("baseline", "nothing changed")]
        if len(report.changes) > _SHOWN:
            parts.append(f"... and {len(report.changes) - _SHOWN} smaller ones (--json lists all)")
    return parts


def _gate_values(report: GateReport) -> dict[str, Any]:
    sizes = report.sizes
    return {
        "totals": {"flash": sizes.flash, "ram": sizes.ram, "stack": sizes.stack},
        "budget": [
            {**dataclasses.asdict(of.limit), "actual_bytes": of.actual_bytes, "note": of.note, "ok": of.ok}
            for of in report.budget
        ],
        "changes": None
        if report.changes is None
        else [{**dataclasses.asdict(c), "what": c.word, "growth": c.growth} for c in report.changes],
    }
