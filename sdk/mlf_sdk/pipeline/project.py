# SPDX-License-Identifier: Apache-2.0
"""Load, generate, build, check: everything up to a linked image."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.analysis.elf.image import read_image
from mlf_sdk.analysis.thumb.thumbcode import read_code
from mlf_sdk.codegen.context import Linkage
from mlf_sdk.codegen.link import link_models
from mlf_sdk.codegen.lock import Lock, LockZephyr, read_lock
from mlf_sdk.codegen.make_lock import make_lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.render import render_project
from mlf_sdk.codegen.writer import write_project
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.build import load_model
from mlf_sdk.ir.model import Model
from mlf_sdk.ir.names import NameTable
from mlf_sdk.judge.check import CheckReport, check_image
from mlf_sdk.planner.layout import ModelLayout, lay_out
from mlf_sdk.targets.boards.fit import check_fit
from mlf_sdk.targets.boards.load import Board, find_board, own_sources
from mlf_sdk.targets.boards.requirements import check_requirements
from mlf_sdk.targets.boards.store import check_store, store_bytes_of
from mlf_sdk.targets.cmake import BuildResult, build_project
from mlf_sdk.targets.platforms import image_path, platform_files, regions_of
from mlf_sdk.targets.zephyr.build import ZephyrSetup, build_zephyr
from mlf_sdk.targets.zephyr.files import ZephyrNaming, map_regions, zephyr_board, zephyr_naming
from mlf_sdk.targets.zephyr.flash import sign_zephyr
from mlf_sdk.targets.zephyr.sign import check_key
from mlf_sdk.tools.process import ProcessRunner, run_process

PathLike = str | Path
ZEPHYR = "zephyr"
OWN_BOARD = "board/board.toml"  # a copy of the user's board row


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedProject:
    """A project on disk.

    Attributes:
        kept: the user's files that were kept although a new project would differ.
    """

    folder: Path
    lock: Lock
    kept: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPlan:
    """A project, decided but not written."""

    board: Board
    layouts: tuple[ModelLayout, ...]
    linkages: tuple[Linkage, ...]
    lock: Lock
    options: ProjectOptions
    board_file: Path | None = None
    zephyr: ZephyrNaming | None = None

    def files(self) -> dict[str, bytes]:
        """All files of the project, by relative path."""
        dynamic = self.options.executor == "graph"
        store_bytes = sum(map(store_bytes_of, self.layouts)) if dynamic else 0
        platform = platform_files(self.board, self.options, self.zephyr, store_bytes=store_bytes)
        files = render_project(self.layouts, self.linkages, platform, self.options, self.lock)
        if self.board_file is not None:
            files[OWN_BOARD] = self.board_file.read_bytes()
            files.update(own_sources(self.board, self.board_file))
        return files


def load(archive: PathLike, *, module: str | None = None) -> Model:
    """Read an archive (.tar, .tar.gz, .tar.xz, or a folder) and build its model.

    Args:
        module: which module, when the archive has several; in operator style, which function.
    """
    return load_model(Path(archive), module=module)


def plan_project(
    models: Sequence[Model],
    *,
    board: str,
    board_file: PathLike | None = None,
    options: ProjectOptions | None = None,
    platform: str | None = None,
    zephyr: ZephyrSetup | None = None,
) -> ProjectPlan:
    """Decide everything about a project of ``models`` for ``board``: no file is written.

    Args:
        platform: ``zephyr``, or that of the board's row (None).
        zephyr: where Zephyr is; None: where Zephyr's own tools look for it.

    Raises:
        InputError: unknown board, objects for another CPU, missing headers, or too little memory.
        ToolError: no Zephyr tree.
    """
    chosen = options or ProjectOptions()
    if not models:
        raise InputError("no model was given")
    extra = Path(board_file) if board_file else None
    row = _choose_board(board, extra, platform)
    target = zephyr_naming(row, (zephyr or ZephyrSetup()).tree()) if row.platform == ZEPHYR else None
    unique = _unique_names(models)
    check_requirements(unique, row, chosen)
    if chosen.executor == "graph":
        check_store(unique, row)
    layouts = tuple(lay_out(model, keep_inputs=chosen.keep_inputs) for model in unique)
    linkages = link_models(layouts, share_arena=chosen.share_arena)
    check_fit(layouts, linkages, row, chosen)
    lock = make_lock(
        layouts,
        linkages,
        chosen,
        platform=row.platform,
        board=row.name,
        board_file=extra.name if extra else None,
        zephyr=LockZephyr(series=target.profile.series, board=target.board) if target else None,
    )
    return ProjectPlan(
        board=row,
        layouts=layouts,
        linkages=linkages,
        lock=lock,
        options=chosen,
        board_file=extra,
        zephyr=target,
    )


def _choose_board(name: str, extra: Path | None, platform: str | None) -> Board:
    """The row of ``name``, on the platform that was asked for."""
    if platform == ZEPHYR:
        return zephyr_board(name, extra)
    row = find_board(name, extra)
    if platform not in (None, row.platform):
        raise InputError(
            f"the board {name} is for the platform {row.platform}",
            where="--platform",
            hint=f"Leave it out, or choose {row.platform} or {ZEPHYR}.",
        )
    return row


def generate(
    archives: PathLike | Sequence[PathLike],
    folder: PathLike,
    *,
    board: str,
    board_file: PathLike | None = None,
    module: str | None = None,
    options: ProjectOptions | None = None,
    platform: str | None = None,
    zephyr: ZephyrSetup | None = None,
) -> GeneratedProject:
    """Generate a complete C project for ``board`` in ``folder``; one image for all archives.

    See :func:`plan_project` for ``platform`` and ``zephyr``.
    """
    paths = [archives] if isinstance(archives, str | Path) else list(archives)
    models = [load(path, module=module) for path in paths]
    plan = plan_project(
        models, board=board, board_file=board_file, options=options, platform=platform, zephyr=zephyr
    )
    kept = write_project(plan.files(), Path(folder))
    return GeneratedProject(folder=Path(folder), lock=plan.lock, kept=kept)


def build(
    folder: PathLike,
    *,
    timeout_s: float = 600.0,
    zephyr: ZephyrSetup | None = None,
    sign: PathLike | None = None,
    runner: ProcessRunner = run_process,
) -> BuildResult:
    """Build a generated project; needs cmake, ninja and the board's compiler, or what Zephyr needs.

    Args:
        zephyr: how to get at Zephyr, for a project on it.
        sign: key to sign a Zephyr project with for MCUboot.
    """
    path = Path(folder).resolve()
    lock = read_lock(path)
    if sign is not None:
        if lock.platform != ZEPHYR:
            raise InputError("only the images of Zephyr projects are signed", where="--sign")
        check_key(Path(sign))
    if lock.options.app == "library":
        raise InputError(
            "the project is a library: there is nothing to build",
            where=str(folder),
            hint="Build the application that uses it (README.md), or generate it without --library.",
        )
    if lock.platform != ZEPHYR:
        return build_project(path, timeout_s=timeout_s, runner=runner)
    setup = zephyr or ZephyrSetup()
    board = project_board(path, lock)
    target = zephyr_naming(board, setup.tree())
    built = build_zephyr(
        path,
        target.board,
        setup,
        extra_modules=target.profile.extra_modules,
        is_native=board.zephyr.native,
        timeout_s=timeout_s,
        runner=runner,
    )
    if sign is not None:
        sign_zephyr(path, Path(sign), setup, timeout_s=timeout_s, runner=runner)
    return built


def check(folder: PathLike) -> CheckReport:
    """Compare a built image with its promises, without running it."""
    path = Path(folder)
    lock = read_lock(path)
    elf = image_path(path, lock)
    regions = (
        map_regions(path / "build" / "zephyr" / "zephyr.map")
        if lock.platform == ZEPHYR
        else regions_of(project_board(path, lock))
    )
    image = read_image(elf)
    return check_image(lock, image, regions, read_code(elf))


def project_board(folder: Path, lock: Lock) -> Board:
    """The board row of a generated project, the user's own included."""
    own = folder / OWN_BOARD
    return _choose_board(lock.board, own if own.is_file() else None, lock.platform)


def _unique_names(models: Sequence[Model]) -> tuple[Model, ...]:
    """Models whose C names differ, in capitals as well: a second ``digits`` becomes ``digits_2``."""
    names = NameTable()
    return tuple(dataclasses.replace(model, c_name=names.unique(model.c_name)) for model in models)
