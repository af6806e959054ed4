# SPDX-License-Identifier: Apache-2.0
"""Debugging of a built project: a server, GDB, and on an emulated board an inference to look at."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.errors import InputError, MlfError, NotBuiltError
from mlf_sdk.pipeline.options import DebugOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.targets.boards.isa import cross_isa
from mlf_sdk.targets.debugserver import (
    find_program,
    free_port,
    gdb_script,
    server_argv,
    stop_commands,
    wait_for_server,
)
from mlf_sdk.targets.flashers.errors import NoRunnerError
from mlf_sdk.targets.flashers.load import load_runners
from mlf_sdk.targets.qemu import QemuMachine, QemuOptions, start_qemu
from mlf_sdk.tools.process import start_process

if TYPE_CHECKING:
    from mlf_sdk.wire.session import Session

Console = Callable[[str], None]
_SERVER_S = 20.0
_PATIENCE_S = 1e6  # of the host, while a person looks around
_INSTALL = "Install it: sudo apt-get install gdb-multiarch"


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugSession:
    """A server that runs, and the debugger to start.

    Attributes:
        server: what it is, for people.
        port: TCP port of the server.
        argv: command of GDB; empty: none was asked for.
        folder: of the project.
        elf: the image.
    """

    server: str
    port: int
    argv: tuple[str, ...]
    folder: Path
    elf: Path


@contextmanager
def open_debugger(
    request: Request, own: DebugOptions, pipeline: Pipeline, console: Console | None = None
) -> Iterator[DebugSession]:
    """Start the debug server of a built project; leaving the block ends it.

    On an emulated board the application with a server gets an inference, so that layers are reached.

    Args:
        console: called with each piece of text that an emulated board prints.

    Raises:
        InputError: no built project, no such layer, or no server for its board.
        ToolError: a program is missing or failed.
    """
    project = pipeline.project(request)
    folder = project.folder.resolve()
    elf = project.target.image(folder)
    if not project.is_given or not elf.is_file():
        raise NotBuiltError(folder)
    if project.lock.platform != "baremetal":
        raise InputError(
            f"the project is for {project.lock.platform}",
            where=str(folder),
            hint="west debug, or for a program of this machine: gdb build/app.",
        )
    on = _server_of(own.on, project)
    stop = stop_commands(own.stop, project.model, {s.name for s in read_image(elf).symbols})
    gdb = "" if own.server_only else find_program(cross_isa(project.target.board).tools.debuggers, _INSTALL)
    port = own.gdb_port or free_port()
    with tempfile.TemporaryDirectory(prefix="mlf-debug-") as name:
        if on == "qemu":
            script = gdb_script(folder, port, stop)
            starting = _emulated(request, pipeline, project, elf, port, console)
        else:
            row = load_runners()[on]
            board = project.target.board
            argv = server_argv(row, board.flasher.options, port, board.name)
            reset = row.server.reset if row.server else ""
            script = gdb_script(folder, port, stop, reset=reset, load=own.load)
            starting = _started(argv, port)
        path = Path(name) / "start.gdb"
        path.write_text(script, encoding="utf-8")
        command = (gdb, "-q", "-nx", "-x", str(path), str(elf), *own.extra) if gdb else ()
        with starting:
            yield DebugSession(server=on, port=port, argv=command, folder=folder, elf=elf)


def _server_of(on: str | None, project: TargetProject) -> str:
    """Server that was chosen, or that of the project's board."""
    board = project.target.board
    if on == "qemu" and board.qemu is None:
        raise InputError("the board is not emulated", where="--on qemu", hint="Give the probe: --on openocd.")
    if on is not None:
        return on
    if board.qemu is not None:
        return "qemu"
    row = load_runners().get(board.flasher.runner or "")
    if row is None or row.server is None:
        raise NoRunnerError(
            "the board's row names no probe with a debug server",
            where=f"board {board.name}",
            hint="Give it: --on openocd, pyocd or jlink.",
        )
    return row.name


@contextmanager
def _started(argv: list[str], port: int) -> Iterator[None]:
    with start_process(argv) as process:
        wait_for_server(process, port, _SERVER_S)
        yield


@contextmanager
def _emulated(
    request: Request,
    pipeline: Pipeline,
    project: TargetProject,
    elf: Path,
    port: int,
    console: Console | None,
) -> Iterator[None]:
    """Emulated board that waits for a debugger before its first instruction."""
    options = QemuOptions(read_ahead=True, args=("-gdb", f"tcp:127.0.0.1:{port}", "-S"))
    with start_qemu(project.target.board, elf, options) as machine:
        wait_for_server(machine.process, port, _SERVER_S)
        serves = project.lock.options.app == "rpc"
        job = (
            (lambda: _infer(request, pipeline, project, machine, console))
            if serves
            else (lambda: _listen(machine, console))
        )
        threading.Thread(target=job, daemon=True).start()
        yield


def _infer(
    request: Request,
    pipeline: Pipeline,
    project: TargetProject,
    machine: QemuMachine,
    console: Console | None,
) -> None:
    """Run inferences until the board is gone."""
    with suppress(MlfError, OSError), _session(machine, console) as session:
        from mlf_sdk.judge.execute import find_model
        from mlf_sdk.pipeline.opentarget import OpenTarget
        from mlf_sdk.wire.transport import Deadline

        session.hello(Deadline.after(_PATIENCE_S))
        opened = OpenTarget(project, session, find_model(session, project.model))
        batch = pipeline.batch(request)
        while True:
            opened.infer_one(batch, 0, _PATIENCE_S)


def _session(machine: QemuMachine, console: Console | None) -> Session:
    from mlf_sdk.wire.link import Timeouts
    from mlf_sdk.wire.session import Session
    from mlf_sdk.wire.transport import SocketTransport

    transport = SocketTransport(machine.socket, name="QEMU")
    patient = Timeouts(run_s=_PATIENCE_S, transfer_s=_PATIENCE_S)
    return Session(transport, timeouts=patient, console=console)


def _listen(machine: QemuMachine, console: Console | None) -> None:
    """Hand on what the board prints."""
    with suppress(OSError):
        while data := machine.socket.recv(4096):
            if console is not None:
                console(data.decode("utf-8", "replace"))
