# SPDX-License-Identifier: Apache-2.0
"""The command ``proof``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from mlf_sdk.cli import options as opt
from mlf_sdk.cli.output import show, status
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.proof import ProofRequest, proof_values, prove
from mlf_sdk.report.prooftable import proof_markdown, proof_parts
from mlf_sdk.tools.files import write_whole


def proof(  # noqa: PLR0913, PLR0917 (a command's options)
    archives: Annotated[list[Path], typer.Argument(metavar="ARCHIVE...", help="Each model of each archive.")],
    board: Annotated[
        list[str] | None,
        typer.Option("--board", "-b", metavar="NAME", help="May repeat; every emulated board unless given."),
    ] = None,
    board_file: opt.BoardFile = None,
    cmsis_nn: opt.CmsisNn = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the table to this file.")
    ] = None,
    title: Annotated[
        str | None,
        typer.Option("--made-by", metavar="TEXT", help="The command that the table names, if not this one."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=64, help="Archives at the same time.")] = 2,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds for each run.", min=1.0)] = 600.0,
    again: Annotated[bool, typer.Option("--again", help="Run also what was proven before.")] = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Prove many models on many boards.

    Memory, stack, heap and outputs of each, as one table. Results are kept: a proof that was stopped goes
    on where it was.

    Example: mlf-sdk proof *.tar --board mps2-an386 --board microbit --markdown proof.md
    """
    if markdown is not None and not markdown.absolute().parent.is_dir():
        raise InputError("the folder of the table is not there", where=str(markdown))
    request = ProofRequest(
        boards=tuple(dict.fromkeys(board or ())),
        board_file=board_file,
        cmsis_nn=cmsis_nn.resolve() if cmsis_nn else None,
        jobs=jobs,
        timeout_s=timeout,
        again=again,
    )
    with status(as_json=json) as progress:
        found = prove(archives, request, progress.tell)
    if markdown is not None:
        command = title or shlex.join(["mlf-sdk", *sys.argv[1:]])
        write_whole(markdown, proof_markdown(found, command).encode())
    show(proof_parts(found), proof_values(found), as_json=json)
    if not found.ok:
        raise typer.Exit(1)
