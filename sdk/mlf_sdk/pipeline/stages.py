# SPDX-License-Identifier: Apache-2.0
"""Stages of the pipeline up to build: each a function of a request and the result of the stage before it.

Load, plan and render only read files; build drives programs. The stages behind it are in
`mlf_sdk.pipeline.execution`. `mlf_sdk.pipeline.pipeline` runs all in order, keeps their results and reports
progress.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.codegen.link import Linkage, link_project
from mlf_sdk.codegen.lock import Lock, choose_model, read_lock
from mlf_sdk.codegen.make_lock import make_lock
from mlf_sdk.codegen.options import ProjectOptions, parse_kernel_flags
from mlf_sdk.codegen.writer import LOCK_NAME
from mlf_sdk.compiler.cores import core_of
from mlf_sdk.errors import DoesNotFitError, InputError
from mlf_sdk.ir.model import Model, needs_cmsis_nn
from mlf_sdk.ir.names import NameTable
from mlf_sdk.judge.check import CheckReport, check_image
from mlf_sdk.pipeline.cache import build_cached
from mlf_sdk.pipeline.declare import flag_of, option_of
from mlf_sdk.pipeline.loading import analyse_for, compiled_sources, size_of, with_section
from mlf_sdk.pipeline.project import BuiltProject, ProjectPlan, TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.planner.layout import ModelLayout, lay_out
from mlf_sdk.targets.boards.requirements import check_fit, check_requirements
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.compilers import check_instructions, check_sources
from mlf_sdk.targets.registry import project_target, resolve_target
from mlf_sdk.targets.target import Ability, Target, TargetChoice
from mlf_sdk.tools.locks import exclusive


def is_project(request: Request) -> bool:
    """Return whether the source is the folder of one generated project."""
    return len(request.source) == 1 and (Path(request.source[0]) / LOCK_NAME).is_file()


# ---- plan ----


def target_choice(request: Request) -> TargetChoice:
    """Options of the request that name a target."""
    names = {field.name for field in dataclasses.fields(TargetChoice)}
    return TargetChoice(**{name: getattr(request, name) for name in names})


def board_of(request: Request) -> Board:
    """Row of the board that a project of the request is for, whatever port is named.

    Raises:
        InputError: there is no such board.
    """
    return resolve_target(target_choice(request.replace(port=None))).board


def for_core(request: Request) -> Request:
    """Copy with the core of its board, where a model is compiled when it is loaded and no core is stated."""
    if request.core is not None or not compiled_sources(request):
        return request
    board = board_of(request)
    return request.replace(core=core_of(board.cpu, dsp=board.dsp).name)


def project_options(request: Request) -> ProjectOptions:
    """Options of the request that decide a project.

    Raises:
        InputError: compiler flags that can't be passed on.
    """
    return ProjectOptions(
        app=request.app,  # type: ignore[arg-type]  # checked by the request's declaration
        params=request.params,  # type: ignore[arg-type]
        kernel_flags=parse_kernel_flags(request.cflags),
        keep_inputs=request.keep_inputs or request.app == "mlperf",  # one input serves many runs
        share_arena=request.share_arena,
        trace=request.trace,
        cmsis_nn=str(Path(request.cmsis_nn).resolve()) if request.cmsis_nn else None,
        executor=request.executor,  # type: ignore[arg-type]
        plan=request.plan,  # type: ignore[arg-type]
        mlperf_id=request.mlperf_id,
        softmax=request.softmax,
        as_compiled=request.as_compiled,
        trust=_public_keys(request.trust),
        session_keys=_public_keys(request.lock),
        monocypher=str(Path(request.monocypher).resolve()) if request.monocypher else None,
        model_version=request.model_version,
        place=request.place,
        stack_bytes=size_of(request.stack, "--stack"),
    )


def _public_keys(path: str | None) -> tuple[str, ...]:
    if path is None:
        return ()
    from mlf_sdk.tools.signing import read_public_keys

    return tuple(key.data.hex() for key in read_public_keys(Path(path)))


def plan(request: Request, models: Sequence[Model]) -> ProjectPlan:
    """Decide everything about a project of ``models``: no file is written.

    Raises:
        InputError: unknown board, objects for another CPU, missing headers, or too little memory.
        ToolError: no Zephyr tree.
    """
    options, choice = project_options(request), target_choice(request)
    target = resolve_target(choice)
    board = target.board
    unique = _unique_names(_named(models, request.model_name))
    if options.app == "mlperf":
        from mlf_sdk.codegen.mlperf import input_bytes_of

        input_bytes_of(unique, options)
    if options.cmsis_nn is None and any(map(needs_cmsis_nn, unique)):
        own = target.cmsis_nn_module()
        options = dataclasses.replace(
            options, cmsis_nn=str(own) if own else None, cmsis_nn_module=own is not None
        )
    options = dataclasses.replace(options, toolchain=target.toolchain)
    if choice.toolchain is not None and not target.toolchain:
        raise InputError(
            f"{board.platform} chooses the toolchain itself", where="--toolchain", hint="Leave it out."
        )
    check_requirements(unique, board, options)
    check_sources(unique, board, options)
    check_instructions(unique, board, options)
    if options.executor == "graph":
        from mlf_sdk.codegen.dynamic import check_dynamic

        for model in unique:
            check_dynamic(model)
    if options.trust or options.session_keys:
        from mlf_sdk.targets.boards.signatures import check_session_keys, check_signatures

        check_signatures(options, board)
        check_session_keys(options, board)
    unique = with_section(request, analyse_for(unique, board, options))
    shared = options.plan == "shared"
    guarded = options.guards and not target.is_host  # there the address sanitizer has red zones
    layouts, linkages = _laid_out(unique, board, options, shared=shared, guarded=guarded)
    lock = make_lock(
        layouts,
        linkages,
        options,
        platform=board.platform,
        board=board.name,
        board_file=Path(choice.board_file).name if choice.board_file else None,
        zephyr=target.lock_zephyr(),
    )
    return ProjectPlan(choice=choice, layouts=layouts, linkages=linkages, lock=lock, options=options)


def _laid_out(
    models: Sequence[Model], board: Board, options: ProjectOptions, *, shared: bool, guarded: bool
) -> tuple[tuple[ModelLayout, ...], tuple[Linkage, ...]]:
    """Layouts in the first RAM and flash; in more memories where asked, or where those are too small.

    Raises:
        DoesNotFitError: the board has too little memory.
        InputError: a memory that the board does not have.
    """

    if not options.place:
        layouts = tuple(lay_out(model, keep_inputs=options.keep_inputs, shared=shared) for model in models)
        return fitted(layouts, board, options, guarded=guarded)
    from mlf_sdk.targets.boards.placed import placements  # few projects use several memories

    layouts = tuple(one.layout for one in placements(models, board, options))
    return layouts, link_project(layouts, options, guarded=guarded)


def fitted(
    layouts: tuple[ModelLayout, ...], board: Board, options: ProjectOptions, *, guarded: bool = False
) -> tuple[tuple[ModelLayout, ...], tuple[Linkage, ...]]:
    """Layouts that a board holds, as they are or in more memories, and their linkage.

    Raises:
        DoesNotFitError: the board has too little memory; with each part of it and the bytes that are missing.
    """
    linkages = link_project(layouts, options, guarded=guarded)
    try:
        check_fit(layouts, linkages, board, options)
        return layouts, linkages
    except DoesNotFitError:
        several = sum(memory.kind == "ram" for memory in board.memories) > 1
        if not several or board.platform != "baremetal" or not options.can_place:
            raise
    from mlf_sdk.targets.boards.placed import placements

    layouts = tuple(one.layout for one in placements([one.model for one in layouts], board, options))
    return layouts, link_project(layouts, options, guarded=guarded)


def _named(models: Sequence[Model], name: str | None) -> Sequence[Model]:
    """Models, one of them with the C name that the user states.

    Raises:
        InputError: several models, and one name.
    """
    if name is None:
        return models
    if len(models) > 1:
        raise InputError("one name for several models", where="--name", hint="Rename their files.")
    return [dataclasses.replace(models[0], c_name=name)]


def _unique_names(models: Sequence[Model]) -> tuple[Model, ...]:
    """Models whose C names differ, in capitals as well: a second ``digits`` becomes ``digits_2``."""
    names = NameTable()
    return tuple(dataclasses.replace(model, c_name=names.unique(model.c_name)) for model in models)


# ---- projects ----


def read_project(request: Request) -> TargetProject:
    """Read the project that the request names.

    Raises:
        InputError: no project, a damaged lock, or options that the project has decided already.
    """
    folder = Path(request.source[0])
    lock = read_lock(folder)
    _check_undecided(request, folder, lock)
    choice = target_choice(request)
    project_target(folder, lock, choice)
    model = choose_model(lock, request.module, folder)
    return TargetProject(folder=folder, lock=lock, model=model, choice=choice, is_given=True)


def _check_undecided(request: Request, folder: Path, lock: Lock) -> None:
    """Refuse options that were decided when the project was generated."""
    if request.pre is not None and any(model.preprocessing for model in lock.models):
        from mlf_sdk.compiler.preprocess.section import section_of

        (section,) = (model.preprocessing.section for model in lock.models if model.preprocessing)
        if section_of(request.pre) == section:
            request = request.replace(pre=None)
    given = [
        flag_of(field)
        for field in dataclasses.fields(request)
        if option_of(field).fixed and not option_of(field).hidden
        if getattr(request, field.name) != field.default
    ]
    if given:
        raise InputError(
            f"the project was generated with its own options: {', '.join(given)} can't be given here",
            where=str(folder),
            hint="Leave them out, or generate the project again with them.",
        )


def check_app(project: TargetProject, app: str = "rpc") -> None:
    """Refuse a project whose application can't do what a command needs.

    Raises:
        InputError: the application is another one than ``app``.
    """
    if project.lock.options.app != app:
        if not project.is_given:
            raise InputError(f"only the {app} application can be run with inputs", where="--app")
        raise InputError(
            f"the project's application is {project.lock.options.app}: it takes no inputs",
            where=str(project.folder),
            hint=f"Generate it with --app {app} to give it inputs.",
        )


def check_start(target: Target) -> None:
    """Refuse a board that can't be started from here, before anything is built for it.

    Raises:
        InputError: it is neither emulated nor on a port.
    """
    if not target.attached and Ability.START not in target.abilities:
        raise InputError(
            "the board is not emulated: its image can be built and flashed, but not run from here",
            where=f"board {target.name}",
            hint="Flash it (mlf-sdk flash DIR), then name its serial port: --port PORT.",
        )


# ---- build ----


def needs_compilers(project: TargetProject) -> bool:
    """Return False for a user's project that was configured, perhaps with compilers that are not on PATH."""
    return not (project.is_given and (project.folder / "build" / "build.ninja").is_file())


def build(request: Request, project: TargetProject, log: Callable[[str], None] | None = None) -> BuiltProject:
    """Configure (when needed), build and sign the project; one process at a time works in its folder.

    Raises:
        InputError: the project is a library, or the image does not fit the board's memory.
        ToolError: a tool is missing or failed; its output ends the message.
    """
    if project.lock.options.app == "library":
        raise InputError(
            "the project is a library: there is nothing to build",
            where=str(project.folder),
            hint="Build the application that uses it (README.md), or generate it without --app library.",
        )
    folder = project.folder.resolve()
    project.target.check_programs(build=needs_compilers(project))
    run = functools.partial(
        project.target.build,
        folder,
        timeout_s=request.build_timeout_s,
        sign=Path(request.sign) if request.sign else None,
        log=log,
    )
    with exclusive(str(folder), request.build_timeout_s):
        built = run() if project.is_given else build_cached(folder, run)
    return BuiltProject(
        project=project, elf=built.elf, seconds=built.seconds, log=built.log, signed=built.signed
    )


def check(project: TargetProject, *, strict: bool = False) -> CheckReport:
    """Compare the linked image with the promises of its project, without running it.

    Raises:
        InputError: the project is not built.
    """
    target = project.target
    image, regions = read_image(target.image(project.folder)), target.regions(project.folder)
    report = check_image(project.lock, image, regions, strict=strict)
    if not any(model.arenas for model in project.lock.models):
        return report
    from mlf_sdk.judge.places import with_places  # few models lie in several memories
    from mlf_sdk.targets.boards.banks import placed_regions

    return with_places(report, project.lock, image, placed_regions(target.board, regions))
