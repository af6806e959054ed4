# SPDX-License-Identifier: Apache-2.0
"""Everything that a report of one model on one board tells: gathered here, laid out by ``mlf_sdk.report``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.analysis.elf.firmware import Firmware, read_firmware
from mlf_sdk.analysis.elf.image import Image, read_image
from mlf_sdk.analysis.elf.sources import read_sources
from mlf_sdk.codegen.lock import Lock, LockModel, read_lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.writer import LOCK_NAME
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.memorymap import CodeItem, Contents, MemoryMap, memory_maps
from mlf_sdk.judge.profile import Profile
from mlf_sdk.pipeline.cache import cached_project
from mlf_sdk.pipeline.doctor import ArchiveExamination, examine_archive
from mlf_sdk.pipeline.profile import profile
from mlf_sdk.pipeline.project import ZEPHYR, PathLike, build, check, load, plan_project, project_board
from mlf_sdk.pipeline.results import Array, RunReport
from mlf_sdk.pipeline.run import run
from mlf_sdk.targets.boards import DEFAULT_BOARD
from mlf_sdk.targets.boards.load import Board
from mlf_sdk.targets.platforms import image_path, regions_of
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.files import map_regions
from mlf_sdk.tools.locks import exclusive

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All that is known of one model on one board.

    Attributes:
        model: the model that it is about, one of the lock's.
        memories: what fills each memory of the board; empty on the host.
        code: functions and constants of the image, largest first.
        firmware: what the image says of itself: build id, compilers.
        run: None when nothing was run; ``not_run`` says why.
        profile: None when no step was measured; ``no_profile`` says why.
        examination: of the archive; None when a project was given.
    """

    lock: Lock
    model: LockModel
    board: Board
    check: CheckReport
    image: Image
    memories: tuple[MemoryMap, ...]
    code: tuple[CodeItem, ...]
    firmware: Firmware
    run: RunReport | None
    not_run: str
    profile: Profile | None
    no_profile: str
    examination: ArchiveExamination | None

    @property
    def ok(self) -> bool:
        """Whether everything that was checked is as promised."""
        return self.check.ok if self.run is None else self.run.ok


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """What to report on.

    Attributes:
        board, board_file, options: of an archive; a project has its own.
        module: of an archive or project with several models.
        inputs, expect: see ``mlf_sdk.run``.
        with_run: boot the image and measure; else only what the linked image shows.
        with_profile: measure each step as well, where that is possible.
        timeout_s: for starting the image and all inferences together.
    """

    board: str | None = None
    board_file: PathLike | None = None
    module: str | None = None
    options: ProjectOptions | None = None
    platform: str | None = None
    zephyr: ZephyrSetup | None = None
    inputs: PathLike | Mapping[str, Array] | None = None
    expect: PathLike | Mapping[str, Array] | None = None
    with_run: bool = True
    with_profile: bool = True
    timeout_s: float = 120.0
    build_timeout_s: float = 600.0


def gather(target: PathLike, request: ReportRequest | None = None, *, say: Say = lambda _: None) -> Findings:
    """Build and run an archive or a project where needed, and gather what a report tells.

    Raises:
        InputError: bad arguments, archive, project or arrays.
        ToolError: a tool is missing or failed.
        TargetError: the target did not answer in time, or faulted.
    """
    return _Gatherer(Path(target), request or ReportRequest(), say).gather()


class _Gatherer:
    def __init__(self, path: Path, request: ReportRequest, say: Say) -> None:
        self._path = path
        self._request = request
        self._say = say
        self._is_project = (path / LOCK_NAME).is_file()

    def gather(self) -> Findings:
        folder = self._folder()
        lock = read_lock(folder)
        model = self._model(lock)
        not_run = self._why_not_run(lock)
        done = None if not_run else self._run()
        if done is None:
            self._say(f"building for {lock.board}")
            with exclusive(str(folder.resolve()), self._request.build_timeout_s):
                build(folder, timeout_s=self._request.build_timeout_s, zephyr=self._request.zephyr)
        measured, no_profile = (None, not_run) if not_run else self._profile()
        return self._findings(folder, lock, model, done, not_run, measured, no_profile)

    def _folder(self) -> Path:
        """The project: that of an archive is kept in the cache, as ``run`` keeps it."""
        if self._is_project:
            return self._path
        request = self._request
        self._say(f"reading {self._path.name}")
        plan = plan_project(
            [load(self._path, module=request.module)],
            board=request.board or DEFAULT_BOARD,
            board_file=request.board_file,
            options=request.options,
            platform=request.platform,
            zephyr=request.zephyr,
        )
        return cached_project(plan)

    def _model(self, lock: Lock) -> LockModel:
        wanted = self._request.module
        if not self._is_project or wanted is None:
            return lock.models[0]
        found = [m for m in lock.models if wanted in (m.name, m.c_name)]
        if not found:
            names = ", ".join(m.name for m in lock.models)
            raise InputError(
                f"the project has no model '{wanted}'", where=str(self._path), hint=f"It has: {names}."
            )
        return found[0]

    def _why_not_run(self, lock: Lock) -> str:
        if lock.options.app == "library":
            raise InputError(
                "the project is a library: it has no image to report on",
                where=str(self._path),
                hint="Report on the archive, or on a project that was generated without --library.",
            )
        if not self._request.with_run:
            return "it was not asked for"
        return (
            "" if lock.options.app == "rpc" else f"the application is {lock.options.app}: it takes no inputs"
        )

    def _run(self) -> RunReport:
        request = self._request
        return run(
            self._path,
            board=request.board,
            board_file=request.board_file,
            module=request.module,
            inputs=request.inputs,
            expect=request.expect,
            timeout_s=request.timeout_s,
            options=request.options,
            platform=request.platform,
            zephyr=request.zephyr,
            say=self._say,
        )

    def _profile(self) -> tuple[Profile | None, str]:
        """The profile, or why there is none."""
        request = self._request
        if not request.with_profile:
            return None, "it was not asked for"
        try:
            found = profile(
                self._path,
                board=request.board,
                board_file=request.board_file,
                module=request.module,
                inputs=request.inputs,
                options=request.options,
                platform=request.platform,
                zephyr=request.zephyr,
                timeout_s=request.timeout_s,
                say=self._say,
            )
        except (InputError, ToolError) as error:
            return None, error.what
        return found, ""

    def _findings(
        self,
        folder: Path,
        lock: Lock,
        model: LockModel,
        done: RunReport | None,
        not_run: str,
        measured: Profile | None,
        no_profile: str,
    ) -> Findings:
        board = project_board(folder, lock)
        elf, regions = image_path(folder, lock), _regions(folder, lock, board)
        image, sources = read_image(elf), read_sources(elf)
        contents = Contents(lock, image, sources)
        return Findings(
            lock=lock,
            model=model,
            board=board,
            check=done.check if done else check(folder),
            image=image,
            memories=memory_maps(contents, image, regions),
            code=contents.items(),
            firmware=read_firmware(elf.read_bytes(), str(elf)),
            run=done,
            not_run=not_run,
            profile=measured,
            no_profile=no_profile,
            examination=None if self._is_project else self._examination(board),
        )

    def _examination(self, board: Board) -> ArchiveExamination:
        """What is odd in the archive, and on the board where it has a row."""
        name = None if board.platform == ZEPHYR else board.name
        own = self._request.board_file
        return examine_archive(
            self._path, self._request.module, board=name, board_file=Path(own) if own else None
        )


def _regions(folder: Path, lock: Lock, board: Board) -> tuple[tuple[str, int, int], ...]:
    """Memories (name, origin, size in bytes) of the linked image."""
    if lock.platform == ZEPHYR:
        return map_regions(folder / "build" / "zephyr" / "zephyr.map")
    return regions_of(board)
