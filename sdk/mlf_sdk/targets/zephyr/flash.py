# SPDX-License-Identifier: Apache-2.0
"""Signing and flashing of Zephyr projects: runners from the build, run by west."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.flashers.execute import FlashRun
from mlf_sdk.targets.flashers.image import load_segments
from mlf_sdk.targets.flashers.load import load_runners
from mlf_sdk.targets.flashers.row import Failure, RunnerRow
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.buildfolder import image_in
from mlf_sdk.targets.zephyr.output import has_option, read_runners, signed_images
from mlf_sdk.targets.zephyr.runners import WestFlash, flash_with_west
from mlf_sdk.targets.zephyr.sign import check_key, sign_build
from mlf_sdk.targets.zephyr.west import west_for
from mlf_sdk.tools.process import ProcessRunner, run_process

Which = Callable[[str], str | None]
Watch = Callable[[str], None]
# West's runner -> the row of board_templates/runners whose program it starts.
_SAME_PROGRAM = {"esp32": "esptool", "blackmagicprobe": "gdb", "misc-flasher": "gdb"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ZephyrFlash:
    """Options of one flash with west.

    Attributes:
        folder: of a built project.
        build: its build folder.
        name: Zephyr's name of its board.
        runner: west's name of the runner; explicit: it was chosen, it is not the build's default.
        extra: more arguments for the runner.
        sign: sign with this key first.
        timeout_s: for all of it, in seconds.
    """

    folder: Path
    build: Path
    name: str
    runner: str
    explicit: bool = False
    extra: tuple[str, ...] = ()
    sign: Path | None = None
    timeout_s: float = 120.0


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
            hint=f"Run it: mlf-sdk run {folder}",
        )
    if not image_in(build, folder).is_file():
        raise InputError(
            "the project is not built", where=str(folder), hint=f"Build it: mlf-sdk build {folder}"
        )
    chosen = read_runners(build).choose(wanted, name)
    return RunnerRow(name=chosen, title=f"west flash, {chosen}", program=("west",))


def flash_zephyr(
    job: ZephyrFlash,
    setup: ZephyrSetup,
    *,
    watch: Watch | None = None,
    process_runner: ProcessRunner = run_process,
    which: Which = shutil.which,
) -> FlashRun:
    """Flash the built image, signed if the project signs it.

    Raises:
        InputError: the image must be signed and is not.
        NoRunnerError: there is no runner for this board.
        RunnerMissingError: west, or the runner's program, is not installed.
        NoProbeError: the runner found nothing to work on.
        RunnerFailedError: it failed or was late, whatever its exit code.
    """
    start = time.monotonic()
    build = job.build
    west = west_for(job.folder.resolve(), setup, watch=watch, runner=process_runner, which=which)
    if job.sign is not None:
        sign_build(build, job.sign, west, timeout_s=job.timeout_s)
    signed = signed_images(build)
    if has_option(build, "BOOTLOADER_MCUBOOT") and not signed:
        raise InputError(
            "the image is linked for the bootloader MCUboot, and not signed: it would not start",
            where=str(job.folder),
            hint="Sign it: --sign KEY, with build or flash.",
        )
    result = flash_with_west(
        WestFlash(
            build=build,
            board=job.name,
            runner=job.runner,
            explicit=job.explicit,
            extra=job.extra,
            signed=signed,
            failures=_failures(job.runner),
            timeout_s=max(1.0, job.timeout_s - (time.monotonic() - start)),
        ),
        west,
    )
    return FlashRun(
        argv=result.argv,
        output="\n".join(filter(None, (result.stdout, result.stderr))),
        image_bytes=sum(len(segment.data) for segment in load_segments(image_in(build, job.folder))),
        seconds=time.monotonic() - start,
    )


def sign_zephyr(
    folder: Path,
    build: Path,
    key: Path,
    setup: ZephyrSetup,
    *,
    timeout_s: float = 120.0,
    runner: ProcessRunner = run_process,
    which: Which = shutil.which,
) -> tuple[Path, ...]:
    """Sign the image in the build folder ``build`` of the project in ``folder``; returns the signed images.

    Raises:
        InputError: no such key, or the image is not linked for MCUboot.
        ToolError: west or imgtool is missing or failed.
    """
    key = check_key(key)
    west = west_for(folder.resolve(), setup, runner=runner, which=which)
    return sign_build(build, key, west, timeout_s=timeout_s)


def _failures(runner: str) -> tuple[Failure, ...]:
    """Return the known failures of the runner's program, from the row of the same program."""
    row = load_runners().get(_SAME_PROGRAM.get(runner, runner))
    return row.failures if row is not None else ()
