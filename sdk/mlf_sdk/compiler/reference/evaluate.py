# SPDX-License-Identifier: Apache-2.0
"""Runs a graph with the reference of each operator."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

import numpy as np

from mlf_sdk.compiler.generated import Generated
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Array, Custom, Operator, ReadState, WriteState
from mlf_sdk.compiler.reference.table import REFERENCES, Reference, States
from mlf_sdk.errors import InputError

__all__ = ["Interpreter", "evaluate"]
_FAMILIES: Final = (
    "layers",
    "movement",
    "softmax",
    "quantised",
    "reals",
    "computed",
    "convert",
    "detection",
    "lstm",
    "maps",
    "recurrent",
    "signal",
    "svm",
    "trees",
)
"""Modules with references, those of common operators first: each is imported when one before it has none."""


def evaluate(graph: Graph, operator: Operator, inputs: list[Array], states: States) -> list[Array]:
    """Outputs of one operator.

    Args:
        inputs: in the order of ``operator.inputs``, of the shapes of those values.
        states: current values, by their numbers; written in place.

    Raises:
        InputError: only its code says what the operator computes.
    """
    if isinstance(operator, Custom):
        raise InputError(
            "only its code says what a custom operator computes", where=f"operator {operator.number}"
        )
    if isinstance(operator, ReadState):
        return [states[operator.state].copy()]
    if isinstance(operator, WriteState):
        states[operator.state] = inputs[0].copy()
        return []
    if isinstance(operator, Generated):
        raise InputError("a generated kernel has no reference in numpy", where=operator.kind)
    return _reference(type(operator))(graph, operator, inputs, states)


def _reference(kind: type[Operator]) -> Reference:
    """The reference of a kind of operator."""
    for family in _FAMILIES:
        if kind in REFERENCES:
            break
        import_module(f"mlf_sdk.compiler.reference.{family}")
    return REFERENCES[kind]


class Interpreter:
    """A graph with the values of its states."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.reset()

    def reset(self) -> None:
        """Give every state its initial value."""
        self.states = [s.initial.copy() for s in self.graph.states]

    def run(self, inputs: Mapping[str, Array] | list[Array]) -> list[Array]:
        """Outputs of one run; inputs by name or in order."""
        graph = self.graph
        values: dict[int, Array] = {v.id: v.data for v in graph.values if v.data is not None}
        for position, number in enumerate(graph.inputs):
            value = graph.values[number]
            given = inputs[value.name] if isinstance(inputs, Mapping) else inputs[position]
            values[number] = np.asarray(given).astype(value.dtype).reshape(value.shape)
        for operator in graph.operators:
            found = evaluate(graph, operator, [values[i] for i in operator.inputs], self.states)
            for number, array in zip(operator.outputs, found, strict=True):
                value = graph.values[number]
                values[number] = array.astype(value.dtype).reshape(value.shape)
        return [values[i] for i in graph.outputs]
