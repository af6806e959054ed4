# SPDX-License-Identifier: Apache-2.0
"""Rows of its inputs that an operator needs for each row of its output.

A row is everything at one index of the second axis of a tensor of three or more axes whose first extent is 1,
the height of an NHWC image; any other tensor is one row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import (
    AddN,
    Array,
    Conv2D,
    Convert,
    DepthwiseConv2D,
    FullyConnected,
    Map,
    Move,
    Operator,
    Pool2D,
    Reshape,
    Table,
)
from mlf_sdk.compiler.reals import Reduce


class Firings(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of an operator that runs row by row.

    Attributes:
        first, last: by the id of an input, the lowest and the highest row of it that each firing reads;
            neither falls.
        made: rows of the output that are complete after each firing.
        reduces: the output is made of sums over all rows of the input, by the last firing.
        lines: rows of the output that a firing makes, but the last one may make fewer; 1 where it reduces.
        steps: of an operator of windows, rows of the input from one firing to the next, and the first, which
            padding may put below 0.
    """

    first: dict[int, list[int]]
    last: dict[int, list[int]]
    made: list[int]
    reduces: bool = False
    lines: int = 1
    steps: tuple[int, int] | None = None

    def __len__(self) -> int:
        """Number of firings."""
        return len(self.made)

    def line(self, x: int) -> tuple[int, int] | None:
        """Step and offset of the rows of an input: firing k begins at step * k + offset, but not below 0.

        None where the rows are on no such line.
        """
        rows = self.first[x]
        step = max((b - a for a, b in pairwise(rows)), default=0)
        step, offset = self.steps or (step, rows[-1] - step * (len(rows) - 1))
        return (step, offset) if rows == [max(0, step * k + offset) for k in range(len(rows))] else None


def rows_of(value: Value) -> int:
    """Number of rows of a tensor."""
    return value.shape[1] if len(value.shape) >= 3 and value.shape[0] == 1 else 1


def row_bytes(value: Value) -> int:
    """Bytes of one row."""
    return value.size_bytes // rows_of(value)


def firings_of(graph: Graph, operator: Operator, lines: int = 1) -> Firings | None:
    """Firings of some rows of the output; None for an operator that reads its inputs in another order.

    Args:
        lines: rows of each firing; the last one may make fewer.
    """
    if not operator.outputs or not any(v.data is None for v in graph.read(operator)):
        return None
    rule = _RULES.get(type(operator))
    result = rule(graph, operator) if rule else None
    return result if lines == 1 or result is None or result.reduces else _joined(result, lines)


def _joined(firings: Firings, lines: int) -> Firings:
    """Firings of so many in succession."""
    ends = [*range(lines, len(firings), lines), len(firings)]
    return Firings(
        first={x: rows[::lines] for x, rows in firings.first.items()},
        last={x: [rows[end - 1] for end in ends] for x, rows in firings.last.items()},
        made=[firings.made[end - 1] for end in ends],
        lines=lines,
        steps=(firings.steps[0] * lines, firings.steps[1]) if firings.steps else None,
    )


def _each_row(count: int, first: dict[int, Array], last: dict[int, Array]) -> Firings | None:
    """A firing for each row, unless an input would be read backwards."""
    if any((np.diff(rows) < 0).any() for rows in (*first.values(), *last.values())):
        return None
    return Firings(first=_lists(first), last=_lists(last), made=list(range(1, count + 1)))


def _lists(rows: dict[int, Array]) -> dict[int, list[int]]:
    return {x: result.tolist() for x, result in rows.items()}


def _sums(graph: Graph, operator: Operator) -> Firings:
    """A firing for each row of the input, the last of which makes the output."""
    x, y = graph.read(operator)[0], graph.written(operator)[0]
    rows = list(range(rows_of(x)))
    made = [0] * (len(rows) - 1) + [rows_of(y)]
    return Firings(first={x.id: rows}, last={x.id: rows}, made=made, reduces=True)


def _windows(graph: Graph, operator: Conv2D | DepthwiseConv2D | Pool2D) -> Firings | None:
    x, y = graph.read(operator)[0], graph.written(operator)[0]
    if x.shape[0] != 1 or x.data is not None:
        return None
    window, rows = operator.window, np.arange(rows_of(y))
    top = rows * window.stride[0] - window.before[0]
    bottom = top + (window.size[0] - 1) * window.dilation[0]
    height = rows_of(x)
    result = _each_row(len(rows), {x.id: np.clip(top, 0, height - 1)}, {x.id: np.clip(bottom, 0, height - 1)})
    steps = window.stride[0], -window.before[0]
    return None if result is None else msgspec.structs.replace(result, steps=steps)


def _pooling(graph: Graph, operator: Pool2D) -> Firings | None:
    x, y = graph.read(operator)[0], graph.written(operator)[0]
    if x.shape[0] == 1 and rows_of(y) == 1 and 1 < rows_of(x) <= operator.window.size[0]:
        return _sums(graph, operator)
    return _windows(graph, operator)


def _elements(graph: Graph, operator: Operator) -> Firings | None:
    y = graph.written(operator)[0]
    rows = np.arange(rows_of(y))
    first: dict[int, Array] = {}
    last: dict[int, Array] = {}
    for x in graph.read(operator):
        if _is_one_row(x, y):
            if x.data is None:
                first[x.id], last[x.id] = rows * 0, rows * 0 + rows_of(x) - 1
        elif x.data is None and rows_of(x) == len(rows) and len(x.shape) == len(y.shape):
            first[x.id] = last[x.id] = rows
        else:
            return None
    return _each_row(len(rows), first, last)


def _is_one_row(x: Value, y: Value) -> bool:
    """True for an operand that is the same for each row of the output."""
    axis = len(y.shape) - 1  # of the rows, from the last one on
    return rows_of(y) == 1 or len(x.shape) < axis or x.shape[-axis] == 1


def _reduction(graph: Graph, operator: Reduce) -> Firings | None:
    x, y = graph.read(operator)[0], graph.written(operator)[0]
    if len(x.shape) != 4 or x.shape[0] != 1:
        return None
    if 1 in operator.axes:
        return _sums(graph, operator)
    rows = np.arange(rows_of(x))
    same = {x.id: rows}
    return _each_row(len(rows), same, same) if rows_of(y) == len(rows) else None


def _dense(graph: Graph, operator: FullyConnected) -> Firings | None:
    x, y = graph.read(operator)[0], graph.written(operator)[0]
    if x.data is not None:
        return None
    if rows_of(x) == rows_of(y) and (rows_of(x) == 1 or len(x.shape) == len(y.shape)):
        same = {x.id: np.arange(rows_of(x))}
        return _each_row(rows_of(x), same, same)
    if math.prod(y.shape[:-1]) == 1 and 4 * y.elements <= x.size_bytes:
        return _sums(graph, operator)
    return None


def _reshape(graph: Graph, operator: Reshape) -> Firings | None:
    x, y = graph.read(operator)[0], graph.written(operator)[0]
    rows, source, target = np.arange(rows_of(y)), row_bytes(x), row_bytes(y)
    return _each_row(len(rows), {x.id: rows * target // source}, {x.id: ((rows + 1) * target - 1) // source})


def _move(graph: Graph, operator: Move) -> Firings | None:
    """From the places that its regions copy."""
    outputs = graph.written(operator)
    count = rows_of(outputs[0])
    if any(rows_of(y) != count for y in outputs):
        return None
    first: dict[int, Array] = {}
    last: dict[int, Array] = {}
    for region in operator.regions:
        x, y = graph.values[operator.inputs[region.input]], outputs[region.output]
        if x.data is not None:
            return None
        low = first.setdefault(x.id, np.full(count, rows_of(x) - 1))
        high = last.setdefault(x.id, np.zeros(count, np.int64))
        source, target = region.indices()
        read = source * rows_of(x) // x.elements
        written = target * count // y.elements
        np.minimum.at(low, written, read)
        np.maximum.at(high, written, read)
    for x_id, low in first.items():  # rows that need nothing need what the next one needs
        low[:] = np.minimum.accumulate(low[::-1])[::-1]
        if (np.diff(last[x_id][last[x_id] > 0]) < 0).any():
            return None
        last[x_id] = np.maximum.accumulate(last[x_id])
    return _each_row(count, first, last) if first else None


ELEMENTWISE: Final = (AddN, Convert, Map, Table)  # of their operands, with broadcast

_RULES: Final[dict[type[Operator], Callable[[Graph, Any], Firings | None]]] = {
    **dict.fromkeys(ELEMENTWISE, _elements),
    Conv2D: _windows,
    DepthwiseConv2D: _windows,
    FullyConnected: _dense,
    Move: _move,
    Pool2D: _pooling,
    Reduce: _reduction,
    Reshape: _reshape,
}
