# SPDX-License-Identifier: Apache-2.0
"""Many cases on one target: each inference against its reference, and all of them against an accuracy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.compare import Comparison, Tolerance, compare_outputs, differences_text
from mlf_sdk.judge.data import LABEL_KEY, Batch, Reference, class_of, match_inputs, match_reference
from mlf_sdk.judge.evidence import EXPECTED, NO_EVIDENCE, combined
from mlf_sdk.judge.painted import GuardError, with_guards
from mlf_sdk.judge.witnessed import Witnessed
from mlf_sdk.pipeline import execution, stages
from mlf_sdk.pipeline.arguments import Source, Sources, make_request
from mlf_sdk.pipeline.opentarget import OpenTarget
from mlf_sdk.pipeline.options import CasesOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.witness import WitnessedCases, origin_of, statements_of
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire.codes import DeviceError
from mlf_sdk.wire.device import Stats

Outcome = Literal["passed", "ran", "failed", "error", "skipped"]
OUTCOMES: tuple[Outcome, ...] = ("passed", "ran", "failed", "error", "skipped")
Count = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One inference.

    Attributes:
        index: of the inference.
        outcome: ``failed``: the answer is wrong, or the model wrote outside of its memory; ``error``: there
            is no answer; ``skipped``: the target was dead; ``ran``: it has an answer that only counts for the
            accuracy.
        why: what is wrong; empty when it passed.
        label, got: class that was expected, and that the target gave; None where no labels were given.
        comparison: with the reference outputs, where they were given.
    """

    name: str
    index: int
    outcome: Outcome
    why: str = ""
    seconds: float = 0.0
    label: int | None = None
    got: int | None = None
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesReport:
    """Results of all cases.

    Attributes:
        check: of the project's image against its promises; None: a board on a port runs an image of its own.
        build_id: of the image that answered, in hex; empty: not reported.
        accuracy: share of right classes among the answers; None without labels or answers. It is no case.
        accuracy_why: why the accuracy that was asked for is not reached; empty when it is.
        error: why the target died; None when it did not.
        witnessed: all answers against what the model file means, by each witness.
        evidence: what the outputs were compared with (`mlf_sdk.judge.groups`).
    """

    model: LockModel
    board: Board
    port: str | None
    check: CheckReport | None
    build_id: str
    cases: tuple[Case, ...]
    accuracy: float | None
    min_accuracy: float | None
    accuracy_why: str
    seconds: float
    console: str
    error: TargetError | None
    witnessed: Witnessed = field(default_factory=Witnessed)
    evidence: str = NO_EVIDENCE

    def count(self, outcome: Outcome) -> int:
        """Count the cases with an outcome."""
        return sum(case.outcome == outcome for case in self.cases)

    @property
    def ok(self) -> bool:
        """Return whether the target did not fail, no case failed, and accuracy and image are as promised."""
        good = all(case.outcome in ("passed", "ran") for case in self.cases) and not self.accuracy_why
        return self.error is None and good and (self.check is None or self.check.ok)


def test(
    source: Sources,
    cases: Source | Mapping[str, Array],
    request: Request | None = None,
    *,
    min_accuracy: float | None = None,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> CasesReport:
    """Run every case of ``cases`` on one target.

    Each inference is a case: with reference outputs its outputs must agree; with labels alone its class must
    be its label, or with ``min_accuracy`` only the share of right classes is judged.

    Args:
        source: an archive, or the folder of a project.
        cases: npz file or arrays: inputs by name, expected outputs by name or number, ``label`` for classes.
        request: prepared options.
        min_accuracy: least share of right classes, 0 to 1.
        progress: called with each stage and its state.
        options: fields of `Request`.

    Raises:
        InputError: bad arguments, archive, or arrays.
        ToolError: a tool is missing or failed.
        TargetError: the target never answered. One that dies later ends up in the report.
    """
    own = CasesOptions(cases=cases if isinstance(cases, Mapping) else str(cases), min_accuracy=min_accuracy)
    return test_request(make_request(source, request, options), own, Pipeline(progress))


def test_request(request: Request, own: CasesOptions, pipeline: Pipeline) -> CasesReport:
    """Run cases on a pipeline; errors as in `test`."""
    project = pipeline.project(request)
    stages.check_app(project)
    origin = origin_of(request, project)
    arrays, where = execution.arrays_of(own.cases, "cases")
    names = {tensor.name for tensor in project.model.inputs}
    batch = match_inputs(
        project.model, {k: a for k, a in arrays.items() if k in names or not k.isdigit()}, where
    )
    reference = match_reference(project.model, arrays, batch.count, where)
    if own.min_accuracy is not None and reference.labels is None:
        raise InputError(
            "an accuracy needs the right classes",
            where=where,
            hint="Add an array 'label' with one class for each inference, or leave out --min-accuracy.",
        )
    if own.min_accuracy is not None:  # then 'label' is the right classes alone, not an output of that name
        outputs = {name: array for name, array in reference.outputs.items() if name != LABEL_KEY}
        reference = replace(reference, outputs=outputs)
    pipeline.progress.say("asking the model's witnesses")
    witnesses = WitnessedCases(origin, statements_of(request, origin, project.model, batch))
    runner = _Cases(project, batch, reference, execution.tolerance_of(request), own.min_accuracy, witnesses)
    start = time.monotonic()
    with pipeline.open(request) as target:
        runner.run(target, project.target.limit_s(request.timeout_s), pipeline.progress.count)
    port = project.target.name if project.target.attached else None
    return runner.report(port, _check(request, project), time.monotonic() - start)


def _check(request: Request, project: TargetProject) -> CheckReport | None:
    if project.target.attached and not project.is_given:
        return None
    return stages.check(project, strict=request.strict is not False)


class _Cases:
    def __init__(
        self,
        project: TargetProject,
        batch: Batch,
        reference: Reference,
        tolerance: Tolerance,
        min_accuracy: float | None,
        witnesses: WitnessedCases,
    ) -> None:
        self.witnesses = witnesses
        self.project = project
        self.batch = batch
        self.reference = reference
        self.tolerance = tolerance
        self.min_accuracy = min_accuracy
        self.by_class = not reference.outputs and min_accuracy is None
        self.cases: list[Case] = []
        self.error: TargetError | None = None
        self.console = ""
        self.build_id = ""
        self.stats: Stats | None = None

    def run(self, model: OpenTarget, timeout_s: float, count: Count) -> None:
        self.build_id = model.build_id
        for index in range(self.batch.count):
            if self.error is not None:
                self._add(index, "skipped", f"the target died in an earlier case: {self.error.what}")
                continue
            start = time.monotonic()
            damage = ""
            try:
                outputs = model.infer_one(self.batch, index, timeout_s)
            except GuardError as error:
                damage, outputs = error.what, error.outputs
            except TargetError as error:
                self._add(index, "error", str(error), seconds=time.monotonic() - start)
                self.error = None if isinstance(error, DeviceError) else error
                continue
            if self.stats is None or self.stats.written_guard is None:  # the first damage is the row's
                self.stats = model.stats
            self._judge(index, outputs, time.monotonic() - start, damage)
            count(index + 1, self.batch.count)
        self.console = model.console_text

    def _judge(self, index: int, outputs: list[Array], seconds: float, damage: str) -> None:
        expected = {name: array[index : index + 1] for name, array in self.reference.outputs.items()}
        got = {t.name: a[np.newaxis] for t, a in zip(self.project.model.outputs, outputs, strict=True)}
        comparison = compare_outputs(got, expected, self.tolerance) if expected else None
        label = None if self.reference.labels is None else int(self.reference.labels[index])
        result = None if label is None else class_of(outputs[0])
        why = "" if comparison is None or comparison.ok else differences_text(comparison)
        if self.by_class and result != label:
            why = f"its class is {result}, not {label}"
        witnesses = self.witnesses.judge(index, got)
        meant = f"it differs from what the model means ({witnesses})" if witnesses else ""
        why = "; ".join(text for text in (damage, why, meant) if text)
        judged = comparison is not None or self.by_class
        self._add(
            index,
            "failed" if why else "passed" if judged else "ran",
            why,
            seconds=seconds,
            label=label,
            got=result,
            comparison=comparison,
        )

    def _add(self, index: int, outcome: Outcome, why: str, **figures: Any) -> None:  # noqa: ANN401
        """Add a case; ``figures`` are further fields of it."""
        width = len(str(max(self.batch.count - 1, 0)))
        name = f"case {index:0{width}}"
        self.cases.append(Case(name=name, index=index, outcome=outcome, why=why, **figures))

    def report(self, port: str | None, check: CheckReport | None, seconds: float) -> CasesReport:
        answered = [case for case in self.cases if case.got is not None]
        accuracy = sum(c.got == c.label for c in answered) / len(answered) if answered else None
        if check is not None and self.stats is not None:
            check = replace(check, rows=with_guards(check.rows, self.project.model, self.stats))
        return CasesReport(
            model=self.project.model,
            board=self.project.target.board,
            port=port,
            check=check,
            build_id=self.build_id,
            cases=tuple(self.cases),
            accuracy=accuracy,
            min_accuracy=self.min_accuracy,
            accuracy_why=self._accuracy_why(accuracy, len(answered)),
            seconds=seconds,
            console=self.console,
            error=self.error,
            witnessed=(witnessed := self.witnesses.result()),
            evidence=combined(witnessed.evidence, EXPECTED if self.reference.outputs else ""),
        )

    def _accuracy_why(self, accuracy: float | None, answered: int) -> str:
        if self.min_accuracy is None:
            return ""
        if accuracy is None or answered < self.batch.count:
            return f"only {answered} of {self.batch.count} inferences have an answer"
        return "" if accuracy >= self.min_accuracy else f"{accuracy:.4f} is below {self.min_accuracy:g}"
