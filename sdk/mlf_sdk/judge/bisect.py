# SPDX-License-Identifier: Apache-2.0
"""The first step of a model whose outputs differ between two targets.

Each target runs its steps one at a time and tells a CRC of what each gave; outputs are read only where the
CRCs differ. Steps are told apart by their number in the archive: two targets may run them in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlf_sdk.errors import TargetError
from mlf_sdk.ir.model import Model
from mlf_sdk.judge.compare import OutputDifference, Tolerance, compare_outputs
from mlf_sdk.wire.arrays import Array
from mlf_sdk.wire.deadline import Deadline
from mlf_sdk.wire.device import ModelInfo
from mlf_sdk.wire.protocol import Direction
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.steps import advance, can_step, describe_steps, peek


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDifference:
    """A step whose outputs differ, although those of all steps before it agree.

    Attributes:
        number: of the step in the archive.
        index: position in the order of execution of the reference.
        name: of the function.
        output: which of its outputs differs; ``tensor`` is its name.
        difference: how far, and in how many elements.
        at: index of the element that is off the most.
        expected, got: that element on the reference and on the other target.
        same_inputs: whether the step's inputs are equal bit for bit; else they differ within the tolerance.
    """

    number: int
    index: int
    name: str
    output: int
    tensor: str
    shape: tuple[int, ...]
    dtype: str
    difference: OutputDifference
    at: tuple[int, ...]
    expected: float | int
    got: float | int
    same_inputs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepArrays:
    """What a step took and gave, in the order of its arguments."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


class Observer:
    """A model on a target, looked at between its steps.

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
        """Ask what the steps are.

        Raises:
            TargetError: the target can't run steps one at a time, or has other steps than ``model``.
        """
        self._session = session
        self._info = info
        self._model = model
        self._inputs = inputs
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
                    f"step {step.index} is not as in the archive, or its arguments are not known",
                    where=info.label,
                    hint="Only projects with the static executor can be looked at between steps.",
                )
        if len(self._index) != len(model.steps):
            raise TargetError("the target has other steps than the archive", where=info.label)

    def crcs(self) -> dict[int, int]:
        """The CRC of each step's outputs, by its number, of one run."""
        found = {}
        self._begin()
        for index, number in enumerate(self.order):
            found[number] = advance(self._session, self._info, index, 1, self._deadline).crc32
            self._position = index + 1
        return found

    def outputs(self, number: int) -> tuple[Array, ...]:
        """What a step gives."""
        self._go(self._index[number] + 1)
        return tuple(self._read(number, Direction.OUTPUT))

    def arrays(self, number: int) -> StepArrays:
        """What a step takes and gives."""
        self._go(self._index[number])
        inputs = tuple(self._read(number, Direction.INPUT))
        return StepArrays(inputs=inputs, outputs=self.outputs(number))

    def _begin(self) -> None:
        for index, array in enumerate(self._inputs):
            self._session.write_input(self._info, index, array, self._deadline)
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


def first_difference(
    reference: Observer, other: Observer, model: Model, tolerance: Tolerance
) -> StepDifference | None:
    """The first step, in the reference's order, whose outputs differ by more than the tolerance.

    Raises:
        TargetError: a target did not answer, or a step failed.
    """
    expected, got = reference.crcs(), other.crcs()
    for index, number in enumerate(reference.order):
        if expected[number] == got[number]:
            continue
        ours, theirs = reference.outputs(number), other.outputs(number)
        for output, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            found = compare_outputs({"": b[np.newaxis]}, {"": a[np.newaxis]}, tolerance).outputs[0]
            if found.mismatches:
                same = _equal(reference.arrays(number).inputs, other.arrays(number).inputs)
                return _difference(model, number, index, output, a, b, found, same)
    return None


def _equal(ours: Sequence[Array], theirs: Sequence[Array]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True))


def _difference(
    model: Model,
    number: int,
    index: int,
    output: int,
    expected: Array,
    got: Array,
    found: OutputDifference,
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
        difference=found,
        at=at,
        expected=expected[at].item(),
        got=got[at].item(),
        same_inputs=same_inputs,
    )


def _worst(expected: Array, got: Array) -> tuple[int, ...]:
    """Index of the element that is off the most; one that is no number is off by more than any other."""
    with np.errstate(invalid="ignore"):
        delta = np.abs(expected.astype(np.float64) - got.astype(np.float64))
    same = (expected == got) | ((expected != expected) & (got != got))  # noqa: PLR0124 (NaN)
    delta = np.where(same, -1.0, np.where(np.isnan(delta), np.inf, delta))
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(delta)), delta.shape))
