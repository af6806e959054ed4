# SPDX-License-Identifier: Apache-2.0
"""Stage load and the analysis of what it read, light to import."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from mlf_sdk import frontends
from mlf_sdk.codegen.options import ProjectOptions, parse_kernel_flags
from mlf_sdk.compiler.cores import core_of
from mlf_sdk.compiler.options import CompileOptions, Goal
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.stated import Stated, with_quantisation
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.declare import COMPILER, flag_of, option_of
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
    refuse_compiler_options(request)
    sources = tuple(Path(path) for path in request.more_sources)
    models = (frontends.load(Path(source), request.module, stated_in(request)) for source in request.source)
    result = tuple(with_quantisation(model, request.quantisation) for model in models)
    if not sources:
        return result
    from mlf_sdk.frontends.sources import with_sources  # the scanner of C takes time to load

    return tuple(with_sources(model, sources) for model in result)


def stated_in(request: Request) -> Stated:
    """Facts about the archive that the request states."""
    return Stated(
        outputs=request.output_names,
        types=request.tensor_types,
        params=request.params_files,
        options=options_in(request),
    )


def options_in(request: Request) -> CompileOptions:
    """Options of the compiler that the request states."""
    return CompileOptions(
        core=request.core or CompileOptions().core,
        goal=request.goal,
        io=request.io,
        batch=request.batch,
        shapes=";".join(request.shape),
        custom=";".join(request.custom),
        kernels=request.kernels,
        asm=request.asm,
        max_arena=size_of(request.max_arena, "--max-arena"),
        stream=request.stream,
        frames=request.frames,
        caller_inputs=request.caller_inputs,
    )


def size_of(size: str | None, option: str) -> int:
    """Bytes that an option states; 0 where it is not given.

    Raises:
        InputError: no size, or none at all.
    """
    if size is None:
        return 0
    from mlf_sdk.judge.sizes import parse_size

    result = parse_size(size, option)
    if not result:
        raise InputError("a size has at least one byte", where=option)
    return result


def without_rows(request: Request) -> Request:
    """Request for whole tensors in place of rows or frames."""
    if not request.stream and not request.frames:
        return request
    goal = Goal.BALANCED.value if request.goal == Goal.RAM.value else request.goal
    return request.replace(stream=False, frames=False, goal=goal, max_arena=None)


def compiled_sources(request: Request) -> bool:
    """Return whether a source of the request is compiled when it is loaded."""
    return any(_compiles(Path(source)) for source in request.source)


def _compiles(path: Path) -> bool:
    try:
        return frontends.find_frontend(path).compiles
    except InputError:
        return False


def refuse_compiler_options(request: Request) -> None:
    """Refuse options of the compiler where nothing is compiled.

    Raises:
        InputError: one is given, and no source is compiled.
    """
    fields = [f for f in dataclasses.fields(Request) if option_of(f).group == COMPILER]
    given = [flag_of(f) for f in fields if getattr(request, f.name) != f.default]
    if given and not compiled_sources(request):
        raise InputError(
            f"{', '.join(given)} can't be given: the archive is compiled already",
            where=request.source[0],
            hint="Give the model that it was made from, such as a .tflite file.",
        )


def analyse_for(models: Iterable[Model], board: Board, options: ProjectOptions) -> tuple[Model, ...]:
    """Read the models' code as the build of a project compiles it, where its facts are not known.

    Raises:
        ArchiveError: a model can't be planned: all reasons at once.
    """
    result = tuple(models)
    if all(model.is_analysed for model in result):
        return result
    from mlf_sdk.frontends.analysis import analyse  # the reader of C takes time to load

    compiler = source_compiler(board, options)
    return tuple(analyse(model, compiler, as_compiled=options.as_compiled) for model in result)


def with_section(request: Request, models: Sequence[Model]) -> tuple[Model, ...]:
    """Models with the preprocessing of the request, where it states any.

    Raises:
        InputError: several models, or a key of the section that does not fit; it is named.
    """
    if request.pre is None:
        return tuple(models)
    from mlf_sdk.compiler.preprocess.section import section_of
    from mlf_sdk.frontends.preprocess import with_preprocessing  # few projects have any

    if len(models) > 1:
        raise InputError(
            "one section [pre] for several models", where="--pre", hint="Generate a project of each."
        )
    is_step = request.app == "rpc"  # the host sends what is raw, and the target prepares it
    return (with_preprocessing(models[0], section_of(request.pre), as_step=is_step),)


def load_analysed(request: Request) -> tuple[Model, ...]:
    """Read each archive of the request, and its code as the board's build compiles it."""
    board = find_board(request.board or DEFAULT_BOARD, request.board_file)
    if request.core is None and compiled_sources(request):
        request = request.replace(core=core_of(board.cpu, dsp=board.dsp).name)
    flags = parse_kernel_flags(request.cflags)
    cmsis_nn = str(Path(request.cmsis_nn).resolve()) if request.cmsis_nn else None
    options = ProjectOptions(cmsis_nn=cmsis_nn, kernel_flags=flags, as_compiled=request.as_compiled)
    return analyse_for(load(request), board, options)
