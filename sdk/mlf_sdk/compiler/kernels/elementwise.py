# SPDX-License-Identifier: Apache-2.0
"""Kernels of elementwise operators and changes of type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.fixed import QUOTIENT
from mlf_sdk.compiler.kernels.floats.functions import literal
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments, c_type, loops, operands, place
from mlf_sdk.compiler.kernels.overlap import of_elements, of_operands
from mlf_sdk.compiler.kernels.scaling import (
    RESCALE_INT32,
    SATURATE,
    SCALING,
    limited,
    saturated,
    scaled,
    type_limits,
)
from mlf_sdk.compiler.kernels.sums import linear_sum
from mlf_sdk.compiler.kernels.wide import WIDE_FUNCTIONS
from mlf_sdk.compiler.operators import Arithmetic, Array, Binary, Convert, Elementwise, Table
from mlf_sdk.compiler.reference.pointwise import WIDE
from mlf_sdk.compiler.reference.wide import argument_of, sigmoid_table
from mlf_sdk.compiler.regions import strides
from mlf_sdk.compiler.requantise import Multiplier
from mlf_sdk.compiler.scales import (
    COMPARED_SHIFT,
    COMPARISONS,
    SUMS,
    difference_multipliers,
    product_multiplier,
    quotient_multiplier,
    ratio,
    single_ratio,
    sum_multipliers,
)


def table(graph: Graph, operator: Table) -> Kernel:
    """A function of one byte."""
    (x,) = graph.read(operator)
    constants = (operator.table,)
    body = f"""    const uint8_t *v = (const uint8_t *)x0;
    for (int32_t i = 0; i < {x.elements}; ++i) {{
        y0[i] = p0[v[i]];
    }}
"""
    return Kernel(
        family="table",
        parameters=arguments(graph, operator, constants=constants),
        body=body,
        constants=constants,
        overlaps=of_elements(x, graph.written(operator)[0]),
    )


def convert(graph: Graph, operator: Convert) -> Kernel:
    """QUANTIZE, DEQUANTIZE and CAST."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    helpers: dict[str, str] = {}
    if _only_sign(x, y):
        return Kernel(
            family="convert", parameters=arguments(graph, operator), body=_other_sign(x.elements),
            overlaps=of_elements(x, y),
        )  # fmt: skip
    if x.quantisation and y.quantisation and x.dtype.kind != "f" and y.dtype.kind != "f":
        value = saturated(scaled(f"x0[i] - ({x.zero_point})", ratio(x, y)), y)
        helpers = SCALING
    elif y.quantisation and x.dtype.kind == "f":
        low, high = type_limits(y)
        value = f"(int32_t)fminf(fmaxf(roundf(x0[i] / {literal(y.scale)}) + {y.zero_point}.0f, {low}.0f), {high}.0f)"
    elif x.quantisation and y.dtype.kind == "f":
        value = f"{literal(x.scale)} * (float)(x0[i] - ({x.zero_point}))"
    else:
        value = "x0[i]"
    body = f"""    for (int32_t i = 0; i < {x.elements}; ++i) {{
        y0[i] = ({c_type(y.dtype)})({value});
    }}
"""
    return Kernel(
        family="convert",
        parameters=arguments(graph, operator),
        body=body,
        helpers=helpers,
        overlaps=of_elements(x, y),
    )


def _only_sign(x: Value, y: Value) -> bool:
    """True where two types of one byte hold the same real values, 128 apart."""
    if x.quantisation is None or y.quantisation is None or {x.dtype.name, y.dtype.name} != {"int8", "uint8"}:
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
    return f"""    const uint8_t *from = (const uint8_t *)x0;
    uint8_t *to = (uint8_t *)y0;
    for (int32_t i = 0; i < {count // 4}; ++i, from += 4, to += 4) {{
        uint32_t four;
        memcpy(&four, from, 4);
        four ^= 0x80808080u;
        memcpy(to, &four, 4);
    }}
{last if rest else ""}"""


_OPERATIONS: Final = {Arithmetic.ADD: "+", Arithmetic.SUB: "-", Arithmetic.MUL: "*", Arithmetic.DIV: "/"}


def binary(graph: Graph, operator: Binary) -> Kernel:
    """ADD, SUB, MUL, DIV, MAXIMUM and MINIMUM, with broadcast; operands may be constant."""
    values = graph.read(operator)
    (y,) = graph.written(operator)
    parameters, constants = operands(graph, operator)
    result, helpers = _binary_value(operator, values[0], values[1], y)
    heads, places = broadcast(values, y)
    lines = [*heads, "    {"]
    for letter, parameter, at in zip("ab", parameters, places, strict=False):
        kind = "float" if y.dtype.kind == "f" else "int32_t"
        lines.append(f"        {kind} {letter} = {parameter.name}[{at}];")
    lines += [f"        y0[{places[2]}] = ({c_type(y.dtype)}){result};", "    }", ""]
    return Kernel(
        family=operator.function.value,
        parameters=parameters,
        body="\n".join(lines),
        helpers=helpers,
        constants=constants,
        overlaps=of_operands(values, y),
    )


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


def _binary_value(operator: Binary, a: Value, b: Value, y: Value) -> tuple[str, dict[str, str]]:
    """Expression of the result of ``a`` and ``b``, and its static functions."""
    function = operator.function
    if function in (Arithmetic.MAXIMUM, Arithmetic.MINIMUM):
        return f"(a {'>' if function is Arithmetic.MAXIMUM else '<'} b ? a : b)", {}
    if function in _PAIRS or function in COMPARISONS:
        return _pair_value(operator, a, b, y)
    sign = _OPERATIONS[function]
    if y.dtype.kind == "f":
        return f"({limited(f'a {sign} b', operator.clamp)})", {}
    if y.quantisation is None:
        return _of_whole_numbers(sign, operator.clamp)
    helpers = SCALING
    if function in SUMS:
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
        value = scaled(f"{left} {sign} {right}", last)
    elif function is Arithmetic.DIV:
        by = quotient_multiplier(a, b, y)
        value = f"quotient(a - ({a.zero_point}), b - ({b.zero_point}), {by.value}, {by.shift})"
        helpers = SCALING | QUOTIENT
    else:
        value = scaled(f"(a - ({a.zero_point})) * (b - ({b.zero_point}))", product_multiplier(a, b, y))
    return saturated(value, y, operator.clamp), helpers


def _of_whole_numbers(sign: str, clamp: tuple[float, float]) -> tuple[str, dict[str, str]]:
    """Expression of arithmetic of 32-bit numbers that are no stored values; it wraps."""
    value = "a / b" if sign == "/" else f"(int32_t)((uint32_t)a {sign} (uint32_t)b)"
    if clamp == _WORD:
        return f"({value})", {}
    return f"saturate({value}, {_literal(clamp[0])}, {_literal(clamp[1])})", {"saturate": SATURATE}


_WORD: Final = (-(1 << 31), (1 << 31) - 1)


def _literal(limit: float) -> str:
    return "INT32_MIN" if limit == _WORD[0] else str(int(limit))


_PAIRS: Final = (Arithmetic.PRELU, Arithmetic.SQUARED_DIFFERENCE)
_SIGNS: Final = dict(zip(COMPARISONS, ("==", "!=", ">", ">=", "<", "<="), strict=True))
_SQUARED: Final = """static inline int32_t squared(int32_t v)
{
    return v * v;
}
"""


def _pair_value(operator: Binary, a: Value, b: Value, y: Value) -> tuple[str, dict[str, str]]:
    """Expression of PRELU, SQUARED_DIFFERENCE or a comparison of quantised values."""
    left, right = f"(a - ({a.zero_point}))", f"(b - ({b.zero_point}))"
    if operator.function in COMPARISONS:
        first, second = (
            scaled(f"{v} * {1 << COMPARED_SHIFT}", Multiplier.of(x.scale)) for v, x in ((left, a), (right, b))
        )
        return f"({first} {_SIGNS[operator.function]} {second})", {"scale_sum": RESCALE_INT32}
    if operator.function is Arithmetic.PRELU:
        slope = scaled(f"{left} * {right}", product_multiplier(a, b, y))
        return saturated(f"({left} >= 0 ? {scaled(left, ratio(a, y))} : {slope})", y), SCALING
    shift, one, two, last = difference_multipliers(a, b, y)
    first, second = scaled(f"{left} * {1 << shift}", one), scaled(f"{right} * {1 << shift}", two)
    value = scaled(f"squared({first} - {second})", last)
    return saturated(value, y), {**SCALING, "squared": _SQUARED}


_REAL: Final = {
    "relu": "fmaxf(v, 0.0f)",
    "relu6": "fminf(fmaxf(v, 0.0f), 6.0f)",
    "logistic": "1.0f / (1.0f + expf(-v))",
    "tanh": "tanhf(v)",
    "exp": "expf(v)",
    "log": "logf(v)",
    "sqrt": "sqrtf(v)",
    "rsqrt": "1.0f / sqrtf(v)",
    "abs": "fabsf(v)",
    "neg": "-v",
    "square": "v * v",
    "hard_swish": "v * fminf(fmaxf(v + 3.0f, 0.0f), 6.0f) / 6.0f",
}


def elementwise(graph: Graph, operator: Elementwise) -> Kernel:
    """Functions of one value."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    helpers: dict[str, str] = {}
    constants: tuple[Array, ...] = ()
    if operator.function in WIDE and x.dtype.kind != "f":
        start, result, helpers = _wide(operator.function, x)
        constants = (sigmoid_table(),)
    elif x.dtype.kind != "f":
        start, helpers = f"int32_t v = x0[i] - ({x.zero_point});", SCALING
        result = saturated(f"({_rectified(operator, x, y)})", y)
    else:
        start = "float v = x0[i];"
        result = _REAL.get(operator.function) or f"v >= 0.0f ? v : v * {literal(operator.alpha)}"
    body = f"""    for (int32_t i = 0; i < {x.elements}; ++i) {{
        {start}
        y0[i] = ({c_type(y.dtype)})({result});
    }}
"""
    return Kernel(
        family=operator.function,
        parameters=arguments(graph, operator, constants=constants),
        body=body,
        helpers=helpers,
        constants=constants,
        overlaps=of_elements(x, y),
    )


def _rectified(operator: Elementwise, x: Value, y: Value) -> str:
    """Expression of LEAKY_RELU, RELU or ABS of ``v``, an input less its zero point, in the scale of the output."""
    if operator.function == "leaky_relu":
        return (
            f"v >= 0 ? {scaled('v', single_ratio(x, y))} : {scaled('v', single_ratio(x, y, operator.alpha))}"
        )
    if operator.function == "relu":
        return scaled("v > 0 ? v : 0", single_ratio(x, y))
    value = "v < 0 ? -v : v"
    return value if x.scale == y.scale else scaled(value, single_ratio(x, y))


def _wide(function: str, x: Value) -> tuple[str, str, dict[str, str]]:
    """Statement, expression and static functions of LOGISTIC or TANH of a 16-bit value."""
    multiplier, shift = argument_of(x, function)
    argument = f"x0[i] * {3 << shift}" if multiplier == 0 else f"x0[i] * {multiplier}"
    if multiplier and shift:
        argument = f"({argument} + {1 << (shift - 1)}) >> {shift}"
    return f"int32_t v = {argument};", f"wide_{function}(v, p0)", {"wide_functions": WIDE_FUNCTIONS}
