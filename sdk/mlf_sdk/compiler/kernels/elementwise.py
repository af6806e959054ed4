# SPDX-License-Identifier: Apache-2.0
"""Kernels of elementwise operators and changes of type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value, all_values
from mlf_sdk.compiler.kernels.kernel import Kernel, c_type, loops, of_elements, of_operands, operands, place
from mlf_sdk.compiler.kernels.scaling import (
    QUOTIENT,
    RESCALE_INT32,
    SATURATE,
    SCALING,
    WIDE_FUNCTIONS,
    saturated,
    scaled,
    type_limits,
)
from mlf_sdk.compiler.operators import Array, Call, Convert, Map, Operator, Rounding, Table
from mlf_sdk.compiler.reference import evaluate
from mlf_sdk.compiler.reference.stored import WIDE, argument_of, sigmoid_table
from mlf_sdk.compiler.regions import strides
from mlf_sdk.compiler.requantise import (
    COMPARED_SHIFT,
    COMPARISONS,
    SUMS,
    Multiplier,
    difference_multipliers,
    product_multiplier,
    quotient_multiplier,
    ratio,
    single_ratio,
    sum_multipliers,
)
from mlf_sdk.tools.ctext import c_exact, c_real


def table(graph: Graph, operator: Map | Convert | Table) -> Kernel | None:
    """Any function of one byte whose results are bytes, by its 256 results; None for others."""
    x, y = graph.read(operator)[0], graph.written(operator)[0]
    if not isinstance(operator, Table) and (
        not _is_byte_function(graph, operator) or operator.rounding is None or _only_sign(x, y, operator)
    ):
        return None
    (results,) = evaluate(graph, operator, [all_values(x)], [])
    constants = (results.astype(y.dtype),)
    body = f"""    const uint8_t *v = (const uint8_t *)x0;
    for (int32_t i = 0; i < {x.elements}; ++i) {{
        y0[i] = p0[v[i]];
    }}
"""
    return Kernel.of(graph, operator, "table", body, constants, overlaps=of_elements(x, y))


def _is_byte_function(graph: Graph, operator: Operator) -> bool:
    """True for a function from quantised bytes to quantised bytes."""
    values = (*graph.read(operator), *graph.written(operator))
    return len(values) == 2 and all(v.dtype.itemsize == 1 and v.quantisation is not None for v in values)


def convert(graph: Graph, operator: Convert) -> Kernel | None:
    """QUANTIZE, DEQUANTIZE and CAST; None where `table` is the kernel."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    helpers: dict[str, str] = {}
    if _is_byte_function(graph, operator) and not _only_sign(x, y, operator):
        return None
    if _only_sign(x, y, operator):
        return Kernel.of(graph, operator, "convert", _other_sign(x.elements), overlaps=of_elements(x, y))
    if x.quantisation and y.quantisation and x.dtype.kind != "f" and y.dtype.kind != "f":
        value = saturated(scaled(f"x0[i] - ({x.zero_point})", ratio(x, y)), y)
        helpers = SCALING
    elif operator.rounding is Rounding.NEAREST_EVEN:
        return _nearest_even(graph, operator, x, y)
    elif y.quantisation and x.dtype.kind == "f":
        low, high = type_limits(y)
        value = f"(int32_t)fminf(fmaxf(roundf(x0[i] / {c_exact(y.scale)}) + {y.zero_point}.0f, {low}.0f), {high}.0f)"
    elif x.quantisation and y.dtype.kind == "f":
        value = f"{c_exact(x.scale)} * (float)(x0[i] - ({x.zero_point}))"
    else:
        value = "x0[i] != 0" if y.dtype == np.bool_ else "x0[i]"
    body = f"""    for (int32_t i = 0; i < {x.elements}; ++i) {{
        y0[i] = ({c_type(y.dtype)})({value});
    }}
"""
    return Kernel.of(graph, operator, "convert", body, helpers=helpers, overlaps=of_elements(x, y))


def _only_sign(x: Value, y: Value, operator: Operator) -> bool:
    """True for a conversion between types of one byte that hold the same real values, 128 apart."""
    if (
        not isinstance(operator, Convert)
        or x.quantisation is None
        or y.quantisation is None
        or {x.dtype.name, y.dtype.name} != {"int8", "uint8"}
    ):
        return False
    apart = x.zero_point - y.zero_point
    return x.scales == y.scales and apart == (128 if x.dtype == np.uint8 else -128)


def _other_sign(count: int) -> str:
    """Body that turns the highest bit of each byte over, four bytes at a time."""
    rest = count % 4
    last = f"""    for (int32_t i = {count - rest}; i < {count}; ++i) {{
        *to++ = *from++ ^ 0x80u;
    }}
"""
    fours = f"""    for (int32_t i = 0; i < {count // 4}; ++i, from += 4, to += 4) {{
        uint32_t four;
        memcpy(&four, from, 4);
        four ^= 0x80808080u;
        memcpy(to, &four, 4);
    }}
"""
    return f"""    const uint8_t *from = (const uint8_t *)x0;
    uint8_t *to = (uint8_t *)y0;
{fours if count >= 4 else ""}{last if rest else ""}"""


def _nearest_even(graph: Graph, operator: Convert, x: Value, y: Value) -> Kernel:
    """Division by the scale and rounding to even: added to 3 * 2**22, a number has its rounded bits last."""
    info = np.iinfo(y.dtype)
    body = f"""    for (int32_t i = 0; i < {x.elements}; ++i) {{
        float v = x0[i] / {c_real(y.scale)};
        v = v > {info.min - y.zero_point}.0f ? v : {info.min - y.zero_point}.0f;
        v = (v < {info.max - y.zero_point}.0f ? v : {info.max - y.zero_point}.0f) + 12582912.0f;
        int32_t bits;
        memcpy(&bits, &v, 4);
        y0[i] = ({c_type(y.dtype)})(bits - 0x4b400000 + ({y.zero_point}));
    }}
"""
    return Kernel.of(graph, operator, "quantise", body, overlaps=of_elements(x, y))


def stored(graph: Graph, operator: Map) -> Kernel | None:
    """Functions of one or two stored values, with broadcast; operands may be constant. None for others."""
    values = graph.read(operator)
    if operator.rounding is not Rounding.TFLM:
        return None
    if len(values) == 1:
        return None if _is_byte_function(graph, operator) else _of_words(graph, operator)
    (y,) = graph.written(operator)
    parameters, constants = operands(graph, operator)
    result, helpers = _binary_value(operator, values[0], values[1], y)
    heads, places = broadcast(values, y)
    lines = [*heads, "    {"]
    for letter, parameter, at in zip("ab", parameters, places, strict=False):
        lines.append(f"        int32_t {letter} = {parameter.name}[{at}];")
    lines += [f"        y0[{places[2]}] = ({c_type(y.dtype)}){result};", "    }", ""]
    family, body, overlaps = operator.expression.function, "\n".join(lines), of_operands(values, y)
    return Kernel(family, parameters, body, helpers=helpers, constants=constants, overlaps=overlaps)


def broadcast(values: Sequence[Value], y: Value) -> tuple[list[str], list[str]]:
    """Loops over the output, and the places in each operand and in the output."""
    rank = len(y.shape)
    distances = []
    for value in (*values, y):
        shape = (1,) * (rank - len(value.shape)) + value.shape
        distances.append([0 if e == 1 else d for e, d in zip(shape, strides(shape), strict=True)])
    groups: list[tuple[int, list[int]]] = []
    for axis in range(rank):
        if y.shape[axis] == 1:
            continue
        here = [d[axis] for d in distances]
        if groups and all(old == new * y.shape[axis] for old, new in zip(groups[-1][1], here, strict=True)):
            groups[-1] = (groups[-1][0] * y.shape[axis], here)
        else:
            groups.append((y.shape[axis], here))
    places = [place("i", (here[number] for _, here in groups)) for number in range(len(values) + 1)]
    return loops("i", (extent for extent, _ in groups)), places


def _binary_value(operator: Map, a: Value, b: Value, y: Value) -> tuple[str, dict[str, str]]:
    """Expression of the result of ``a`` and ``b``, and its static functions."""
    function = operator.expression.function
    if function in _PAIRS or function in COMPARISONS:
        return _pair_value(function, a, b, y)
    helpers = SCALING
    if function in SUMS:
        from mlf_sdk.compiler.kernels.add_int8 import linear_sum  # few maps are sums

        cheap = linear_sum(operator, a, b, y)
        if cheap is not None:
            low, high = int(operator.clamp[0]), int(operator.clamp[1])
            return (
                f"saturate((a * {cheap.a} + b * {cheap.b} + ({cheap.c})) >> {cheap.bits}, {low}, {high})",
                {"saturate": SATURATE},
            )
        shift, first, second, last = sum_multipliers(function, a, b, y)
        left = scaled(f"(a - ({a.zero_point})) * (1 << {shift})", first)
        right = scaled(f"(b - ({b.zero_point})) * (1 << {shift})", second)
        value = scaled(f"{left} {'+' if function == 'add' else '-'} {right}", last)
    elif function == "div":
        by = quotient_multiplier(a, b, y)
        value = f"quotient(a - ({a.zero_point}), b - ({b.zero_point}), {by.value}, {by.shift})"
        helpers = SCALING | QUOTIENT
    else:
        value = scaled(f"(a - ({a.zero_point})) * (b - ({b.zero_point}))", product_multiplier(a, b, y))
    return saturated(value, y, operator.clamp), helpers


_PAIRS: Final = ("prelu", "squared_difference")
_SIGNS: Final = dict(zip(COMPARISONS, ("==", "!=", ">", ">=", "<", "<="), strict=True))
_SQUARED: Final = """static inline int32_t squared(int32_t v)
{
    return v * v;
}
"""


def _pair_value(function: str, a: Value, b: Value, y: Value) -> tuple[str, dict[str, str]]:
    """Expression of PRELU, SQUARED_DIFFERENCE or a comparison of quantised values."""
    left, right = f"(a - ({a.zero_point}))", f"(b - ({b.zero_point}))"
    if function in COMPARISONS:
        first, second = (
            scaled(f"{v} * {1 << COMPARED_SHIFT}", Multiplier.of(x.scale)) for v, x in ((left, a), (right, b))
        )
        return f"({first} {_SIGNS[function]} {second})", {"scale_sum": RESCALE_INT32}
    if function == "prelu":
        slope = scaled(f"{left} * {right}", product_multiplier(a, b, y))
        return saturated(f"({left} >= 0 ? {scaled(left, ratio(a, y))} : {slope})", y), SCALING
    shift, one, two, last = difference_multipliers(a, b, y)
    first, second = scaled(f"{left} * {1 << shift}", one), scaled(f"{right} * {1 << shift}", two)
    value = scaled(f"squared({first} - {second})", last)
    return saturated(value, y), {**SCALING, "squared": _SQUARED}


def _of_words(graph: Graph, operator: Map) -> Kernel:
    """Functions of one value of 16 bits."""
    function = operator.expression.function
    (x,), (y,) = graph.read(operator), graph.written(operator)
    helpers: dict[str, str] = {}
    constants: tuple[Array, ...] = ()
    if function in WIDE:
        start, result, helpers = _wide(function, x)
        constants = (sigmoid_table(),)
    else:
        start, helpers = f"int32_t v = x0[i] - ({x.zero_point});", SCALING
        result = saturated(f"({_rectified(operator.expression, x, y)})", y)
    body = f"""    for (int32_t i = 0; i < {x.elements}; ++i) {{
        {start}
        y0[i] = ({c_type(y.dtype)})({result});
    }}
"""
    return Kernel.of(graph, operator, function, body, constants, helpers=helpers, overlaps=of_elements(x, y))


def _rectified(call: Call, x: Value, y: Value) -> str:
    """Expression of LEAKY_RELU, RELU or ABS of ``v``, an input less its zero point, in the scale of the output."""
    if call.function == "leaky_relu":
        return f"v >= 0 ? {scaled('v', single_ratio(x, y))} : {scaled('v', single_ratio(x, y, *call.parameters))}"
    if call.function == "clip":
        return scaled("v > 0 ? v : 0", single_ratio(x, y))
    value = "v < 0 ? -v : v"
    return value if x.scale == y.scale else scaled(value, single_ratio(x, y))


def _wide(function: str, x: Value) -> tuple[str, str, dict[str, str]]:
    """Statement, expression and static functions of LOGISTIC or TANH of a 16-bit value."""
    multiplier, shift = argument_of(x, function)
    argument = f"x0[i] * {3 << shift}" if multiplier == 0 else f"x0[i] * {multiplier}"
    if multiplier and shift:
        argument = f"({argument} + {1 << (shift - 1)}) >> {shift}"
    return (
        f"int32_t v = {argument};",
        f"wide_{'logistic' if function == 'sigmoid' else function}(v, p0)",
        {"wide_functions": WIDE_FUNCTIONS},
    )
