# SPDX-License-Identifier: Apache-2.0
"""All witnesses on one batch: as many inferences of each as fit a stated time, at least one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.judge.compare import Comparison, OutputDifference, Tolerance, compare_outputs
from mlf_sdk.judge.data import Batch
from mlf_sdk.judge.witnesses.interpreter import OnnxRuntime, PyTorch, Tflm
from mlf_sdk.judge.witnesses.reference import Reference
from mlf_sdk.judge.witnesses.witness import ModelFile, Witness, WitnessSession, WitnessUnableError
from mlf_sdk.tools.arrays import Array

Clock = Callable[[], float]
_ALL_UNKNOWN = "every output depends on a step that it does not know"


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessStatement:
    """Outputs that one witness gave.

    Attributes:
        witness: its name with its version.
        outputs: by name, each (inferences, *shape); those that it does not know are left out.
        tolerances: permitted difference of each of them.
        inferences: how many of them, from the first on; the batch has ``asked``.
        uncovered: steps that it did not compute, or that no output shows.
        remark: what the evidence line adds; empty: nothing.
        why: reason why it gave nothing; empty: it did.
    """

    witness: str
    outputs: Mapping[str, Array]
    tolerances: Mapping[str, Tolerance]
    inferences: int
    asked: int
    uncovered: tuple[str, ...] = ()
    remark: str = ""
    why: str = ""

    @property
    def text(self) -> str:
        """Name, how many inferences where not all, and the remark."""
        part = "" if self.inferences == self.asked else f"{self.inferences:,} of {self.asked:,} inferences"
        said = ", ".join(filter(None, [self.remark, part]))
        return f"{self.witness} ({said})" if said else self.witness

    def at(self, index: int) -> WitnessStatement:
        """The statement about one inference."""
        outputs = {name: array[index : index + 1] for name, array in self.outputs.items()}
        return replace(self, outputs=outputs, inferences=1)

    def compare(self, got: Mapping[str, Array]) -> Comparison | None:
        """Compare outputs, each (inferences, *shape), with these; None: it gave none.

        An output of another shape differs in every element.
        """
        if not self.outputs:
            return None
        result = []
        for name, expected in self.outputs.items():
            own = got[name][: self.inferences]
            if own.shape != expected.shape:
                result.append(_other_shape(name, expected.size))
                continue
            one = compare_outputs({name: own}, {name: expected}, self.tolerances[name])
            result.append(one.outputs[0])
        return Comparison(outputs=tuple(result))


def _other_shape(name: str, elements: int) -> OutputDifference:
    return OutputDifference(
        name=name, max_abs=math.inf, max_rel=math.inf, mismatches=elements, elements=elements
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """A question to all witnesses.

    Attributes:
        names: of the device's outputs, in order.
        tolerance: stated by the user.
        seconds: for each witness; at least one inference is run.
        timeout_s: for loading a model, and for each inference.
    """

    names: Sequence[str]
    tolerance: Tolerance
    seconds: float
    timeout_s: float


class Attendance:
    """A witness that is asked inference by inference, until its time is over or it fails.

    It is opened at the first inference; what it keeps from one inference to the next it keeps as the device
    does, which is why it is asked of none behind one that it was not asked of.

    Attributes:
        title: its name with its version.
        why: reason why it failed; empty: it did not.
        asked: inferences that it gave outputs of.
    """

    def __init__(
        self,
        witness: Witness,
        title: str,
        model: ModelFile,
        hearing: Hearing,
        clock: Clock = time.monotonic,
    ) -> None:
        self.title = title
        self.why = ""
        self.asked = 0
        self._witness, self._model, self._hearing, self._clock = witness, model, hearing, clock
        self._stack = ExitStack()
        self._session: WitnessSession | None = None
        self._spent_s = 0.0
        self._is_over = False
        self._uncovered: tuple[str, ...] = ()

    def __enter__(self) -> Attendance:
        """Return the witness; leaving the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Ask it of no inference any more."""
        self._is_over = True
        self._session = None
        self._stack.close()

    def ask(self, inputs: Sequence[Array]) -> list[Array | None] | None:
        """Outputs of the next inference, as the device gives them; None: its time is over, or it failed."""
        if self._is_over:
            return None
        try:
            session = self._opened()
            before = self._clock()
            row = infer_as_device(session, self._model, inputs, self._hearing.names)
            took = self._clock() - before
        except WitnessUnableError as error:
            self.why = error.what
        except ArchiveError as error:
            self.why = f"the file can't be read again: {error.faults[0]}"
        except InputError as error:
            self.why = f"the file can't be read again: {error.what}"
        if self.why:
            self.close()
            return None
        self.asked += 1
        self._uncovered = session.uncovered
        self._spent_s += took
        if self._spent_s + took > self._hearing.seconds:
            self.close()
        return row

    def statement(self, rows: Sequence[Sequence[Array | None]], asked: int) -> WitnessStatement:
        """Make a statement of the outputs of inferences; of none where it failed.

        Args:
            rows: outputs of inferences that `ask` returned.
            asked: inferences of the device.
        """
        outputs = {} if self.why else _columns(rows, self._hearing.names)
        return WitnessStatement(
            witness=self.title,
            outputs=outputs,
            tolerances={
                name: self._witness.tolerance(
                    self._model, self._hearing.tolerance, integers=array.dtype.kind in "iub"
                )
                for name, array in outputs.items()
            },
            inferences=0 if self.why else len(rows),
            asked=asked,
            uncovered=() if self.why else self._uncovered,
            remark="" if self.why else self._witness.remark(self._model),
            why=self.why or ("" if outputs or not rows else _ALL_UNKNOWN),
        )

    def _opened(self) -> WitnessSession:
        if self._session is None:
            _ = self._model.graph
            self._session = self._stack.enter_context(
                self._witness.open(self._model, self._hearing.timeout_s)
            )
        return self._session


def attend(model: ModelFile, hearing: Hearing, clock: Clock = time.monotonic) -> tuple[Attendance, ...]:
    """Every witness that is installed and reads the model's format, at the first inference."""
    return tuple(Attendance(witness, title, model, hearing, clock) for witness, title in witnesses_of(model))


def hear(
    model: ModelFile, batch: Batch, hearing: Hearing, clock: Clock = time.monotonic
) -> tuple[WitnessStatement, ...]:
    """Ask every witness that is installed and reads the model's format."""
    return tuple(_statement(one, batch) for one in attend(model, hearing, clock))


def _statement(attending: Attendance, batch: Batch) -> WitnessStatement:
    rows = []
    with attending:
        for index in range(batch.count):
            row = attending.ask(batch.inputs(index))
            if row is None:
                break
            rows.append(row)
    return attending.statement(rows, batch.count)


def infer_as_device(
    session: WitnessSession, model: ModelFile, inputs: Sequence[Array], names: Sequence[str]
) -> list[Array | None]:
    """Outputs of an inference with the device's types and shapes.

    Raises:
        WitnessUnableError: the witness failed, or its outputs are not those of the model.
    """
    result = session.infer(model.inputs_for_file(inputs))
    if len(result) != len(names) or len(names) != len(model.graph.outputs):
        raise WitnessUnableError(f"it has {len(result)} outputs, the device {len(names)}")
    return model.outputs_for_device(result)


def _columns(rows: Sequence[Sequence[Array | None]], names: Sequence[str]) -> dict[str, Array]:
    """Outputs by name, each (inferences, *shape): those that are known of every inference."""
    outputs: dict[str, Array] = {}
    if not rows:
        return outputs
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        known = [array for array in column if array is not None]
        if len(known) == len(column):
            outputs[name] = np.stack(known)
    return outputs


WITNESSES: Final[tuple[Witness, ...]] = (Tflm(), OnnxRuntime(), PyTorch(), Reference())


def installed_titles() -> tuple[str, ...]:
    """Names and versions of the witnesses that are installed here."""
    return tuple(title for witness in WITNESSES if (title := witness.title()) is not None)


def witnesses_of(model: ModelFile) -> Iterator[tuple[Witness, str]]:
    """Witnesses that read a model's format and are installed here, with their titles."""
    for witness in WITNESSES:
        if model.format in witness.formats and (title := witness.title()) is not None:
            yield witness, title
