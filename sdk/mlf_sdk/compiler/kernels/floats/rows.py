# SPDX-License-Identifier: Apache-2.0
"""Kernels of normalisation and softmax of real numbers."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.floats.functions import helpers_of
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.operators import Softmax
from mlf_sdk.compiler.reals import Normalise
from mlf_sdk.tools.ctext import c_real


def softmax(graph: Graph, operator: Softmax) -> Kernel | None:
    """SOFTMAX and its logarithm over the last axis."""
    (x,) = graph.read(operator)
    if x.dtype != np.float32:
        return None
    size = x.shape[-1]
    beta = "" if operator.beta == 1.0 else f" * {c_real(operator.beta)}"
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
    return Kernel.of(graph, operator, "real_softmax", body, helpers=helpers_of(body), overlaps={0: 0})


def normalise(graph: Graph, operator: Normalise) -> Kernel:
    """Rows divided by their deviation, with scales and biases of each place."""
    x = graph.read(operator)[0]
    constants = tuple(v.constant.reshape(-1).astype(np.float32) for v in graph.read(operator)[1:])
    size = operator.size
    mean = (
        f"""        for (int32_t i = 0; i < {size}; ++i) {{
            mean += v[i];
        }}
        mean *= {c_real(1 / size)};
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
        sum = 1.0f / sqrtf(sum * {c_real(1 / size)} + {c_real(operator.epsilon)});
        for (int32_t i = 0; i < {size}; ++i) {{
            u[i] = (v[i] - mean) * sum{scale}{bias};
        }}
    }}
"""
    return Kernel.of(graph, operator, "normalise", body, constants, reads=1, overlaps={0: 0})
