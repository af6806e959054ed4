# SPDX-License-Identifier: Apache-2.0
"""Kernels of operators whose weights or scales are computed at run time, of choices and of places."""

from __future__ import annotations

import math

from mlf_sdk.compiler.computed import DynamicQuantise, LocalResponse, PoolIndices, TopK
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.floats.functions import helpers_of
from mlf_sdk.compiler.kernels.kernel import Kernel, c_type, operands
from mlf_sdk.compiler.kernels.pooling import taps_inside
from mlf_sdk.compiler.operators import Convolve
from mlf_sdk.tools.ctext import c_real


def convolve(graph: Graph, operator: Convolve) -> Kernel:
    """Convolution of two values: one output after the other."""
    (x, weights, *zero), (y,) = graph.read(operator), graph.written(operator)
    n, ih, iw, ic = x.shape
    _, oh, ow, oc = y.shape
    per_group = weights.shape[3]
    parameters, constants = operands(graph, operator)
    kind = c_type(y.dtype)
    first = f"c / {oc // (ic // per_group)} * {per_group}" if per_group < ic else "0"
    start = f"    const {kind} zero = {parameters[2].name}[0];\n" if zero else ""
    (kh, kw), (dh, dw) = operator.window.size, operator.window.dilation
    body = f"""{start}    for (int32_t b = 0; b < {n}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox) {{
{taps_inside(operator.window, ih, iw)}        for (int32_t c = 0; c < {oc}; ++c) {{
            {kind} sum = 0;
            for (int32_t i = top; i < bottom; ++i)
            for (int32_t j = left; j < right; ++j) {{
                const {c_type(x.dtype)} *v = {parameters[0].name} + ((b * {ih} + iy + i * {dh}) * {iw} + ix + j * {dw}) * {ic} + {first};
                const {c_type(weights.dtype)} *w = {parameters[1].name} + ((c * {kh} + i) * {kw} + j) * {per_group};
                for (int32_t k = 0; k < {per_group}; ++k) {{
                    sum += {"(v[k] - zero)" if zero else "v[k]"} * w[k];
                }}
            }}
            y0[((b * {oh} + oy) * {ow} + ox) * {oc} + c] = sum;
        }}
    }}
"""
    return Kernel("convolve", parameters, body, constants=constants)


def dynamic_quantise(graph: Graph, operator: DynamicQuantise) -> Kernel:
    """Range, then each element: added to 3 * 2**22, a number has its rounded bits last."""
    (x,) = graph.read(operator)
    body = f"""    float low = 0.0f, high = 0.0f;
    for (int32_t i = 0; i < {x.elements}; ++i) {{
        low = x0[i] < low ? x0[i] : low;
        high = x0[i] > high ? x0[i] : high;
    }}
    const float scale = high > low ? (high - low) / 255.0f : 1.0f;
    const float first = real_round(-low / scale);
    const int32_t zero = (int32_t)(first < 255.0f ? first : 255.0f);
    for (int32_t i = 0; i < {x.elements}; ++i) {{
        int32_t v = (int32_t)real_round(x0[i] / scale) + zero;
        y0[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }}
    y1[0] = scale;
    y2[0] = (uint8_t)zero;
"""
    return Kernel.of(graph, operator, "dynamic_quantise", body, helpers=helpers_of(body))


def local_response(graph: Graph, operator: LocalResponse) -> Kernel:
    """LRN: the sum of squares of every window anew, for it is short."""
    (x,) = graph.read(operator)
    extent = x.shape[operator.axis]
    inner = math.prod(x.shape[operator.axis + 1 :])
    before = (operator.size - 1) // 2
    body = f"""    for (int32_t o = 0; o < {x.elements // extent // inner}; ++o)
    for (int32_t c = 0; c < {extent}; ++c)
    for (int32_t i = 0; i < {inner}; ++i) {{
        const float *v = x0 + o * {extent * inner} + i;
        const int32_t first = c - {before} < 0 ? 0 : c - {before};
        const int32_t end = c + {operator.size - before} < {extent} ? c + {operator.size - before} : {extent};
        float sum = 0.0f;
        for (int32_t k = first; k < end; ++k) {{
            sum += v[k * {inner}] * v[k * {inner}];
        }}
        sum = {c_real(operator.bias)} + {c_real(operator.alpha / operator.size)} * sum;
        y0[(o * {extent} + c) * {inner} + i] = v[c * {inner}] * powf(sum, {c_real(-operator.beta)});
    }}
"""
    return Kernel.of(graph, operator, "local_response", body)


def pool_indices(graph: Graph, operator: PoolIndices) -> Kernel:
    """Places of the largest elements of windows, the first of equal ones."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    n, ih, iw, ch = x.shape
    _, oh, ow, _ = y.shape
    dh, dw = operator.window.dilation
    row, column = (1, ih) if operator.columns_first else (iw, 1)
    kind = c_type(x.dtype)
    body = f"""    for (int32_t b = 0; b < {n}; ++b)
    for (int32_t oy = 0; oy < {oh}; ++oy)
    for (int32_t ox = 0; ox < {ow}; ++ox) {{
{taps_inside(operator.window, ih, iw)}        for (int32_t c = 0; c < {ch}; ++c) {{
            {kind} most = 0;
            int32_t at = -1;
            for (int32_t i = top; i < bottom; ++i)
            for (int32_t j = left; j < right; ++j) {{
                const int32_t h = iy + i * {dh}, w = ix + j * {dw};
                const {kind} v = x0[((b * {ih} + h) * {iw} + w) * {ch} + c];
                if (at < 0 || v > most) {{
                    most = v;
                    at = (b * {ch} + c) * {ih * iw} + h * {row} + w * {column};
                }}
            }}
            y0[((b * {oh} + oy) * {ow} + ox) * {ch} + c] = at;
        }}
    }}
"""
    return Kernel.of(graph, operator, "pool_indices", body)


def top_k(graph: Graph, operator: TopK) -> Kernel:
    """TopK: each element is put among those that are larger so far; NaN is larger than any number."""
    (x,), (y, _) = graph.read(operator), graph.written(operator)
    extent, count = x.shape[operator.axis], y.shape[operator.axis]
    inner = math.prod(x.shape[operator.axis + 1 :])
    v, u = f"v[k * {inner}]", f"u[(at - 1) * {inner}]"
    before = f"{v} {'<' if operator.smallest else '>'} {u}"
    if x.dtype.kind == "f":
        before = f"{v} == {v} && !({v} >= {u})" if operator.smallest else f"{u} == {u} && !({v} <= {u})"
    body = f"""    for (int32_t o = 0; o < {x.elements // extent // inner}; ++o)
    for (int32_t i = 0; i < {inner}; ++i) {{
        const {c_type(x.dtype)} *v = x0 + o * {extent * inner} + i;
        {c_type(y.dtype)} *u = y0 + o * {count * inner} + i;
        int64_t *t = y1 + o * {count * inner} + i;
        for (int32_t k = 0; k < {extent}; ++k) {{
            int32_t at = k < {count} ? k : {count};
            while (at > 0 && {before}) {{
                --at;
            }}
            for (int32_t m = k < {count} ? k : {count - 1}; m > at; --m) {{
                u[m * {inner}] = u[(m - 1) * {inner}];
                t[m * {inner}] = t[(m - 1) * {inner}];
            }}
            if (at < {count}) {{
                u[at * {inner}] = v[k * {inner}];
                t[at * {inner}] = k;
            }}
        }}
    }}
"""
    return Kernel.of(graph, operator, "top_k", body)


__all__ = ["convolve", "dynamic_quantise", "local_response", "pool_indices", "top_k"]
