# SPDX-License-Identifier: Apache-2.0
"""Commands about sweeps: run, status, show, retry, cancel, merge, diff, worker, push."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlf_sdk.cli.command import Command, Outcome
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.declare import Options, between, option
from mlf_sdk.pipeline.options import SweepOptions, WorkerOptions
from mlf_sdk.pipeline.request import Request

if TYPE_CHECKING:
    from mlf_sdk.cli.output import Status
    from mlf_sdk.sweep.results import SweepResult

_FOLDER = "Folder of the sweep."


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRunOptions(SweepOptions):
    """Options of ``sweep run``."""

    junit: str | None = option(None, "Write a JUnit XML report to this file.", metavar="FILE")


def run(request: Request, own: SweepRunOptions, progress: Status) -> Outcome:
    """Run the cells of a plan that are not finished, and write results and a page.

    The word run may be left out. A sweep that was stopped goes on where it was.

    Example: mlf-sdk sweep run plan.toml -o sweep --jobs 4
    """
    from mlf_sdk.cli.sweepview import view
    from mlf_sdk.sweep.api import run_sweep

    with view(progress) as watcher:
        result = run_sweep(request.source[0] if request.source else None, own.output, own, watcher=watcher)
    return _outcome(result, own.junit)


def _outcome(sweep_result: SweepResult, junit: str | None) -> Outcome:
    """The result as text; page and JUnit report are written."""
    from mlf_sdk.reporting.sweep import sweep_parts, sweep_values
    from mlf_sdk.reporting.sweepjunit import sweep_junit
    from mlf_sdk.reporting.sweeppage import write_page
    from mlf_sdk.tools.files import write_whole

    page = write_page(sweep_result)
    if junit is not None:
        write_whole(junit, sweep_junit(sweep_result))
    code = 0 if sweep_result.ok else 1
    return Outcome(
        parts=sweep_parts(sweep_result, page), values=sweep_values(sweep_result, page), exit_code=code
    )


def status(request: Request, own: Options, progress: Status) -> Outcome:
    """Show how far a sweep is: cells by state, running ones with their worker, boards set aside.

    Example: mlf-sdk sweep status sweep
    """
    from mlf_sdk.reporting.sweep import status_parts, status_values
    from mlf_sdk.sweep.api import read_status

    result = read_status(request.source[0])
    return Outcome(parts=status_parts(result), values=status_values(result))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOptions(Options):
    """The cell of ``sweep show``."""

    cell: str = option("", "The cell: as much of its name as is unique.", count="one", metavar="CELL")


def show(request: Request, own: CellOptions, progress: Status) -> Outcome:
    """Show one cell: options, figures, attempts, log.

    Example: mlf-sdk sweep show sweep 3f2a
    """
    from mlf_sdk.reporting.sweep import cell_parts, cell_values
    from mlf_sdk.sweep.api import read_cell

    cell = read_cell(request.source[0], own.cell)
    return Outcome(parts=cell_parts(cell), values=cell_values(cell))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsOptions(Options):
    """The cells of ``sweep cancel``."""

    cells: tuple[str, ...] = option((), "Cells; default: all.", count="many", metavar="[CELL]...")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions(CellsOptions):
    """Options of ``sweep retry``."""

    failed: bool = option(False, "Those that failed as well.")


def retry(request: Request, own: RetryOptions, progress: Status) -> Outcome:
    """Plan cells again, by default those set aside, cancelled or lost; boards set aside are used again.

    Example: mlf-sdk sweep retry sweep --failed
    """
    from mlf_sdk.sweep.api import retry_cells

    count = retry_cells(request.source[0], own.cells, failed=own.failed)
    return Outcome(
        parts=[f"{count:,} cells are planned again: mlf-sdk sweep --resume -o {request.source[0]}"]
    )


def cancel(request: Request, own: CellsOptions, progress: Status) -> Outcome:
    """Take cells that are not finished out of a sweep, also while it runs.

    Example: mlf-sdk sweep cancel sweep 3f2a
    """
    from mlf_sdk.sweep.api import cancel_cells

    return Outcome(parts=[f"{cancel_cells(request.source[0], own.cells):,} cells are cancelled"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions(Options):
    """Options of ``sweep merge``."""

    output: str = option(
        "", "Folder of the merged sweep.", flags=("--output", "-o"), metavar="FOLDER", required=True
    )
    junit: str | None = option(None, "Write a JUnit XML report to this file.", metavar="FILE")


def merge(request: Request, own: MergeOptions, progress: Status) -> Outcome:
    """Merge the journals of a plan's shards, and write results and a page of all cells.

    Example: mlf-sdk sweep merge shard-1 shard-2 -o sweep --junit sweep.xml
    """
    from mlf_sdk.sweep.merge import merge_sweeps

    return _outcome(merge_sweeps(request.source, own.output), own.junit)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions(Options):
    """Options of ``sweep diff``."""

    after: str = option("", "Folder of the later sweep.", count="one", metavar="AFTER")
    tolerance: str = option(
        "1%", "Growth that is allowed: 1%, bytes, or both: 1%,16.", group="Budgets and baselines", metavar="T"
    )


def diff(request: Request, own: DiffOptions, progress: Status) -> Outcome:
    """Compare two sweeps, cell by cell; exit code 1 where a figure became worse beyond the tolerance.

    Example: mlf-sdk sweep diff before after --tolerance 1%
    """
    from mlf_sdk.judge.baseline import parse_growth_limit
    from mlf_sdk.reporting.sweep import diff_parts, diff_values
    from mlf_sdk.sweep.api import load_sweep
    from mlf_sdk.sweep.diff import diff_sweeps

    limit = parse_growth_limit(own.tolerance)
    result = diff_sweeps(load_sweep(request.source[0]), load_sweep(own.after), limit)
    if not result.compared:
        raise InputError(
            "the sweeps have no cell in common", where=own.after, hint="Compare sweeps of the same axes."
        )
    return Outcome(parts=diff_parts(result), values=diff_values(result), exit_code=0 if result.ok else 1)


def worker(request: Request, own: WorkerOptions, progress: Status) -> Outcome:
    """Run cells for a scheduler until Ctrl-C: SDK, compilers, emulator, ports and places are announced.

    A worker builds and runs what it is sent: give it to nobody whom you would not give a shell.

    Example: mlf-sdk sweep worker ADDRESS --jobs 2
    """
    from mlf_sdk.sweep.executors import require_cluster

    require_cluster()
    from mlf_sdk.sweep.worker import serve

    serve(request.source[0], own, progress.say)
    return Outcome(parts=["stopped"])


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions(Options):
    """Options of ``sweep push``."""

    devices: tuple[str, ...] = option(
        (), "Devices: each the folder of a project, or a port.", count="many", metavar="DIR|PORT..."
    )
    jobs: int = option(1, "Devices at once.", metavar="N", check=between(1, 64))
    tries: int = option(3, "Pushes to a device that is lost on the way.", metavar="N", check=between(1, 10))
    cut_power: tuple[str, ...] = option(
        (),
        "End the emulator of a project once so many bytes of the package are written, as a loss of power "
        "would; may repeat.",
        metavar="DIR:BYTES",
    )


def push(request: Request, own: FleetOptions, progress: Status) -> Outcome:
    """Send a signed package to many devices; those that are lost on the way are sent it again.

    At the end each is asked what is in force, in a new session; emulated ones are started anew for it.
    Exit code 1: on one of them it is not the package.

    Example: mlf-sdk sweep push retrained.mlfp /dev/ttyACM0 /dev/ttyACM1 --jobs 2
    """
    from mlf_sdk.reporting.fleet import fleet_parts, fleet_values
    from mlf_sdk.sweep.fleet import parse_power_cuts, push_to_fleet

    if not own.devices:
        hint = "Name folders of projects, or ports: mlf-sdk sweep push PACKAGE DEVICE..."
        raise InputError("give the devices", where="DIR|PORT", hint=hint)
    fleet = push_to_fleet(
        request.source[0],
        own.devices,
        request.replace(source=()),
        jobs=own.jobs,
        tries=own.tries,
        cuts=parse_power_cuts(own.cut_power, own.devices),
        say=progress.say,
    )
    return Outcome(parts=fleet_parts(fleet), values=fleet_values(fleet), exit_code=0 if fleet.ok else 1)


COMMANDS = {
    "sweep run": Command(
        call=run,
        source="PLAN",
        source_help="TOML file of the plan; or --archive, --board and --set.",
        count="optional",
        own=SweepRunOptions,
    ),
    "sweep status": Command(call=status, source="FOLDER", source_help=_FOLDER),
    "sweep show": Command(call=show, source="FOLDER", source_help=_FOLDER, own=CellOptions),
    "sweep retry": Command(call=retry, source="FOLDER", source_help=_FOLDER, own=RetryOptions),
    "sweep cancel": Command(call=cancel, source="FOLDER", source_help=_FOLDER, own=CellsOptions),
    "sweep merge": Command(
        call=merge, source="FOLDER...", source_help="Folders of the parts.", count="many", own=MergeOptions
    ),
    "sweep diff": Command(
        call=diff, source="BEFORE", source_help="Folder of the earlier sweep.", own=DiffOptions
    ),
    "sweep worker": Command(
        call=worker, source="ADDRESS", source_help="Address of the scheduler.", own=WorkerOptions
    ),
    "sweep push": Command(
        call=push,
        source="PACKAGE",
        source_help="Signed package.",
        takes=("module", "board", "key", "baud", "max_baud", "timeout_s", "build_timeout_s"),
        own=FleetOptions,
        defaults={"timeout_s": 60.0},
    ),
}
