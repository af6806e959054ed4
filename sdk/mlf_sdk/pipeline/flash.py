# SPDX-License-Identifier: Apache-2.0
"""Flash a built image to a board, and verify by the board's answer that it runs it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlf_sdk.codegen.lock import Lock
from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.pipeline.arguments import Source, make_request, own_options
from mlf_sdk.pipeline.execution import signer_of
from mlf_sdk.pipeline.options import FlashOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.verification import Expected, Verification, compare_device, expected_of_project
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.flashers.errors import FlashNotProvenError
from mlf_sdk.targets.flashers.execute import FlashRun, check_program
from mlf_sdk.targets.flashers.row import RunnerRow
from mlf_sdk.targets.serial.ports import find_port
from mlf_sdk.targets.serial.session import port_session
from mlf_sdk.targets.target import FlashChoice, TargetChoice
from mlf_sdk.wire.codes import PortMissingError, PortVanishedError
from mlf_sdk.wire.device import DeviceInfo
from mlf_sdk.wire.transport import Deadline

_LEAST_HELLO_S = 5.0
_REOPEN_S = 0.2
_HELLO_S = 30.0  # for a board to restart, whose port may vanish and come back


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashReport:
    """Result of a flash, and the answer of the board.

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
        """Return whether it is proven that the board runs the flashed image."""
        return not self.unproven


def flash(
    source: Source,
    request: Request | None = None,
    *,
    own: FlashOptions | None = None,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> FlashReport:
    """Flash the image of a built project, and verify the build id that the board reports.

    Args:
        source: folder of the project.
        request: prepared options; its port is what the runner works on: a serial port, a debug server, or
            the folder of a volume.
        own: prepared options of this function alone.
        progress: called with each stage, and with each line of the runner's output.
        options: fields of `FlashOptions` and `Request`.

    Raises:
        InputError: no project, not built, no runner for the board, or nothing that could prove it.
        ToolError: the runner is missing, failed, or was late.
        TargetError: no probe; or the board does not answer with the image's models and build id.
    """
    chosen, rest = own_options(FlashOptions, own, options)
    return flash_request(make_request(source, request, rest), chosen, Pipeline(progress))


def flash_request(request: Request, own: FlashOptions, pipeline: Pipeline) -> FlashReport:
    """Flash through a pipeline; errors as in `flash`."""
    deadline = Deadline.after(request.timeout_s)
    project = pipeline.project(request.replace(port=None))
    target, lock, progress = project.target, project.lock, pipeline.progress
    job = FlashChoice(
        runner=own.runner,
        runner_file=Path(own.runner_file) if own.runner_file else None,
        port=request.port or "",
        extra=own.extra,
        sign=Path(request.sign) if request.sign else None,
        timeout_s=request.timeout_s,
        watch=progress.log if progress.shows_log else None,
    )
    row = target.runner(project.folder, job)
    if lock.platform == "baremetal":
        check_program(row)
    console = own.console or (request.port if row.kind == "program" and row.port != "gdb" else None)
    expected = expected_of_project(project.folder, lock)
    unproven = _unprovable(lock, expected, target.board, row, console)
    if unproven and not own.unproven_ok:
        raise InputError(
            f"nothing can prove that the board will run the image: {unproven}",
            where=str(project.folder),
            hint="Nothing was flashed. To flash all the same: --unproven-ok",
        )
    progress.say(f"flashing with {row.name}")
    done = target.flash(project.folder, job)
    device = None
    if not unproven:
        progress.say("asking the board" + (f" on {console}" if console else ""))
        console, device = _ask(console, request, target.board, row, deadline)
        unproven = _not_the_image(compare_device(console, device, expected), row, own.unproven_ok)
    return FlashReport(
        folder=project.folder,
        board=target.board,
        runner=row,
        run=done,
        lock=lock,
        console=console,
        device=device,
        unproven=unproven,
        build_id=expected.build_id or "",
    )


def _unprovable(lock: Lock, expected: Expected, board: Board, row: RunnerRow, asked_at: str | None) -> str:
    """Return the reason why the board cannot prove which image it runs; empty if it may."""
    if lock.options.app != "rpc":
        return f"its application ({lock.options.app}) answers no requests"
    if expected.build_id is None:
        return expected.no_build_id
    if asked_at is None and not board.flasher.usb_ids:
        option = "--console" if row.port == "gdb" or row.kind == "copy" else "--port"
        return f"the serial port on which it answers is not given ({option})"
    return ""


def _ask(
    console: str | None, request: Request, board: Board, row: RunnerRow, deadline: Deadline
) -> tuple[str, DeviceInfo]:
    """Port on which the board answered, and its answer."""
    left_s = min(max(deadline.remaining(), _LEAST_HELLO_S), _HELLO_S)
    try:
        return _hello(console, request, board, Deadline.after(left_s))
    except TargetError as error:
        raise FlashNotProvenError(
            f"{row.name} claims success, but the board does not answer: {error.what}",
            where=error.where or console or f"board {board.name}",
            hint="Reset the board and try again; is this its serial port?\n" + error.hint,
        ) from error


def _hello(console: str | None, request: Request, board: Board, deadline: Deadline) -> tuple[str, DeviceInfo]:
    """Query the board; returns port and answer. The port may vanish and return while it restarts.

    Args:
        console: the port; None: it is found by the board's USB ids.
    """
    while True:
        try:
            port = console or find_port(board).device
            choice = TargetChoice(port=port, baud=request.baud, max_baud=request.max_baud)
            with port_session(choice, board=board, timeout_s=max(0.1, deadline.remaining())) as session:
                session.signer = signer_of(request)
                return port, session.hello(deadline)
        except (PortMissingError, PortVanishedError):
            if deadline.within(_REOPEN_S).at == deadline.at:
                raise
            time.sleep(_REOPEN_S)


def _not_the_image(verification: Verification, row: RunnerRow, unproven_ok: bool) -> str:
    """Return the reason why the board's answer does not prove that it runs the image; empty if it does.

    Raises:
        FlashNotProvenError: the board runs something else.
    """
    claim = f"{row.name} claims success, but "
    device, expected = verification.device, verification.expected
    if not verification.models_ok:
        held = [f"{m.name} ({m.archive_sha256[:12]})" for m in device.models]
        wanted = [f"{m.name} ({m.archive_sha256[:12]})" for m in expected.models]
        raise FlashNotProvenError(
            f"{claim}the board runs something else: it holds {', '.join(held) or 'no model'}; "
            f"the project has {', '.join(wanted) or 'no model'}",
            where=verification.port,
            hint="Was the project built after it was generated? Is this the board that was flashed? "
            "Does the board have to be reset?",
        )
    if verification.build_ok:
        return ""
    if not device.build_id:
        if unproven_ok:
            return "it holds the models, but reports no build id"
        raise FlashNotProvenError(
            f"{claim}the board reports no build id",
            where=verification.port,
            hint="Its src/main.c is yours: does its mlf_rpc_config_t have .build_id = build_id?",
        )
    raise FlashNotProvenError(
        f"{claim}the board runs another image of the same models: build id {device.build_id}; "
        f"the image has {expected.build_id}",
        where=verification.port,
        hint="Is this the board that was flashed? Does the board have to be reset?",
    )
