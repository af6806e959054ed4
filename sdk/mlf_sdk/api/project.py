# SPDX-License-Identifier: Apache-2.0
"""Load, generate, build, check: everything up to a linked image."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.errors import InputError
from mlf_sdk.model.build import load_model
from mlf_sdk.model.types import Model
from mlf_sdk.platforms.boards import Board, find_board
from mlf_sdk.platforms.fit import check_fit
from mlf_sdk.platforms.requirements import check_requirements
from mlf_sdk.platforms.select import platform_files, regions_of
from mlf_sdk.project.context import Linkage
from mlf_sdk.project.layout import ModelLayout, lay_out
from mlf_sdk.project.link import link_models
from mlf_sdk.project.lock import Lock, read_lock
from mlf_sdk.project.make_lock import make_lock
from mlf_sdk.project.options import ProjectOptions
from mlf_sdk.project.render import render_project
from mlf_sdk.project.writer import write_project
from mlf_sdk.tools.cmake import BuildResult, build_project
from mlf_sdk.tools.process import ProcessRunner, run_process
from mlf_sdk.verify.check import CheckReport, check_image
from mlf_sdk.verify.image import read_image

PathLike = str | Path
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

    def files(self) -> dict[str, bytes]:
        """All files of the project, by relative path."""
        platform = platform_files(self.board, self.options)
        files = render_project(self.layouts, self.linkages, platform, self.options, self.lock)
        if self.board_file is not None:
            files[OWN_BOARD] = self.board_file.read_bytes()
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
) -> ProjectPlan:
    """Decide everything about a project of ``models`` for ``board``: no file is written.

    Raises:
        InputError: unknown board, objects for another CPU, missing headers, or too little memory.
    """
    chosen = options or ProjectOptions()
    if not models:
        raise InputError("no model was given")
    extra = Path(board_file) if board_file else None
    row = find_board(board, extra)
    unique = _unique_names(models)
    check_requirements(unique, row, chosen)
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
    )
    return ProjectPlan(
        board=row, layouts=layouts, linkages=linkages, lock=lock, options=chosen, board_file=extra
    )


def generate(
    archives: PathLike | Sequence[PathLike],
    folder: PathLike,
    *,
    board: str,
    board_file: PathLike | None = None,
    module: str | None = None,
    options: ProjectOptions | None = None,
) -> GeneratedProject:
    """Generate a complete C project for ``board`` in ``folder``; one image for all archives."""
    paths = [archives] if isinstance(archives, str | Path) else list(archives)
    models = [load(path, module=module) for path in paths]
    plan = plan_project(models, board=board, board_file=board_file, options=options)
    kept = write_project(plan.files(), Path(folder))
    return GeneratedProject(folder=Path(folder), lock=plan.lock, kept=kept)


def build(folder: PathLike, *, timeout_s: float = 600.0, runner: ProcessRunner = run_process) -> BuildResult:
    """Build a generated project; needs cmake, ninja and the board's compiler."""
    read_lock(Path(folder))
    return build_project(Path(folder).resolve(), timeout_s=timeout_s, runner=runner)


def check(folder: PathLike) -> CheckReport:
    """Compare a built image with its promises, without running it."""
    path = Path(folder)
    lock = read_lock(path)
    image = read_image(path / "build" / "app.elf")
    return check_image(lock, image, regions_of(project_board(path, lock)))


def project_board(folder: Path, lock: Lock) -> Board:
    """The board row of a generated project, the user's own included."""
    own = folder / OWN_BOARD
    return find_board(lock.board, own if own.is_file() else None)


def _unique_names(models: Sequence[Model]) -> tuple[Model, ...]:
    """Models whose C names differ: a second ``digits`` becomes ``digits_2``."""
    seen: dict[str, int] = {}
    result = []
    for model in models:
        count = seen[model.c_name] = seen.get(model.c_name, 0) + 1
        name = model.c_name if count == 1 else f"{model.c_name}_{count}"
        result.append(dataclasses.replace(model, c_name=name))
    return tuple(result)
