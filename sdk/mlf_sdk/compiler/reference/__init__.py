# SPDX-License-Identifier: Apache-2.0
"""Meaning of every operator in numpy, bit for bit as TFLM's reference kernels compute it.

It is the oracle of passes and kernels, and shares no code with either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Array, Operator, ReadState, WriteState
from mlf_sdk.errors import InputError

States = list[Array]
Reference = Callable[[Graph, Any, list[Array], States], list[Array]]
REFERENCES: dict[type[Operator], Reference] = {}


def reference(kind: type[Operator]) -> Callable[[Reference], Reference]:
    """Register the reference of a class of operators."""

    def register(function: Reference) -> Reference:
        REFERENCES[kind] = function
        return function

    return register


_FAMILIES: Final = {
    "classical": ("PairCoupling", "PairVotes", "SupportVectors", "TreeEnsemble"),
    "computed": (
        *("Convolve", "DynamicQuantise", "GatherElements", "GatherSlices", "LabelEncoder", "LocalResponse"),
        *("PoolIndices", "ScatterElements", "ScatterSlices", "TopK"),
    ),
    "detection": ("DetectionPostProcess",),
    "layers": ("Conv2D", "DepthwiseConv2D", "FullyConnected", "Pool2D", "Softmax", "TransposeConv"),
    "maps": ("Convert", "Map", "Table"),
    "movement": ("ArgExtreme", "Fused", "Move", "Reshape"),
    "quantised": ("AddN", "L2Normalise", "UpdateSlice"),
    "reals": ("Accumulate", "Lookup", "MatMul", "Normalise", "Reduce", "Resample"),
    "recurrent": ("AppendRows", "Lstm", "Recurrent", "Svdf"),
    "signal": (
        *(
            "SignalAutoScale",
            "SignalEnergy",
            "SignalFilterBank",
            "SignalGain",
            "SignalLog",
            "SignalOverlapAdd",
        ),
        *("SignalRfft", "SignalSpectralSubtraction", "SignalSquareRoot", "SignalWindow"),
    ),
}
"""Classes of operators by the module of their references, which is imported when one is computed."""


def evaluate(graph: Graph, operator: Operator, inputs: list[Array], states: States) -> list[Array]:
    """Outputs of one operator.

    Args:
        inputs: in the order of ``operator.inputs``, of the shapes of those values.
        states: current values, by their numbers; written in place.

    Raises:
        InputError: only its code says what the operator computes.
    """
    if not operator.has_meaning:
        raise InputError(
            "only its code says what it computes", where=f"operator {operator.number} {operator.kind}"
        )
    if isinstance(operator, ReadState):
        return [states[operator.state].copy()]
    if isinstance(operator, WriteState):
        states[operator.state] = inputs[0].copy()
        return []
    return _reference(type(operator))(graph, operator, inputs, states)


def evaluate_one(values: Sequence[Value], operator: Operator, inputs: list[Array]) -> list[Array]:
    """Outputs of an operator without a state, of values that are not yet those of a graph.

    Args:
        values: by their ids.
    """
    place = {number: at for at, number in enumerate(dict.fromkeys((*operator.inputs, *operator.outputs)))}
    own = tuple(dataclasses.replace(values[number], id=at) for number, at in place.items())
    renumbered = dataclasses.replace(
        operator,
        inputs=tuple(place[i] for i in operator.inputs),
        outputs=tuple(place[i] for i in operator.outputs),
    )
    graph = Graph(name="", values=own, operators=(renumbered,), inputs=(), outputs=())
    return evaluate(graph, renumbered, inputs, [])


def _reference(kind: type[Operator]) -> Reference:
    """The reference of a kind of operator."""
    if kind not in REFERENCES:
        family = next(family for family, names in _FAMILIES.items() if kind.__name__ in names)
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
            result = evaluate(graph, operator, [values[i] for i in operator.inputs], self.states)
            for number, array in zip(operator.outputs, result, strict=True):
                value = graph.values[number]
                values[number] = array.astype(value.dtype).reshape(value.shape)
        return [values[i] for i in graph.outputs]
