# SPDX-License-Identifier: Apache-2.0
"""Facts of a report about one model on one board, gathered for ``mlf_sdk.reporting``."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.analysis.elf.info import FirmwareInfo, read_firmware_info
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.codegen.lock import Lock, LockModel
from mlf_sdk.errors import MissingToolError, MlfError, NotPossibleError, TargetError
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.layerfacts import FileFacts, file_facts
from mlf_sdk.judge.memorymap import CodeItem, Contents, MemoryMap, memory_maps
from mlf_sdk.judge.profile import Profile
from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.chipfit import ChipFit, chip_fit
from mlf_sdk.pipeline.doctor import ArchiveExamination, examine_request
from mlf_sdk.pipeline.options import GatherOptions, ProfileOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.profile import profile_request
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.pipeline.run import run_request
from mlf_sdk.pipeline.sources import KernelSource, kernel_sources
from mlf_sdk.pipeline.witness import origin_of, prepared
from mlf_sdk.planner.uses import MemoryUse, uses_of
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
        layers: of the file that the model was compiled from; None where it is not at hand, and
            ``no_layers`` says why.
        kernels: C source of each step's function, by its symbol.
        chip: that the image is held against; None: its memories are not known, or no chip fits.
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
    layers: FileFacts | None = None
    no_layers: str = ""
    kernels: dict[str, KernelSource] = field(default_factory=dict)
    chip: ChipFit | None = None
    uses: tuple[MemoryUse, ...] = ()

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
    memories = memory_maps(contents, image, target.regions(project.folder))
    layers, no_layers = _layers(request, project, pipeline)
    return Findings(
        lock=project.lock,
        model=project.model,
        board=target.board,
        check=done.check if done else stages.check(project, strict=bool(request.strict)),
        image=image,
        memories=memories,
        code=contents.items(),
        firmware=read_firmware_info(image.content, str(built.elf)),
        run=done,
        not_run=not_run,
        profile=measured,
        no_profile=no_profile,
        examination=None if project.is_given else examine_request(request, pipeline),
        layers=layers,
        no_layers=no_layers,
        kernels=kernel_sources(project.folder, project.model),
        chip=chip_fit(
            request.chip, target.board, project.model, memories, done.instructions if done else None
        ),
        uses=_uses(request, project, pipeline),
    )


def _uses(request: Request, project: TargetProject, pipeline: Pipeline) -> tuple[MemoryUse, ...]:
    """Return what of the model lies in each of several memories; a project's folder has no traffic."""
    if project.is_given or not project.model.arenas:
        return ()
    number = project.lock.models.index(project.model)
    return uses_of(pipeline.plan(request).layouts[number])


def _layers(request: Request, project: TargetProject, pipeline: Pipeline) -> tuple[FileFacts | None, str]:
    """Return what the model's file says of its layers, or the reason why that is not known."""
    origin = origin_of(request, project)
    if origin.file is None:
        return None, origin.why or "it came compiled, without the file that it was made from"
    try:
        return file_facts(
            origin.file, prepared(project.model.preprocessing, pipeline.batch(request)).inputs(0)
        ), ""
    except MlfError as error:
        return None, error.what


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
