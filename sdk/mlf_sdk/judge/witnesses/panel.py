# SPDX-License-Identifier: Apache-2.0
"""All witnesses on one batch: as many inferences of each as fit a stated time, at least one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.judge.compare import Comparison, OutputDifference, Tolerance, compare_outputs
from mlf_sdk.judge.data import Batch
from mlf_sdk.judge.witnesses.modelfile import ModelFile
from mlf_sdk.judge.witnesses.registry import witnesses_of
from mlf_sdk.judge.witnesses.witness import Witness, WitnessSession, WitnessUnableError
from mlf_sdk.tools.arrays import Array

Clock = Callable[[], float]


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
        found = []
        for name, expected in self.outputs.items():
            own = got[name][: self.inferences]
            if own.shape != expected.shape:
                found.append(_other_shape(name, expected.size))
                continue
            one = compare_outputs({name: own}, {name: expected}, self.tolerances[name])
            found.append(one.outputs[0])
        return Comparison(outputs=tuple(found))


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


def hear(
    model: ModelFile, batch: Batch, hearing: Hearing, clock: Clock = time.monotonic
) -> tuple[WitnessStatement, ...]:
    """Ask every witness that is installed and reads the model's format."""
    return tuple(
        _statement(witness, title, model, batch, hearing, clock) for witness, title in witnesses_of(model)
    )


def _statement(
    witness: Witness, title: str, model: ModelFile, batch: Batch, hearing: Hearing, clock: Clock
) -> WitnessStatement:
    try:
        _ = model.graph
        with witness.open(model, hearing.timeout_s) as session:
            rows = _rows(session, model, batch, hearing, clock)
            uncovered = session.uncovered
        return _of_rows(witness, title, model, rows, batch.count, hearing, uncovered)
    except WitnessUnableError as error:
        why = error.what
    except ArchiveError as error:
        why = f"the file can't be read again: {error.faults[0]}"
    except InputError as error:
        why = f"the file can't be read again: {error.what}"
    return WitnessStatement(
        witness=title, outputs={}, tolerances={}, inferences=0, asked=batch.count, why=why
    )


def _rows(
    session: WitnessSession, model: ModelFile, batch: Batch, hearing: Hearing, clock: Clock
) -> list[list[Array | None]]:
    """Outputs of each inference that fits the time."""
    rows: list[list[Array | None]] = []
    start = now = clock()
    for index in range(batch.count):
        before = now
        rows.append(infer_as_device(session, model, batch.inputs(index), hearing.names))
        now = clock()
        if now - start + (now - before) > hearing.seconds:
            break
    return rows


def infer_as_device(
    session: WitnessSession, model: ModelFile, inputs: Sequence[Array], names: Sequence[str]
) -> list[Array | None]:
    """Outputs of an inference with the device's types and shapes.

    Raises:
        WitnessUnableError: the witness failed, or its outputs are not those of the model.
    """
    found = session.infer(model.inputs_for_file(inputs))
    if len(found) != len(names) or len(names) != len(model.graph.outputs):
        raise WitnessUnableError(f"it has {len(found)} outputs, the device {len(names)}")
    return model.outputs_for_device(found)


def _of_rows(
    witness: Witness,
    title: str,
    model: ModelFile,
    rows: Sequence[Sequence[Array | None]],
    asked: int,
    hearing: Hearing,
    uncovered: tuple[str, ...],
) -> WitnessStatement:
    outputs = {}
    for name, column in zip(hearing.names, zip(*rows, strict=True), strict=True):
        known = [array for array in column if array is not None]
        if len(known) == len(column):
            outputs[name] = np.stack(known)
    return WitnessStatement(
        witness=title,
        outputs=outputs,
        tolerances={
            name: witness.tolerance(model, hearing.tolerance, integers=array.dtype.kind in "iub")
            for name, array in outputs.items()
        },
        inferences=len(rows),
        asked=asked,
        uncovered=uncovered,
        remark=witness.remark(model),
        why="" if outputs else "every output depends on a step that it does not know",
    )
