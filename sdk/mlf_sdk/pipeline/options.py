# SPDX-License-Identifier: Apache-2.0
"""Options of single commands, beside those of the request; light to import, for the command line's help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from mlf_sdk.pipeline.declare import Options, between, not_negative, option, positive

_target_option = partial(option, group="Target")
_input_option = partial(option, group="Inputs")
_flash_option = partial(option, group="Flash")
_gate_option = partial(option, group="Budgets and baselines")
_jobs = between(1, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesOptions(Options):
    """Options of ``test`` beside those of the request."""

    cases: str | Mapping[str, Any] = _input_option(
        "",
        "npz file: inputs by name, expected outputs by name or number; 'label' holds classes.",
        metavar="FILE",
        required=True,
    )
    min_accuracy: float | None = _input_option(
        None,
        "Least share of right classes, 0 to 1; judged beside the cases.",
        metavar="SHARE",
        check=between(0, 1),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions(Options):
    """Options of ``profile`` beside those of the request."""

    runs: int | None = _input_option(
        None,
        "Inferences to measure: the table shows medians. Default: 1 where QEMU counts, else 10.",
        metavar="N",
        check=between(1, 100_000),
    )

    wait_states: int = _target_option(
        0,
        "Cycles that each word from the flash waits, without cache or prefetch, in estimates of cycles.",
        metavar="N",
        check=between(0, 15),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions(Options):
    """Options of ``compare`` beside those of the request."""

    on: tuple[str, ...] = _target_option(
        (),
        "Targets, with commas: host, a board, dir:FOLDER (a project as it is), port:PORT (a board that holds "
        "the model). All are compared with the first. Default: host and the board, or host and the project.",
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
class ProofOptions(Options):
    """Options of ``proof`` beside those of the request."""

    boards: tuple[str, ...] = _target_option(
        (),
        "Board to prove on, zephyr:NAME for one on Zephyr, or emulated for all that QEMU has; may repeat; "
        "default: emulated, with --platform zephyr those of Zephyr.",
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
class SweepOptions(Options):
    """Options of ``sweep``."""

    output: str = option(
        "", "Folder of journal and results.", flags=("--output", "-o"), metavar="FOLDER", required=True
    )
    archives: tuple[str, ...] = _target_option(
        (), "Model of a plan without a file; may repeat.", flags=("--archive",), metavar="FILE"
    )
    boards: tuple[str, ...] = _target_option(
        (),
        "Board of a plan without a file; may repeat.",
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
    strict: bool = _target_option(True, "Unproven cells count as failed (default).", negative="--no-strict")
    wait_s: float = _target_option(
        60.0,
        "Seconds to wait for a worker that has what a cell needs.",
        metavar="SECONDS",
        check=not_negative,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions(Options):
    """Options of ``sweep worker``."""

    jobs: int = option(2, "Cells at the same time.", flags=("-j",), metavar="N", check=_jobs)
    places: tuple[str, ...] = _target_option(
        (),
        "Place of labgrid that this worker may hold; may repeat; all with a tag mlf-board: all.",
        flags=("--place",),
        metavar="NAME",
    )
    listen: str = _target_option(
        "127.0.0.1", "Address on which other workers reach this one.", metavar="HOST"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherOptions(Options):
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
class GateOptions(Options):
    """Limits of an image: options of ``check`` beside those of the request.

    Sizes are texts such as ``64K``, ``64KiB`` or ``65536``; they come before those of the budget file.
    """

    max_flash: str | None = _gate_option(
        None, "Most flash that the image takes: 64K, 64KiB or bytes.", metavar="SIZE"
    )
    max_ram: str | None = _gate_option(None, "Most RAM, the reserved stack included.", metavar="SIZE")
    max_stack: str | None = _gate_option(None, "Most stack by the static bound.", metavar="SIZE")
    budget: str | None = _gate_option(
        None,
        "TOML file with limits of totals, sections, symbols, models; default: mlf-budget.toml in DIR.",
        metavar="FILE",
    )
    baseline: str | None = _gate_option(
        None, "Compare each symbol and section with an earlier build.", metavar="FILE"
    )
    tolerance: str = _gate_option("0", "Growth that is allowed: 1%, bytes, or both: 1%,16.", metavar="T")
    save_baseline: str | None = _gate_option(None, "Keep the sizes of this build in a file.", metavar="FILE")


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
class FlashOptions(Options):
    """Options of ``flash`` beside those of the request, whose port is the board's (stage flash)."""

    runner: str | None = _flash_option(
        None,
        "gdb, openocd, pyocd, jlink, ...; of a Zephyr project west's; default: that of the board's row.",
        metavar="NAME",
        complete="runner",
    )
    runner_file: str | None = _flash_option(
        None, "TOML file with a runner of your own.", metavar="FILE", exists=True
    )
    console: str | None = _flash_option(
        None,
        "The board's serial port, where --port is something else: the debug server with gdb "
        "(localhost:3333), the volume to copy to.",
        metavar="PORT",
        complete="port",
    )
    unproven_ok: bool = _flash_option(False, "Flash even when the board can't prove that it runs the image.")
    extra: tuple[str, ...] = option((), "More arguments for the runner.", count="many", metavar="[-- ARGS]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugOptions(Options):
    """Options of ``debug``."""

    on: str | None = option(
        None,
        "Debug server: qemu where the board is emulated, else the probe's. Default: that of the board's row.",
        choices=("qemu", "openocd", "pyocd", "jlink"),
        group="Target",
    )
    stop: str = option(
        "main",
        "Stop there first: a function, FILE:LINE, or or layer:N, in that layer alone of a shared kernel.",
        flags=("--break",),
        metavar="PLACE",
        group="Target",
    )
    gdb_port: int | None = option(
        None, "TCP port of the debug server; default: one that is free.", metavar="N", check=between(1, 65535)
    )
    server_only: bool = option(
        False,
        "Start the debug server alone, for a debugger that is started elsewhere (an IDE).",
        group="Target",
    )
    load: bool = option(
        True, "Write the image to the board first (default).", group="Target", negative="--no-load"
    )
    extra: tuple[str, ...] = option((), "More arguments for GDB.", count="many", metavar="[-- ARGS]")


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorOptions(Options):
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
class MlperfOptions(Options):
    """Options of ``bench mlperf`` beside those of the request."""

    mode: str = _input_option(
        "performance",
        "performance: five timed windows; accuracy: one inference on each input.",
        choices=("performance", "accuracy"),
    )
    data: str | None = _input_option(
        None,
        "Folder with the benchmark's files and y_labels.csv; default in performance mode: made-up bytes.",
        metavar="DIR",
        exists=True,
    )
    cases: str | None = _input_option(
        None,
        "npz file with inputs by name and classes in 'label', in place of --data.",
        metavar="FILE",
        exists=True,
    )
    inferences: int | None = _input_option(
        None,
        "Inferences of a window; default: as many as take 12 s, measured first.",
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
