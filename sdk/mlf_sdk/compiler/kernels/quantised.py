# SPDX-License-Identifier: Apache-2.0
"""Kernels of sums, running sums and lengths of stored values, and of parts that are replaced."""

from __future__ import annotations

import math

from mlf_sdk.compiler.computed import UpdateSlice
from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import (
    Kernel,
    c_type,
    loops,
    of_elements,
    of_operands,
    operands,
    place,
)
from mlf_sdk.compiler.kernels.scaling import INVERSE_ROOT, SCALING, saturated, scaled
from mlf_sdk.compiler.operators import AddN, L2Normalise
from mlf_sdk.compiler.reals import Accumulate
from mlf_sdk.compiler.reference.quantised import UNIT_SHIFT
from mlf_sdk.compiler.regions import strides
from mlf_sdk.compiler.requantise import TOTAL_SHIFT, Multiplier, total_multipliers


def _stored(y: Value, value: str) -> str:
    """Expression of a value in the output's type."""
    return f"({c_type(y.dtype)}){saturated(value, y)}"


def _term(x: Value, stored: str, by: Multiplier) -> str:
    """Expression of a term of ADD_N and CUMSUM."""
    return scaled(f"({stored} - ({x.zero_point})) * {1 << TOTAL_SHIFT}", by)


def add_n(graph: Graph, operator: AddN) -> Kernel:
    """ADD_N: the terms are scaled one by one; their sum wraps, as TFLM's does."""
    values = graph.read(operator)
    x, (y,) = values[0], graph.written(operator)
    first, last = total_multipliers(x, y)
    parameters, constants = operands(graph, operator)
    terms = "\n".join(
        f"        sum += (uint32_t){_term(x, f'{p.name}[i]', first)};" for p in parameters[: len(values)]
    )
    result = _stored(y, scaled("(int32_t)sum", last))
    body = f"""    for (int32_t i = 0; i < {y.elements}; ++i) {{
        uint32_t sum = (uint32_t){_term(x, "0", first)};
{terms}
        y0[i] = {result};
    }}
"""
    overlaps = of_operands(values, y)
    return Kernel("add_n", parameters, body, helpers=SCALING, constants=constants, overlaps=overlaps)


def accumulate(graph: Graph, operator: Accumulate) -> Kernel:
    """CUMSUM; sums of stored values wrap, as TFLM's do."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    extent = x.shape[operator.axis]
    inner = math.prod(x.shape[operator.axis + 1 :])
    at = f"(o * {extent} + {f'{extent - 1} - k' if operator.reverse else 'k'}) * {inner} + i"
    if y.quantisation is None:
        total, term, add, result = f"{c_type(y.dtype)} sum = 0;", "", f"sum += x0[{at}];", "sum"
    else:
        first, last = total_multipliers(x, y)
        total = f"uint32_t sum = (uint32_t){_term(x, '0', first)};"
        term = f"            uint32_t term = (uint32_t){_term(x, f'x0[{at}]', first)};\n"
        add, result = "sum += term;", _stored(y, scaled("(int32_t)sum", last))
    store = f"y0[{at}] = {result};"
    steps = [store, add] if operator.exclusive else [add, store]
    body = f"""    for (int32_t o = 0; o < {x.elements // extent // inner}; ++o)
    for (int32_t i = 0; i < {inner}; ++i) {{
        {total}
        for (int32_t k = 0; k < {extent}; ++k) {{
{term}            {steps[0]}
            {steps[1]}
        }}
    }}
"""
    helpers = SCALING if y.quantisation is not None else {}
    return Kernel.of(graph, operator, "accumulate", body, helpers=helpers)


def l2_normalise(graph: Graph, operator: L2Normalise) -> Kernel:
    """L2_NORMALIZATION: each row by the inverse root of its squares' sum."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    size = x.shape[-1]
    body = f"""    for (int32_t r = 0; r < {x.elements // size}; ++r) {{
        const {c_type(x.dtype)} *v = x0 + r * {size};
        int32_t sum = 0;
        for (int32_t i = 0; i < {size}; ++i) {{
            int32_t e = v[i] - ({x.zero_point});
            sum += e * e;
        }}
        int32_t shift;
        int32_t root = inverse_root(sum, &shift);
        for (int32_t i = 0; i < {size}; ++i) {{
            y0[r * {size} + i] = ({c_type(y.dtype)})saturate(scale_sum(v[i] - ({x.zero_point}), root, shift + {UNIT_SHIFT}), -128, 127);
        }}
    }}
"""
    helpers = {**SCALING, **INVERSE_ROOT}
    return Kernel.of(graph, operator, "l2_normalise", body, helpers=helpers, overlaps=of_elements(x, y))


def update_slice(graph: Graph, operator: UpdateSlice) -> Kernel:
    """DYNAMIC_UPDATE_SLICE: a copy of the whole, then the part over it, run by run."""
    (x, part, _), (y,) = graph.read(operator), graph.written(operator)
    parameters, constants = operands(graph, operator)
    names = [p.name for p in parameters]
    step, own = strides(x.shape), strides(part.shape)
    lines = [f"    memcpy(y0, {names[0]}, {y.size_bytes});", f"    {c_type(y.dtype)} *z = y0;"]
    for axis, (extent, inner) in enumerate(zip(x.shape, part.shape, strict=True)):
        lines += [
            f"    {{\n        int64_t s = {names[2]}[{axis}];",
            f"        s = s < 0 ? 0 : s > {extent - inner} ? {extent - inner} : s;",
            f"        z += (int32_t)s * {step[axis]};\n    }}",
        ]
    outer = part.shape[:-1]
    lines += loops("i", outer)
    to, source = place("i", step[: len(outer)]), place("i", own[: len(outer)])
    size = part.shape[-1] * part.dtype.itemsize
    lines += [f"    memcpy(z + {to}, {names[1]} + {source}, {size});", ""]
    return Kernel("update_slice", parameters, "\n".join(lines), constants=constants)
