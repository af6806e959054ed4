# SPDX-License-Identifier: Apache-2.0
"""Commands about boards: flash, ports, verify, monitor, triage, params."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlf_sdk.cli.command import Command, Outcome
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.declare import Options, Stage, option
from mlf_sdk.pipeline.options import FlashOptions, MonitorOptions
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.request import Request

_PORT = ("board", "board_file", "port", "baud", "max_baud")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashCommand(FlashOptions):
    """Options of ``flash`` beside those of the request."""

    run: bool = option(False, "Run the model on the board afterwards, as mlf-sdk run --port does.")


def flash(request: Request, own: FlashCommand, progress: Progress) -> Outcome:
    """Flash a built project and prove it by the device.

    The board must answer with the build id of the image; where it can't, nothing is flashed without
    --unproven-ok. A Zephyr project is flashed by west, and what stands after -- goes to its runner.

    Example: mlf-sdk flash app --port /dev/ttyACM0

    Example: mlf-sdk flash app --runner gdb --port localhost:3333 --console /dev/ttyACM0
    """
    from mlf_sdk.pipeline.flash import flash_request
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.reporting.device import flash_parts, flash_values

    report = flash_request(request, own, Pipeline(progress))
    parts, values = flash_parts(report), flash_values(report)
    if not own.run:
        return Outcome(parts=parts, values=values)
    from mlf_sdk.pipeline.run import run_request
    from mlf_sdk.reporting.proof import run_parts
    from mlf_sdk.reporting.values import run_values

    if report.console is None:
        raise InputError(
            "the board was not asked: its serial port is not given",
            where="--run",
            hint="Add --console PORT.",
        )
    ran = run_request(request.replace(port=report.console), Pipeline(progress))
    return Outcome(
        parts=[*parts, "", *run_parts(ran)],
        values={**values, "ok": ran.ok, "run": run_values(ran)},
        exit_code=0 if ran.ok else 1,
    )


def ports(request: Request, own: Options, progress: Progress) -> Outcome:
    """List serial ports and the boards they may be.

    Example: mlf-sdk ports

    Example: mlf-sdk ports --board microbit
    """
    from mlf_sdk.pipeline.serial import ports as list_ports
    from mlf_sdk.reporting.device import port_values, ports_parts

    seen = list_ports(request.board, request.board_file)
    return Outcome(parts=ports_parts(seen, request.board), values={"ports": [port_values(s) for s in seen]})


def verify(request: Request, own: Options, progress: Progress) -> Outcome:
    """Ask a board whether it runs this very image.

    An archive has no image: the board may have been built with any options. A project or an ELF file is
    compared by the build id as well.

    Example: mlf-sdk verify app --port /dev/ttyACM0
    """
    from mlf_sdk.pipeline.verification import verify as verify_source
    from mlf_sdk.reporting.device import verify_parts, verify_values

    result = verify_source(request.source[0], request, progress=progress)
    return Outcome(parts=verify_parts(result), values=verify_values(result), exit_code=0 if result.ok else 1)


def monitor(request: Request, own: MonitorOptions, progress: Progress) -> Outcome:
    """Show what a board prints, until Ctrl-C; send it the lines that are typed.

    A board that is unplugged or reset is waited for. Its colours are shown on a terminal, all other control
    characters are escaped.

    Example: mlf-sdk monitor --port /dev/ttyACM0 --timestamps

    Example: echo status | mlf-sdk monitor --port /dev/ttyACM0 --timeout 2
    """
    from mlf_sdk.pipeline.monitor import Terminal
    from mlf_sdk.pipeline.monitor import monitor as watch

    as_json = _wants_json()
    pieces: list[bytes] = []
    terminal = Terminal(
        show=pieces.append if as_json else _show_bytes,
        note=_note,
        colours=not as_json and sys.stdout.isatty() and "NO_COLOR" not in os.environ,
        typed=_typed(),
    )
    with suppress(KeyboardInterrupt):  # the way to end it
        watch(request, own, terminal)
    text = b"".join(pieces).decode(errors="backslashreplace")
    return Outcome(values={"port": request.port, "text": text} if as_json else {})


def _show_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _note(text: str) -> None:
    from mlf_sdk.cli.output import message_console

    message_console().print(f"mlf-sdk: {text}", soft_wrap=True)


def _typed() -> int | None:
    """Return the descriptor of standard input; None: there is none, or it belongs to another job."""
    try:
        typed = sys.stdin.fileno()
        return typed if not os.isatty(typed) or os.tcgetpgrp(typed) == os.getpgrp() else None
    except (AttributeError, OSError, ValueError):
        return None


def _wants_json() -> bool:
    import click

    return bool(click.get_current_context().params.get("json"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageOptions(Options):
    """Options of ``triage``."""

    elf: str | None = option(
        None, "Image that the board runs, or the folder of its project.", metavar="ELF|DIR"
    )


def triage(request: Request, own: TriageOptions, progress: Progress) -> Outcome:
    """Explain a fault line: location, call path, and probable cause.

    Example: mlf-sdk triage console.log --elf app/build/app.elf

    Example: mlf-sdk triage console.log --elf app
    """
    from mlf_sdk.pipeline.triage import find_firmware, triage_log
    from mlf_sdk.reporting.triage import triage_parts
    from mlf_sdk.triage.explain import triage_values

    text = _read(Path(request.source[0]))
    progress.say(f"looking for faults in {request.source[0]}")
    firmware = find_firmware(own.elf) if own.elf is not None else None
    result = triage_log(text, firmware)
    values = {"elf": str(firmware.elf) if firmware else None, "faults": [triage_values(f) for f in result]}
    return Outcome(parts=triage_parts(result, firmware), values=values)


def _read(log: Path) -> bytes:
    from mlf_sdk.pipeline.triage import MOST_LOG_BYTES

    if str(log) == "-":
        return sys.stdin.buffer.read(MOST_LOG_BYTES)
    if not log.is_file():
        raise InputError("there is no such file", where=str(log), hint="Give a saved console log, or -.")
    with log.open("rb") as file:
        return file.read(MOST_LOG_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamsOptions(Options):
    """Options of commands that send parameters to a device, or ask for its own."""

    project: str | None = option(
        None,
        "Project for an emulated board or the host: it is built and started, and its parameters are kept in "
        "its build folder. With --port: the project whose image the board must run.",
        group="Target",
        metavar="DIR",
    )


def _params_request(request: Request, own: ParamsOptions) -> Request:
    return request.replace(source=(own.project,) if own.project else ())


def push(request: Request, own: ParamsOptions, progress: Progress) -> Outcome:
    """Replace the parameters: the old ones stay in force until the new ones are whole.

    Example: mlf-sdk params push retrained.params --port /dev/ttyACM0

    Example: mlf-sdk params push retrained.tar --project app
    """
    from mlf_sdk.pipeline.params import push_params

    source = Path(request.source[0])
    if not source.exists():
        raise InputError("there is no such file", where=str(source))
    return _params(push_params(source, _params_request(request, own), progress))


def show(request: Request, own: ParamsOptions, progress: Progress) -> Outcome:
    """Show which parameters are in force.

    Example: mlf-sdk params show --port /dev/ttyACM0
    """
    from mlf_sdk.pipeline.params import show_params

    return _params(show_params(_params_request(request, own), progress))


def _params(report: Any) -> Outcome:  # noqa: ANN401 (ParamsReport, not imported for --help)
    from mlf_sdk.reporting.device import params_parts, params_values

    return Outcome(parts=params_parts(report), values=params_values(report))


_PARAMS = ("module", "board", "port", "image", "key", "baud", "max_baud", "timeout_s", "build_timeout_s")

COMMANDS = {
    "flash": Command(
        call=flash,
        source="DIR",
        source_help="Folder of a generated project.",
        stages=frozenset({Stage.FLASH}),
        takes=(
            "port",
            "baud",
            "max_baud",
            "key",
            "timeout_s",
            "sign",
            "zephyr_base",
            "zephyr_modules",
            "west",
        ),
        own=FlashCommand,
        shows_output=True,
    ),
    "ports": Command(call=ports, takes=("board", "board_file")),
    "verify": Command(
        call=verify,
        source="MODEL|DIR|FIRMWARE",
        source_help="A model, the folder of a generated project, or a linked ELF file.",
        takes=(*_PORT, "module", "key", "timeout_s"),
        defaults={"timeout_s": 20.0},
    ),
    "monitor": Command(call=monitor, takes=_PORT, own=MonitorOptions, required=("port",)),
    "triage": Command(
        call=triage,
        source="LOG",
        source_help="Saved console output: a file, or - for standard input.",
        own=TriageOptions,
    ),
    "params push": Command(
        call=push,
        source="PARAMS|ARCHIVE",
        source_help="A .params file, or an archive with the same code.",
        takes=_PARAMS,
        own=ParamsOptions,
        defaults={"timeout_s": 60.0},
    ),
    "params show": Command(call=show, takes=_PARAMS, own=ParamsOptions, defaults={"timeout_s": 60.0}),
}
