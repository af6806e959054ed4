# SPDX-License-Identifier: Apache-2.0
"""The numpy reference on the graph as it was read, before any pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Operator, WriteState
from mlf_sdk.compiler.reference import evaluate
from mlf_sdk.judge.witnesses.witness import ModelFile, Supply, Witness, WitnessSession
from mlf_sdk.tools.arrays import Array

REFERENCE = "reference"


class Reference(Witness):
    """Every operator by its meaning in numpy; what has none is supplied from outside, or stays unknown."""

    name = REFERENCE
    formats: ClassVar[frozenset[str]] = frozenset({"tflite", "onnx", "torch"})

    def title(self) -> str:
        """Its name; it comes with the compiler, and has its version."""
        return REFERENCE

    @contextmanager
    def open(self, model: ModelFile, timeout_s: float) -> Iterator[WitnessSession]:
        """See Witness."""
        with model.supply() as supply:
            yield ReferenceSession(model.graph, supply)


class ReferenceSession:
    """A graph with the values of its last inference, and its states.

    Attributes:
        values: of the last inference, by their numbers; what is not there is not known.
    """

    def __init__(self, graph: Graph, supply: Supply | None = None) -> None:
        self.graph = graph
        self.values: dict[int, Array] = {}
        self._supply = supply
        self._supplied: set[int] = set()
        self._states = [state.initial.copy() for state in graph.states]

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Steps that were not computed, or whose results nothing known shows: number and name."""
        operators = self.graph.operators
        shown = {number for number in self.graph.outputs if number in self.values}
        for o in operators:
            if o.number in self._supplied or (isinstance(o, WriteState) and o.inputs[0] in self.values):
                shown.update(o.inputs)
        covered: set[int] = set()
        for position in range(len(operators) - 1, -1, -1):
            operator = operators[position]
            if operator.has_meaning and (isinstance(operator, WriteState) or shown & {*operator.outputs}):
                covered.add(position)
                shown.update(operator.inputs)
        return tuple(f"{o.number} {o.kind}" for i, o in enumerate(operators) if i not in covered)

    def infer(self, inputs: Sequence[Array]) -> list[Array | None]:
        """See WitnessSession."""
        graph = self.graph
        self.values = {v.id: v.data for v in graph.values if v.data is not None}
        for number, array in zip(graph.inputs, inputs, strict=True):
            self._keep(number, array)
        with np.errstate(all="ignore"):
            for operator in graph.operators:
                self._run(operator)
        return [self.values.get(number) for number in graph.outputs]

    def _run(self, operator: Operator) -> None:
        given = [self.values.get(i) for i in operator.inputs]
        arrays: list[Array] | None
        if not operator.has_meaning:
            arrays = self._supply(operator, given) if self._supply is not None else None
            self._supplied |= set() if arrays is None else {operator.number}
        else:
            known = [array for array in given if array is not None]
            arrays = evaluate(self.graph, operator, known, self._states) if len(known) == len(given) else None
        for number, array in zip(operator.outputs, arrays or (), strict=arrays is not None):
            self._keep(number, array)

    def _keep(self, number: int, array: Array) -> None:
        value = self.graph.values[number]
        self.values[number] = np.asarray(array).astype(value.dtype).reshape(value.shape)
