# SPDX-License-Identifier: Apache-2.0
"""Kernel of ensembles of decision trees: tables in the smallest types, and one loop down each tree."""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.trees import Aggregate, Condition, TreeEnsemble

_MISSING: Final = 8  # bit of a node's condition
_PUT: Final = {
    Aggregate.SUM: "s[k] += w[k];",
    Aggregate.MIN: "s[k] = w[k] < s[k] ? w[k] : s[k];",
    Aggregate.MAX: "s[k] = w[k] > s[k] ? w[k] : s[k];",
}


_IS_MEMBER: Final = """static inline int32_t is_member(const float *set, float a)
{
    for (int32_t k = (int32_t)*set; k > 0; --k) {
        if (*++set == a) {
            return 1;
        }
    }
    return 0;
}
"""


def _smallest(data: Array) -> Array:
    """Whole numbers without sign in the smallest type that holds them."""
    most = int(data.max(initial=0))
    dtype = np.uint8 if most < 1 << 8 else np.uint16 if most < 1 << 16 else np.uint32
    return np.ascontiguousarray(data.astype(dtype))


def tree_ensemble(graph: Graph, operator: TreeEnsemble) -> Kernel:
    """Trees one after the other; a leaf is a node that jumps nowhere.

    Tables of each node: feature, threshold, distance to the node that follows where the condition doesn't
    hold (0: a leaf, whose number is in the place of its feature where that is one type, else in a table).
    """
    (x,), (y,) = graph.read(operator), graph.written(operator)
    features, targets = x.shape[-1], y.shape[-1]
    leaf = operator.feature < 0
    numbers = np.arange(leaf.size)
    jump = _smallest(np.where(leaf, 0, operator.otherwise - numbers))
    first = _smallest(np.where(leaf, operator.otherwise, operator.feature))
    roots = _smallest(operator.roots)
    constants: list[Array] = [first, jump, roots]
    threshold = operator.threshold.astype(np.float32)
    if targets == 1:  # the weight of a leaf takes the place of its threshold
        threshold = np.where(leaf, operator.weights[np.where(leaf, operator.otherwise, 0), 0], threshold)
        weights = "const float *w = p3 + i;"
    else:
        constants.append(operator.weights.astype(np.float32).reshape(-1))
        weights = f"const float *w = p4 + (uint32_t)p0[i] * {targets};"
    constants = [*constants[:3], np.ascontiguousarray(threshold, np.float32), *constants[3:]]
    condition = _condition(operator, constants)
    members = "member" in condition
    if members:
        constants.append(np.ascontiguousarray(operator.members, np.float32))
        condition = condition.replace("SETS", f"p{len(constants) - 1}")
    body = f"""    for (int32_t n = 0; n < {y.elements // targets}; ++n) {{
        const float *v = x0 + n * {features};
        float *s = y0 + n * {targets};
        for (int32_t t = 0; t < {roots.size}; ++t) {{
            uint32_t i = p2[t];
            while (p1[i] != 0) {{
                const float a = v[p0[i]], b = p3[i];
                i += {condition} ? 1u : p1[i];
            }}
            {weights}
            for (int32_t k = 0; k < {targets}; ++k) {{
                if (t == 0) {{
                    s[k] = w[k];
                }} else {{
                    {_PUT[operator.aggregate]}
                }}
            }}
        }}
    }}
"""
    made = tuple(constants)
    parameters = arguments(graph, operator, constants=made)
    return Kernel(
        family="tree_ensemble",
        parameters=parameters,
        body=body,
        helpers={"is_member": _IS_MEMBER} if members else {},
        constants=made,
    )


def _condition(operator: TreeEnsemble, constants: list[Array]) -> str:
    """Expression of a node's condition; adds a table where nodes have several ones."""
    inner = operator.feature >= 0
    kinds = operator.condition + _MISSING * operator.missing.astype(np.int64)
    used = sorted({int(kind) for kind in kinds[inner]})
    if len(used) < 2:
        return _one(used[0] if used else 0)
    constants.append(kinds.astype(np.uint8))
    table = f"p{len(constants) - 1}"
    text = _one(used[-1])
    for kind in reversed(used[:-1]):
        text = f"{table}[i] == {kind} ? {_one(kind)} : {text}"
    return f"({text})"


def _one(kind: int) -> str:
    function = list(Condition)[kind % _MISSING]
    comparison = f"a {function.value} b"
    if function is Condition.MEMBER:
        comparison = "is_member(SETS + (int32_t)b, a)"
    return f"({comparison} || a != a)" if kind >= _MISSING else f"({comparison})"
