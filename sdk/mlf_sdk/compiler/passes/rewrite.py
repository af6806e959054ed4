# SPDX-License-Identifier: Apache-2.0
"""Engine of the passes: replacements in a graph, and the removal of what nothing reads then."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Array, Custom, Operator
from mlf_sdk.ir.tensor import Quantisation


class Rewrite:
    """A copy of a graph that can be changed; an operator that is None, or that nothing reads, is left out.

    Attributes:
        operators: by their position; those that were inserted are behind the graph's own.
        readers: positions of the operators that read each value; `put` and `insert` keep them.
        makers: position of the operator that makes each value; they as well.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = list(graph.values)
        self.operators: list[Operator | None] = list(graph.operators)
        self.outputs = list(graph.outputs)
        self.readers: dict[int, set[int]] = {}
        self.makers: dict[int, int] = {}
        self._instead: dict[int, int] = {}
        self._inserted: dict[int, list[int]] = {}
        for position, operator in enumerate(graph.operators):
            self._note(position, operator)

    def _note(self, position: int, operator: Operator) -> None:
        for number in operator.inputs:
            self.readers.setdefault(number, set()).add(position)
        self.makers |= dict.fromkeys(operator.outputs, position)

    def put(self, position: int, operator: Operator | None) -> None:
        """Replace an operator; None: it is left out."""
        old, self.operators[position] = self.operators[position], operator
        for number in old.inputs if old is not None else ():
            self.readers[number].discard(position)
        for number in old.outputs if old is not None else ():
            self.makers.pop(number)
        if operator is not None:
            self._note(position, operator)

    def insert(self, operator: Operator, before: int) -> int:
        """Add an operator before the one at a position, after others that were; return its own position."""
        self.operators.append(operator)
        position = len(self.operators) - 1
        self._inserted.setdefault(before, []).append(position)
        self._note(position, operator)
        return position

    def maker(self, value: int) -> Operator | None:
        """The operator that makes a value; None for inputs and constants."""
        return self.operators[self.makers[value]] if value in self.makers else None

    def only_reader(self, value: int) -> int | None:
        """Position of the operator that alone reads a value; None where others or the caller do."""
        alone = self.readers.get(value, ())
        return next(iter(alone)) if len(alone) == 1 and value not in self.outputs else None

    def pairs(self) -> Iterator[tuple[int, Operator, int, Operator]]:
        """Positions of operators with those that alone read their only results, and both as they are then."""
        for position in range(len(self.graph.operators)):
            operator = self.operators[position]
            place = self.only_reader(operator.outputs[0]) if operator and len(operator.outputs) == 1 else None
            reader = self.operators[place] if place is not None else None
            if operator is not None and place is not None and reader is not None:
                yield position, operator, place, reader

    def read(self, operator: Operator) -> list[Value]:
        """Values that an operator reads, as they are now."""
        return [self.values[i] for i in operator.inputs]

    def written(self, operator: Operator) -> list[Value]:
        """Values that an operator writes, as they are now."""
        return [self.values[i] for i in operator.outputs]

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
        operators = [self._redirected(o) for o in self._ordered()]
        return dataclasses.replace(
            self.graph,
            values=tuple(self.values),
            operators=tuple(_read(operators, self.outputs)),
            outputs=tuple(self.outputs),
        )

    def _ordered(self) -> Iterator[Operator]:
        """Operators in the order in which they run: those that were inserted before each, and itself."""
        pending = [(p, False) for p in reversed(range(len(self.graph.operators)))]
        while pending:
            position, is_ready = pending.pop()
            inserted = () if is_ready else self._inserted.get(position, ())
            if inserted:
                pending += [(position, True), *((p, False) for p in reversed(inserted))]
            elif (operator := self.operators[position]) is not None:
                yield operator

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
