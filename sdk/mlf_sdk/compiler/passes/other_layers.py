# SPDX-License-Identifier: Apache-2.0
"""Layers that are another kind of layer, one with better kernels.

A depthwise convolution of one channel is a convolution, and a convolution whose window is the whole input is
a matrix product. The latter takes scales of single outputs only: with one scale for all, the two round
their multipliers in different ways.
"""

from __future__ import annotations

import dataclasses

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Conv2D, DepthwiseConv2D, FullyConnected
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
        found = weights.quantisation
        if found is not None and found.axis is not None:
            found = dataclasses.replace(found, axis=0)
        turned = rewrite.constant(weights, weights.constant.transpose(3, 1, 2, 0), found)
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
