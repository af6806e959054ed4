# SPDX-License-Identifier: Apache-2.0
"""Expressions of real numbers become a part of what makes or reads them.

Factors, terms and limits that follow a layer become its own; an expression that only another one reads
becomes a part of it: one loop for both.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

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
    Operator,
    Pool2D,
)
from mlf_sdk.compiler.passes.rewrite import Rewrite

MAX_INPUTS: Final = 8
MAX_CALLS: Final = 16


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
