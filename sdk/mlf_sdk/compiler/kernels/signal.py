# SPDX-License-Identifier: Apache-2.0
"""Kernels of audio preprocessing in whole numbers, without the C library."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlf_sdk.compiler import signals
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel, c_type, of_elements, operands
from mlf_sdk.compiler.kernels.scaling import SATURATE


def window(graph: Graph, operator: signals.SignalWindow) -> Kernel:
    """Samples times weights, window after window."""
    (x, weights), (y,) = graph.read(operator), graph.written(operator)
    parameters, constants = operands(graph, operator)
    a, b = (parameter.name for parameter in parameters[:2])
    size, product = weights.elements, f"({a}[r + i] * {b}[i]) >> {operator.shift}"
    fits = weights.data is not None and weights.data.min() > -1 and weights.data.max() <= 1 << operator.shift
    body = f"""    for (int32_t r = 0; r < {x.elements}; r += {size})
        for (int32_t i = 0; i < {size}; ++i)
            y0[r + i] = (int16_t){f"({product})" if fits else f"saturate({product}, -32768, 32767)"};
"""
    return Kernel(
        "window",
        parameters,
        body,
        helpers={} if fits else {"saturate": SATURATE},
        constants=constants,
        overlaps=of_elements(x, y) if x.data is None else {},
    )


def auto_scale(graph: Graph, operator: signals.SignalAutoScale) -> Kernel:
    """The largest magnitude, then the shift; behind -32768 the search begins again, as in TFLM."""
    (x,) = graph.read(operator)
    body = f"""    int32_t most = 0;
    for (int32_t i = 0; i < {x.elements}; ++i) {{
        int32_t v = x0[i];
        most = v > most ? v : -v > most ? (int16_t)-v : most;
    }}
    int32_t bits = most > 0 ? leading_zeros((uint32_t)most) - 17 : 0;
    for (int32_t i = 0; i < {x.elements}; ++i)
        y0[i] = (int16_t)(x0[i] * (1 << bits));
    y1[0] = bits;
"""
    return Kernel.of(graph, operator, "auto_scale", body)


def energy(graph: Graph, operator: signals.SignalEnergy) -> Kernel:
    """Sums of two squares; they need all 32 bits."""
    (y,) = graph.written(operator)
    body = f"""    for (int32_t i = 0; i < {operator.start}; ++i)
        y0[i] = 0;
    for (int32_t i = {operator.start}; i < {operator.end}; ++i)
        y0[i] = (uint32_t)(x0[2 * i] * x0[2 * i]) + (uint32_t)(x0[2 * i + 1] * x0[2 * i + 1]);
    for (int32_t i = {operator.end}; i < {y.elements}; ++i)
        y0[i] = 0;
"""
    return Kernel.of(graph, operator, "energy", body)


def filter_bank(graph: Graph, operator: signals.SignalFilterBank) -> Kernel:
    """Channel after channel; the sum of the complements is where the next channel starts.

    The constants are pairs of a weight and its complement in the order in which they are read, and of each channel
    the first bin and the number of bins.
    """
    weights, complements, *tables = (value.constant for value in graph.read(operator)[1:])
    rows = [table[: operator.channels + 1].tolist() for table in tables]
    channels = [
        (first if width > 0 else 0, max(0, width)) for first, width in zip(rows[0], rows[2], strict=True)
    ]
    places = [start + i for start, width in zip(rows[1], rows[2], strict=True) for i in range(width)]
    pairs = np.stack([weights[places], complements[places]], axis=1) if places else np.zeros((1, 2), np.int16)
    wide = "uint32_t" if pairs.min() >= 0 else "int64_t"  # a product of 32 bits each is one instruction
    constants = (np.ascontiguousarray(pairs).reshape(-1), np.array(channels, np.int16).reshape(-1))
    body = f"""    const int16_t *w = p0;
    uint64_t next = 0;
    for (int32_t c = 0; c <= {operator.channels}; ++c) {{
        const uint32_t *x = x0 + p1[2 * c], *end = x + p1[2 * c + 1];
        uint64_t sum = next;
        next = 0;
        for (; x < end; ++x, w += 2) {{
            sum += (uint64_t)({wide})w[0] * *x;
            next += (uint64_t)({wide})w[1] * *x;
        }}
        if (c)
            y0[c - 1] = sum;
    }}
"""
    return Kernel.of(graph, operator, "filter_bank", body, constants, reads=1)


def square_root(graph: Graph, operator: signals.SignalSquareRoot) -> Kernel:
    """Roots of words of 64 bits: that of the upper half, then one division."""
    x = graph.read(operator)[0]
    parameters, constants = operands(graph, operator)
    a, b = (parameter.name for parameter in parameters[:2])
    body = f"""    for (int32_t i = 0; i < {x.elements}; ++i)
        y0[i] = rounded_root({a}[i]) >> ({b}[0] & 31);
"""
    return Kernel("square_root", parameters, body, helpers={"rounded_root": _ROOT}, constants=constants)


def spectral_subtraction(graph: Graph, operator: signals.SignalSpectralSubtraction) -> Kernel:
    """The estimate of each channel moves towards its signal, from which it is taken."""
    (x,) = graph.read(operator)
    even, odd = operator.smoothing
    new = f"(i & 1 ? {odd[0]}u : {even[0]}u)" if even[0] != odd[0] else f"{even[0]}u"
    old = f"(i & 1 ? {odd[1]}u : {even[1]}u)" if even[1] != odd[1] else f"{even[1]}u"
    body = f"""    for (int32_t i = 0; i < {x.elements}; ++i) {{
        uint32_t signal = x0[i] << {operator.smoothing_bits};
        uint32_t noise = (uint32_t)(((uint64_t)signal * {new} + (uint64_t)s0[i] * {old}) >> {operator.bits});
        uint32_t taken = noise < signal ? noise : signal;
        s0[i] = {"taken" if operator.clamping else "noise"};
        uint32_t least = (uint32_t)(((uint64_t)x0[i] * {operator.least_left}u) >> {operator.bits});
        uint32_t left = (signal - taken) >> {operator.smoothing_bits};
        y0[i] = left > least ? left : least;
        y1[i] = s0[i];
    }}
"""
    return Kernel.of(graph, operator, "spectral_subtraction", body)


def gain(graph: Graph, operator: signals.SignalGain) -> Kernel:
    """The gain of a channel's noise, then a parabola for small products and a straight line for large ones."""
    x = graph.read(operator)[0]
    parameters, constants = operands(graph, operator)
    a, b, table = (parameter.name for parameter in parameters[:3])
    body = f"""    for (int32_t i = 0; i < {x.elements}; ++i) {{
        uint32_t gain = (uint32_t)gain_at({b}[i], {table});
        uint32_t ratio = (uint32_t)(((uint64_t){a}[i] * gain) >> {operator.shift});
        y0[i] = ratio < 8192 ? (ratio * ratio) >> 20 : (ratio >> 6) - 64;
    }}
"""
    return Kernel("gain", parameters, body, helpers={"gain_at": _GAIN}, constants=constants)


def log(graph: Graph, operator: signals.SignalLog) -> Kernel:
    """Logarithms of base 2, their fractions by a table, times that of 2."""
    (x,) = graph.read(operator)
    places = [i / 128 for i in range(129)]
    constants = (np.array([round(65536 * (math.log2(1 + v) - v)) for v in places], np.uint16),)
    body = f"""    for (int32_t i = 0; i < {x.elements}; ++i) {{
        uint32_t v = x0[i] << {operator.shift};
        uint32_t log = v > 1 ? ({operator.scale}u * natural_log(v, p0) + (1u << 15)) >> 16 : 0;
        y0[i] = (int16_t)(log < 32767 ? log : 32767);
    }}
"""
    return Kernel.of(graph, operator, "log", body, constants, helpers={"natural_log": _LOG})


def overlap_add(graph: Graph, operator: signals.SignalOverlapAdd) -> Kernel:
    """Complete samples to the output; the others move to the front of the state, behind which zeros follow."""
    (x,) = graph.read(operator)
    kind, size, step = c_type(x.dtype), x.shape[-1], operator.step
    frames = x.shape[-2]
    total = "x[i] + s[i]"
    if x.dtype.kind != "f":
        total = f"({kind})saturate({total}, -32768, 32767)"
    body = f"""    const {kind} *x = x0;
    {kind} *y = y0;
    for (int32_t f = 0; f < {x.elements // size}; ++f, x += {size}, y += {step}) {{
        {kind} *s = s0 + f / {frames} * {size};
        for (int32_t i = 0; i < {step}; ++i)
            y[i] = {total};
        for (int32_t i = {step}; i < {size}; ++i)
            s[i - {step}] = {total};
        for (int32_t i = {size - step}; i < {size}; ++i)
            s[i] = 0;
    }}
"""
    helpers = {} if x.dtype.kind == "f" else {"saturate": SATURATE}
    return Kernel.of(graph, operator, "overlap_add", body, helpers=helpers)


_ROOT: Final = """static uint32_t root_of_word(uint32_t v)
{
    uint32_t root = 0;
    for (uint32_t bit = (uint32_t)1 << 30; bit; bit >>= 2) {
        uint32_t next = root + bit;
        root >>= 1;
        if (v >= next) {
            v -= next;
            root += bit;
        }
    }
    return root;
}

static uint32_t rounded_root(uint64_t v)
{
    uint32_t root, high = (uint32_t)(v >> 32);
    if (high == 0) {
        root = root_of_word((uint32_t)v);
        return root + ((uint32_t)v - root * root > root && root < 0xFFFF);
    }
    int32_t half = leading_zeros(high) / 2;
    uint64_t u = v << 2 * half;
    high = (uint32_t)(u >> 32);
    uint32_t first = root_of_word(high);
    uint32_t rest = high - first * first;
    uint32_t second = ((rest << 15) + ((uint32_t)(u >> 17) & 0x7FFF)) / first;
    root = (first << 16) + (second < 0xFFFF ? second : 0xFFFF);
    root -= (uint64_t)root * root > u;
    root >>= half;
    return root + (v - (uint64_t)root * root > root && root < 0xFFFFFFFF);
}
"""
_GAIN: Final = """static int32_t gain_at(uint32_t v, const int16_t *table)
{
    if (v <= 2)
        return table[v];
    int32_t bits = 32 - leading_zeros(v);
    const int16_t *t = table + 4 * bits - 6;
    int32_t part = (int32_t)((bits < 11 ? v << (11 - bits) : v >> (bits - 11)) & 0x3FF);
    int32_t bent = (((t[2] * part) >> 5) + t[1] * 32) * part;
    return (int16_t)(t[0] + ((bent + (1 << 14)) >> 15));
}
"""
_LOG: Final = """static uint32_t natural_log(uint32_t v, const uint16_t *table)
{
    uint32_t zeros = (uint32_t)leading_zeros(v), power = 31 - zeros;
    uint32_t part = (v << zeros << 1) >> 16;
    const uint16_t *t = table + (part >> 9);
    int32_t bent = t[0] + (((t[1] - t[0]) * (int32_t)(part & 511)) >> 16);
    uint32_t log = (power << 16) + part + (uint32_t)bent;
    return (uint32_t)((45426u * (uint64_t)log + (1u << 15)) >> 16);
}
"""
