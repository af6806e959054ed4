# SPDX-License-Identifier: Apache-2.0
"""Time series of one row, as layers of one dimension have them, with time along the rows."""

from __future__ import annotations

import dataclasses

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import (
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Move,
    Operator,
    Pool2D,
    Reshape,
    Softmax,
    Window,
)
from mlf_sdk.compiler.reals import Reduce
from mlf_sdk.compiler.rows.needs import ELEMENTWISE

_WINDOWS = (Conv2D, DepthwiseConv2D, Pool2D)


def time_on_rows(graph: Graph) -> Graph:
    """The graph with values of 1 x 1 x time x channels as 1 x time x 1 x channels, where all users allow.

    The bytes stay where they are.
    """
    flat = {v.id for v in graph.values if v.data is None and _lies_flat(v)}
    users = [o for o in graph.operators if flat & {*o.inputs, *o.outputs}]
    if not users or not all(_can_turn(graph, o) for o in users):
        return graph
    values = list(graph.values)
    for number in flat:
        values[number] = _turned(values[number])
    operators: list[Operator] = []
    for operator in graph.operators:
        turned = bool(flat & {*operator.inputs, *operator.outputs})
        operators.append(_along_rows(operator) if turned else operator)
        if turned and isinstance(operator, Conv2D | DepthwiseConv2D):
            weights = operator.inputs[1]
            values[weights] = _turned(graph.values[weights])
    return dataclasses.replace(graph, values=tuple(values), operators=tuple(operators))


def _lies_flat(value: Value) -> bool:
    return len(value.shape) == 4 and value.shape[:2] == (1, 1) and value.shape[2] > 1


def _turned(value: Value) -> Value:
    a, b, c, d = value.shape
    data = None if value.data is None else value.data.reshape(a, c, b, d)
    return dataclasses.replace(value, shape=(a, c, b, d), data=data)


def _can_turn(graph: Graph, operator: Operator) -> bool:
    if isinstance(operator, _WINDOWS):
        (x, *_), (y, *_) = graph.read(operator), graph.written(operator)
        return x.shape[1] == y.shape[1] == operator.window.size[0] == 1
    if isinstance(operator, ELEMENTWISE):
        return all(x.data is None or x.elements == x.shape[-1] for x in graph.read(operator) if x.shape)
    return isinstance(operator, FullyConnected | Move | Reduce | Reshape | Softmax)


def _along_rows(operator: Operator) -> Operator:
    if isinstance(operator, Conv2D | DepthwiseConv2D | Pool2D):
        w = operator.window
        size, stride, dilation, before = ((b, a) for a, b in (w.size, w.stride, w.dilation, w.before))
        window = Window(size=size, stride=stride, dilation=dilation, before=before)
        return dataclasses.replace(operator, window=window)
    if isinstance(operator, Reduce):
        swapped = {1: 2, 2: 1}
        axes = tuple(sorted(swapped.get(axis, axis) for axis in operator.axes))
        return dataclasses.replace(operator, axes=axes)
    return operator
