# SPDX-License-Identifier: Apache-2.0
"""Channels that hold one value whatever the input are removed, together with the weights that read them.

Whether a channel is constant follows from its weights, its bias and the range of its input: the lowest and
the highest sum give the same stored value. A convolution that reads it takes its contribution into its
bias, exactly, as integers; where it pads, only a channel that holds the zero point can go, for padding
contributes nothing either. A matrix product of one row does the same with values of single pixels.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.layer_sums import Sums, sum_bounds
from mlf_sdk.compiler.operators import (
    Array,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Operator,
    Pool2D,
    Reshape,
)
from mlf_sdk.compiler.passes.rewrite import Rewrite
from mlf_sdk.compiler.requantise import channel_multipliers
from mlf_sdk.ir.tensor import Quantisation

_UNKNOWN = 1 << 16
_SAFE_BIAS = 1 << 30


def remove_constant_channels(graph: Graph) -> Graph:
    """Remove channels that are constant, as far as all that reads them can do without."""
    rewrite = Rewrite(graph)
    held: dict[int, Array] = {}
    for operator in graph.operators:
        result = _constants(graph, operator, held)
        if result is not None:
            held[operator.outputs[0]] = result
    keep = {value: constants == _UNKNOWN for value, constants in held.items()}
    _settle(graph, rewrite.readers, held, keep)
    for position, operator in enumerate(graph.operators):
        rewrite.operators[position] = _shrunk(rewrite, operator, held, keep)
    for value, kept in keep.items():
        old = rewrite.values[value]
        rewrite.values[value] = dataclasses.replace(old, shape=(*old.shape[:-1], int(kept.sum())))
    return rewrite.finish()


def _is_byte_layer(graph: Graph, operator: Operator) -> bool:
    values = [graph.values[i] for i in (*operator.inputs[:2], *operator.outputs)]
    return all(v.dtype == np.int8 for v in values)


def _constants(graph: Graph, operator: Operator, held: dict[int, Array]) -> Array | None:
    """Stored value of each channel of the output, `_UNKNOWN` where it varies; None: nothing is known."""
    if isinstance(operator, Reshape):
        (x,), (y,) = graph.read(operator)[:1], graph.written(operator)
        return held.get(x.id) if x.shape[-1:] == y.shape[-1:] == (x.elements,) else None
    if isinstance(operator, Pool2D):
        known = held.get(operator.inputs[0])
        return None if known is None else np.where(known == _UNKNOWN, known, np.clip(known, *operator.clamp))
    if not isinstance(operator, Conv2D | DepthwiseConv2D) or not _is_byte_layer(graph, operator):
        return None
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    known = held.get(x.id, np.full(x.shape[3], _UNKNOWN))
    usable = _removable(operator, x, known)
    bias = graph.bias(operator)
    if isinstance(operator, Conv2D):
        if weights.shape[3] != x.shape[3]:
            return None
        taps = weights.constant.astype(np.int64)
        fixed = (taps.sum(axis=(1, 2)) * np.where(usable, known - x.zero_point, 0)).sum(axis=1)
        rows = np.where(usable, 0, taps).reshape(taps.shape[0], -1)
    else:
        if operator.multiplier != 1:
            return None
        taps = weights.constant[0].astype(np.int64)
        fixed = taps.sum(axis=(0, 1)) * np.where(usable, known - x.zero_point, 0)
        rows = np.where(usable, 0, taps).reshape(-1, taps.shape[2]).T
    bounds = sum_bounds(rows, bias + fixed, -128 - x.zero_point, 127 - x.zero_point)
    multipliers = channel_multipliers(x, weights, y, y.shape[3])
    sums = Sums(multipliers=multipliers, zero_point=y.zero_point, bounds=bounds, clamp=operator.clamp)
    return np.where(sums.constant, sums.ends[0], _UNKNOWN)


def _removable(operator: Conv2D | DepthwiseConv2D | FullyConnected, x: Value, known: Array) -> Array:
    """Channels of x that the layer can do without."""
    if isinstance(operator, FullyConnected):
        return known != _UNKNOWN
    may_pad = operator.window.before != (0, 0) or operator.window.size != (1, 1)
    return (known == x.zero_point) if may_pad else (known != _UNKNOWN)


def _settle(
    graph: Graph, readers: dict[int, set[int]], held: dict[int, Array], keep: dict[int, Array]
) -> None:
    """Keep every channel that some reader needs, until nothing changes; keep a multiple of four."""
    for value in list(keep):
        if value in graph.outputs or value in graph.inputs:
            keep[value] = np.ones_like(keep[value])
    for operator in graph.operators:
        source = operator.inputs[0] if operator.inputs else -1
        if _follows(operator, source) and source not in keep and operator.outputs[0] in keep:
            keep[operator.outputs[0]][:] = True  # its input keeps all channels
    while True:
        before = {value: kept.copy() for value, kept in keep.items()}
        for value, kept in keep.items():
            for position in readers.get(value, ()):
                np.logical_or(kept, _needed(graph, graph.operators[position], value, held, keep), out=kept)
            _round_up(kept)
            for position in readers.get(value, ()):
                operator = graph.operators[position]
                if _follows(operator, value) and operator.outputs[0] in keep:
                    np.logical_or(keep[operator.outputs[0]], kept, out=keep[operator.outputs[0]])
        if all((before[v] == keep[v]).all() for v in keep):
            return


def _needed(
    graph: Graph, operator: Operator, value: int, held: dict[int, Array], keep: dict[int, Array]
) -> Array:
    """Channels of ``value`` that a reader can't do without."""
    x = graph.values[value]
    everything = np.ones(x.shape[-1], bool)
    if isinstance(operator, Conv2D) and _is_byte_layer(graph, operator) and operator.inputs[0] == value:
        return (
            everything
            if graph.values[operator.inputs[1]].shape[3] != x.shape[3]
            else ~_removable(operator, x, held[value])
        )
    if isinstance(operator, FullyConnected) and _is_byte_layer(graph, operator):
        weights = graph.values[operator.inputs[1]]
        rest = weights.data is None or x.elements != weights.shape[1] or x.shape[-1] != weights.shape[1]
        return everything if rest else ~_removable(operator, x, held[value])
    if _follows(operator, value) and operator.outputs[0] in keep:
        return keep[operator.outputs[0]]
    return everything


def _follows(operator: Operator, value: int) -> bool:
    """True where each channel of the output is made from the same channel of ``value``."""
    if isinstance(operator, DepthwiseConv2D):
        return operator.multiplier == 1 and operator.inputs[0] == value
    return isinstance(operator, Pool2D | Reshape)


def _round_up(kept: Array) -> None:
    """Keep further channels so that their number stays a multiple of four where it was one."""
    if kept.size % 4 == 0:
        spare = np.flatnonzero(~kept)
        missing = max(-int(kept.sum()) % 4, 4 if not kept.any() else 0)
        kept[spare[:missing]] = True
    elif not kept.any():
        kept[0] = True


def _shrunk(rewrite: Rewrite, operator: Operator, held: dict[int, Array], keep: dict[int, Array]) -> Operator:
    """The operator on fewer channels."""
    graph = rewrite.graph
    if not isinstance(operator, Conv2D | DepthwiseConv2D | FullyConnected):
        return operator
    value, output = operator.inputs[0], operator.outputs[0]
    inputs, outputs = keep.get(value), keep.get(output)
    if (inputs is None or inputs.all()) and (outputs is None or outputs.all()):
        return operator
    x, weights = graph.read(operator)[:2]
    taps = weights.constant
    bias = graph.bias(operator)
    if not isinstance(operator, DepthwiseConv2D):
        if inputs is not None:
            gone = ~inputs
            fixed = np.where(gone, held[value] - x.zero_point, 0)
            sums = taps.astype(np.int64).sum(axis=tuple(range(1, taps.ndim - 1)))
            bias = bias + (sums * fixed).sum(axis=1)
            taps = taps[..., inputs]
        chosen = np.ones(taps.shape[0], bool) if outputs is None else outputs
        taps = taps[chosen]
    else:
        chosen = np.ones(taps.shape[3], bool) if outputs is None else outputs
        taps = taps[..., chosen]
    bias = np.clip(bias[chosen], -_SAFE_BIAS, _SAFE_BIAS)
    template = graph.values[operator.inputs[2]] if len(operator.inputs) > 2 else None
    like = template or Value(id=-1, name="bias", dtype=np.dtype(np.int32), shape=())
    return dataclasses.replace(
        operator,
        inputs=(
            value,
            rewrite.constant(weights, taps, _quantisation(weights, chosen)),
            rewrite.constant(like, bias, _quantisation(like, chosen) if template else None),
        ),
    )


def _quantisation(value: Value, chosen: Array) -> Quantisation | None:
    quantisation = value.quantisation
    if quantisation is None or quantisation.axis is None:
        return quantisation
    picked = np.flatnonzero(chosen)
    return dataclasses.replace(
        quantisation,
        scale=tuple(quantisation.scale[i] for i in picked),
        zero_point=tuple(quantisation.zero_point[i] for i in picked),
    )
