# SPDX-License-Identifier: Apache-2.0
"""Replacements in a graph: new values, operators on them, and operators left out."""

from __future__ import annotations

import dataclasses

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Array, Operator
from mlf_sdk.ir.tensor import Quantisation


class Rewrite:
    """A copy of a graph that can be changed."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = list(graph.values)
        self.operators: list[Operator | None] = list(graph.operators)

    def readers(self) -> dict[int, list[int]]:
        """Positions of the operators that read each value."""
        found: dict[int, list[int]] = {}
        for position, operator in enumerate(self.operators):
            for number in operator.inputs if operator is not None else ():
                found.setdefault(number, []).append(position)
        return found

    def constant(self, like: Value, data: Array, quantisation: Quantisation | None) -> int:
        """Add a constant of the type of ``like`` and return its id."""
        value = dataclasses.replace(
            like,
            id=len(self.values),
            shape=data.shape,
            quantisation=quantisation,
            data=np.ascontiguousarray(data.astype(like.dtype)),
        )
        self.values.append(value)
        return value.id

    def finish(self) -> Graph:
        """The changed graph."""
        return dataclasses.replace(
            self.graph,
            values=tuple(self.values),
            operators=tuple(o for o in self.operators if o is not None),
        )
