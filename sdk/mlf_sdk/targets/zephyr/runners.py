# SPDX-License-Identifier: Apache-2.0
"""Flashes a build of Zephyr with ``west flash``, and judges the result of its runner."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.targets.flashers.errors import (
    NoProbeError,
    NoRunnerError,
    RunnerFailedError,
    RunnerMissingError,
)
from mlf_sdk.targets.flashers.output import joined, reported_failure, with_output
from mlf_sdk.targets.flashers.row import Failure
from mlf_sdk.targets.zephyr.west import West
from mlf_sdk.tools.process import ProcessError, ProcessResult

_ELF_RUNNERS = frozenset({"blackmagicprobe", "misc-flasher"})  # they take no signed file
_MISSING = re.compile(r"required program (\S+) not found|No such file or directory: '([^'/]+)'")
_NO_RUNNER = re.compile(
    r"no flash runner available|no runners\.yaml found|does not support (runner|command flash)|"
    r"unknown runner|^runner \S+ does not support",
    re.MULTILINE,
)
_UNKNOWN_ARGS = re.compile(r"received unknown arguments: (.+)")

# Output of runners without a row in board_templates/runners.
_NO_PROBE = (
    r"There (is|are) no debuggers? connected",
    r"No (available |connected )?debug probes?( found)?",
    r"Waiting for a debug probe",
    r"No (such )?(device|probe|J-Link|emulator|ST-?LINK|DFU capable USB device)s? "
    r"(found|connected|detected|available)",
    r"([Uu]nable|[Cc]ould not|[Cc]annot|can't|[Ff]ailed) (to )?(open|find|connect to|detect) (a |the )?"
    r"(\S+ )?(probe|debugger|J-Link|ST-?LINK|device|port|board|target|adapter)",
    r"could not open port|Failed to connect to \S+: ",
    r"no matching debug (interface|probe)",
    r"unable to find a matching CMSIS-DAP device|LIBUSB_ERROR_(ACCESS|NO_DEVICE|NOT_FOUND)",
    r"could not connect: |Connection refused",
)
# Failures that tools report in spite of exit code 0.
_FAILED = (
    r"^FATAL ERROR: ",
    r"^ERROR: ",
    r"^Traceback \(most recent call last\)",
    r"Remote (communication error|connection closed)",
    r"Load failed|Error (erasing|writing|finishing) flash|Writing to flash memory forbidden",
    r"MIS-MATCHED",
    r"You can't do that when your target is|The program is not being run",
    r"\*\* (Programming|Verify) Failed \*\*",
    r"^\*+ Error: ",
)


class WestFlash(msgspec.Struct, frozen=True, kw_only=True):
    """One flash.

    Attributes:
        build: the build folder.
        board: Zephyr's name of the board, for messages.
        runner: its runner.
        explicit: the runner was chosen, it is not the build's default.
        extra: the user's own arguments.
        signed: signed images, which are flashed in place of the others.
        failures: what the runner may say.
        timeout_s: for all of it, in seconds.
    """

    build: Path
    board: str
    runner: str
    explicit: bool = False
    extra: tuple[str, ...] = ()
    signed: tuple[Path, ...] = ()
    failures: tuple[Failure, ...] = ()
    timeout_s: float = 120.0


def flash_argv(job: WestFlash) -> list[str]:
    """The arguments of west.

    Raises:
        InputError: the image is signed, and the runner takes only the one that is not.
    """
    argv = ["flash", "--skip-rebuild", "-d", str(job.build.resolve())]
    if job.explicit:
        argv += ["-r", job.runner]
    if job.signed and job.runner in _ELF_RUNNERS:
        raise InputError(
            f"the runner {job.runner} flashes the image that is not signed",
            where=f"board {job.board}",
            hint="Choose another runner (--runner NAME), one that takes a hex or bin file.",
        )
    files = [f"--{path.suffix[1:]}-file={path.resolve()}" for path in job.signed]
    return [*argv, *files, *job.extra]


def flash_with_west(job: WestFlash, west: West) -> ProcessResult:
    """Flash, and judge the result by output and exit code.

    Raises:
        NoRunnerError: the board has no such runner.
        RunnerMissingError: its program is not installed.
        NoProbeError: it found nothing to work on.
        RunnerFailedError: it failed, was late, or says so in spite of its exit code 0.
    """
    argv = flash_argv(job)
    try:
        result = west.run(argv, timeout_s=job.timeout_s)
    except ProcessError as error:
        reported = _reported(job, error.tail)
        if reported is not None and reported.kind == "no-probe":
            what = f"{reported.what} ({error.what})"
            raise NoProbeError(what, where=error.where, hint=reported.hint) from error
        raise RunnerFailedError(error.what, where=error.where, hint=error.hint) from error
    failure = _judge(job, result, shown=west.watch is not None)
    if failure is not None:
        raise failure
    return result


def _judge(job: WestFlash, result: ProcessResult, *, shown: bool) -> MlfError | None:
    """Return the failure, with the end of the output unless that was ``shown`` already; None: success."""
    output = joined(result)
    tail = "" if shown else output
    where = f"runner {job.runner}: {shlex.join(result.argv)}"
    if result.returncode != 0:
        missing = _MISSING.search(output)
        if missing:
            program = missing[1] or missing[2]
            hint = f"Install it, or put its folder on PATH: the runner {job.runner} starts it."
            return RunnerMissingError(f"'{program}' is not installed", where=where, hint=hint)
        if _NO_RUNNER.search(output):
            what = with_output("west has no such runner for this board", tail)
            return NoRunnerError(what, where=where, hint="See: west flash --context.")
        if unknown := _UNKNOWN_ARGS.search(output):
            hint = f"See its arguments: west flash --context -r {job.runner}"
            return RunnerFailedError(f"it does not know the arguments {unknown[1]}", where=where, hint=hint)
    failure = _reported(job, output)
    if failure is None and result.returncode == 0:
        return None
    if failure is None:
        what, hint = f"it failed with exit code {result.returncode}", "See its output for what it says."
        return RunnerFailedError(with_output(what, tail), where=where, hint=hint)
    said = f"{failure.what}, although the exit code is 0" if result.returncode == 0 else failure.what
    kind = NoProbeError if failure.kind == "no-probe" else RunnerFailedError
    return kind(with_output(said, tail), where=where, hint=failure.hint)


def _reported(job: WestFlash, output: str) -> Failure | None:
    """Return the failure that the output reports: by this runner's patterns, else by common ones."""
    if known := reported_failure(job.failures, output):
        return known
    if _says(_NO_PROBE, output):
        return Failure(
            pattern="probe",
            kind="no-probe",
            what="the runner found no probe or board that it can use",
            hint="Is it connected and powered, and may you use it (udev rules)?",
        )
    if _says(_FAILED, output):
        hint = "See its output for what it says; is the image for this board?"
        return Failure(pattern="failed", what="the runner says that it failed", hint=hint)
    return None


def _says(patterns: Sequence[str], output: str) -> bool:
    return any(re.search(pattern, output, re.MULTILINE) for pattern in patterns)
