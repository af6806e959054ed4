# SPDX-License-Identifier: Apache-2.0
"""Padding with zero points before a convolution becomes the convolution's own."""

from __future__ import annotations

import dataclasses

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Conv2D, DepthwiseConv2D, Move, Operator
from mlf_sdk.compiler.passes.rewrite import Rewrite


def fold_padding(graph: Graph) -> Graph:
    """Let convolutions read what a PAD before them pads, where nothing else reads its result."""
    rewrite = Rewrite(graph)
    readers = rewrite.readers()
    makers = {o.outputs[0]: i for i, o in enumerate(graph.operators) if isinstance(o, Move)}
    for position, operator in enumerate(graph.operators):
        if not isinstance(operator, Conv2D | DepthwiseConv2D) or operator.inputs[0] not in makers:
            continue
        maker = makers[operator.inputs[0]]
        pad = graph.operators[maker]
        before = _padding(graph, pad)
        alone = readers[operator.inputs[0]] == [position] and operator.inputs[0] not in graph.outputs
        if before is None or not alone:
            continue
        window = operator.window
        moved = (window.before[0] + before[0], window.before[1] + before[1])
        rewrite.operators[position] = dataclasses.replace(
            operator,
            inputs=(pad.inputs[0], *operator.inputs[1:]),
            window=dataclasses.replace(window, before=moved),
        )
        rewrite.operators[maker] = None
    return rewrite.finish()


def _padding(graph: Graph, operator: Operator) -> tuple[int, int] | None:
    """Rows above and columns left that a PAD of height and width adds; None for anything else."""
    if not isinstance(operator, Move) or operator.kind not in ("PAD", "PADV2") or operator.fill is None:
        return None
    (x,), (y,) = graph.read(operator), graph.written(operator)
    if len(x.shape) != 4 or (x.shape[0], x.shape[3]) != (y.shape[0], y.shape[3]):
        return None
    zero = y.zero_point if y.quantisation else 0.0
    if operator.fill != zero:
        return None
    offset = operator.regions[0].target
    row = y.shape[2] * y.shape[3]
    return offset // row, offset % row // y.shape[3]
