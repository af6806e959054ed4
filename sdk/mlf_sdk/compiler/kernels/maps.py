# SPDX-License-Identifier: Apache-2.0
"""Kernel of an expression over tensors: one loop, with broadcast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.elementwise import broadcast
from mlf_sdk.compiler.kernels.floats.functions import helpers_of, text_of
from mlf_sdk.compiler.kernels.kernel import Kernel, c_type, of_operands, operands
from mlf_sdk.compiler.operators import Call, Map
from mlf_sdk.tools.ctext import c_real

LETTERS = "abcdefgh"


def map_(graph: Graph, operator: Map) -> Kernel | None:
    """An expression of real or whole numbers; operands may be constant. None for what stored values stand for."""
    if operator.rounding is not None:
        return None
    values, (y,) = graph.read(operator), graph.written(operator)
    kind = values[-1].dtype
    heads, places = broadcast(values, y)
    literal = {
        i: c_real(float(v.data.reshape(-1)[0]))
        for i, v in enumerate(values)
        if v.data is not None and v.elements == 1 and v.dtype.kind == "f"
    }
    parameters, constants = operands(graph, operator, skip=literal)
    lines, passed = [*heads, "    {"], iter(parameters)
    for position, (letter, value) in enumerate(zip(LETTERS, values, strict=False)):
        source = literal.get(position) or f"{next(passed).name}[{places[position]}]"
        lines.append(f"        {c_type(value.dtype)} {letter} = {source};")
    inner = list(dict.fromkeys(_inner(operator.expression)))
    for place_, call in enumerate(inner):
        text = text_of(call, _names(call, inner), real=kind.kind == "f")
        lines.append(f"        {c_type(kind)} t{place_} = ({c_type(kind)})({text});")
    text = text_of(operator.expression, _names(operator.expression, inner), real=kind.kind == "f")
    lines += [f"        y0[{places[-1]}] = ({c_type(y.dtype)})({text});", "    }", ""]
    body = "\n".join(lines)
    family, helpers = "_".join(call.function for call in (*inner, operator.expression)), helpers_of(body)
    overlaps = of_operands(values, y)
    return Kernel(family, parameters, body, helpers=helpers, constants=constants, overlaps=overlaps)


def _inner(call: Call) -> Iterator[Call]:
    """Calls that a call's arguments are, each behind those that it needs."""
    for argument in call.arguments:
        if isinstance(argument, Call):
            yield from _inner(argument)
            yield argument


def _names(call: Call, inner: Sequence[Call]) -> list[str]:
    """Variables of a call's arguments."""
    return [LETTERS[a] if isinstance(a, int) else f"t{inner.index(a)}" for a in call.arguments]
