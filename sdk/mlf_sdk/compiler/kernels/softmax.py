# SPDX-License-Identifier: Apache-2.0
"""Kernels of softmax."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel, c_type, of_elements
from mlf_sdk.compiler.kernels.scaling import (
    DIVIDE,
    HIGH_PRODUCT,
    INTERPOLATE,
    LOG_OF_SUM,
    RECIPROCAL,
    SATURATE,
    SCALING,
)
from mlf_sdk.compiler.operators import Array, Softmax
from mlf_sdk.compiler.reference.fixed import exp_of_negative
from mlf_sdk.compiler.reference.layers import (
    log_limits,
    powers_of_differences,
    softmax_scaling,
    word_multiplier,
    word_tables,
)
from mlf_sdk.compiler.requantise import doubling_high_product
from mlf_sdk.tools.ctext import c_exact


def softmax(graph: Graph, operator: Softmax) -> Kernel | None:
    """SOFTMAX and LOG_SOFTMAX of stored values over the last axis; None for floats."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    size = x.shape[-1]
    rows = x.elements // size
    if x.dtype.kind == "f":
        return None
    if x.dtype == np.uint8:
        return _of_bytes(graph, operator, rows, size)
    if x.dtype == np.int16:
        return _of_words(graph, operator, rows, size)
    multiplier, least = softmax_scaling(x, operator.beta)
    differences = np.arange(0, -256, -1, dtype=np.int64)
    scaled = doubling_high_product(np.maximum(differences, least) * (1 << multiplier.shift), multiplier.value)
    powers = exp_of_negative(scaled, 5).astype(np.int32)
    powers[differences < least] = 0
    if operator.log:
        return _log(graph, operator, rows, size, powers)
    info = np.iinfo(y.dtype)
    bits = y.dtype.itemsize * 8
    body = f"""{_sum_of_exponentials(x, rows, size)}
        int32_t over = leading_zeros((uint32_t)sum);
        int32_t scale = reciprocal_of_one_plus((int32_t)(((uint32_t)sum << over) - ((uint32_t)1 << 31)));
        for (int32_t i = 0; i < {size}; ++i) {{
            int32_t value = divide_by_power(high_product(scale, p0[most - v[i]]), {12 + 31 - bits} - over);
            y0[r * {size} + i] = ({c_type(y.dtype)})saturate(value + ({int(info.min)}), {int(info.min)}, {int(info.max)});
        }}
    }}
"""
    helpers = {"saturate": SATURATE, "divide_by_power": DIVIDE, "high_product": HIGH_PRODUCT}
    helpers["reciprocal_of_one_plus"] = RECIPROCAL
    return Kernel.of(graph, operator, "softmax", body, (powers,), helpers=helpers, overlaps=of_elements(x, y))


def _sum_of_exponentials(x: Value, rows: int, size: int) -> str:
    """Begin the loop over rows: the largest value of each, and the sum of the exponentials of the distances to it."""
    return f"""    for (int32_t r = 0; r < {rows}; ++r) {{
        const {c_type(x.dtype)} *v = x0 + r * {size};
        int32_t most = v[0];
        for (int32_t i = 1; i < {size}; ++i) {{
            most = v[i] > most ? v[i] : most;
        }}
        int32_t sum = 0;
        for (int32_t i = 0; i < {size}; ++i) {{
            sum += divide_by_power(p0[most - v[i]], 12);
        }}"""


def _log(graph: Graph, operator: Softmax, rows: int, size: int, powers: Array) -> Kernel:
    """LOG_SOFTMAX; the constants are exponentials by distance from the largest value."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    multiplier, least = softmax_scaling(x, operator.beta)
    back, limit = log_limits(multiplier, least)
    body = f"""{_sum_of_exponentials(x, rows, size)}
        int32_t log = log_of_sum(sum);
        int32_t lowest = scale_sum(log + INT32_MIN, {back.value}, {back.shift});
        lowest = lowest > {limit} ? lowest : {limit};
        for (int32_t i = 0; i < {size}; ++i) {{
            int32_t value = -128;
            if (v[i] - most > lowest) {{
                value = scale_sum(v[i] - most, {multiplier.value}, {multiplier.shift}) - log;
                value = saturate(divide_by_power(value, 22) + 127, -128, 127);
            }}
            y0[r * {size} + i] = (int8_t)value;
        }}
    }}
"""
    helpers, overlaps = {**SCALING, **LOG_OF_SUM}, of_elements(x, y)
    return Kernel.of(graph, operator, "log_softmax", body, (powers,), helpers=helpers, overlaps=overlaps)


def _of_words(graph: Graph, operator: Softmax, rows: int, size: int) -> Kernel:
    """Softmax of 16-bit values: exponentials are kept in the output until their sum is known."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    constants = word_tables()
    by = word_multiplier(x, operator.beta)
    body = f"""    for (int32_t r = 0; r < {rows}; ++r) {{
        const int16_t *v = x0 + r * {size};
        int16_t *u = y0 + r * {size};
        int32_t most = v[0];
        for (int32_t i = 1; i < {size}; ++i) {{
            most = v[i] > most ? v[i] : most;
        }}
        int32_t sum = 0;
        for (int32_t i = 0; i < {size}; ++i) {{
            int32_t place = saturate(scale_sum(v[i] - most, {by.value}, {by.shift}) + 32767, -32768, 32767);
            u[i] = (int16_t)interpolate(p0, place);
            sum += u[i];
        }}
        int32_t over = leading_zeros((uint32_t)sum);
        int32_t part = (int32_t)(((((int64_t)sum << (over - 1)) + (1 << 13)) >> 14) - 3 * (1 << 15));
        int32_t inverse = interpolate(p1, saturate(part, -32768, 32767));
        for (int32_t i = 0; i < {size}; ++i) {{
            int32_t value = (u[i] * inverse + (1 << (30 - over))) >> (31 - over);
            u[i] = (int16_t)saturate(value, 0, 32767);
        }}
    }}
"""
    helpers, overlaps = {**SCALING, **INTERPOLATE}, of_elements(x, y)
    return Kernel.of(graph, operator, "softmax_16", body, constants, helpers=helpers, overlaps=overlaps)


def _of_bytes(graph: Graph, operator: Softmax, rows: int, size: int) -> Kernel:
    (x,), (y,) = graph.read(operator), graph.written(operator)
    constants = (powers_of_differences(x, operator.beta),)
    body = f"""    for (int32_t r = 0; r < {rows}; ++r) {{
        const uint8_t *v = x0 + r * {size};
        int32_t most = 0;
        float sum = 0.0f;
        for (int32_t i = 0; i < {size}; ++i) {{
            most = v[i] > most ? v[i] : most;
        }}
        for (int32_t i = 0; i < {size}; ++i) {{
            sum += p0[most - v[i]];
        }}
        float inverse = 1.0f / (sum * {c_exact(y.scale)});
        for (int32_t i = 0; i < {size}; ++i) {{
            int32_t value = (int32_t)(p0[most - v[i]] * inverse + 0.5f) + ({y.zero_point});
            y0[r * {size} + i] = (uint8_t)saturate(value, 0, 255);
        }}
    }}
"""
    helpers, overlaps = {"saturate": SATURATE}, of_elements(x, y)
    return Kernel.of(graph, operator, "softmax", body, constants, helpers=helpers, overlaps=overlaps)
