# SPDX-License-Identifier: Apache-2.0
"""Signing and flashing of Zephyr projects: runners from the build, run by west."""

from __future__ import annotations

import time
from pathlib import Path

from mlf_sdk.errors import InputError, NotBuiltError, command_text
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.flashers.execute import FlashRun
from mlf_sdk.targets.flashers.image import load_segments
from mlf_sdk.targets.flashers.load import load_runners
from mlf_sdk.targets.flashers.output import joined
from mlf_sdk.targets.flashers.row import Failure, RunnerRow
from mlf_sdk.targets.target import FlashChoice
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.buildfolder import image_in
from mlf_sdk.targets.zephyr.output import has_option, read_runners, signed_images
from mlf_sdk.targets.zephyr.runners import WestFlash, flash_with_west
from mlf_sdk.targets.zephyr.sign import sign_build
from mlf_sdk.targets.zephyr.west import west_for

# West's runner -> the row of board_templates/runners whose program it starts.
_SAME_PROGRAM = {"esp32": "esptool", "blackmagicprobe": "gdb", "misc-flasher": "gdb"}


def zephyr_runner(folder: Path, build: Path, board: Board, name: str, wanted: str | None) -> RunnerRow:
    """The runner that was asked for, else the one that the build names for its board.

    Args:
        folder: of the project.
        build: its build folder.
        board: its board.
        name: Zephyr's name of it.
        wanted: west's name of a runner; None: the board's own.

    Raises:
        InputError: not built, or nothing has to be flashed.
        NoRunnerError: there is no runner for this board.
    """
    if board.zephyr.native:
        raise InputError(
            "it is a program of this machine: nothing has to be flashed",
            where=str(folder),
            hint=f"Run it: {command_text('run', folder)}",
        )
    if not image_in(build, folder).is_file():
        raise NotBuiltError(folder)
    chosen = read_runners(build).choose(wanted, name)
    return RunnerRow(name=chosen, title=f"west flash, {chosen}", program=("west",))


def flash_zephyr(
    folder: Path, build: Path, board: str, runner: str, job: FlashChoice, setup: ZephyrSetup
) -> FlashRun:
    """Flash the built image, signed if the project signs it.

    Args:
        folder: of the project.
        build: its build folder.
        board: Zephyr's name of its board.
        runner: west's name of the runner.
        job: options of the flash.
        setup: Zephyr on this machine.

    Raises:
        InputError: the image must be signed and is not.
        NoRunnerError: there is no runner for this board.
        RunnerMissingError: west, or the runner's program, is not installed.
        NoProbeError: the runner found nothing to work on.
        RunnerFailedError: it failed or was late, whatever its exit code.
    """
    start = time.monotonic()
    west = west_for(folder.resolve(), setup, watch=job.watch)
    if job.sign is not None:
        sign_build(build, job.sign, west, timeout_s=job.timeout_s)
    signed = signed_images(build)
    if has_option(build, "BOOTLOADER_MCUBOOT") and not signed:
        raise InputError(
            "the image is linked for the bootloader MCUboot, and not signed: it would not start",
            where=str(folder),
            hint="Sign it: --sign KEY, with build or flash.",
        )
    result = flash_with_west(
        WestFlash(
            build=build,
            board=board,
            runner=runner,
            explicit=job.runner is not None,
            extra=job.extra,
            signed=signed,
            failures=_failures(runner),
            timeout_s=max(1.0, job.timeout_s - (time.monotonic() - start)),
        ),
        west,
    )
    return FlashRun(
        argv=result.argv,
        output=joined(result),
        image_bytes=sum(len(segment.data) for segment in load_segments(image_in(build, folder))),
        seconds=time.monotonic() - start,
    )


def sign_zephyr(
    folder: Path, build: Path, key: Path, setup: ZephyrSetup, *, timeout_s: float
) -> tuple[Path, ...]:
    """Sign the image in the build folder ``build`` of the project in ``folder``; returns the signed images.

    Raises:
        InputError: no such key, or the image is not linked for MCUboot.
        ToolError: west or imgtool is missing or failed.
    """
    return sign_build(build, key, west_for(folder.resolve(), setup), timeout_s=timeout_s)


def _failures(runner: str) -> tuple[Failure, ...]:
    """Return the known failures of the runner's program, from the row of the same program."""
    row = load_runners().get(_SAME_PROGRAM.get(runner, runner))
    return row.failures if row is not None else ()
