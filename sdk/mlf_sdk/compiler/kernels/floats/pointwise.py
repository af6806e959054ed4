# SPDX-License-Identifier: Apache-2.0
"""Kernels of elementwise functions of real and whole numbers, and of running sums, lookups and quantisation."""

from __future__ import annotations

import math

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.elementwise import broadcast
from mlf_sdk.compiler.kernels.floats.functions import expression, number
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments, c_type, operands
from mlf_sdk.compiler.kernels.overlap import Overlaps, of_elements
from mlf_sdk.compiler.reals import Accumulate, Lookup, Pointwise, Quantise


def pointwise(graph: Graph, operator: Pointwise) -> Kernel:
    """Any elementwise function; operands may be constant."""
    values = graph.read(operator)
    (y,) = graph.written(operator)
    real = values[-1].dtype.kind == "f"
    text, helpers = expression(operator.function, operator.parameters, real=real)
    heads, places = broadcast(values, y)
    literal = {
        i: number(float(v.data.reshape(-1)[0]))
        for i, v in enumerate(values)
        if v.data is not None and v.elements == 1 and v.dtype.kind == "f"
    }
    parameters, constants = operands(graph, operator, skip=literal)
    lines, passed = [*heads, "    {"], iter(parameters)
    for position, (letter, value) in enumerate(zip("abc", values, strict=False)):
        source = literal.get(position) or f"{next(passed).name}[{places[position]}]"
        lines.append(f"        {c_type(value.dtype)} {letter} = {source};")
    lines += [f"        y0[{places[-1]}] = ({c_type(y.dtype)})({text});", "    }", ""]
    overlaps: Overlaps = {}
    for position, value in enumerate(values):
        if value.data is None and value.shape == y.shape:
            overlaps |= of_elements(value, y, position)
    return Kernel(
        family=operator.function,
        parameters=parameters,
        body="\n".join(lines),
        helpers=helpers,
        constants=constants,
        overlaps=overlaps,
    )


def quantise(graph: Graph, operator: Quantise) -> Kernel:
    """Division by the scale and rounding to even: added to 3 * 2**22, a number has its rounded bits last."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    info = np.iinfo(y.dtype)
    body = f"""    for (int32_t i = 0; i < {x.elements}; ++i) {{
        float v = x0[i] / {number(y.scale)};
        v = v > {info.min - y.zero_point}.0f ? v : {info.min - y.zero_point}.0f;
        v = (v < {info.max - y.zero_point}.0f ? v : {info.max - y.zero_point}.0f) + 12582912.0f;
        int32_t bits;
        memcpy(&bits, &v, 4);
        y0[i] = ({c_type(y.dtype)})(bits - 0x4b400000 + ({y.zero_point}));
    }}
"""
    return Kernel(
        family="quantise", parameters=arguments(graph, operator), body=body, overlaps=of_elements(x, y)
    )


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
