# SPDX-License-Identifier: Apache-2.0
"""Stage load and the analysis of what it read, light to import."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mlf_sdk import frontends
from mlf_sdk.codegen.options import DEFAULT_KERNEL_FLAGS, ProjectOptions, parse_kernel_flags
from mlf_sdk.frontends.analysis import analyse
from mlf_sdk.frontends.sources import with_sources
from mlf_sdk.frontends.stated import Stated
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.request import Request
from mlf_sdk.targets.boards import DEFAULT_BOARD
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.compilers import source_compiler


def load(request: Request) -> tuple[Model, ...]:
    """Read each archive of the request.

    Raises:
        ArchiveError: an archive is broken or hostile: all of its faults at once.
        InputError: no such file, an unknown format, or a module must be chosen.
    """
    sources = tuple(Path(path) for path in request.more_sources)
    return tuple(
        with_sources(frontends.load(Path(source), request.module, stated_in(request)), sources)
        for source in request.source
    )


def stated_in(request: Request) -> Stated:
    """Facts about the archive that the request states."""
    return Stated(outputs=request.output_names, types=request.tensor_types)


def analyse_for(models: Iterable[Model], board: Board, options: ProjectOptions) -> tuple[Model, ...]:
    """Read the models' code as the build of a project compiles it.

    Raises:
        ArchiveError: a model can't be planned: all reasons at once.
    """
    compiler = source_compiler(board, options)
    return tuple(analyse(model, compiler) for model in models)


def load_analysed(request: Request) -> tuple[Model, ...]:
    """Read each archive of the request, and its code as the board's build compiles it."""
    file = Path(request.board_file) if request.board_file else None
    board = find_board(request.board or DEFAULT_BOARD, file)
    flags = DEFAULT_KERNEL_FLAGS if request.cflags is None else parse_kernel_flags(request.cflags)
    return analyse_for(load(request), board, ProjectOptions(cmsis_nn=request.cmsis_nn, kernel_flags=flags))
