# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

import math
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from mlf_sdk.cli import state
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.codegen.options import DEFAULT_KERNEL_FLAGS, ProjectOptions, parse_kernel_flags
from mlf_sdk.codegen.writer import LOCK_NAME
from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.targets.zephyr.build import ZephyrSetup


class App(str, Enum):
    """What ``--app`` takes."""

    RPC = "rpc"
    STANDALONE = "standalone"


class Platform(str, Enum):
    """What ``--platform`` takes."""

    BAREMETAL = "baremetal"
    HOST = "host"
    ZEPHYR = "zephyr"


class Executor(str, Enum):
    """What ``--executor`` takes."""

    STATIC = "static"
    GRAPH = "graph"


class Params(str, Enum):
    """What ``--params`` takes."""

    FLASH = "flash"
    RAM = "ram"


def complete_board(incomplete: str) -> list[tuple[str, str]]:
    """Names of boards, with what they are, for shell completion."""
    try:
        return [(row.name, row.title) for row in load_boards().values() if row.name.startswith(incomplete)]
    except MlfError:
        return []


def _seconds(value: float) -> float:
    if not 0 < value <= 1e6:
        raise InputError(f"{value:g} is no time to wait", where="--timeout", hint="Give seconds, above 0.")
    return value


def _tolerance(value: float) -> float:
    if not (value >= 0 and math.isfinite(value)):
        raise InputError(
            f"{value:g} is no tolerance", where="--rtol, --atol", hint="Give a number from 0 on."
        )
    return value


Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the result as JSON, and nothing else, on standard output.",
        callback=state.use_json,
        is_eager=True,
    ),
]
Debug = Annotated[
    bool,
    typer.Option("--debug", help="Show the traceback of an error.", callback=state.use_debug, is_eager=True),
]
Archive = Annotated[
    Path, typer.Argument(metavar="ARCHIVE", help="Archive (.tar, .tar.gz, .tar.xz) or unpacked folder.")
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a generated project.")]
Module = Annotated[
    str | None,
    typer.Option(
        "--module",
        metavar="NAME",
        help="Which module of an archive with several; in operator style, which function; "
        "of a project with several models, which model.",
    ),
]
BoardName = Annotated[
    str | None,
    typer.Option(
        "--board",
        "-b",
        metavar="NAME",
        help="See: mlf-sdk boards.  [required]",
        autocompletion=complete_board,
    ),
]
RunBoardName = Annotated[
    str | None,
    typer.Option(
        "--board",
        "-b",
        metavar="NAME",
        help="See: mlf-sdk boards; or labgrid:PLACE. For an archive mps2-an386 unless given; a project "
        "knows its board.",
        autocompletion=complete_board,
    ),
]
BoardFile = Annotated[
    Path | None,
    typer.Option(
        "--board-file",
        metavar="FILE",
        help="TOML file with a board row of your own.",
        exists=True,
        dir_okay=False,
    ),
]
AppName = Annotated[
    App, typer.Option("--app", help="rpc: serve the model over the UART; standalone: run once on a sample.")
]
ExecutorName = Annotated[
    Executor,
    typer.Option(
        "--executor",
        help="static: kernels are called from constant tables; graph: graph and parameters are loaded on the "
        "device, and parameters can be replaced (mlf-sdk params).",
    ),
]
ParamsPlace = Annotated[Params, typer.Option("--params", help="Where parameters lie while the model runs.")]
Cflags = Annotated[
    str | None,
    typer.Option(
        "--cflags",
        metavar="FLAGS",
        help=f"Compiler flags of the archive's code, as --cflags='-Os'; in place of "
        f"'{' '.join(DEFAULT_KERNEL_FLAGS)}'.",
    ),
]
KeepInputs = Annotated[
    bool, typer.Option("--keep-inputs", help="A run leaves the inputs intact (takes a larger arena).")
]
CmsisNn = Annotated[
    Path | None,
    typer.Option(
        "--cmsis-nn", metavar="PATH", help="CMSIS-NN checkout, for archives whose code needs it.", exists=True
    ),
]
Rtol = Annotated[
    float,
    typer.Option(
        "--rtol", help="Tolerance for floats, relative to the output's largest value.", callback=_tolerance
    ),
]
Atol = Annotated[
    float,
    typer.Option("--atol", help="Absolute tolerance; from 1 on also for integers.", callback=_tolerance),
]
RunTimeout = Annotated[
    float,
    typer.Option("--timeout", help="Seconds for starting and all inferences together.", callback=_seconds),
]
BuildTimeout = Annotated[float, typer.Option("--timeout", help="Seconds for the build.", callback=_seconds)]
FlashTimeout = Annotated[
    float,
    typer.Option("--timeout", help="Seconds for flashing and for the board's answer.", callback=_seconds),
]


PlatformName = Annotated[
    Platform | None,
    typer.Option("--platform", help="That of the board unless given. zephyr: any board that Zephyr knows."),
]
ZephyrBase = Annotated[
    Path | None,
    typer.Option(
        "--zephyr-base", metavar="DIR", help="Zephyr tree; else $ZEPHYR_BASE or ~/zephyrproject/zephyr."
    ),
]
ZephyrModule = Annotated[
    list[Path] | None,
    typer.Option(
        "--zephyr-module", metavar="DIR", help="A Zephyr module that a build without west needs; may repeat."
    ),
]
SignKey = Annotated[
    Path | None,
    typer.Option(
        "--sign", metavar="KEY", help="Sign a Zephyr image for MCUboot with the key in this file (imgtool)."
    ),
]
West = Annotated[
    bool | None,
    typer.Option("--west/--no-west", help="Build Zephyr projects with west (default: in a west workspace)."),
]


def platform_name(platform: Platform | None) -> str | None:
    """``--platform`` as a word."""
    return platform.value if platform else None


def zephyr_setup(
    base: Path | None, modules: list[Path] | None = None, west: bool | None = None
) -> ZephyrSetup:
    """How to get at Zephyr, from the command line's words."""
    return ZephyrSetup(base=base, modules=tuple(modules or ()), use_west=west)


def project_options(
    *,
    app: App = App.RPC,
    params: Params = Params.FLASH,
    cflags: str | None = None,
    keep_inputs: bool = False,
    share_arena: bool = False,
    cmsis_nn: Path | None = None,
    library: bool = False,
    executor: Executor = Executor.STATIC,
) -> ProjectOptions:
    """Options of a project from the command line's words.

    Raises:
        InputError: compiler flags that can't be passed on.
    """
    return ProjectOptions(
        app="library" if library else "standalone" if app is App.STANDALONE else "rpc",
        params="ram" if params is Params.RAM else "flash",
        kernel_flags=DEFAULT_KERNEL_FLAGS if cflags is None else parse_kernel_flags(cflags),
        keep_inputs=keep_inputs,
        share_arena=share_arena,
        cmsis_nn=cmsis_nn.resolve() if cmsis_nn else None,
        executor="graph" if executor is Executor.GRAPH else "static",
    )


def check_options_of_project(
    target: Path, board: str | None, board_file: Path | None, options: ProjectOptions
) -> None:
    """Refuse options that a generated project has decided already; an archive takes all of them.

    Raises:
        InputError: ``target`` is a project, and the options are not the defaults or not its own.
    """
    if not (target / LOCK_NAME).is_file():
        return
    lock = read_lock(target)
    if board_file is not None or options != ProjectOptions():
        raise InputError(
            "a generated project has its board and options already",
            where=str(target),
            hint="Run it without --board-file, --params, --cflags, --keep-inputs and "
            "--cmsis-nn, or generate it again.",
        )
    if board not in (None, lock.board):
        raise InputError(
            f"the project is for the board {lock.board}",
            where=str(target),
            hint=f"Generate it for {board} in another folder, or run the archive itself.",
        )
