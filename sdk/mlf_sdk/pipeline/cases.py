# SPDX-License-Identifier: Apache-2.0
"""Many cases on one target: each inference against its reference, or all of them against an accuracy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.judge.compare import Comparison, Tolerance, compare_outputs
from mlf_sdk.judge.data import Batch, Reference, match_inputs, match_reference, read_npz
from mlf_sdk.pipeline.deploy import Deployed, Prepared, Say, deployed, prepare
from mlf_sdk.pipeline.project import PathLike
from mlf_sdk.pipeline.results import Array
from mlf_sdk.targets.boards.load import Board
from mlf_sdk.targets.serial.session import PortChoice
from mlf_sdk.wire.deadline import Deadline
from mlf_sdk.wire.errors import DeviceError

Outcome = Literal["passed", "failed", "error", "skipped"]
OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "error", "skipped")
Count = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One inference, or the accuracy of all.

    Attributes:
        index: of the inference; None: this is the accuracy.
        outcome: ``failed``: the answer is wrong; ``error``: there is none; ``skipped``: the target was dead.
        why: what is wrong; empty when it passed.
        label, got: class that was expected, and that the target gave; None where no labels were given.
        comparison: with the reference outputs, where they were given.
    """

    name: str
    index: int | None
    outcome: Outcome
    why: str = ""
    seconds: float = 0.0
    label: int | None = None
    got: int | None = None
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesReport:
    """What all cases showed.

    Attributes:
        accuracy: share of right classes among the answers; None without labels or answers.
        error: why the target died; None when it did not.
    """

    model: LockModel
    board: Board
    port: str | None
    cases: tuple[Case, ...]
    accuracy: float | None
    min_accuracy: float | None
    seconds: float
    console: str
    error: TargetError | None

    def count(self, outcome: Outcome) -> int:
        """How many cases ended like this."""
        return sum(case.outcome == outcome for case in self.cases)

    @property
    def ok(self) -> bool:
        """Whether every case passed."""
        return self.error is None and all(case.outcome == "passed" for case in self.cases)


def run_cases(  # noqa: PLR0913 (one keyword for each thing a person may choose)
    target: PathLike,
    cases: PathLike | Mapping[str, Array],
    *,
    board: str | None = None,
    board_file: PathLike | None = None,
    port: PortChoice | str | None = None,
    module: str | None = None,
    tolerance: Tolerance | None = None,
    min_accuracy: float | None = None,
    timeout_s: float = 120.0,
    options: ProjectOptions | None = None,
    say: Say = lambda _: None,
    count: Count = lambda _done, _total: None,
) -> CasesReport:
    """Run every case of ``cases`` on one target.

    With reference outputs each inference is a case; with ``min_accuracy`` the accuracy is one; with labels
    alone the class of each inference must be its label.

    Args:
        target: an archive, or the folder of a project.
        cases: npz file or arrays: inputs by name, expected outputs by name or number, ``label`` for classes.
        port: where a board answers that holds the model; None: the board is started here.
        timeout_s: for starting and all inferences together.

    Raises:
        InputError: bad arguments, archive, or arrays.
        ToolError: a tool is missing or failed.
        TargetError: the target never answered. One that dies later ends up in the report.
    """
    prepared = prepare(target, board=board, board_file=board_file, module=module, options=options)
    arrays = cases if isinstance(cases, Mapping) else read_npz(Path(cases))
    where = "cases" if isinstance(cases, Mapping) else str(cases)
    names = {tensor.name for tensor in prepared.model.inputs}
    inputs = {k: a for k, a in arrays.items() if k in names or not k.isdigit()}
    batch = match_inputs(prepared.model, inputs, where)
    reference = match_reference(prepared.model, arrays, batch.count, where)
    if min_accuracy is not None and reference.labels is None:
        raise InputError(
            "an accuracy needs the right classes",
            where=where,
            hint="Add an array 'label' with one class for each inference, or leave out --min-accuracy.",
        )
    runner = _Cases(prepared, batch, reference, tolerance or Tolerance(), min_accuracy)
    start = time.monotonic()
    with deployed(prepared, port=port, timeout_s=timeout_s, say=say) as model:
        runner.run(model, Deadline.after(timeout_s), count)
    spec = port.spec if isinstance(port, PortChoice) else port
    return runner.report(spec, time.monotonic() - start)


class _Cases:
    def __init__(
        self,
        prepared: Prepared,
        batch: Batch,
        reference: Reference,
        tolerance: Tolerance,
        min_accuracy: float | None,
    ) -> None:
        self.prepared = prepared
        self.batch = batch
        self.reference = reference
        self.tolerance = tolerance
        self.min_accuracy = min_accuracy
        self.by_class = not reference.outputs and min_accuracy is None
        self.cases: list[Case] = []
        self.error: TargetError | None = None
        self.console = ""

    def run(self, model: Deployed, deadline: Deadline, count: Count) -> None:
        for index in range(self.batch.count):
            if self.error is not None:
                self._add(index, "skipped", f"the target died in an earlier case: {self.error.what}")
                continue
            start = time.monotonic()
            try:
                outputs = model.infer_one(self.batch, index, deadline)
            except TargetError as error:
                self._add(index, "error", str(error), seconds=time.monotonic() - start)
                self.error = None if isinstance(error, DeviceError) else error
                continue
            self._judge(index, outputs, time.monotonic() - start)
            count(index + 1, self.batch.count)
        self.console = model.console_text

    def _judge(self, index: int, outputs: list[Array], seconds: float) -> None:
        expected = {name: array[index : index + 1] for name, array in self.reference.outputs.items()}
        got = {t.name: a[np.newaxis] for t, a in zip(self.prepared.model.outputs, outputs, strict=True)}
        comparison = compare_outputs(got, expected, self.tolerance) if expected else None
        label = None if self.reference.labels is None else int(self.reference.labels[index])
        found = None if label is None else int(np.argmax(outputs[0]))
        why = "" if comparison is None or comparison.ok else _difference(comparison)
        if self.by_class and found != label:
            why = f"its class is {found}, not {label}"
        self._add(
            index,
            "failed" if why else "passed",
            why,
            seconds=seconds,
            label=label,
            got=found,
            comparison=comparison,
        )

    def _add(
        self,
        index: int,
        outcome: Outcome,
        why: str = "",
        *,
        seconds: float = 0.0,
        label: int | None = None,
        got: int | None = None,
        comparison: Comparison | None = None,
    ) -> None:
        width = len(str(max(self.batch.count - 1, 0)))
        self.cases.append(
            Case(
                name=f"case {index:0{width}}",
                index=index,
                outcome=outcome,
                why=why,
                seconds=seconds,
                label=label,
                got=got,
                comparison=comparison,
            )
        )

    def report(self, port: str | None, seconds: float) -> CasesReport:
        answered = [case for case in self.cases if case.got is not None]
        accuracy = sum(c.got == c.label for c in answered) / len(answered) if answered else None
        cases = list(self.cases)
        if self.min_accuracy is not None:
            cases.append(self._accuracy_case(accuracy, len(answered)))
        return CasesReport(
            model=self.prepared.model,
            board=self.prepared.board,
            port=port,
            cases=tuple(cases),
            accuracy=accuracy,
            min_accuracy=self.min_accuracy,
            seconds=seconds,
            console=self.console,
            error=self.error,
        )

    def _accuracy_case(self, accuracy: float | None, answered: int) -> Case:
        wanted = self.min_accuracy or 0.0
        if answered < self.batch.count:
            why = f"only {answered} of {self.batch.count} inferences have an answer"
            return Case(name="accuracy", index=None, outcome="error", why=why)
        good = accuracy is not None and not math.isnan(accuracy) and accuracy >= wanted
        why = "" if good else f"{accuracy:.4f} is below {wanted:g}"
        return Case(name="accuracy", index=None, outcome="passed" if good else "failed", why=why)


def _difference(found: Comparison) -> str:
    parts = [
        f"'{o.name}' differs in {o.mismatches} of {o.elements} elements "
        f"(max {o.max_abs:.3g}, relative {o.max_rel:.3g})"
        for o in found.outputs
        if o.mismatches
    ]
    return "; ".join(parts)
