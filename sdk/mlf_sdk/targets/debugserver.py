# SPDX-License-Identifier: Apache-2.0
"""GDB and GDB servers: which programs, with which arguments, stopped where."""

from __future__ import annotations

import re
import shutil
import socket
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import InputError, MissingToolError, ToolError
from mlf_sdk.targets.flashers.errors import NoRunnerError
from mlf_sdk.targets.flashers.row import PLACEHOLDER, RunnerRow
from mlf_sdk.tools.process import RunningProcess

Which = Callable[[str], str | None]
_LAYER = re.compile(r"layer:(\d{1,5})")
_PLACE = re.compile(r"[A-Za-z_*][\w:./+-]{0,200}")
_POLL_S = 0.05


def find_program(names: Collection[str], install: str, which: Which = shutil.which) -> str:
    """Path of the first program that is installed.

    Raises:
        MissingToolError: none is.
    """
    result = next((path for path in map(which, names) if path), None)
    if result is None:
        said = " or ".join(f"'{name}'" for name in names)
        raise MissingToolError(f"{said} is not installed", hint=install)
    return result


def server_argv(
    row: RunnerRow, options: Mapping[str, str], port: int, board: str, which: Which = shutil.which
) -> list[str]:
    """Command of the GDB server of a runner.

    Args:
        options: of the board's row.

    Raises:
        NoRunnerError: the runner has none, or the board's row lacks what it needs.
        MissingToolError: it is not installed.
    """
    server = row.server
    if server is None:
        raise NoRunnerError(f"the runner '{row.name}' has no debug server", where="--on")
    program = find_program(server.program, server.install or row.install, which)
    values = {**row.defaults, **options, "gdb_port": str(port)}
    missing = [need for need in row.needs if need not in values]
    if missing:
        raise NoRunnerError(
            f"the board row lacks {', '.join(missing)}, which {row.name} needs",
            where=f"board {board}",
            hint="Add it to [flasher.options] of the row.",
        )
    argv = [program]
    for arg in server.args:
        parts = (arg,) if isinstance(arg, str) else arg
        if all(name in values for part in parts for name in PLACEHOLDER.findall(part)):
            argv += [PLACEHOLDER.sub(lambda result: values[result[1]], part) for part in parts]
    return argv


def stop_commands(place: str, model: LockModel, symbols: Collection[str]) -> list[str]:
    """Commands of GDB that stop at ``place``: ``main``, a function, ``FILE:LINE``, or ``layer:N``.

    A kernel that serves several layers stops in the layer that is asked for alone.

    Args:
        model: of the project.
        symbols: of the image.

    Raises:
        InputError: there is no such layer, or it is no place.
    """
    layer = _LAYER.fullmatch(place)
    if layer is None:
        if not _PLACE.fullmatch(place):
            raise InputError(
                f"invalid value {place!r}",
                where="--break",
                hint="Give layer:N, a function, or FILE:LINE.",
            )
        return [f"tbreak {place}"]
    number = int(layer[1])
    if number >= len(model.steps):
        raise InputError(
            f"there is no layer {number}: the model has {len(model.steps)}",
            where="--break",
            hint=f"0 to {len(model.steps) - 1}; mlf-sdk inspect lists them.",
        )
    adapter, symbol = f"{model.c_name}_entry_{number}", model.steps[number].symbol
    where = symbol if symbol in symbols else adapter
    if where not in symbols:
        raise InputError(
            f"the image has no function for layer {number} ({symbol})",
            where="--break",
            hint="Is it built from this project? See: mlf-sdk build DIR",
        )
    steps, sequence = f"{model.c_name}_steps", f"{model.c_name}_sequence"
    if where == adapter:
        return [f"break {adapter}"]
    if sequence in symbols:
        running = f"(unsigned long) mlf_context.step - (unsigned long) {model.c_name}_model.sequence"
        return [f"break {where} if {running} == {number}"]
    if steps in symbols:
        return [f"break {where} if mlf_context.step == &{steps}[{number}]"]
    return [f"break {where}"]


def gdb_script(folder: Path, port: int, stop: list[str], *, reset: str = "", load: bool = False) -> str:
    """Text that GDB reads: sources, server, stop.

    Args:
        folder: of the project: paths in the image are relative to it.
        reset: command of the server's monitor; empty: the server waits at the reset.
        load: write the image first.
    """
    lines = ["set confirm off", "set pagination off", "set print elements 16", "set tcp connect-timeout 20"]
    lines += [f"directory {folder}", f"set substitute-path build/. {folder}"]
    lines += [f"target extended-remote localhost:{port}"]
    if reset:
        lines.append(f"monitor {reset}")
    if load:
        lines += ["load", f"monitor {reset}"]
    return "\n".join([*lines, *stop, "continue", ""])


def wait_for_server(process: RunningProcess, port: int, timeout_s: float) -> None:
    """Wait until a server listens.

    Raises:
        ToolError: it ended, or does not listen in time; with its last output.
    """
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if process.exit_code() is not None:
            raise ToolError(
                f"the debug server ended:\n{process.stderr_tail()}",
                where=process.argv[0],
                hint="Is the probe connected, the board powered, and no other server running?",
            )
        with socket.socket() as probe:
            probe.settimeout(_POLL_S)
            try:  # binding tells without a connection, which some servers take for the debugger's
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
            except OSError:
                return
        time.sleep(_POLL_S)
    raise ToolError(f"no debug server listens at port {port}", where=process.argv[0])


def free_port() -> int:
    """A TCP port of this machine that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        result: int = probe.getsockname()[1]
        return result
