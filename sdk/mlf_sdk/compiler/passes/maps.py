# SPDX-License-Identifier: Apache-2.0
"""Expressions of real numbers that only another one reads become a part of it: one loop for both."""

from __future__ import annotations

import dataclasses
from typing import Final

from mlf_sdk.compiler.graph import FLOAT32, Graph
from mlf_sdk.compiler.operators import Call, Expression, Map
from mlf_sdk.compiler.passes.rewrite import Rewrite

MAX_INPUTS: Final = 8
MAX_CALLS: Final = 16


def fuse_maps(graph: Graph) -> Graph:
    """Put each map into the one that reads it alone, element by element."""
    rewrite = Rewrite(graph)
    readers = rewrite.readers()
    for position, operator in enumerate(rewrite.operators):
        if not isinstance(operator, Map) or operator.outputs[0] in graph.outputs:
            continue
        behind = {*readers.get(operator.outputs[0], [])}
        follower = rewrite.operators[behind.pop()] if len(behind) == 1 else None
        if not isinstance(follower, Map):
            continue
        joined = _joined(graph, operator, follower)
        if joined is not None:
            place = rewrite.operators.index(follower)
            rewrite.operators[place], rewrite.operators[position] = joined, None
            for number in operator.inputs:
                readers[number] = [place if reader == position else reader for reader in readers[number]]
    return rewrite.finish()


def _joined(graph: Graph, first: Map, second: Map) -> Map | None:
    """One map for two; None where they are not both of real numbers, or would be too long."""
    (middle,), (y,) = graph.written(first), graph.written(second)
    if middle.shape != y.shape or any(
        v.dtype != FLOAT32 for v in (*graph.read(first), *graph.read(second), y)
    ):
        return None
    others = (i for i in second.inputs if i != middle.id)
    inputs = tuple(dict.fromkeys((*first.inputs, *others)))
    inner = _renumbered(first.expression, [inputs.index(i) for i in first.inputs])
    expression = _renumbered(
        second.expression, [inner if i == middle.id else inputs.index(i) for i in second.inputs]
    )
    if len(inputs) > MAX_INPUTS or not isinstance(expression, Call) or expression.calls > MAX_CALLS:
        return None
    return dataclasses.replace(second, inputs=inputs, expression=expression)


def _renumbered(expression: Expression, places: list[Expression] | list[int]) -> Expression:
    """The expression with others in place of the inputs."""
    if isinstance(expression, int):
        return places[expression]
    arguments = tuple(_renumbered(argument, places) for argument in expression.arguments)
    return dataclasses.replace(expression, arguments=arguments)
