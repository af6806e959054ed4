# SPDX-License-Identifier: Apache-2.0
"""Reference of ensembles of decision trees."""

from __future__ import annotations

import operator as functions
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.reference import States, reference
from mlf_sdk.compiler.trees import Aggregate, TreeEnsemble

_CONDITIONS: Final = (
    functions.le, functions.lt, functions.ge, functions.gt, functions.eq, functions.ne,
)  # fmt: skip
_AGGREGATES: Final = {Aggregate.SUM: np.add, Aggregate.MIN: np.minimum, Aggregate.MAX: np.maximum}


def _holds(operator: TreeEnsemble, nodes: Array, values: Array) -> Array:
    """Truth of the conditions of nodes for one value each."""
    kinds, threshold = operator.condition[nodes], operator.threshold[nodes]
    result = operator.missing[nodes] & np.isnan(values)
    for number, function in enumerate(_CONDITIONS):
        result |= (kinds == number) & function(values, threshold)
    for place in np.flatnonzero(kinds == len(_CONDITIONS)):
        start = int(threshold[place])
        result[place] |= (
            values[place] in operator.members[start + 1 : start + 1 + int(operator.members[start])]
        )
    return np.asarray(result)


@reference(TreeEnsemble)
def tree_ensemble(graph: Graph, operator: TreeEnsemble, inputs: list[Array], _: States) -> list[Array]:
    """Scores: all rows walk down one tree together."""
    x = inputs[0].astype(np.float32)
    scores: Array | None = None
    for root in operator.roots:
        at = np.full(len(x), root, np.int64)
        while (inner := np.flatnonzero(operator.feature[at] >= 0)).size:
            nodes = at[inner]
            holds = _holds(operator, nodes, x[inner, operator.feature[nodes]])
            at[inner] = np.where(holds, nodes + 1, operator.otherwise[nodes])
        result = operator.weights[operator.otherwise[at]].astype(np.float64)
        scores = result if scores is None else _AGGREGATES[operator.aggregate](scores, result)
    return [np.asarray(scores)]
