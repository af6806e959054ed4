# SPDX-License-Identifier: Apache-2.0
"""References of operators that move, resize or choose elements, and of regions."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.computed import ArgExtreme
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Array, Fused, Move, Reshape
from mlf_sdk.compiler.reference import States, evaluate, reference


@reference(Move)
def move(graph: Graph, operator: Move, inputs: list[Array], _: States) -> list[Array]:
    """PAD, CONCATENATION, SPLIT, TRANSPOSE, STRIDED_SLICE and their like."""
    outputs = [np.full(y.elements, operator.fill or 0, y.dtype) for y in graph.written(operator)]
    for region in operator.regions:
        source, target = region.indices()
        outputs[region.output][target] = inputs[region.input].reshape(-1)[source]
    return outputs


@reference(Reshape)
def reshape(graph: Graph, operator: Reshape, inputs: list[Array], _: States) -> list[Array]:
    """RESHAPE, SQUEEZE and EXPAND_DIMS."""
    return [inputs[0].reshape(graph.written(operator)[0].shape)]


def place_of_extreme(x: Array, axis: int, *, smallest: bool = False, last: bool = False) -> Array:
    """Places of extremes by comparison in order: NaN is passed over, but stays where it comes first.

    TFLite and ONNX Runtime compare so; numpy takes the first NaN.
    """
    rows = np.moveaxis(x, axis, 0)
    rows = -rows if smallest else rows
    best, places = rows[0], np.zeros(rows.shape[1:], np.int64)
    for place, row in enumerate(rows):
        better = row >= best if last else row > best
        best, places = np.where(better, row, best), np.where(better, place, places)
    return places


@reference(ArgExtreme)
def arg_extreme(graph: Graph, operator: ArgExtreme, inputs: list[Array], _: States) -> list[Array]:
    """ARG_MAX and ARG_MIN; the first of equal elements, or the last."""
    if inputs[0].dtype.kind == "f" and np.isnan(inputs[0]).any():
        return [place_of_extreme(inputs[0], operator.axis, smallest=operator.smallest, last=operator.last)]
    function = np.argmin if operator.smallest else np.argmax
    if operator.last:
        backwards = np.flip(inputs[0], axis=operator.axis)
        return [inputs[0].shape[operator.axis] - 1 - function(backwards, axis=operator.axis)]
    return [function(inputs[0], axis=operator.axis)]


@reference(Fused)
def fused(graph: Graph, operator: Fused, inputs: list[Array], states: States) -> list[Array]:
    """The outputs of the region."""
    values = {v.id: v.data for v in graph.values if v.data is not None}
    values.update(zip(operator.inputs, inputs, strict=True))
    for one in operator.operators:
        result = evaluate(graph, one, [values[i] for i in one.inputs], states)
        for number, array in zip(one.outputs, result, strict=True):
            value = graph.values[number]
            values[number] = array.astype(value.dtype).reshape(value.shape)
    return [values[i] for i in operator.outputs]
