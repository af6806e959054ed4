# SPDX-License-Identifier: Apache-2.0
"""Kernel of pooling of real numbers."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.floats.panel import limit
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.pooling import taps_inside
from mlf_sdk.compiler.operators import Pool2D, PoolKind


def pool_2d(graph: Graph, operator: Pool2D) -> Kernel | None:
    """AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D: each tap of a window for all channels."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    if x.dtype != np.float32:
        return None
    batch, ih, iw, ch = x.shape
    _, oh, ow, _ = y.shape
    window = operator.window
    dh, dw = window.dilation
    largest = operator.function is PoolKind.MAX
    start = "-INFINITY" if largest else "0.0f"
    root = operator.function is PoolKind.L2
    step = "u[c] = v[c] > u[c] ? v[c] : u[c];" if largest else f"u[c] += v[c]{' * v[c]' if root else ''};"
    mean = f"""        float part = 1.0f / (float)((bottom - top) * (right - left));
        for (int32_t c = 0; c < {ch}; ++c) {{
            {"u[c] = sqrtf(u[c] * part)" if root else "u[c] *= part"};
        }}
"""
    body = f"""    for (int32_t b = 0; b < {batch}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox) {{
{taps_inside(window, ih, iw)}        float *u = y0 + ((b * {oh} + oy) * {ow} + ox) * {ch};
        for (int32_t c = 0; c < {ch}; ++c) {{
            u[c] = {start};
        }}
        for (int32_t i = top; i < bottom; ++i)
        for (int32_t j = left; j < right; ++j) {{
            const float *v = x0 + ((b * {ih} + iy + i * {dh}) * {iw} + ix + j * {dw}) * {ch};
            for (int32_t c = 0; c < {ch}; ++c) {{
                {step}
            }}
        }}
{"" if largest else mean}    }}
"""
    body += limit(y.elements, operator.clamp)
    return Kernel.of(graph, operator, f"real_{operator.function.value}_pool", body)
