# SPDX-License-Identifier: Apache-2.0
"""Engine of the passes: replacements in a graph, and the removal of what nothing reads then."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Array, Custom, Operator
from mlf_sdk.ir.tensor import Quantisation


class Rewrite:
    """A copy of a graph that can be changed; an operator that is None, or that nothing reads, is left out."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = list(graph.values)
        self.operators: list[Operator | None] = list(graph.operators)
        self.outputs = list(graph.outputs)
        self._instead: dict[int, int] = {}

    def readers(self) -> dict[int, list[int]]:
        """Positions of the operators that read each value."""
        found: dict[int, list[int]] = {}
        for position, operator in enumerate(self.operators):
            for number in operator.inputs if operator is not None else ():
                found.setdefault(number, []).append(position)
        return found

    def makers(self) -> dict[int, int]:
        """Position of the operator that makes each value."""
        return {i: p for p, o in enumerate(self.operators) for i in (o.outputs if o is not None else ())}

    def only_reader(self, readers: dict[int, list[int]], value: int) -> int | None:
        """Position of the operator that alone reads a value; None where others or the caller do."""
        alone = set(readers.get(value, []))
        return alone.pop() if len(alone) == 1 and value not in self.outputs else None

    def value(self, like: Value, **changes: object) -> Value:
        """Add a value that differs from another one."""
        value = dataclasses.replace(like, **{"id": len(self.values), "data": None, **changes})  # type: ignore[arg-type]
        self.values.append(value)
        return value

    def constant(self, like: Value, data: Array, quantisation: Quantisation | None) -> int:
        """Add a constant of the type of ``like`` and return its id."""
        data = np.ascontiguousarray(data.astype(like.dtype))
        return self.value(like, shape=data.shape, quantisation=quantisation, data=data).id

    def redirect(self, old: int, new: int) -> None:
        """Let everything that reads ``old`` read ``new``; the caller finds it by the same name."""
        self._instead[old] = new
        if old in self.outputs:
            self.values[new] = dataclasses.replace(self.values[new], name=self.values[old].name)

    def finish(self) -> Graph:
        """The changed graph."""
        self.outputs = [self.current(i) for i in self.outputs]
        operators = [self._redirected(o) for o in self.operators if o is not None]
        return dataclasses.replace(
            self.graph,
            values=tuple(self.values),
            operators=tuple(_read(operators, self.outputs)),
            outputs=tuple(self.outputs),
        )

    def current(self, value: int) -> int:
        """Value that is read instead of one, or this itself."""
        while value in self._instead:
            value = self._instead[value]
        return value

    def _redirected(self, operator: Operator) -> Operator:
        if not self._instead.keys() & set(operator.inputs):
            return operator
        return dataclasses.replace(operator, inputs=tuple(self.current(i) for i in operator.inputs))


def remove_unread(graph: Graph) -> Graph:
    """Remove operators whose results nothing reads."""
    return Rewrite(graph).finish()


def has_effect(operator: Operator) -> bool:
    """True for an operator that does more than write its outputs: of a state, or of a user's code."""
    return not operator.outputs or isinstance(operator, Custom) or bool(operator.states)


def _read(operators: Iterable[Operator], outputs: Iterable[int]) -> list[Operator]:
    """Operators whose results are read by others or by the caller, and those with effects."""
    needed, kept = set(outputs), []
    for operator in reversed(list(operators)):
        if has_effect(operator) or needed.intersection(operator.outputs):
            needed.update(operator.inputs)
            kept.append(operator)
    return kept[::-1]
