# SPDX-License-Identifier: Apache-2.0
"""The file that a model was compiled from, found and checked, and its witnesses on a batch of inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.ir.model import OWN_COMPILER, FileDigest, Model
from mlf_sdk.ir.tensor import Preprocessing
from mlf_sdk.judge.compare import Comparison, OutputDifference, StepDifference
from mlf_sdk.judge.data import Batch
from mlf_sdk.judge.witnessed import Witnessed, WitnessResult
from mlf_sdk.judge.witnesses.panel import Hearing, WitnessStatement, hear
from mlf_sdk.judge.witnesses.reference import REFERENCE
from mlf_sdk.judge.witnesses.witness import ModelFile, Supply
from mlf_sdk.pipeline import execution, loading
from mlf_sdk.pipeline.opentarget import OpenTarget
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire.transport import Deadline

if TYPE_CHECKING:
    from mlf_sdk.compiler.graph import Graph

RAN_BEFORE: Final = "the model keeps states, and the board was not started for these inferences"
RESET: Final = f"{RAN_BEFORE}: reset the board"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The file that a model was compiled from.

    Attributes:
        needed: the model was compiled here.
        file: None where it is not at hand; ``why`` says it.
        out_of_step: reason why the target may have other states than one that starts now; empty: it has none.
    """

    needed: bool
    file: ModelFile | None = None
    why: str = ""
    out_of_step: str = ""

    @property
    def keeps_states(self) -> bool:
        """True where an inference depends on those before it; a file that can't be read keeps none."""
        try:
            return self.file is not None and bool(self.file.graph.states)
        except MlfError:
            return False  # each witness says so itself


def origin_of(request: Request, project: TargetProject, flag: str = "--model") -> Origin:
    """Find the file that the request's model was compiled from; arguments and errors as in `_origin_of`.

    A board on a port may have run the model before: where it keeps states, outputs that differ from those of
    a fresh start prove nothing.
    """
    result = _origin_of(request, project, flag)
    is_apart = project.target.attached and result.keeps_states
    return dataclasses.replace(result, out_of_step=RESET) if is_apart else result


def _origin_of(request: Request, project: TargetProject, flag: str) -> Origin:
    """Find the file that the request's model was compiled from.

    It is the source itself; else that of ``model_file``; else the project's ``archive`` or a file of the
    recorded name beside the source or in the current folder, if it has the recorded hash.

    Args:
        request: whose source was compiled, or holds what was.
        project: of the request.
        flag: option by which a person gives ``model_file``.

    Raises:
        InputError: ``model_file`` is another file than the recorded one, or none is recorded.
    """
    model = project.model
    if not project.is_given and loading.compiled_sources(request):
        return Origin(needed=True, file=_model_file(request, Path(request.source[0]), model))
    needed = model.compiler == OWN_COMPILER
    if request.model_file is not None:
        path = Path(request.model_file)
        _check_same(path, model, request.source[0], flag)
        return Origin(needed=True, file=_model_file(request, path, model))
    if not needed or model.made_from is None:
        return Origin(needed=needed, why="it does not say which file it was made from" if needed else "")
    near = _files_near(request.source[0], model.made_from, request.archive)
    result = next((path for path in near if _is_same(path, model.made_from)), None)
    if result is not None:
        return Origin(needed=True, file=_model_file(request, result, model))
    name = Path(model.made_from.name).name
    others = [str(path) for path in near if path.name == name]
    changed = f"; {others[0]} is another one, or was changed since" if others else ""
    return Origin(needed=True, why=f"{flag} FILE names the file that it was made from ({name}){changed}")


def file_beside(source: str, made_from: FileDigest | None) -> Path | None:
    """The model file beside an archive or a project, or in the current folder: by its name and hash."""
    if made_from is None:
        return None
    return next((path for path in _files_near(source, made_from) if _is_same(path, made_from)), None)


def _files_near(source: str, made_from: FileDigest, archive: str | None = None) -> list[Path]:
    """The archive of a project, if it was given, and files of the recorded name."""
    beside = (folder / Path(made_from.name).name for folder in (Path(source).resolve().parent, Path()))
    given = [] if archive is None else [Path(archive)]
    return [path for path in (*given, *beside) if path.is_file()]


def _model_file(request: Request, path: Path, model: LockModel) -> ModelFile:
    options = CompileOptions.from_texts(model.compile_options)
    return ModelFile(path, compiling_frontend(path), options, partial(_code_of, request.timeout_s))


def _code_of(timeout_s: float, graph: Graph) -> AbstractContextManager[Supply]:
    from mlf_sdk.pipeline.supplied import code_of  # few models have custom operators

    return code_of(timeout_s, graph)


def _is_same(path: Path, made_from: FileDigest) -> bool:
    try:
        return compiling_frontend(path).digest(path).sha256 == made_from.sha256
    except (MlfError, OSError):
        return False  # a file of the same name, of another kind


def _check_same(path: Path, model: LockModel, source: str, flag: str) -> None:
    if model.made_from is None:
        raise InputError(
            f"{source} does not say which file it was made from",
            where=flag,
            hint=f"Give the model itself as the source, or leave {flag} out.",
        )
    result = compiling_frontend(path).digest(path)
    if result.sha256 != model.made_from.sha256:
        raise InputError(
            f"{source} was made from another file: {model.made_from.name} with SHA-256 "
            f"{model.made_from.sha256[:16]}..., not {result.sha256[:16]}...",
            where=f"{flag} {path}",
            hint="Give the file that it was compiled from, or compile this one.",
        )


def statements_of(
    request: Request, origin: Origin, model: LockModel, batch: Batch
) -> tuple[WitnessStatement, ...]:
    """Outputs of all witnesses for a batch; none without the model file."""
    if origin.file is None:
        return ()
    return hear(origin.file, prepared(model.preprocessing, batch), hearing_of(request, model))


def prepared(preprocessing: Preprocessing | None, batch: Batch) -> Batch:
    """Inputs as the model's file takes them: those that a step of the target prepares are prepared here."""
    if preprocessing is None or not preprocessing.is_step:
        return batch
    from mlf_sdk.compiler.preprocess.plan import preprocessed

    arrays = list(batch.arrays)
    raw = arrays[preprocessing.input]
    arrays[preprocessing.input] = np.stack([preprocessed(preprocessing, one) for one in raw])
    return dataclasses.replace(batch, arrays=tuple(arrays))


def hearing_of(request: Request, model: LockModel) -> Hearing:
    """Question of a request to the witnesses of its model."""
    return Hearing(
        names=[tensor.name for tensor in model.outputs],
        tolerance=execution.tolerance_of(request),
        seconds=request.witness_s,
        timeout_s=request.timeout_s,
    )


def witnessed(
    origin: Origin, statements: Sequence[WitnessStatement], outputs: Mapping[str, Array]
) -> Witnessed:
    """Compare outputs, each (inferences, *shape), with what witnesses say."""
    return witnessed_of(origin, statements, [one.compare(outputs) for one in statements])


class WitnessedCases:
    """Inferences that are judged one by one, against what witnesses say of each.

    Args:
        origin: the model file.
        statements: statements about all inferences.
    """

    def __init__(self, origin: Origin, statements: Sequence[WitnessStatement]) -> None:
        self._origin, self._found = origin, statements
        self._differences: list[list[OutputDifference]] = [[] for _ in statements]

    def judge(self, index: int, got: Mapping[str, Array]) -> str:
        """Compare the outputs of an inference, each (1, *shape); names of witnesses that they differ from."""
        wrong: list[str] = []
        for one, kept in zip(self._found, self._differences, strict=True):
            if index >= one.inferences:
                continue
            compared = one.at(index).compare(got)
            if compared is not None:
                kept.extend(compared.outputs)
                wrong += [] if compared.ok else [one.witness]
        return "" if self._origin.out_of_step else ", ".join(wrong)

    def result(self) -> Witnessed:
        """All inferences that were judged."""
        compared = [Comparison(outputs=tuple(kept)) if kept else None for kept in self._differences]
        return witnessed_of(self._origin, self._found, compared)


def first_wrong_step(
    origin: Origin, model: Model, target: OpenTarget, inputs: Sequence[Array], request: Request
) -> StepDifference | None:
    """Find the first step on a target whose outputs are not those of the reference.

    Args:
        inputs: of one inference.
        request: its timeout and tolerances.

    Raises:
        TargetError: steps can't be observed, or a step failed.
    """
    if origin.file is None:
        return None
    from mlf_sdk.judge.bisect import Observer, first_difference
    from mlf_sdk.judge.witnesses.steps import ReferenceSteps

    deadline = Deadline.after(request.timeout_s)
    observer = Observer(target.session, target.info, model, inputs, deadline)
    batch = Batch(arrays=tuple(array[np.newaxis] for array in inputs), count=1)
    inputs = prepared(model.preprocessing, batch).inputs(0)
    reference = ReferenceSteps(origin.file, model, inputs, observer.order)
    return first_difference(reference, observer, model, execution.tolerance_of(request))


def first_wrong_inference(result: Sequence[WitnessStatement], outputs: Mapping[str, Array]) -> int | None:
    """Index of the first inference that differs from the reference; None: none does."""
    for one in result:
        if one.witness != REFERENCE:
            continue
        for index in range(one.inferences):
            got = {name: array[index : index + 1] for name, array in outputs.items()}
            compared = one.at(index).compare(got)
            if compared is not None and not compared.ok:
                return index
    return None


def witnessed_of(
    origin: Origin, outcome: Sequence[WitnessStatement], compared: Sequence[Comparison | None]
) -> Witnessed:
    """Join statements of witnesses and the comparisons with them.

    Of a target that may be out of step only outputs that agree are a comparison.
    """
    if origin.out_of_step and not all(comparison is None or comparison.ok for comparison in compared):
        outcome = [dataclasses.replace(one, outputs={}, why=one.why or origin.out_of_step) for one in outcome]
        compared = [None] * len(outcome)
    results = tuple(
        WitnessResult(witness=one.witness, text=one.text, comparison=comparison, why=one.why)
        for one, comparison in zip(outcome, compared, strict=True)
    )
    speaking = [one for one in outcome if one.outputs]
    left = [one.uncovered for one in speaking]
    is_wrong = any(result.comparison and not result.comparison.ok for result in results)
    return Witnessed(
        needed=origin.needed,
        results=results,
        uncovered=tuple(step for step in left[0] if all(step in one for one in left)) if left else (),
        steps=len(origin.file.graph.operators) if speaking and origin.file is not None else 0,
        why=origin.why,
        disagreement=disagreement(speaking) if is_wrong else "",
    )


def disagreement(difference: Sequence[WitnessStatement]) -> str:
    """Pairs of witnesses that contradict each other."""
    said = []
    for one, other in combinations(difference, 2):
        count = min(one.inferences, other.inferences)
        names = [name for name in one.outputs if name in other.outputs]
        mine, theirs = _part(one, names, count), _part(other, names, count)
        differences = [mine.compare(theirs.outputs), theirs.compare(mine.outputs)]
        if all(
            difference is not None and not difference.ok for difference in differences
        ):  # by the looser tolerance
            said.append(f"{one.witness} and {other.witness} contradict each other")
    return "; ".join(said)


def _part(statement: WitnessStatement, names: Sequence[str], count: int) -> WitnessStatement:
    outputs = {name: statement.outputs[name][:count] for name in names}
    return dataclasses.replace(statement, outputs=outputs, inferences=count)
