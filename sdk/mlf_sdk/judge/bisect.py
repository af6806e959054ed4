# SPDX-License-Identifier: Apache-2.0
"""Search for the first step of a model whose outputs differ between two targets.

Each target runs its steps one at a time and reports a CRC of the outputs of each; outputs are read only where
the CRCs differ. Steps are identified by their number in the archive: their order may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from mlf_sdk.errors import TargetError
from mlf_sdk.ir.model import Model
from mlf_sdk.ir.step import frames_of
from mlf_sdk.judge.compare import Comparison, OutputDifference, StepDifference, Tolerance, compare_outputs
from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire.codes import Direction
from mlf_sdk.wire.device import ModelInfo
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.steps import advance, can_step, describe_steps, peek
from mlf_sdk.wire.transport import Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceResult:
    """Comparison of one target with the first.

    Attributes:
        name: as requested: ``host``, a board, ``dir:FOLDER``, ``port:PORT``.
        board: of the target.
        comparison: of the outputs of all inferences; None for the first target.
        inference: index of the first inference whose outputs differ; None when all agree.
        first: first step that differs; None when all agree or steps were not compared.
        steps_equal: every step agrees within the tolerance; None when steps were not compared.
        saved: npz file with the inputs and outputs of the step that differs.
        note: reason why steps were not compared.
    """

    name: str
    board: str
    comparison: Comparison | None = None
    inference: int | None = None
    first: StepDifference | None = None
    steps_equal: bool | None = None
    saved: Path | None = None
    note: str = ""

    @property
    def ok(self) -> bool:
        """Return whether outputs and steps agree."""
        return (self.comparison is None or self.comparison.ok) and self.steps_equal is not False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareReport:
    """One model on several targets; all others are compared with the first of ``places``."""

    model: str
    archive_sha256: str
    inferences: int
    steps: int
    places: tuple[PlaceResult, ...]

    @property
    def ok(self) -> bool:
        """Return whether all targets agree."""
        return all(place.ok for place in self.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepArrays:
    """Inputs and outputs of a step, in the order of its arguments."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


class Observer:
    """Access to the tensors of a model on a target between its steps.

    Attributes:
        order: numbers of the steps in the archive, in the order in which this target runs them.
    """

    def __init__(
        self,
        session: Session,
        info: ModelInfo,
        model: Model,
        inputs: Sequence[Array],
        deadline: Deadline | None = None,
    ) -> None:
        """Query the steps of the target.

        Args:
            session: with the target.
            info: the model on the target.
            model: the same model, as read from its archive.
            inputs: of the inference; of a model that takes frames a window, whose last frame is observed.
            deadline: of all requests.

        Raises:
            TargetError: the target can't run steps one at a time, or its steps are not those of ``model``.
        """
        self._session = session
        self._info = info
        self._model = model
        *self._before, self._inputs = inferences_of(model, inputs)
        self._deadline = deadline
        self._position: int | None = None
        if not can_step(session):
            raise TargetError(
                "the firmware can't run steps one at a time",
                where=info.label,
                hint="Generate it again with this SDK, build and flash it.",
            )
        steps = describe_steps(session, info, deadline)
        self.order = tuple(step.number for step in steps)
        self._index = {number: index for index, number in enumerate(self.order)}
        for step in steps:
            counts = (step.num_inputs, step.num_outputs)
            ours = model.steps[step.number] if step.number < len(model.steps) else None
            if ours is None or counts != (len(ours.inputs), len(ours.outputs)):
                raise TargetError(
                    f"step {step.index} differs from the archive, or its arguments are not known",
                    where=info.label,
                    hint="Only projects with the static executor give access to tensors between steps.",
                )
        if len(self._index) != len(model.steps):
            raise TargetError("the steps of the target are not those of the archive", where=info.label)

    def crcs(self) -> dict[int, int]:
        """Run an inference; return the CRC-32 of the outputs of each step, by its number."""
        result = {}
        self._begin()
        for index, number in enumerate(self.order):
            result[number] = advance(self._session, self._info, index, 1, self._deadline).crc32
            self._position = index + 1
        return result

    def outputs(self, number: int) -> tuple[Array, ...]:
        """Read the outputs of a step, by its number."""
        self._go(self._index[number] + 1)
        return tuple(self._read(number, Direction.OUTPUT))

    def arrays(self, number: int) -> StepArrays:
        """Read the inputs and outputs of a step, by its number."""
        self._go(self._index[number])
        inputs = tuple(self._read(number, Direction.INPUT))
        return StepArrays(inputs=inputs, outputs=self.outputs(number))

    def _begin(self) -> None:
        for one in self._before:
            self._session.write_inputs(self._info, one, self._deadline)
            self._session.run(self._info, deadline=self._deadline)
        self._session.write_inputs(self._info, self._inputs, self._deadline)
        self._position = 0

    def _go(self, position: int) -> None:
        if self._position is None or self._position > position:
            self._begin()
        at = self._position or 0
        while at < position:
            at = advance(self._session, self._info, at, position - at, self._deadline).position
        self._position = at

    def _read(self, number: int, direction: Direction) -> Iterator[Array]:
        step = self._model.steps[number]
        ids = step.inputs if direction is Direction.INPUT else step.outputs
        for position, tensor in enumerate(self._model.tensors[i] for i in ids):
            data = peek(
                self._session,
                self._info,
                self._index[number],
                direction,
                position,
                tensor.size_bytes,
                self._deadline,
            )
            yield np.frombuffer(data, dtype=tensor.dtype.numpy).reshape(tensor.shape)


def inferences_of(model: Model, inputs: Sequence[Array]) -> list[Sequence[Array]]:
    """Inferences that end with the outputs for some inputs: those of all frames of a window."""
    frames = frames_of(model.provenance.options, model.tensors[model.inputs[0]].shape) if inputs else None
    if frames is None:
        return [inputs]
    from mlf_sdk.judge.frames import FrameFeed  # few models take frames

    return FrameFeed(model.name, frames).inputs(inputs)


class Steps(Protocol):
    """Outputs of the steps of an inference: an `Observer`'s, or a stand-in's, that may not know all steps."""

    order: tuple[int, ...]

    def crcs(self) -> dict[int, int]:
        """See Observer; steps that are not known are left out."""

    def outputs(self, number: int) -> tuple[Array, ...]:
        """See Observer."""

    def arrays(self, number: int) -> StepArrays:
        """See Observer."""


def first_difference(
    reference: Steps, other: Observer, model: Model, tolerance: Tolerance
) -> StepDifference | None:
    """Find the first step, in the order of the reference, whose outputs differ by more than the tolerance.

    Steps that the reference does not know are passed over.

    Raises:
        TargetError: a target did not answer, or a step failed.
    """
    expected, got = reference.crcs(), other.crcs()
    for index, number in enumerate(reference.order):
        if number not in expected or expected[number] == got[number]:
            continue
        ours, theirs = reference.outputs(number), other.outputs(number)
        for output, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            result = compare_outputs({"": b[np.newaxis]}, {"": a[np.newaxis]}, tolerance).outputs[0]
            if result.mismatches:
                same = _equal(reference.arrays(number).inputs, other.arrays(number).inputs)
                return _difference(model, number, index, output, a, b, result, same)
    return None


def _equal(ours: Sequence[Array], theirs: Sequence[Array]) -> bool:
    """Return whether inputs are equal; those of a stand-in that has none agree within the tolerance."""
    return len(ours) == len(theirs) and all(
        a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True)
    )


def _difference(
    model: Model,
    number: int,
    index: int,
    output: int,
    expected: Array,
    got: Array,
    output_difference: OutputDifference,
    same_inputs: bool,
) -> StepDifference:
    step = model.steps[number]
    tensor = model.tensors[step.outputs[output]]
    at = _worst(expected, got)
    return StepDifference(
        number=number,
        index=index,
        name=step.name,
        output=output,
        tensor=tensor.name,
        shape=tensor.shape,
        dtype=tensor.dtype.name,
        difference=output_difference,
        at=at,
        expected=_number(expected[at]),
        got=_number(got[at]),
        same_inputs=same_inputs,
        inside=tuple(layer.number for layer in step.layer.inside) if step.layer is not None else (),
    )


def _number(element: np.generic) -> float | int:
    return int(element) if element.dtype.kind == "b" else element.item()


def _worst(expected: Array, got: Array) -> tuple[int, ...]:
    """Index of the element with the largest difference; NaN on one side only counts as infinite."""
    with np.errstate(invalid="ignore"):
        delta = np.abs(expected.astype(np.float64) - got.astype(np.float64))
    same = (expected == got) | ((expected != expected) & (got != got))  # noqa: PLR0124 (NaN)
    delta = np.where(same, -1.0, np.where(np.isnan(delta), np.inf, delta))
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(delta)), delta.shape))
