# SPDX-License-Identifier: Apache-2.0
"""Kernels of running sums and lookups."""

from __future__ import annotations

import math

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments, c_type, operands
from mlf_sdk.compiler.reals import Accumulate, Lookup


def lookup(graph: Graph, operator: Lookup) -> Kernel:
    """Copies of slices; the table may be constant."""
    table, indices = graph.read(operator)
    (y,) = graph.written(operator)
    extent = table.shape[operator.axis]
    inner = math.prod(table.shape[operator.axis + 1 :])
    outer = math.prod(table.shape[: operator.axis])
    parameters, constants = operands(graph, operator)
    body = f"""    for (int32_t o = 0; o < {outer}; ++o)
    for (int32_t i = 0; i < {indices.elements}; ++i) {{
        int32_t k = (int32_t)x1[i];
        k = k < 0 ? k + {extent} : k;
        k = k < 0 ? 0 : k >= {extent} ? {extent - 1} : k;
        memcpy(y0 + (o * {indices.elements} + i) * {inner}, {parameters[0].name} + (o * {extent} + k) * {inner}, {inner * y.dtype.itemsize});
    }}
"""
    return Kernel(family="lookup", parameters=parameters, body=body, constants=constants)


def accumulate(graph: Graph, operator: Accumulate) -> Kernel:
    """Running sums along an axis."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    extent = x.shape[operator.axis]
    inner = math.prod(x.shape[operator.axis + 1 :])
    at = f"(o * {extent} + {f'{extent - 1} - k' if operator.reverse else 'k'}) * {inner} + i"
    add = f"sum += x0[{at}];"
    store = f"y0[{at}] = sum;"
    steps = [store, add] if operator.exclusive else [add, store]
    body = f"""    for (int32_t o = 0; o < {x.elements // extent // inner}; ++o)
    for (int32_t i = 0; i < {inner}; ++i) {{
        {c_type(y.dtype)} sum = 0;
        for (int32_t k = 0; k < {extent}; ++k) {{
            {steps[0]}
            {steps[1]}
        }}
    }}
"""
    return Kernel(family="accumulate", parameters=arguments(graph, operator), body=body)
