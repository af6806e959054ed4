# SPDX-License-Identifier: Apache-2.0
"""The main job: an archive or a project to a verified run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlf_sdk.codegen.changes import edited_files
from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import TargetError
from mlf_sdk.judge.check import FAILED, CheckReport
from mlf_sdk.judge.chiptime import chip_of, chip_time
from mlf_sdk.judge.compare import StepDifference, compare_outputs
from mlf_sdk.judge.data import Reference, accuracy
from mlf_sdk.judge.evidence import EXPECTED, combined
from mlf_sdk.judge.execute import Execution, outputs_by_name
from mlf_sdk.judge.instructions import counting
from mlf_sdk.judge.painted import check_of_marks, painted_rows, with_guards
from mlf_sdk.pipeline import execution, stages
from mlf_sdk.pipeline.cache import plugin_folder
from mlf_sdk.pipeline.execution import other_image
from mlf_sdk.pipeline.loading import with_section
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.results import MemoryFigures, RunReport, as_promised, is_exact
from mlf_sdk.pipeline.twin import Twin
from mlf_sdk.pipeline.witness import (
    RESET,
    Origin,
    first_wrong_inference,
    first_wrong_step,
    origin_of,
    statements_of,
    witnessed,
)
from mlf_sdk.targets.compilers import native_compiler
from mlf_sdk.tools.arrays import Array

if TYPE_CHECKING:
    from mlf_sdk.pipeline.arguments import Sources


def run(
    source: Sources,
    request: Request | None = None,
    *,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> RunReport:
    """Run an archive or a generated project, and compare outputs and memory with the expected ones.

    Args:
        source: an archive, or the folder of a project.
        request: prepared options.
        progress: called with each stage and its state.
        options: fields of `Request`; they win over ``request``.

    Returns:
        Outputs, comparisons and figures; ``ok`` when every comparison and every promise holds.

    Raises:
        InputError: bad arguments, archive, or arrays.
        ToolError: a tool is missing or failed.
        TargetError: the target did not answer in time, or faulted.
    """
    from mlf_sdk.pipeline.arguments import make_request

    return run_request(make_request(source, request, options), Pipeline(progress))


def run_request(request: Request, pipeline: Pipeline, given: Twin | None = None) -> RunReport:
    """Run one request on a pipeline; errors as in `run`.

    Args:
        given: a twin that ran elsewhere, on the same inputs; None: it runs here where it is wanted.
    """
    project = pipeline.project(request)
    stages.check_app(project)
    chip = chip_of(request.chip, project.target.board)
    origin = origin_of(request, project)
    batch = pipeline.batch(request)
    reference = execution.reference_of(request, project, batch.count)
    stages.check_start(project.target)
    pipeline.check_programs(request, twin=_wants_twin(request, project, reference))
    built = pipeline.build(request)
    checked = stages.check(project, strict=bool(request.strict))
    with counting(project.target, built.elf, plugin_folder()) as counter:
        with pipeline.open(request, must_build=True, emulator=counter.arguments) as target:
            device = target.session.info
            done = execution.execute(request, target, batch, pipeline.progress.count)
        counted = counter.of(done)
    unknown = other_image(device, built.elf) if project.target.attached else ""
    judge = check_of_marks if unknown else _with_measured
    checked = judge(checked, project.model, done)
    outputs = outputs_by_name(project.model, done)
    tolerance = execution.tolerance_of(request)
    twin, twin_note = given, ""
    if request.twin and project.target.is_host and request.plan == "none":
        twin_note = "the image itself shares no memory: its own outputs would be the reference"
    elif given is None and _wants_twin(request, project, reference):
        twin, twin_note = pipeline.twin(request)
    agrees = None if twin is None else compare_outputs(outputs, twin.outputs, tolerance)
    if agrees is not None and not agrees.ok and (why := _out_of_step(request, pipeline, project)):
        twin, agrees, twin_note = None, None, why
    pipeline.progress.say("asking the model's witnesses")
    said = statements_of(request, origin, project.model, batch)
    judged = witnessed(origin, said, outputs)
    wrong = first_wrong_inference(said, outputs) if judged.wrong else None
    return RunReport(
        model=project.model,
        board=project.target.board,
        folder=project.folder,
        build_id=device.build_id,
        outputs=outputs,
        inferences=batch.count,
        compare=compare_outputs(outputs, reference.outputs, tolerance) if reference.outputs else None,
        twin=agrees,
        twin_note=twin_note,
        evidence=combined(
            judged.evidence, EXPECTED if reference.outputs else "", twin.evidence if twin else ""
        ),
        twin_evidence=twin.evidence if twin else "",
        witnessed=judged,
        first=None if wrong is None else _first_step(request, pipeline, origin, batch.inputs(wrong)),
        accuracy=None if reference.labels is None else accuracy(list(done.outputs[0]), reference.labels),
        memory=_memory(project.model, done, checked, is_known=not unknown),
        check=checked,
        instructions=counted.each if counted else None,
        instructions_resolution=counted.resolution if counted else 0,
        instructions_range=(counted.least, counted.most) if counted else None,
        cycles=counted.cycles if counted else None,
        ticks=done.ticks,
        ticks_hz=done.ticks_hz,
        port=project.target.name if project.target.attached else None,
        other_image=unknown,
        edited=edited_files(project.folder) if project.is_given else (),
        build_seconds=built.seconds,
        toolchain=_toolchain_of(project),
        emulator="" if project.target.attached else project.target.emulator_title,
        console=done.console,
        chip=None
        if chip is None
        else chip_time(chip, project.target.board, project.model, counted.each if counted else None),
    )


def _toolchain_of(project: TargetProject) -> str:
    """The toolchain of a project; empty where it is not this SDK that chooses the compiler."""
    name = project.lock.options.toolchain if project.target.toolchain else ""
    return "" if project.target.is_host and not native_compiler(name) else name


def _out_of_step(request: Request, pipeline: Pipeline, project: TargetProject) -> str:
    """Reason why a twin starts with other states than a target has; empty: it does not."""
    if not project.target.attached:
        return ""
    models = pipeline.models(pipeline.twin_request(request))
    return RESET if any(model.states for model in models) else ""


def _first_step(
    request: Request, pipeline: Pipeline, origin: Origin, inputs: Sequence[Array]
) -> StepDifference | None:
    """The first step that differs from the reference; None where steps can't be observed."""
    if pipeline.project(request).is_given:  # it does not hold its archive
        return None
    pipeline.progress.say("looking for the first layer that differs from the reference")
    try:
        with pipeline.open(request) as target:
            model = with_section(request, pipeline.models(request))[0]
            return first_wrong_step(origin, model, target, inputs, request)
    except TargetError:
        return None


def _wants_twin(request: Request, project: TargetProject, reference: Reference) -> bool:
    if project.target.is_host:
        return request.twin is True
    return not reference.outputs if request.twin is None else request.twin


def _memory(model: LockModel, done: Execution, checked: CheckReport, *, is_known: bool) -> MemoryFigures:
    """Planned and measured memory; the marks of an image that is not known are held against no plan."""
    return MemoryFigures(
        exact=is_exact(model),
        arena_bytes=model.arena_bytes,
        lower_bound_bytes=model.lower_bound_bytes,
        arena_high_water_bytes=_arena_mark(model, done) if is_known else None,
        params_bytes=model.params_bytes,
        stack_bytes=done.stats.stack_bytes or checked.stack_bytes,
        stack_high_water_bytes=done.stats.stack_high_water_bytes,
    )


def _arena_mark(model: LockModel, done: Execution) -> int | None:
    if not model.arenas:
        return done.arena_high_water_bytes
    from mlf_sdk.judge.places import all_arenas_mark  # few models lie in several memories

    return all_arenas_mark(model, done)


def _with_measured(checked: CheckReport, model: LockModel, done: Execution) -> CheckReport:
    """The check with the measured marks in the rows of the arena and the stack."""
    arena = _arena_mark(model, done)
    good = as_promised(arena, model.arena_bytes, exact=is_exact(model))
    rows = []
    for row in painted_rows(checked, done.stats.stack_high_water_bytes):
        if row.item == "arena" and row.model == model.name:
            note = row.note or ("" if good else "measured is not what was planned")
            state = row.state if good else FAILED
            rows.append(dataclasses.replace(row, measured=arena, state=state, note=note))
        else:
            rows.append(row)
    if model.arenas:
        from mlf_sdk.judge.places import with_marks  # few models lie in several memories

        rows = with_marks(rows, model, done, exact=is_exact(model))
    return dataclasses.replace(checked, rows=with_guards(rows, model, done.stats))
