# SPDX-License-Identifier: Apache-2.0
"""Reference of regions: their operators one after the other, on whole tensors."""

from __future__ import annotations

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Array, Fused
from mlf_sdk.compiler.reference import States, evaluate, reference


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
