# SPDX-License-Identifier: Apache-2.0
"""Kernels of classical models.

Support vectors stay in flash, and no kernel matrix is kept; trees are tables in the smallest types, with one loop
down each.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.classical import (
    LEAST_PROBABILITY,
    MAX_SWEEPS,
    Aggregate,
    Condition,
    PairCoupling,
    PairVotes,
    SupportVectors,
    SvmKernel,
    TreeEnsemble,
    least_change,
)
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.floats.functions import helpers_of
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.operators import Array, Operator
from mlf_sdk.tools.ctext import c_exact, c_real

_MAX_FACTORS: Final = 8  # of a power that is computed as a product


def support_vectors(graph: Graph, operator: SupportVectors) -> Kernel:
    """One vector after the other, added to its decision values with compensation (Kahan).

    Factors have both signs and are large, thousands of them cancel: a plain sum has errors of some 1e-5 of
    the result, as ONNX Runtime's has. |x - s|^2 is summed as it is: expanded, it loses all of it far from 0.
    """
    (x,), (y,) = graph.read(operator), graph.written(operator)
    features, values = x.shape[1], y.shape[1]
    rest, classes = operator.coefficients.shape[1], len(operator.counts)
    places = operator.places.astype(np.uint8 if values <= 1 << 8 else np.uint16)
    constants: tuple[Array, ...] = (
        np.ascontiguousarray(operator.vectors, np.float32),
        np.ascontiguousarray(operator.coefficients, np.float32),
        np.ascontiguousarray(operator.bias, np.float32),
        np.array(operator.counts, np.uint16 if max(operator.counts) < 1 << 16 else np.uint32),
        np.ascontiguousarray(places),
    )
    body = f"""    for (int32_t n = 0; n < {x.shape[0]}; ++n) {{
        const float *v = x0 + n * {features}, *s = p0, *w = p1;
        float *sum = y0 + n * {values}, *rest = b0;
        for (int32_t i = 0; i < {values}; ++i) {{
            sum[i] = p2[i];
            rest[i] = 0.0f;
        }}
        for (int32_t c = 0; c < {classes}; ++c)
        for (uint32_t m = p3[c]; m > 0; --m) {{
            float d = 0.0f;
            for (int32_t i = 0; i < {features}; ++i) {{
                {_term(operator)}
            }}
            s += {features};
{_function(operator)}            for (int32_t i = 0; i < {rest}; ++i) {{
                const int32_t at = p4[c * {rest} + i];
                const float old = sum[at], added = k * *w++ - rest[at], total = old + added;
                rest[at] = (total - old) - added;
                sum[at] = total;
            }}
        }}
    }}
"""
    return _of_reals(graph, operator, f"svm_{operator.kernel.value}", body, constants, values)


def _term(operator: SupportVectors) -> str:
    """Statement that adds one feature's term."""
    if operator.kernel is not SvmKernel.RBF:
        return "d += v[i] * s[i];"
    return "const float a = v[i] - s[i];\n                d += a * a;"


def _function(operator: SupportVectors) -> str:
    """Statements that make the kernel function ``k`` of a product or distance ``d``."""
    indent = " " * 12
    if operator.kernel is SvmKernel.RBF:
        return f"{indent}const float k = real_exp({c_real(-operator.gamma)} * d);\n"
    inner = f"{c_real(operator.gamma)} * d + {c_real(operator.offset)}"
    if operator.kernel is SvmKernel.SIGMOID:
        return f"{indent}const float k = real_tanh({inner});\n"
    factors = int(operator.degree) if operator.degree in range(1, _MAX_FACTORS + 1) else 0
    power = " * ".join(["z"] * factors) or f"powf(z, {c_real(operator.degree)})"
    return f"{indent}const float z = {inner};\n{indent}const float k = {power};\n"


def pair_votes(graph: Graph, operator: PairVotes) -> Kernel:
    """Votes are counted in the workspace."""
    (x,) = graph.read(operator)
    classes, pairs = operator.classes, x.shape[1]
    body = f"""    for (int32_t n = 0; n < {x.shape[0]}; ++n) {{
        const float *v = x0 + n * {pairs};
        for (int32_t i = 0; i < {classes}; ++i) {{
            b0[i] = 0;
        }}
        for (int32_t i = 0; i < {classes}; ++i)
        for (int32_t j = i + 1; j < {classes}; ++j) {{
            ++b0[*v++ > 0.0f ? i : j];
        }}
        int32_t most = 0;
        for (int32_t i = 1; i < {classes}; ++i) {{
            most = b0[i] > b0[most] ? i : most;
        }}
        y0[n] = most;
    }}
"""
    return Kernel.of(graph, operator, "pair_votes", body, workspace_bytes=4 * classes)


def pair_coupling(graph: Graph, operator: PairCoupling) -> Kernel:
    """The quadratic form and its products with the probabilities are in the workspace."""
    (x,) = graph.read(operator)
    classes, pairs = operator.classes, x.shape[1]
    constants = tuple(np.ascontiguousarray(a, np.float32) for a in (operator.a, operator.b))
    least, most = c_real(LEAST_PROBABILITY), c_real(1 - LEAST_PROBABILITY)
    body = f"""    float *q = b0, *product = b0 + {classes * classes};
    for (int32_t n = 0; n < {x.shape[0]}; ++n) {{
        const float *v = x0 + n * {pairs};
        float *p = y0 + n * {classes};
        for (int32_t i = 0; i < {classes}; ++i) {{
            p[i] = {c_exact(1 / classes)};
            q[i * {classes + 1}] = 0.0f;
        }}
        for (int32_t i = 0, k = 0; i < {classes}; ++i)
        for (int32_t j = i + 1; j < {classes}; ++j, ++k) {{
            const float a = real_limit(real_sigmoid(-(v[k] * p0[k] + p1[k])), {least}, {most});
            const float b = 1.0f - a;
            q[i * {classes} + j] = q[j * {classes} + i] = -a * b;
            q[i * {classes + 1}] += b * b;
            q[j * {classes + 1}] += a * a;
        }}
        for (int32_t sweep = 0; sweep < {max(MAX_SWEEPS, classes)}; ++sweep) {{
            float total = 0.0f, change = 0.0f;
            for (int32_t i = 0; i < {classes}; ++i) {{
                float sum = 0.0f;
                for (int32_t j = 0; j < {classes}; ++j) {{
                    sum += q[i * {classes} + j] * p[j];
                }}
                product[i] = sum;
                total += p[i] * sum;
            }}
            for (int32_t i = 0; i < {classes}; ++i) {{
                const float a = fabsf(product[i] - total);
                change = a > change ? a : change;
            }}
            if (change < {c_exact(least_change(classes))}) {{
                break;
            }}
            for (int32_t i = 0; i < {classes}; ++i) {{
                const float *r = q + i * {classes};
                const float step = (total - product[i]) / r[i], scale = 1.0f / (1.0f + step);
                p[i] += step;
                total = (total + step * (step * r[i] + 2.0f * product[i])) * scale * scale;
                for (int32_t j = 0; j < {classes}; ++j) {{
                    product[j] = (product[j] + step * r[j]) * scale;
                    p[j] *= scale;
                }}
            }}
        }}
    }}
"""
    return _of_reals(graph, operator, "pair_coupling", body, constants, classes * (classes + 1))


def _of_reals(
    graph: Graph, operator: Operator, family: str, body: str, constants: tuple[Array, ...], floats: int
) -> Kernel:
    """Kernel with a workspace of so many floats."""
    parameters = arguments(graph, operator, constants=constants, workspace="float")
    helpers = helpers_of(body)
    return Kernel(family, parameters, body, helpers=helpers, constants=constants, workspace_bytes=4 * floats)


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
    helpers = {"is_member": _IS_MEMBER} if members else {}
    return Kernel.of(graph, operator, "tree_ensemble", body, tuple(constants), helpers=helpers)


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
