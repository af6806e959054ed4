# SPDX-License-Identifier: Apache-2.0
"""Layers that are another kind of layer, one with better kernels, and padding that becomes a layer's own.

A depthwise convolution of one channel is a convolution, and a convolution whose window is the whole input is
a matrix product. The latter takes scales of single outputs only: with one scale for all, the two round
their multipliers in different ways.
"""

from __future__ import annotations

import dataclasses

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Conv2D, DepthwiseConv2D, FullyConnected, Move, Operator
from mlf_sdk.compiler.passes.rewrite import Rewrite


def convolve_one_channel(graph: Graph) -> Graph:
    """Make convolutions of depthwise ones that read a single channel."""
    rewrite = Rewrite(graph)
    for position, operator in enumerate(graph.operators):
        if not isinstance(operator, DepthwiseConv2D):
            continue
        x, weights = graph.read(operator)[:2]
        if x.shape[3] != 1 or weights.data is None:
            continue
        quantisation = weights.quantisation
        if quantisation is not None and quantisation.axis is not None:
            quantisation = dataclasses.replace(quantisation, axis=0)
        turned = rewrite.constant(weights, weights.constant.transpose(3, 1, 2, 0), quantisation)
        rewrite.operators[position] = Conv2D(
            number=operator.number,
            kind=operator.kind,
            inputs=(operator.inputs[0], turned, *operator.inputs[2:]),
            outputs=operator.outputs,
            window=operator.window,
            clamp=operator.clamp,
        )
    return rewrite.finish()


def multiply_whole_windows(graph: Graph) -> Graph:
    """Make matrix products of convolutions whose only window covers the whole input."""
    rewrite = Rewrite(graph)
    for position, operator in enumerate(graph.operators):
        if not isinstance(operator, Conv2D):
            continue
        x, weights = graph.read(operator)[:2]
        (y,) = graph.written(operator)
        window = operator.window
        whole = y.shape[:3] == (1, 1, 1) and window.size == x.shape[1:3] and window.before == (0, 0)
        whole = whole and all(1 in pair for pair in zip(window.size, window.dilation, strict=True))
        if not whole or len(weights.scales) < 2 or weights.shape[3] != x.shape[3] or weights.data is None:
            continue
        flat = rewrite.constant(weights, weights.constant.reshape(weights.shape[0], -1), weights.quantisation)
        rewrite.operators[position] = FullyConnected(
            number=operator.number,
            kind=operator.kind,
            inputs=(operator.inputs[0], flat, *operator.inputs[2:]),
            outputs=operator.outputs,
            clamp=operator.clamp,
        )
    return rewrite.finish()


def fold_padding(graph: Graph) -> Graph:
    """Let convolutions read what a PAD before them pads, where nothing else reads its result."""
    rewrite = Rewrite(graph)
    makers = {o.outputs[0]: i for i, o in enumerate(graph.operators) if isinstance(o, Move)}
    for position, operator in enumerate(graph.operators):
        if not isinstance(operator, Conv2D | DepthwiseConv2D) or operator.inputs[0] not in makers:
            continue
        maker = makers[operator.inputs[0]]
        pad = graph.operators[maker]
        before = _padding(graph, pad)
        if before is None or rewrite.only_reader(operator.inputs[0]) != position:
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
    """Rows above and columns left that a move pads height and width with; None for anything else."""
    if not isinstance(operator, Move) or operator.fill is None or len(operator.inputs) != 1:
        return None
    (x,), (y,) = graph.read(operator), graph.written(operator)
    if (
        len(x.shape) != 4
        or operator.fill != y.zero_point
        or (x.shape[0], x.shape[3]) != (y.shape[0], y.shape[3])
    ):
        return None
    row = y.shape[2] * y.shape[3]
    offset = operator.regions[0].target
    before = offset // row, offset % row // y.shape[3]
    padded = regions.simplified(regions.pad(x.shape, (0, *before, 0), y.shape))
    return before if operator.regions == (padded,) else None
