# SPDX-License-Identifier: Apache-2.0
"""Bring a built image onto a board, and have the board itself say that it runs it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.codegen.lock import Lock, read_lock
from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.pipeline.project import PathLike, project_board
from mlf_sdk.pipeline.verification import Expected, Verification, compare_device, expected_of_project
from mlf_sdk.targets.boards.load import Board
from mlf_sdk.targets.flashers.errors import FlashNotProvenError
from mlf_sdk.targets.flashers.execute import FlashJob, FlashRun, run_runner
from mlf_sdk.targets.flashers.load import find_runner
from mlf_sdk.targets.flashers.row import RunnerRow
from mlf_sdk.targets.platforms import image_path
from mlf_sdk.targets.serial.ports import find_port
from mlf_sdk.targets.serial.session import port_session
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.flash import ZephyrFlash, flash_zephyr, zephyr_runner
from mlf_sdk.tools.process import ProcessRunner, run_process
from mlf_sdk.wire.deadline import Deadline
from mlf_sdk.wire.device import DeviceInfo
from mlf_sdk.wire.errors import PortMissingError, PortVanishedError

_LEAST_HELLO_S = 5.0
_REOPEN_S = 0.2
_HELLO_S = 30.0  # for a board to restart, whose port may vanish and come back


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashReport:
    """What was flashed, and what the board says.

    Attributes:
        console: where the board was asked; None: nowhere.
        device: what the board answered; None: it was not asked.
        unproven: why nothing proves that the board runs the image; empty when it is proven.
        build_id: of the image, in hex; empty: it has none.
    """

    folder: Path
    board: Board
    runner: RunnerRow
    run: FlashRun
    lock: Lock
    console: str | None
    device: DeviceInfo | None
    unproven: str
    build_id: str

    @property
    def proven(self) -> bool:
        """Whether the board itself showed that it runs the very image."""
        return not self.unproven


def flash(  # noqa: PLR0913 (one keyword for each thing a person may choose)
    folder: PathLike,
    *,
    runner: str | None = None,
    runner_file: PathLike | None = None,
    port: str | None = None,
    console: str | None = None,
    extra: tuple[str, ...] = (),
    sign: PathLike | None = None,
    unproven_ok: bool = False,
    zephyr: ZephyrSetup | None = None,
    timeout_s: float = 120.0,
    watch: Callable[[str], None] | None = None,
    say: Callable[[str], None] = lambda _: None,
    process_runner: ProcessRunner = run_process,
) -> FlashReport:
    """Flash the image of a built project, and ask the board for the build id of what it runs.

    Args:
        folder: of the project.
        runner: name of the runner (of a Zephyr project: west's); default: the one of the user's row,
            else the board's own.
        runner_file: TOML file with a runner's row.
        port: what the runner works on: a serial port, a debug server, or the folder of a volume.
        console: serial port on which the board answers; default: ``port``, unless that is something else.
        extra: more arguments for the runner.
        sign: key to sign a Zephyr project with, before it is flashed.
        unproven_ok: flash although nothing can prove it; else nothing is touched then.
        zephyr: how to get at Zephyr, for a project on it.
        timeout_s: for flashing and the board's answer together.
        watch: called with each line of the runner's output as it comes.

    Raises:
        InputError: no project, not built, no runner for the board, or nothing that could prove it.
        ToolError: the runner is missing, failed, or was late.
        TargetError: no probe; or the board does not answer with the image's models and build id.
    """
    path = Path(folder)
    deadline = Deadline.after(timeout_s)
    lock = read_lock(path)
    board = project_board(path, lock)
    on_zephyr = lock.zephyr is not None
    _check_options(on_zephyr=on_zephyr, runner_file=runner_file, sign=sign)
    zephyr_name = lock.zephyr.board if lock.zephyr else ""
    row = (
        zephyr_runner(path, board, zephyr_name, runner)
        if on_zephyr
        else find_runner(runner, board, Path(runner_file) if runner_file else None)
    )
    elf = _image(path, lock)
    asked_at = console or (port if row.kind == "program" and row.port != "gdb" else None)
    expected = expected_of_project(path, lock)
    unproven = _why_not(lock, expected, board, row, asked_at)
    if unproven and not unproven_ok:
        raise InputError(
            f"nothing can prove that the board will run the image: {unproven}",
            where=str(path),
            hint="Nothing was flashed. To flash all the same: --unproven-ok",
        )
    say(f"flashing with {row.name}")
    job = FlashJob(
        elf=elf,
        board=board.name,
        options=board.flasher.options,
        port=port or "",
        extra=extra,
        timeout_s=max(1.0, deadline.remaining()),
    )
    if on_zephyr:
        west = ZephyrFlash(
            folder=path,
            name=zephyr_name,
            runner=row.name,
            explicit=runner is not None,
            extra=extra,
            sign=Path(sign) if sign else None,
            timeout_s=job.timeout_s,
        )
        run = flash_zephyr(west, zephyr or ZephyrSetup(), watch=watch, process_runner=process_runner)
    else:
        run = run_runner(row, job, watch=watch, runner=process_runner)
    device = None
    if not unproven:
        say("asking the board" + (f" on {asked_at}" if asked_at else ""))
        asked_at, device = _ask(asked_at, board, row, deadline)
        unproven = _not_the_image(compare_device(asked_at, device, expected), row, unproven_ok)
    return FlashReport(
        folder=path,
        board=board,
        runner=row,
        run=run,
        lock=lock,
        console=asked_at,
        device=device,
        unproven=unproven,
        build_id=expected.build_id or "",
    )


def _check_options(*, on_zephyr: bool, runner_file: PathLike | None, sign: PathLike | None) -> None:
    if on_zephyr and runner_file is not None:
        raise InputError(
            "Zephyr has runners of its own", where="--runner-file", hint="Choose one: --runner NAME."
        )
    if sign is not None and not on_zephyr:
        raise InputError("only the images of Zephyr projects are signed", where="--sign")


def _image(folder: Path, lock: Lock) -> Path:
    if lock.platform == "host":
        raise InputError(
            "it is a program of this machine: nothing has to be flashed",
            where=str(folder),
            hint=f"Run it: mlf-sdk run {folder}",
        )
    elf = image_path(folder, lock)
    if lock.zephyr is None and not elf.is_file():
        raise InputError(
            "the project is not built", where=str(folder), hint=f"Build it: mlf-sdk build {folder}"
        )
    return elf


def _why_not(lock: Lock, expected: Expected, board: Board, row: RunnerRow, asked_at: str | None) -> str:
    """Why the board will not be able to prove what it runs; empty: it may."""
    if lock.options.app != "rpc":
        return f"its application ({lock.options.app}) answers no requests"
    if expected.build_id is None:
        return expected.no_build_id
    if asked_at is None and not board.flasher.usb_ids:
        option = "--console" if row.port == "gdb" or row.kind == "copy" else "--port"
        return f"nothing says on which serial port it answers ({option})"
    return ""


def _ask(console: str | None, board: Board, row: RunnerRow, deadline: Deadline) -> tuple[str, DeviceInfo]:
    """Where the board answered, and what."""
    left_s = min(max(deadline.remaining(), _LEAST_HELLO_S), _HELLO_S)
    try:
        return _hello(console, board, Deadline.after(left_s))
    except TargetError as error:
        raise FlashNotProvenError(
            f"{row.name} claims success, but the board does not answer: {error.what}",
            where=error.where or console or f"board {board.name}",
            hint="Reset the board and try again; is this its serial port?\n" + error.hint,
        ) from error


def _hello(console: str | None, board: Board, deadline: Deadline) -> tuple[str, DeviceInfo]:
    """What the board answers; its port may go and come back while it restarts. None: found by its USB ids."""
    while True:
        try:
            port = console or find_port(board).device
            with port_session(port, board=board, timeout_s=max(0.1, deadline.remaining())) as session:
                return port, session.hello(deadline)
        except (PortMissingError, PortVanishedError):
            if deadline.within(_REOPEN_S).at == deadline.at:
                raise
            time.sleep(_REOPEN_S)


def _not_the_image(found: Verification, row: RunnerRow, unproven_ok: bool) -> str:
    """Why the board's answer proves nothing; empty when it does.

    Raises:
        FlashNotProvenError: the board runs something else.
    """
    claim = f"{row.name} claims success, but "
    device, expected = found.device, found.expected
    if not found.models_ok:
        held = {m.name: m.archive_sha256 for m in device.models}
        wanted = {m.name: m.archive_sha256 for m in expected.models}
        raise FlashNotProvenError(
            f"{claim}the board runs something else: it holds {_listed(held)}; "
            f"the project has {_listed(wanted)}",
            where=found.port,
            hint="Was the project built after it was generated? Is this the board that was flashed? "
            "Does the board have to be reset?",
        )
    if found.build_ok:
        return ""
    if not device.build_id:
        if unproven_ok:
            return "it holds the models, but does not tell its build id"
        raise FlashNotProvenError(
            f"{claim}the board does not tell the build id of what it runs",
            where=found.port,
            hint="Its src/main.c is yours: does its mlf_rpc_config_t have .build_id = mlf_build_id?",
        )
    raise FlashNotProvenError(
        f"{claim}the board runs another image of the same models: build id {device.build_id}; "
        f"the image has {expected.build_id}",
        where=found.port,
        hint="Is this the board that was flashed? Does the board have to be reset?",
    )


def _listed(models: dict[str, str]) -> str:
    return ", ".join(f"{name} ({sha[:12]})" for name, sha in models.items()) or "no model"
