# SPDX-License-Identifier: Apache-2.0
"""Single stages as functions of the Python API: load, generate, build, check, open_session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlf_sdk.codegen.lock import Lock
from mlf_sdk.codegen.writer import write_project
from mlf_sdk.errors import InputError
from mlf_sdk.ir.model import Model
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.pipeline.arguments import Source, Sources, make_request
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.project import BuiltProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.targets.registry import resolve_target

if TYPE_CHECKING:
    from mlf_sdk.pipeline.execution import Console
    from mlf_sdk.pipeline.opentarget import OpenTarget
    from mlf_sdk.pipeline.sample import SampleOutputs


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedProject:
    """A project that was written.

    Attributes:
        folder: of the project.
        lock: its promises (mlf-project.json).
        kept: the user's files that were kept although a new project would differ.
        backups: copies (``NAME.orig``) of edited files that were replaced.
        samples: evidence for the outputs that the standalone application expects, of each model.
    """

    folder: Path
    lock: Lock
    kept: tuple[str, ...]
    backups: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()


def load(source: Source, **options: Any) -> Model:  # noqa: ANN401
    """Read an archive and build its model.

    Args:
        source: the archive, of any known format.
        options: fields of `Request` that the stage load reads, such as ``module``.

    Raises:
        ArchiveError: the archive is broken: all of its faults at once.
        InputError: no such file, an unknown format, or a module must be chosen.
    """
    return Pipeline().models(make_request(source, None, options))[0]


def generate(
    source: Sources,
    folder: Source,
    request: Request | None = None,
    *,
    force: bool = False,
    sample_outputs: bool = False,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> GeneratedProject:
    """Generate a complete C project in ``folder``; one image for all archives.

    Args:
        source: one archive, or several.
        folder: of the project: new, or one to renew; what the user edited is kept or refused.
        request: prepared options.
        force: replace generated files that were edited; each is kept as ``NAME.orig``.
        sample_outputs: the standalone application compares its outputs with those of the host twin, which is
            built and run for it.
        progress: called with each stage and its state.
        options: fields of `Request`.

    Raises:
        ChangedFilesError: generated files were edited, and ``force`` is not set.
        CheckError: ``sample_outputs``: they are not what the model's file means.
        InputError: bad archive or arguments, or no host twin for ``sample_outputs``.
    """
    made, pipeline = make_request(source, request, options), Pipeline(progress)
    plan = pipeline.plan(made)
    outputs: tuple[SampleOutputs, ...] = ()
    if sample_outputs:
        from mlf_sdk.pipeline.sample import outputs_for_sample

        outputs = outputs_for_sample(pipeline, made)
    progress.say(f"generating {folder}")
    written = write_project(plan.files(tuple(one.outputs for one in outputs)), Path(folder), force=force)
    resolve_target(plan.choice).remember(Path(folder))
    return GeneratedProject(
        folder=Path(folder),
        lock=plan.lock,
        kept=written.kept,
        backups=written.backups,
        samples=tuple(one.evidence for one in outputs),
    )


def build(
    folder: Source,
    request: Request | None = None,
    *,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> BuiltProject:
    """Build a generated project.

    Raises:
        InputError: no project, a library, or the image does not fit the board.
        ToolError: a tool is missing or failed.
    """
    made = make_request(folder, request, options)
    _check_is_project(made)
    return Pipeline(progress).build(made)


def check(
    source: Sources,
    request: Request | None = None,
    *,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> CheckReport:
    """Compare a linked image with its promises: symbols, sections, stack bound; nothing is run.

    With ``port`` the board there runs one inference, and its marks are compared as well.

    Raises:
        InputError: no project, or it is not built.
    """
    from mlf_sdk.pipeline.run import run_request

    made, pipeline = make_request(source, request, options), Pipeline(progress)
    _check_is_project(made)
    if made.port is not None:
        return run_request(made.replace(twin=False), pipeline).check
    return pipeline.check(made)


@contextmanager
def open_session(
    source: Sources,
    request: Request | None = None,
    *,
    console: Console | None = None,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> Iterator[OpenTarget]:
    """Open a model on a target: ``with open_session("digits.tar", board="host") as model: model.infer(x)``.

    Args:
        source: an archive, or the folder of a project.
        request: prepared options.
        console: called with each piece of text that the target prints.
        progress: called with each stage and its state.
        options: fields of `Request`; ``port`` names a board that runs the image already.

    Raises:
        InputError: bad archive, project or arguments.
        ToolError: a tool is missing or failed.
        TargetError: the target did not answer in time, or holds another model.
    """
    with Pipeline(progress).open(make_request(source, request, options), console) as opened:
        yield opened


def _check_is_project(request: Request) -> None:
    from mlf_sdk.pipeline.stages import is_project

    if not is_project(request):
        raise InputError(
            "no generated project here (mlf-project.json is missing)",
            where=", ".join(request.source),
            hint="Make one with: mlf-sdk generate ARCHIVE -o DIR --board BOARD",
        )
