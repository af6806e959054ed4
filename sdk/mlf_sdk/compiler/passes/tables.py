# SPDX-License-Identifier: Apache-2.0
"""Functions of one byte, whatever operators they are made of, become one table of 256 results.

DEQUANTIZE, functions of real numbers and QUANTIZE are such a function together; so are a change of scale and
RELU6. The results are those of the reference. A function that changes no value that occurs is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.graph import INT8, UINT8, Graph, Value, all_values
from mlf_sdk.compiler.operators import (
    Array,
    Call,
    Convert,
    Map,
    Move,
    Operator,
    Pool2D,
    PoolKind,
    Reshape,
    Table,
)
from mlf_sdk.compiler.passes.rewrite import Rewrite, has_effect
from mlf_sdk.compiler.reference import evaluate

_ELEMENTWISE: Final = Map | Convert | Table | Reshape


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A value as a function of a byte value that has the same elements in the same order.

    Attributes:
        source: the byte value.
        results: for each stored value of the source, in the order of `all_values`.
        occurs: True for each stored value of the source that occurs.
        before: the last byte that the function goes through; None: it is the source itself.
        steps: operators that compute the function; those that only give another shape do not count.
        is_slow: some operator computes real numbers, or is a table by itself.
        kind: of the last operator that does more than convert; empty: there is none.
    """

    value: Value
    source: Value
    results: Array
    occurs: Array
    before: Column | None = None
    steps: int = 0
    is_slow: bool = False
    kind: str = ""

    def is_same(self, other: Column) -> bool:
        """Return whether it stores what another function of the same source does, as far as that occurs."""
        alike = (self.value.dtype, self.value.quantisation) == (other.value.dtype, other.value.quantisation)
        return alike and bool((self.results == other.results)[self.occurs].all())


def compose_tables(graph: Graph) -> Graph:
    """Compute a byte that several functions in a row make of another one by one table."""
    rewrite = Rewrite(graph)
    columns = _columns(rewrite)
    needed = {rewrite.current(i) for i in rewrite.outputs}
    for position, operator in reversed(list(enumerate(rewrite.operators))):
        if operator is None or not (needed.intersection(operator.outputs) or has_effect(operator)):
            continue
        column = columns.get(operator.outputs[0]) if operator.outputs else None
        if column is not None and column.is_slow and column.steps > 1 and _is_byte(column.value):
            rewrite.operators[position] = _composed(operator, column)
            needed.add(column.source.id)
        else:
            needed.update(rewrite.current(i) for i in operator.inputs)
    return rewrite.finish()


def _composed(operator: Operator, column: Column) -> Operator:
    """One operator for the function of a column."""
    fields: dict[str, Any] = {
        "number": operator.number, "inputs": (column.source.id,), "outputs": operator.outputs,
    }  # fmt: skip
    flipped = all_values(column.source).view(np.uint8) ^ 128
    if column.value.dtype == UINT8 and bool((column.results == flipped)[column.occurs].all()):
        return Map(kind=operator.kind, expression=Call.of("flip_sign"), **fields)
    return Table(kind=column.kind or operator.kind, results=column.results, **fields)


def _is_byte(value: Value) -> bool:
    whole = value.quantisation is None or value.quantisation.axis is None
    return value.dtype in (INT8, UINT8) and value.data is None and whole


def _columns(rewrite: Rewrite) -> dict[int, Column]:
    """Columns of what operators make; those that change nothing that occurs are left out.

    Behind a byte that several operators read a new column begins.
    """
    graph = rewrite.graph
    made: dict[int, Column] = {}
    seen = {i: _begun(graph.values[i], np.ones(256, bool)) for i in graph.inputs if _is_byte(graph.values[i])}
    for position, operator in enumerate(graph.operators):
        column = _column(graph, operator, seen)
        for value in graph.written(operator):
            shared = value.id in graph.outputs or len(rewrite.readers.get(value.id, ())) > 1
            before = column.before if column is not None else None
            if column is not None and before is not None and column.is_same(before):
                left_out = _leave_out(rewrite, position, value, before.value)
                kept = before.value if left_out else value
                seen[value.id] = _begun(kept, _stored(before)) if shared or not left_out else before
                continue
            if column is not None:
                seen[value.id] = made[value.id] = column
            if _is_byte(value) and (column is None or shared):
                seen[value.id] = _begun(value, _occurring(operator, value, column, seen))
    return made


def _leave_out(rewrite: Rewrite, position: int, value: Value, before: Value) -> bool:
    """Let ``before`` be read instead of ``value``; False where it has to stay, as another shape of it."""
    graph = rewrite.graph
    edge = before.id in graph.inputs or before.id in map(rewrite.current, graph.outputs)
    if value.shape != before.shape or (value.id in graph.outputs and edge):
        number = graph.operators[position].number
        rewrite.operators[position] = Reshape(
            number=number, kind="Reshape", inputs=(before.id,), outputs=(value.id,)
        )
        return False
    rewrite.redirect(value.id, before.id)
    return True


def _begun(value: Value, occurs: Array) -> Column:
    """The column of a byte value that is its own source.

    Args:
        occurs: its stored values that occur, or True for each of them.
    """
    values = all_values(value)
    mask = occurs if occurs.dtype == np.bool_ else np.isin(values, occurs)
    return Column(value=value, source=value, results=values, occurs=mask)


def _column(graph: Graph, operator: Operator, seen: dict[int, Column]) -> Column | None:
    """Column of an operator's result; None where it is no function of one byte."""
    if not isinstance(operator, _ELEMENTWISE):
        return None
    reads, (y,) = graph.read(operator), graph.written(operator)
    columns = [seen[v.id] for v in reads if v.id in seen]
    if not columns or any(c.source is not columns[0].source for c in columns):
        return None
    if any(v.data is None and v.id not in seen for v in reads):
        return None
    if any(v.elements != (y.elements if v.data is None else 1) for v in reads):
        return None
    first = max(columns, key=lambda c: c.steps)
    results, steps, kind = first.results, first.steps, first.kind
    if not isinstance(operator, Reshape):
        given = [seen[v.id].results if v.data is None else v.data.reshape(-1) for v in reads]
        results, steps = evaluate(graph, operator, given, [])[0].astype(y.dtype), steps + 1
    if not isinstance(operator, Convert | Reshape):
        kind = operator.kind
    return Column(
        value=y, source=first.source, results=results, occurs=first.occurs, steps=steps, kind=kind,
        before=first if _is_byte(first.value) else first.before,
        is_slow=first.is_slow or y.dtype.kind == "f" or _is_table(operator, reads, y),
    )  # fmt: skip


def _is_table(operator: Operator, reads: Sequence[Value], y: Value) -> bool:
    """True for a function of one byte that takes a table: it does more than change the sign."""
    flips = isinstance(operator, Map) and operator.expression.function == "flip_sign"
    return len(reads) == 1 and _is_byte(reads[0]) and _is_byte(y) and not flips


def _occurring(operator: Operator, y: Value, column: Column | None, seen: dict[int, Column]) -> Array:
    """Stored values that a byte value may take, or True for each in the order of `all_values`."""
    if column is not None:
        return _stored(column)
    low, high = getattr(operator, "clamp", (-np.inf, np.inf))
    values = all_values(y)
    occurs = (values >= low) & (values <= high)
    if isinstance(operator, Move) or (isinstance(operator, Pool2D) and operator.function is PoolKind.MAX):
        fill = getattr(operator, "fill", None)
        known = [_stored(seen[i]) for i in operator.inputs if i in seen]
        if len(known) == len(operator.inputs):
            occurs &= np.isin(values, np.concatenate([*known, [] if fill is None else [fill]]))
    return occurs


def _stored(column: Column) -> Array:
    """Stored values of a byte value that occur."""
    return column.results[column.occurs]
