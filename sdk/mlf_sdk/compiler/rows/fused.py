# SPDX-License-Identifier: Apache-2.0
"""Operators that run row by row as one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused(Operator):
    """A region: its inputs are values from outside that are not constant, its outputs those used outside.

    Attributes:
        operators: in the graph's order.
    """

    operators: tuple[Operator, ...]


def fuse(graph: Graph, start: int, end: int) -> Graph:
    """The graph with operators ``start`` to ``end - 1`` as one."""
    inside = graph.operators[start:end]
    made = {y for o in inside for y in o.outputs}
    others = (*graph.operators[:start], *graph.operators[end:])
    used = {*graph.outputs, *(i for o in others for i in o.inputs)}
    read = dict.fromkeys(i for o in inside for i in o.inputs)
    fused = Fused(
        number=inside[0].number,
        kind="ROWS",
        inputs=tuple(i for i in read if i not in made and graph.values[i].data is None),
        outputs=tuple(y for o in inside for y in o.outputs if y in used),
        operators=inside,
    )
    return dataclasses.replace(graph, operators=(*graph.operators[:start], fused, *graph.operators[end:]))
