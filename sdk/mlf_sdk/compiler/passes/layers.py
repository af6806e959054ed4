# SPDX-License-Identifier: Apache-2.0
"""Layers that are another kind of layer, one with better kernels, and padding that becomes a layer's own.

A depthwise convolution of one channel is a convolution, and a convolution whose window is the whole input is
a matrix product. The latter takes scales of single outputs only: with one scale for all, the two round
their multipliers in different ways.

Factors, terms and limits of real numbers that follow a layer become its own; an expression that only another
one reads becomes a part of it: one loop for both.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Final

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import FLOAT32, Graph, Value
from mlf_sdk.compiler.operators import (
    UNLIMITED,
    Array,
    Call,
    Conv2D,
    DepthwiseConv2D,
    Expression,
    FullyConnected,
    Map,
    Move,
    Operator,
    Pool2D,
    Reshape,
)
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
    for position, pad, place, layer in rewrite.pairs():
        if not isinstance(layer, Conv2D | DepthwiseConv2D) or layer.inputs[0] != pad.outputs[0]:
            continue
        before = _padding(graph, pad)
        if before is None:
            continue
        window = layer.window
        moved = (window.before[0] + before[0], window.before[1] + before[1])
        inputs, window = (pad.inputs[0], *layer.inputs[1:]), dataclasses.replace(window, before=moved)
        rewrite.put(position, None)
        rewrite.put(place, dataclasses.replace(layer, inputs=inputs, window=window))
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
    return before if operator.regions == (regions.pad(x.shape, (0, *before, 0), y.shape),) else None


MAX_INPUTS: Final = 8
MAX_CALLS: Final = 16


def reshape_after_maps(graph: Graph) -> Graph:
    """Let functions of real numbers and of their channels stand before a reshape that keeps the last axis."""
    rewrite = Rewrite(graph)
    for position, operator, place, follower in rewrite.pairs():
        if not isinstance(operator, Reshape) or not isinstance(follower, Map):
            continue
        (x,), (y,), (z,) = rewrite.read(operator), rewrite.written(operator), rewrite.written(follower)
        others = [v for v in rewrite.read(follower) if v.id != y.id]
        scaled = all(v.data is not None and v.elements == math.prod(v.shape[-1:]) for v in others)
        kept = x.shape[-1:] == y.shape[-1:] and y.shape == z.shape and len(x.shape) == len(y.shape)
        if scaled and kept and {x.dtype, z.dtype} == {FLOAT32}:
            result = rewrite.value(z, shape=x.shape)
            inputs = tuple(x.id if i == y.id else i for i in follower.inputs)
            rewrite.put(place, dataclasses.replace(operator, inputs=(result.id,), outputs=(z.id,)))
            rewrite.put(position, dataclasses.replace(follower, inputs=inputs, outputs=(result.id,)))
    return rewrite.finish()


def fold_affine(graph: Graph) -> Graph:
    """Fold products, sums and limits of channels into the layer before, where nothing else reads it."""
    rewrite = Rewrite(graph)
    for position, operator, place, follower in rewrite.pairs():
        joined = _limited(rewrite, operator, follower) or _scaled(rewrite, operator, follower)
        if joined is not None:
            # In the place of the later one: what it reads besides is written by then.
            rewrite.put(position, None)
            rewrite.put(place, dataclasses.replace(joined, outputs=follower.outputs))
    return rewrite.finish()


def _limited(rewrite: Rewrite, operator: Operator, follower: Operator) -> Operator | None:
    """The operator with the limits of a CLIP that follows it."""
    if not isinstance(follower, Map) or follower.expression.function != "clip":
        return None
    layers = Conv2D | DepthwiseConv2D | FullyConnected | Pool2D
    if not isinstance(operator, layers) or rewrite.written(operator)[0].dtype != np.float32:
        return None
    if follower.expression.arguments != (0,):
        return None
    low, high = follower.expression.parameters
    clamp = (min(max(operator.clamp[0], low), high), max(min(operator.clamp[1], high), low))
    return dataclasses.replace(operator, clamp=clamp)


def _scaled(rewrite: Rewrite, operator: Operator, follower: Operator) -> Operator | None:
    """The layer with the factors or terms of its channels in its weights and biases."""
    if not isinstance(operator, Conv2D | DepthwiseConv2D | FullyConnected) or operator.clamp != UNLIMITED:
        return None
    if not isinstance(follower, Map):
        return None
    call, clamp = follower.expression.unlimited()
    weights, (y,) = rewrite.values[operator.inputs[1]], rewrite.written(operator)
    if weights.data is None or weights.dtype != np.float32 or y.dtype != np.float32:
        return None
    constant = _per_channel(rewrite.graph, follower, call, y)
    if constant is None:
        return None
    factor, term = constant
    bias = rewrite.values[operator.inputs[2]].constant if len(operator.inputs) > 2 else np.zeros(y.shape[-1])
    places = (-1,) if isinstance(operator, DepthwiseConv2D) else (-1, *(1,) * (len(weights.shape) - 1))
    scaled = weights.constant.astype(np.float64) * factor.reshape(places)
    moved = bias.reshape(-1).astype(np.float64) * factor + term
    like = Value(id=-1, name=weights.name + "_bias", dtype=weights.dtype, shape=())
    return dataclasses.replace(
        operator,
        inputs=(
            operator.inputs[0],
            rewrite.constant(weights, scaled, None),
            rewrite.constant(like, moved, None),
        ),
        clamp=clamp,
    )


def _per_channel(graph: Graph, operator: Map, call: Call, y: Value) -> tuple[Array, Array] | None:
    """Factor and term that a call gives each channel of a layer's result."""
    if call.arguments != (0, 1):
        return None
    first = operator.inputs[0] == y.id
    other = graph.values[operator.inputs[1 if first else 0]]
    if operator.inputs[0] == operator.inputs[1] or graph.values[operator.outputs[0]].shape != y.shape:
        return None
    channels = y.shape[-1]
    if other.data is None or (
        other.elements != 1 and (other.elements != channels or other.shape[-1] != channels)
    ):
        return None
    numbers = np.broadcast_to(other.constant.reshape(-1).astype(np.float64), (channels,))
    one, zero = np.ones(channels), np.zeros(channels)
    result = {
        "mul": (numbers, zero),
        "add": (one, numbers),
        "sub": (one, -numbers) if first else (-one, numbers),
    }
    if first and numbers.all():
        result["div"] = (1 / numbers, zero)
    return result.get(call.function)


def fuse_maps(graph: Graph) -> Graph:
    """Put each map into the one that reads it alone, element by element."""
    rewrite = Rewrite(graph)
    for position, operator, place, follower in rewrite.pairs():
        if not isinstance(operator, Map) or not isinstance(follower, Map):
            continue
        joined = _joined(graph, operator, follower)
        if joined is not None:
            rewrite.put(position, None)
            rewrite.put(place, joined)
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
