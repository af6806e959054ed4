# SPDX-License-Identifier: Apache-2.0
"""Options of single commands, beside those of the request; light to import, for the command line's help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.declare import fraction, not_negative, option, positive, validate

_GROUP = "Budgets and baselines"
_MOST_RUNS = 100_000


def _runs(value: int | None, flag: str) -> None:
    if value is not None and not 1 <= value <= _MOST_RUNS:
        raise InputError(f"invalid value {value}", where=flag, hint=f"It must be from 1 to {_MOST_RUNS:,}.")


def _wait_states(value: int, flag: str) -> None:
    if not 0 <= value <= 15:
        raise InputError(f"invalid value {value}", where=flag, hint="It must be from 0 to 15.")


def _jobs(value: int, flag: str) -> None:
    if not 1 <= value <= 64:
        raise InputError(f"invalid value {value}", where=flag, hint="It must be from 1 to 64.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesOptions:
    """Options of ``test`` beside those of the request."""

    cases: str | Mapping[str, Any] = option(
        "",
        "npz file: inputs by name, expected outputs by name or number; 'label' holds classes.",
        group="Inputs",
        metavar="FILE",
        required=True,
    )
    min_accuracy: float | None = option(
        None,
        "Least share of right classes, 0 to 1; judged beside the cases.",
        group="Inputs",
        metavar="SHARE",
        check=fraction,
    )

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """Options of ``profile`` beside those of the request."""

    runs: int | None = option(
        None,
        "Inferences to measure: the table shows medians. Default: 1 where QEMU counts, else 10.",
        group="Inputs",
        metavar="N",
        check=_runs,
    )

    wait_states: int = option(
        0,
        "Cycles that each word from the flash waits, without cache or prefetch, in estimates of cycles.",
        group="Target",
        metavar="N",
        check=_wait_states,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Options of ``compare`` beside those of the request."""

    on: tuple[str, ...] = option(
        (),
        "Targets, with commas: host, a board, dir:FOLDER (a project as it is), port:PORT (a board that holds "
        "the model). All are compared with the first. Default: host and the board, or host and the project.",
        group="Target",
        metavar="TARGETS",
        complete="target",
    )
    every_step: bool = option(
        True,
        "Look at the steps also where the outputs agree: a later step may hide what an earlier one did.",
        group="Output",
        negative="--outputs-only",
    )
    save: str | None = option(
        None, "Write the inputs and outputs of a step that differs to this folder.", metavar="DIR"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofOptions:
    """Options of ``proof`` beside those of the request."""

    boards: tuple[str, ...] = option(
        (),
        "Board to prove on, zephyr:NAME for one on Zephyr, or emulated for all that QEMU has; may repeat; "
        "default: emulated, with --platform zephyr those of Zephyr.",
        group="Target",
        flags=("--board", "-b"),
        metavar="NAME",
        complete="board",
    )
    jobs: int = option(
        2, "Cells at the same time, each in a process of its own.", flags=("-j",), metavar="N", check=_jobs
    )
    again: bool = option(False, "Run also what was proven before.")
    scheduler: str | None = option(
        None, "Address of a dask scheduler whose workers run the cells.", metavar="ADDRESS"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Options of ``sweep``."""

    output: str = option(
        "", "Folder of journal and results.", flags=("--output", "-o"), metavar="FOLDER", required=True
    )
    archives: tuple[str, ...] = option(
        (),
        "Model of a plan without a file; may repeat.",
        group="Target",
        flags=("--archive",),
        metavar="FILE",
    )
    boards: tuple[str, ...] = option(
        (),
        "Board of a plan without a file; may repeat.",
        group="Target",
        flags=("--board", "-b"),
        metavar="NAME",
        complete="board",
    )
    settings: tuple[str, ...] = option(
        (),
        "Further axis of a plan without a file, such as cflags=-O2,-Os; may repeat.",
        group="Build",
        flags=("--set",),
        metavar="NAME=VALUE,...",
    )
    jobs: int = option(2, "Cells at the same time on this machine.", flags=("-j",), metavar="N", check=_jobs)
    scheduler: str | None = option(
        None, "Address of a dask scheduler whose workers run the cells.", metavar="ADDRESS"
    )
    resume: bool = option(False, "Go on with the last plan of the folder; no plan has to be given.")
    shard: str = option("1/1", "Run the I-th of N parts of the cells.", metavar="I/N")
    strict: bool = option(
        True, "Unproven cells count as failed (default).", group="Target", negative="--no-strict"
    )
    wait_s: float = option(
        60.0,
        "Seconds to wait for a worker that has what a cell needs.",
        group="Target",
        metavar="SECONDS",
        check=not_negative,
    )

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Options of ``sweep worker``."""

    jobs: int = option(2, "Cells at the same time.", flags=("-j",), metavar="N", check=_jobs)
    places: tuple[str, ...] = option(
        (),
        "Place of labgrid that this worker may hold; may repeat; all with a tag mlf-board: all.",
        group="Target",
        flags=("--place",),
        metavar="NAME",
    )
    listen: str = option(
        "127.0.0.1", "Address on which other workers reach this one.", group="Target", metavar="HOST"
    )

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherOptions:
    """Options of ``report`` beside those of the request."""

    with_run: bool = option(
        True,
        "Boot the image and measure (default), or look at the linked image alone.",
        flags=("--run",),
        negative="--no-run",
    )
    with_profile: bool = option(
        True,
        "Measure each step as well (default), or leave that out.",
        flags=("--profile",),
        negative="--no-profile",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """Limits of an image: options of ``check`` beside those of the request.

    Sizes are texts such as ``64K``, ``64KiB`` or ``65536``; they come before those of the budget file.
    """

    max_flash: str | None = option(
        None, "Most flash that the image takes: 64K, 64KiB or bytes.", group=_GROUP, metavar="SIZE"
    )
    max_ram: str | None = option(None, "Most RAM, the reserved stack included.", group=_GROUP, metavar="SIZE")
    max_stack: str | None = option(None, "Most stack by the static bound.", group=_GROUP, metavar="SIZE")
    budget: str | None = option(
        None,
        "TOML file with limits of totals, sections, symbols, models; default: mlf-budget.toml in DIR.",
        group=_GROUP,
        metavar="FILE",
    )
    baseline: str | None = option(
        None, "Compare each symbol and section with an earlier build.", group=_GROUP, metavar="FILE"
    )
    tolerance: str = option(
        "0", "Growth that is allowed: 1%, bytes, or both: 1%,16.", group=_GROUP, metavar="T"
    )
    save_baseline: str | None = option(
        None, "Keep the sizes of this build in a file.", group=_GROUP, metavar="FILE"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """Flashing of the kernels that ``compile`` counts on the board at its port.

    Attributes:
        port: what the runner works on (a debug server, a volume); None: the board's serial port.
        runner: name of the runner; None: that of the board's row.
        runner_file: TOML file with a runner.
    """

    port: str | None = None
    runner: str | None = None
    runner_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashOptions:
    """Options of ``flash`` beside those of the request, whose port is the board's (stage flash)."""

    runner: str | None = option(
        None,
        "gdb, openocd, pyocd, jlink, ...; of a Zephyr project west's; default: that of the board's row.",
        group="Flash",
        metavar="NAME",
        complete="runner",
    )
    runner_file: str | None = option(
        None, "TOML file with a runner of your own.", group="Flash", metavar="FILE", exists=True
    )
    console: str | None = option(
        None,
        "The board's serial port, where --port is something else: the debug server with gdb "
        "(localhost:3333), the volume to copy to.",
        group="Flash",
        metavar="PORT",
        complete="port",
    )
    unproven_ok: bool = option(
        False, "Flash even when the board can't prove that it runs the image.", group="Flash"
    )
    extra: tuple[str, ...] = option((), "More arguments for the runner.", count="many", metavar="[-- ARGS]")


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorOptions:
    """Options of ``monitor`` beside those of the request."""

    seconds: float | None = option(
        None, "Stop after this many seconds; default: at Ctrl-C.", flags=("--timeout",), metavar="SECONDS"
    )
    elf: str | None = option(
        None, "Image or project of the board: faults that it prints are explained.", metavar="ELF|DIR"
    )
    timestamps: bool = option(False, "Put the time in front of each line.")
    raw: bool = option(False, "Pass on every byte as it is, messages of the protocol among them.")
    line_end: str = option(
        "lf", "End of a typed line, as the board expects it.", choices=("lf", "crlf", "cr")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MlperfOptions:
    """Options of ``bench mlperf`` beside those of the request."""

    mode: str = option(
        "performance",
        "performance: five timed windows; accuracy: one inference on each input.",
        group="Inputs",
        choices=("performance", "accuracy"),
    )
    data: str | None = option(
        None,
        "Folder with the benchmark's files and y_labels.csv; default in performance mode: made-up bytes.",
        group="Inputs",
        metavar="DIR",
        exists=True,
    )
    cases: str | None = option(
        None,
        "npz file with inputs by name and classes in 'label', in place of --data.",
        group="Inputs",
        metavar="FILE",
        exists=True,
    )
    inferences: int | None = option(
        None,
        "Inferences of a window; default: as many as take 12 s, measured first.",
        group="Inputs",
        metavar="N",
        check=positive,
    )
    runner: str | None = option(
        None,
        "Folder of the official runner (benchmark/runner of mlcommons/tiny); without it a client of our own "
        "does the same procedure.",
        group="Runner",
        metavar="DIR",
        exists=True,
    )
    runner_python: str = option(
        "python3", "Python that has the official runner's packages.", group="Runner", metavar="FILE"
    )
    save: str | None = option(
        None, "Keep the official runner's log.txt, results.txt and results.json here.", metavar="DIR"
    )

    def __post_init__(self) -> None:
        validate(self)
