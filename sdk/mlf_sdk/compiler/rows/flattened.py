# SPDX-License-Identifier: Apache-2.0
"""Maps that are flattened for a dense layer: without that it takes them row by row."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import FullyConnected, Operator, Reshape
from mlf_sdk.compiler.rows.needs import rows_of


def through_reshapes(graph: Graph) -> Graph:
    """The graph whose dense layers of one output row read maps of several rows themselves."""
    makers = {y: o for o in graph.operators for y in o.outputs}
    operators: list[Operator] = []
    used = {*graph.outputs}
    for operator in reversed(graph.operators):
        if not isinstance(operator, Reshape) or used & {*operator.outputs}:
            operators.append(_of_map(graph, makers, operator))
            used |= {*operators[-1].inputs}
    return dataclasses.replace(graph, operators=tuple(reversed(operators)))


def _of_map(graph: Graph, makers: Mapping[int, Operator], operator: Operator) -> Operator:
    """The operator; a dense layer reads the map that was flattened for it."""
    if not isinstance(operator, FullyConnected) or math.prod(graph.written(operator)[0].shape[:-1]) != 1:
        return operator
    x, *others = operator.inputs
    while isinstance(maker := makers.get(x), Reshape):
        x = maker.inputs[0]
    if rows_of(graph.values[x]) == 1:
        return operator
    return dataclasses.replace(operator, inputs=(x, *others))


def with_reshapes(graph: Graph, given: Graph) -> Graph:
    """A graph made of `through_reshapes`, whose layers outside of regions read what they did.

    Args:
        given: the graph before.
    """
    makers = {y: o for o in given.operators for y in o.outputs}
    there = {y for o in graph.operators for y in o.outputs}
    operators: list[Operator] = []
    for operator in graph.operators:
        if isinstance(operator, FullyConnected):
            before = makers[operator.outputs[0]]
            missing = []
            x = before.inputs[0]
            while x != operator.inputs[0] and x not in there:
                missing.append(makers[x])
                x = makers[x].inputs[0]
            there |= {y for o in missing for y in o.outputs}
            operators += [*reversed(missing), before]
        else:
            operators.append(operator)
    return dataclasses.replace(graph, operators=tuple(operators))
