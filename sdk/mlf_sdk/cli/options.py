# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from mlf_sdk.cli import state
from mlf_sdk.errors import InputError
from mlf_sdk.project.options import DEFAULT_KERNEL_FLAGS, App, ParamsPlace, ProjectOptions, parse_kernel_flags

T = TypeVar("T")

Json = Annotated[
    bool,
    typer.Option("--json", help="Print the result as JSON.", callback=state.use_json, is_eager=True),
]
Module = Annotated[
    str | None,
    typer.Option(
        "--module", help="Which module of an archive with several; in operator style, which function."
    ),
]
BoardName = Annotated[str | None, typer.Option("--board", "-b", help="Board name; see: mlf-sdk boards.")]
BoardFile = Annotated[
    Path | None, typer.Option("--board-file", help="TOML file with a board row of your own.", exists=True)
]
AppName = Annotated[
    str, typer.Option("--app", help="rpc: serve the model over the UART; standalone: run once on a sample.")
]
Params = Annotated[str, typer.Option("--params", help="Where parameters lie: flash or ram.")]
Cflags = Annotated[
    str | None,
    typer.Option(
        "--cflags",
        help="Compiler flags of the model's code, in place of '-O2 -ffp-contract=off'. Example: --cflags='-Os'",
    ),
]
KeepInputs = Annotated[
    bool, typer.Option("--keep-inputs", help="A run leaves the inputs intact (takes a larger arena).")
]
CmsisNn = Annotated[
    Path | None,
    typer.Option("--cmsis-nn", help="CMSIS-NN checkout, for archives whose code needs it.", exists=True),
]


def project_options(
    *,
    app: str = "rpc",
    params: str = "flash",
    cflags: str | None = None,
    keep_inputs: bool = False,
    share_arena: bool = False,
    cmsis_nn: Path | None = None,
) -> ProjectOptions:
    """Options of a project from the command line's words.

    Raises:
        InputError: a word that is not one of the choices.
    """
    apps: dict[str, App] = {"rpc": "rpc", "standalone": "standalone"}
    places: dict[str, ParamsPlace] = {"flash": "flash", "ram": "ram"}
    return ProjectOptions(
        app=_choice(app, apps, "--app"),
        params=_choice(params, places, "--params"),
        kernel_flags=DEFAULT_KERNEL_FLAGS if cflags is None else parse_kernel_flags(cflags),
        keep_inputs=keep_inputs,
        share_arena=share_arena,
        cmsis_nn=cmsis_nn.resolve() if cmsis_nn else None,
    )


def _choice(word: str, choices: Mapping[str, T], where: str) -> T:
    if word not in choices:
        raise InputError(f"'{word}' is no choice", where=where, hint="Choices: " + ", ".join(choices))
    return choices[word]
