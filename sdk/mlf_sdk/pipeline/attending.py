# SPDX-License-Identifier: Apache-2.0
"""Witnesses beside an open target: each of its inferences is compared when it happens."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import CheckError
from mlf_sdk.judge.compare import Comparison, differences_text
from mlf_sdk.judge.witnessed import Witnessed
from mlf_sdk.judge.witnesses.panel import Attendance, WitnessStatement, attend
from mlf_sdk.pipeline.opentarget import OpenTarget
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.witness import RAN_BEFORE, Origin, disagreement, hearing_of, witnessed_of
from mlf_sdk.tools.arrays import Array

_RUN_BESIDES = "the model keeps states, and it was run by something else than infer()"


class MeaningError(CheckError):
    """Outputs differ from what the model file means."""


class AttendedModel:
    """A model whose inferences are compared with the witnesses of its file, one by one.

    Where it keeps states, a witness must see all inferences since the target was started: none is asked any
    more once the session was used past `OpenTarget.infer`, and none at all where the target ran already.

    Args:
        request: tolerances, and the seconds for each witness.
        origin: the model file.
        model: promises about the model.

    Attributes:
        inferences: that were seen.
        why: reason why none is compared any more; empty: there is none.
    """

    def __init__(self, request: Request, origin: Origin, model: LockModel) -> None:
        self._origin = origin
        self._model = model
        self._attending = () if origin.file is None else attend(origin.file, hearing_of(request, model))
        self._said: dict[str, WitnessStatement] = {}  # the last one of each, by title
        self._compared: dict[str, Comparison] = {}  # the first one that differs, else the last
        self._disagreement = ""
        self._target: OpenTarget | None = None
        self._runs = 0
        self.inferences = 0
        self.why = ""

    def attach(self, target: OpenTarget) -> None:
        """Compare the inferences of an open target from now on."""
        self._target, self._runs = target, target.session.runs
        target.observer = self._see

    def close(self) -> None:
        """Close all witnesses."""
        if self._target is not None:
            self._target.observer = None
        for one in self._attending:
            one.close()

    def result(self) -> Witnessed:
        """All inferences that were compared so far; of each witness the first comparison that differs."""
        statements = [self._statement(one) for one in self._attending]
        origin = dataclasses.replace(self._origin, why=self._origin.why or self.why)
        judged = witnessed_of(origin, statements, [self._compared.get(one.title) for one in self._attending])
        return dataclasses.replace(judged, disagreement=self._disagreement)

    def _statement(self, one: Attendance) -> WitnessStatement:
        said = self._said.get(one.title)
        if said is None:
            return one.statement([], self.inferences)
        return dataclasses.replace(said, inferences=one.asked if said.outputs else 0, asked=self.inferences)

    def _see(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Compare an inference.

        Raises:
            MeaningError: its outputs differ from what a witness says.
        """
        self.inferences += 1
        self._runs += 1
        self.why = self.why or self._out_of_step()
        if self.why:
            for one in self._attending:
                one.close()
        names = [tensor.name for tensor in self._model.outputs]
        got = {name: array[np.newaxis] for name, array in zip(names, outputs, strict=True)}
        rows = [(one, one.ask(inputs)) for one in self._attending]
        said = [one.statement([row], 1) for one, row in rows if row is not None]
        wrong = []
        for statement in said:
            title, compared = statement.witness, statement.compare(got)
            self._said[title] = statement
            if compared is None:
                continue
            if title not in self._compared or self._compared[title].ok:
                self._compared[title] = compared
            if not compared.ok:
                wrong.append(f"{title}: {differences_text(compared)}")
        if wrong:
            self._disagreement = self._disagreement or disagreement([one for one in said if one.outputs])
            result = "; ".join(filter(None, [*wrong, self._disagreement]))
            raise MeaningError(
                f"the outputs are not what the model file means: {result}", where=f"model {self._model.name}"
            )

    def _out_of_step(self) -> str:
        """Reason why witnesses can't have the states of the target; empty: they can, or there are none."""
        target = self._target
        if target is None:
            return ""
        if target.project.target.attached:
            why = RAN_BEFORE
        elif self._runs != target.session.runs:
            why = _RUN_BESIDES
        else:
            return ""
        return why if self._origin.keeps_states else ""
