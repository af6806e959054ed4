# SPDX-License-Identifier: Apache-2.0
"""Kernels of interpolation."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.reals import Resample


def resample(graph: Graph, operator: Resample) -> Kernel:
    """Weighted sums of a few rows and columns."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    if x.dtype.kind != "f":
        return _of_bytes(graph, operator)
    planes, ih, iw, inner = x.shape
    _, oh, ow, _ = y.shape
    down, across = operator.rows.shape[1], operator.columns.shape[1]
    constants = (
        operator.rows.astype(np.int32).reshape(-1),
        operator.columns.astype(np.int32).reshape(-1),
        operator.row_weights.astype(np.float32).reshape(-1),
        operator.column_weights.astype(np.float32).reshape(-1),
    )
    body = f"""    for (int32_t b = 0; b < {planes}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox) {{
        float *u = y0 + ((b * {oh} + oy) * {ow} + ox) * {inner};
        for (int32_t c = 0; c < {inner}; ++c) {{
            u[c] = 0.0f;
        }}
        for (int32_t i = oy * {down}; i < (oy + 1) * {down}; ++i)
        for (int32_t j = ox * {across}; j < (ox + 1) * {across}; ++j) {{
            const float *v = x0 + ((b * {ih} + p0[i]) * {iw} + p1[j]) * {inner};
            float weight = p2[i] * p3[j];
            for (int32_t c = 0; c < {inner}; ++c) {{
                u[c] += weight * v[c];
            }}
        }}
    }}
"""
    return Kernel.of(graph, operator, "resample", body, constants)


def _of_bytes(graph: Graph, operator: Resample) -> Kernel:
    """Bilinear interpolation of int8 values."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    n, ih, iw, ch = x.shape
    _, oh, ow, _ = y.shape
    tables = [
        np.column_stack([places, weights[:, 1]]).astype(np.int32).reshape(-1)
        for places, weights in (
            (operator.rows, operator.row_weights),
            (operator.columns, operator.column_weights),
        )
    ]
    body = f"""    for (int32_t b = 0; b < {n}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox) {{
        const int32_t *r = p0 + 3 * oy;
        const int32_t *s = p1 + 3 * ox;
        const int8_t *top = x0 + (b * {ih} + r[0]) * {iw * ch};
        const int8_t *bottom = x0 + (b * {ih} + r[1]) * {iw * ch};
        for (int32_t c = 0; c < {ch}; ++c) {{
            int32_t upper = top[s[0] * {ch} + c] * (1024 - s[2]) + top[s[1] * {ch} + c] * s[2];
            int32_t lower = bottom[s[0] * {ch} + c] * (1024 - s[2]) + bottom[s[1] * {ch} + c] * s[2];
            int32_t sum = upper * (1024 - r[2]) + lower * r[2];
            y0[((b * {oh} + oy) * {ow} + ox) * {ch} + c] = (int8_t)((sum > 0 ? sum + (1 << 19) : sum - (1 << 19)) / (1 << 20));
        }}
    }}
"""
    return Kernel.of(graph, operator, "resize_bilinear", body, tuple(tables), reads=1)
