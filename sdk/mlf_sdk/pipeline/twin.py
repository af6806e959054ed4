# SPDX-License-Identifier: Apache-2.0
"""The twin of a run: the same model where no buffer shares memory, on this machine or on the board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mlf_sdk.errors import CodeError, InputError, MissingToolError, NotPossibleError, TargetError
from mlf_sdk.ir.model import UnitKind
from mlf_sdk.judge.evidence import BOARD_APART, HOST_GUARDED, HOST_SANITIZED
from mlf_sdk.pipeline import loading, stages
from mlf_sdk.pipeline.request import HOST, NO_PORT, Request

if TYPE_CHECKING:
    from mlf_sdk.judge.execute import Execution
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.tools.arrays import Array

_OPEN: Final[dict[str, Any]] = {
    "trust": None, "lock": None, "key": None, "monocypher": None, "model_version": 0
}  # fmt: skip
_OUTSIDE = "The archive's code writes outside of its tensors: export the model again, or report it there."


@dataclass(frozen=True, slots=True)
class Twin:
    """Outputs of the model in an image that shares no memory, by name, and the name of that evidence."""

    outputs: Mapping[str, Array]
    evidence: str


def twin_request(pipeline: Pipeline, request: Request) -> Request:
    """The same model on this machine.

    Raises:
        NotPossibleError: there can be no twin: the archive of a project is not there, machine code, or
            headers that only the target has.
        InputError: ``archive`` is given for a source that is one.
    """
    if stages.is_project(request):
        from mlf_sdk.pipeline.origin import archive_request

        request = archive_request(request)
    elif request.archive is not None:
        raise InputError("the source is an archive already", where="--archive", hint="Leave it out.")
    request = stages.for_core(request)
    for model in pipeline.models(request):
        linked = [unit for unit in model.units if unit.linked]
        if any(unit.kind is UnitKind.OBJECT for unit in linked):
            raise NotPossibleError("the archive holds machine code for the target: there is no host twin")
        if any(unit.kind is UnitKind.ASSEMBLY and not unit.clean for unit in linked):
            raise NotPossibleError("the archive holds assembly for the target: there is no host twin")
        if model.external_headers:
            raise NotPossibleError(f"its code needs {model.external_headers[0]}: there is no host twin")
    result = request.replace(board=HOST, board_file=None, platform=None, **NO_PORT)
    if request.frames and request.inputs is None:  # windows of a series, which no whole model asks for
        names = [tensor.name for tensor in pipeline.project(request).model.inputs]
        windows = dict(zip(names, pipeline.batch(request).arrays, strict=True))
        result = result.replace(inputs=windows)
    return without_memory_sharing(loading.without_rows(result))


def host_twin(pipeline: Pipeline, request: Request) -> tuple[Twin | None, str]:
    """Run the twin on this machine; returns and raises as `twin`."""
    try:
        twin = pipeline.twin_request(request)
        is_split = _is_split(pipeline, twin)
    except (NotPossibleError, CodeError, MissingToolError) as error:
        if request.archive is not None:
            raise
        return None, " ".join(filter(None, [f"{error.what}.", error.hint]))
    pipeline.progress.say("building and running the host twin")
    done = _checked(pipeline, twin, "the host twin")
    evidence = HOST_SANITIZED if done.stats.guards is None else HOST_GUARDED
    return _twin(pipeline, twin, _as_compiled(pipeline, twin, done) if is_split else done, evidence), ""


def _is_split(pipeline: Pipeline, request: Request) -> bool:
    """Return whether a model runs as steps that were found in its entry."""
    loaded = [[step.symbol for step in model.steps] for model in pipeline.models(request)]
    return loaded != [[s.symbol for s in one.model.own_steps] for one in pipeline.plan(request).layouts]


def _as_compiled(pipeline: Pipeline, twin: Request, steps: Execution) -> Execution:
    """Execute the entry that a twin's steps were found in; both must give the same outputs.

    Raises:
        TargetError: they do not.
    """
    done = _checked(pipeline, twin.replace(as_compiled=True), "the host twin of the entry")
    if any(a.tobytes() != b.tobytes() for a, b in zip(done.outputs, steps.outputs, strict=True)):
        raise TargetError(
            "its steps give other outputs than its main function",
            where=f"model {pipeline.project(twin).model.name}",
            hint="Run it as compiled: --as-compiled. Report this archive.",
        )
    return done


def board_twin(pipeline: Pipeline, request: Request, why: str) -> tuple[Twin | None, str]:
    """Run an image that shares no memory on the board of the request; ``why``: there is no host twin."""
    if stages.is_project(request) or request.plan == "none":
        return None, why
    try:
        twin = without_memory_sharing(request).replace(as_compiled=True)
        target = pipeline.project(twin).target
        if target.attached:
            return None, why
        pipeline.build(twin)
    except NotPossibleError as error:
        return None, f"{why} On the board: {error.what}"
    pipeline.progress.say(f"running an image that shares no memory on {target.name}")
    return _twin(pipeline, twin, _checked(pipeline, twin, "the image that shares no memory"), BOARD_APART), ""


def _twin(pipeline: Pipeline, request: Request, done: Execution, evidence: str) -> Twin:
    from mlf_sdk.judge.execute import outputs_by_name

    return Twin(outputs_by_name(pipeline.project(request).model, done), evidence)


def _checked(pipeline: Pipeline, twin: Request, name: str) -> Execution:
    """Execute a twin; a fault, or a write outside of a buffer, is reported as the twin's."""
    from mlf_sdk.judge.painted import guards_fault

    try:
        done = pipeline.execute(twin)
    except TargetError as error:
        error.what = f"{name}, in which each buffer has memory of its own: {error.what}"
        raise
    model = pipeline.project(twin).model
    if fault := guards_fault(model, done.stats):
        raise TargetError(f"{name}: {fault}", where=f"model {model.name}", hint=_OUTSIDE)
    return done


def without_memory_sharing(request: Request) -> Request:
    """Request for an image in which no buffer shares memory, and steps run in the archive's order."""
    return request.replace(executor="static", share_arena=False, plan="none", place=(), **_OPEN)
