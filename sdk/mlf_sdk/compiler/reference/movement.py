# SPDX-License-Identifier: Apache-2.0
"""References of operators that move, resize or choose elements."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.computed import ArgExtreme
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Array, Move, Reshape
from mlf_sdk.compiler.reference import States, reference


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


@reference(ArgExtreme)
def arg_extreme(graph: Graph, operator: ArgExtreme, inputs: list[Array], _: States) -> list[Array]:
    """ARG_MAX and ARG_MIN; the first of equal elements, or the last."""
    function = np.argmin if operator.smallest else np.argmax
    if operator.last:
        backwards = np.flip(inputs[0], axis=operator.axis)
        return [inputs[0].shape[operator.axis] - 1 - function(backwards, axis=operator.axis)]
    return [function(inputs[0], axis=operator.axis)]
