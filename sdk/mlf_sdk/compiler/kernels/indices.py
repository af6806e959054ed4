# SPDX-License-Identifier: Apache-2.0
"""Kernels that gather and scatter elements by indices, which may be constant or computed at run time."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlf_sdk.compiler.computed import (
    GatherElements,
    GatherSlices,
    LabelEncoder,
    ScatterElements,
    ScatterSlices,
)
from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel, c_type, loops, operands, place
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.reals import Lookup
from mlf_sdk.compiler.regions import strides
from mlf_sdk.tools.ctext import c_real

_PUT: Final = {
    "none": "u[i] = v[i];",
    "add": "u[i] += v[i];",
    "mul": "u[i] *= v[i];",
    "max": "u[i] = v[i] > u[i] ? v[i] : u[i];",
    "min": "u[i] = v[i] < u[i] ? v[i] : u[i];",
}


def _clamped(extent: int) -> str:
    """Statements that bring a place ``k`` inside of an extent."""
    return f"""k = k < 0 ? k + {extent} : k;
            k = k < 0 ? 0 : k >= {extent} ? {extent - 1} : k;"""


def _inside(extent: int) -> str:
    """Statements that leave out what is put outside of an extent."""
    return f"""k = k < 0 ? k + {extent} : k;
            if (k < 0 || k >= {extent}) {{
                continue;
            }}"""


def gather_slices(graph: Graph, operator: GatherSlices) -> Kernel:
    """GatherND: a copy for each tuple of indices."""
    (data, places), (y,) = graph.read(operator), graph.written(operator)
    parameters, constants = operands(graph, operator)
    batch, depth = operator.batch, places.shape[-1]
    rows = math.prod(data.shape[:batch])
    count = places.elements // depth // rows
    step = strides(data.shape)[batch:]
    inner = math.prod(data.shape[batch + depth :])
    lines = "\n".join(
        f"""        {{
            int32_t k = (int32_t){parameters[1].name}[(b * {count} + r) * {depth} + {axis}];
            {_clamped(extent)}
            at += k * {step[axis]};
        }}"""
        for axis, extent in enumerate(data.shape[batch : batch + depth])
    )
    body = f"""    for (int32_t b = 0; b < {rows}; ++b)
    for (int32_t r = 0; r < {count}; ++r) {{
        int32_t at = b * {data.elements // rows};
{lines}
        memcpy(y0 + (b * {count} + r) * {inner}, {parameters[0].name} + at, {inner * y.dtype.itemsize});
    }}
"""
    return Kernel("gather_slices", parameters, body, constants=constants)


def gather_elements(graph: Graph, operator: GatherElements) -> Kernel:
    """GatherElements."""
    data, places = graph.read(operator)
    parameters, constants = operands(graph, operator)
    own, step = strides(places.shape), strides(data.shape)
    axis = operator.axis
    rest = place("i", (0 if a == axis else s for a, s in enumerate(step)))
    body = f"""{chr(10).join(loops("i", places.shape))}
    {{
            int32_t k = (int32_t){parameters[1].name}[{place("i", own)}];
            {_clamped(data.shape[axis])}
            y0[{place("i", own)}] = {parameters[0].name}[{rest} + k * {step[axis]}];
    }}
"""
    return Kernel("gather_elements", parameters, body, constants=constants)


def _copied(data: Value, name: str) -> str:
    return f"    memcpy(y0, {name}, {data.size_bytes});\n"


def scatter_slices(graph: Graph, operator: ScatterSlices) -> Kernel:
    """ScatterND: a copy of the whole, then slice by slice."""
    data, places, updates = graph.read(operator)
    parameters, constants = operands(graph, operator)
    first, second, third = (p.name for p in parameters[:3])
    depth = places.shape[-1]
    step = strides(data.shape)
    inner = math.prod(data.shape[depth:])
    lines = "\n".join(
        f"""        {{
            int32_t k = (int32_t){second}[r * {depth} + {axis}];
            {_inside(extent)}
            at += k * {step[axis]};
        }}"""
        for axis, extent in enumerate(data.shape[:depth])
    )
    body = f"""{_copied(data, first)}    for (int32_t r = 0; r < {places.elements // depth}; ++r) {{
        int32_t at = 0;
{lines}
        {c_type(data.dtype)} *u = y0 + at;
        const {c_type(updates.dtype)} *v = {third} + r * {inner};
        for (int32_t i = 0; i < {inner}; ++i) {{
            {_PUT[operator.reduction]}
        }}
    }}
"""
    return Kernel("scatter_slices", parameters, body, constants=constants)


def scatter_elements(graph: Graph, operator: ScatterElements) -> Kernel:
    """ScatterElements: a copy of the whole, then element by element."""
    data, places, updates = graph.read(operator)
    parameters, constants = operands(graph, operator)
    first, second, third = (p.name for p in parameters[:3])
    own, step, axis = strides(places.shape), strides(data.shape), operator.axis
    rest = place("i", (0 if a == axis else s for a, s in enumerate(step)))
    put = _PUT[operator.reduction].replace("[i]", "[0]")
    body = f"""{_copied(data, first)}{chr(10).join(loops("i", places.shape))}
    {{
            int32_t k = (int32_t){second}[{place("i", own)}];
            {_inside(data.shape[axis])}
            {c_type(data.dtype)} *u = y0 + {rest} + k * {step[axis]};
            const {c_type(updates.dtype)} *v = {third} + {place("i", own)};
            {put}
    }}
"""
    return Kernel("scatter_elements", parameters, body, constants=constants)


def label_encoder(graph: Graph, operator: LabelEncoder) -> Kernel:
    """The last key that is not larger, found by halves."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    keys, values = smallest_integers(operator.keys), smallest_integers(operator.values)
    kind = c_type(x.dtype)
    other = number_of(operator.default, y)
    if x.dtype.kind == "f":
        other = f"v != v ? {number_of(operator.missing, y)} : {other}"
    body = f"""    for (int32_t i = 0; i < {x.elements}; ++i) {{
        const {kind} v = x0[i];
        int32_t low = 0, high = {keys.size};
        while (high - low > 1) {{
            const int32_t middle = (low + high) / 2;
            if (p0[middle] <= v) {{
                low = middle;
            }} else {{
                high = middle;
            }}
        }}
        y0[i] = p0[low] == v ? p1[low] : {other};
    }}
"""
    constants = (keys, values)
    return Kernel.of(graph, operator, "label_encoder", body, constants)


def smallest_integers(data: Array) -> Array:
    """Whole numbers in the smallest type that holds them; real ones as they are."""
    if data.dtype.kind == "f":
        return np.ascontiguousarray(data)
    for dtype in (np.uint8, np.int8, np.uint16, np.int16, np.int32):
        info = np.iinfo(dtype)
        if info.min <= data.min() and data.max() <= info.max:
            return np.ascontiguousarray(data.astype(dtype))
    return np.ascontiguousarray(data)


def number_of(value: float, y: Value) -> str:
    """A number in C, of the type of a value."""
    return c_real(value) if y.dtype.kind == "f" else f"INT64_C({int(value)})"


def lookup(graph: Graph, operator: Lookup) -> Kernel:
    """Copies of slices; the table may be constant."""
    (table, indices), (y,) = graph.read(operator), graph.written(operator)
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
    return Kernel("lookup", parameters, body, constants=constants)
