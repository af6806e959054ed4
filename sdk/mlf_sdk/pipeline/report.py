# SPDX-License-Identifier: Apache-2.0
"""Facts of a report about one model on one board, gathered for ``mlf_sdk.reporting``."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.analysis.elf.image import Image, read_image
from mlf_sdk.analysis.elf.info import FirmwareInfo, read_firmware_info
from mlf_sdk.codegen.lock import Lock, LockModel
from mlf_sdk.errors import MissingToolError, NotPossibleError, TargetError
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.memorymap import CodeItem, Contents, MemoryMap, memory_maps
from mlf_sdk.judge.profile import Profile
from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.doctor import ArchiveExamination, examine_request
from mlf_sdk.pipeline.options import GatherOptions, ProfileOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.profile import profile_request
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.pipeline.run import run_request
from mlf_sdk.targets.boards.row import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Facts about one model on one board: plan, check, run and profile.

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
    firmware: FirmwareInfo
    run: RunReport | None
    not_run: str
    profile: Profile | None
    no_profile: str
    examination: ArchiveExamination | None

    @property
    def ok(self) -> bool:
        """Return whether the run succeeded, or the check of the image if nothing was run."""
        return self.check.ok if self.run is None else self.run.ok


def gather(request: Request, own: GatherOptions, pipeline: Pipeline) -> Findings:
    """Build and run an archive or a project where needed, and gather the facts of a report.

    Raises:
        InputError: bad arguments, archive, project or arrays.
        ToolError: a tool is missing or failed.
        TargetError: the target did not answer in time, or faulted.
    """
    project = pipeline.project(request)
    not_run = _why_not_run(project, own)
    if not not_run:
        pipeline.check_programs(request)
    built = pipeline.build(request)
    done = None if not_run else run_request(request, pipeline)
    if done is not None and done.other_image:
        raise TargetError(
            done.other_image,
            where=project.target.name,
            hint="A report shows an image: give the folder of the project that the board runs.",
        )
    measured, no_profile = (None, not_run) if not_run else _profiled(request, own, pipeline)
    target = project.target
    image = read_image(built.elf)
    contents = Contents(project.lock, image)
    return Findings(
        lock=project.lock,
        model=project.model,
        board=target.board,
        check=done.check if done else stages.check(project, strict=bool(request.strict)),
        image=image,
        memories=memory_maps(contents, image, target.regions(project.folder)),
        code=contents.items(),
        firmware=read_firmware_info(image.content, str(built.elf)),
        run=done,
        not_run=not_run,
        profile=measured,
        no_profile=no_profile,
        examination=None if project.is_given else examine_request(request, pipeline),
    )


def _why_not_run(project: TargetProject, own: GatherOptions) -> str:
    if not own.with_run:
        return "it was not asked for"
    app = project.lock.options.app
    return "" if app == "rpc" else f"the application is {app}: it takes no inputs"


def _profiled(request: Request, own: GatherOptions, pipeline: Pipeline) -> tuple[Profile | None, str]:
    """Return the profile, or the reason why there is none."""
    if not own.with_profile:
        return None, "it was not asked for"
    try:
        return profile_request(request, ProfileOptions(), pipeline), ""
    except (NotPossibleError, MissingToolError) as error:
        return None, error.what
