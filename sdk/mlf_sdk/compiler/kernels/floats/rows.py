# SPDX-License-Identifier: Apache-2.0
"""Kernels of reductions, normalisation, softmax, and products of two values of real numbers."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.floats.functions import helpers_of, number
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments, c_type, loops, operands, place
from mlf_sdk.compiler.operators import Softmax
from mlf_sdk.compiler.reals import MatMul, Normalise
from mlf_sdk.compiler.regions import strides


def softmax(graph: Graph, operator: Softmax) -> Kernel | None:
    """SOFTMAX and its logarithm over the last axis."""
    (x,) = graph.read(operator)
    if x.dtype != np.float32:
        return None
    size = x.shape[-1]
    beta = "" if operator.beta == 1.0 else f" * {number(operator.beta)}"
    if operator.log:
        work = f"""            sum += real_exp((v[i] - most){beta});
        }}
        float last = most{beta} + real_log(sum);
        for (int32_t i = 0; i < {size}; ++i) {{
            u[i] = v[i]{beta} - last;
        }}"""
    else:
        work = f"""            u[i] = real_exp((v[i] - most){beta});
            sum += u[i];
        }}
        sum = 1.0f / sum;
        for (int32_t i = 0; i < {size}; ++i) {{
            u[i] *= sum;
        }}"""
    body = f"""    for (int32_t r = 0; r < {x.elements // size}; ++r) {{
        const float *v = x0 + r * {size};
        float *u = y0 + r * {size};
        float most = v[0];
        float sum = 0.0f;
        for (int32_t i = 1; i < {size}; ++i) {{
            most = v[i] > most ? v[i] : most;
        }}
        for (int32_t i = 0; i < {size}; ++i) {{
{work}
    }}
"""
    return Kernel(
        family="real_softmax",
        parameters=arguments(graph, operator),
        body=body,
        helpers=helpers_of(body),
        overlaps={0: 0},
    )


def normalise(graph: Graph, operator: Normalise) -> Kernel:
    """Rows divided by their deviation, with scales and biases of each place."""
    x = graph.read(operator)[0]
    constants = tuple(v.constant.reshape(-1).astype(np.float32) for v in graph.read(operator)[1:])
    size = operator.size
    mean = (
        f"""        for (int32_t i = 0; i < {size}; ++i) {{
            mean += v[i];
        }}
        mean *= {number(1 / size)};
"""
        if operator.centred
        else ""
    )
    scale = " * p0[i]" if constants else ""
    bias = " + p1[i]" if len(constants) > 1 else ""
    body = f"""    for (int32_t r = 0; r < {x.elements // size}; ++r) {{
        const float *v = x0 + r * {size};
        float *u = y0 + r * {size};
        float mean = 0.0f;
        float sum = 0.0f;
{mean}        for (int32_t i = 0; i < {size}; ++i) {{
            float d = v[i] - mean;
            sum += d * d;
        }}
        sum = 1.0f / sqrtf(sum * {number(1 / size)} + {number(operator.epsilon)});
        for (int32_t i = 0; i < {size}; ++i) {{
            u[i] = (v[i] - mean) * sum{scale}{bias};
        }}
    }}
"""
    return Kernel(
        family="normalise",
        parameters=arguments(graph, operator, reads=1, constants=constants),
        body=body,
        constants=constants,
        overlaps={0: 0},
    )


def mat_mul(graph: Graph, operator: MatMul) -> Kernel:
    """Products of matrices that are both computed: four columns at a time."""
    a, b, *zero = graph.read(operator)
    (y,) = graph.written(operator)
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = y.shape[:-2]
    parameters, constants = operands(graph, operator)
    names = [f"{p.name} + {batch_place(v, batch)}" for p, v in zip(parameters, (a, b), strict=False)]
    kind = c_type(y.dtype)
    target = place("i", (s * m * n for s in strides(batch)))
    start = f"    const {kind} zero = {parameters[2].name}[0];\n" if zero else ""
    element = "u[i] - zero" if zero else "u[i]"
    body = f"""{start}{chr(10).join(loops("i", batch))}
    {{
        const {c_type(a.dtype)} *u = {names[0]};
        const {c_type(b.dtype)} *v = {names[1]};
        {kind} *z = y0 + {target};
        for (int32_t r = 0; r < {m}; ++r, u += {k}, z += {n}) {{
            int32_t c = 0;
            for (; c + 4 <= {n}; c += 4) {{
                {kind} s0 = 0, s1 = 0, s2 = 0, s3 = 0;
                const {c_type(b.dtype)} *w = v + c;
                for (int32_t i = 0; i < {k}; ++i, w += {n}) {{
                    {kind} e = {element};
                    s0 += e * w[0];
                    s1 += e * w[1];
                    s2 += e * w[2];
                    s3 += e * w[3];
                }}
                z[c] = s0;
                z[c + 1] = s1;
                z[c + 2] = s2;
                z[c + 3] = s3;
            }}
            for (; c < {n}; ++c) {{
                {kind} s = 0;
                for (int32_t i = 0; i < {k}; ++i) {{
                    s += {f"({element})" if zero else element} * v[i * {n} + c];
                }}
                z[c] = s;
            }}
        }}
    }}
"""
    return Kernel(family="matmul", parameters=parameters, body=body, constants=constants)


def batch_place(value: Value, batch: tuple[int, ...]) -> str:
    """Expression of the first element of a matrix, by the indices of the batch."""
    own = (1,) * (len(batch) + 2 - len(value.shape)) + value.shape
    steps = zip(strides(own)[: len(batch)], own, strict=False)
    return place("i", (step if extent > 1 else 0 for step, extent in steps))
