# SPDX-License-Identifier: Apache-2.0
"""Removal of conversions at the edges of a graph: the caller gives and gets quantised values."""

from __future__ import annotations

import dataclasses

from mlf_sdk.compiler.graph import INT8, Graph, Value
from mlf_sdk.compiler.operators import Convert
from mlf_sdk.errors import InputError


def strip_conversions(graph: Graph) -> Graph:
    """Graph whose inputs and outputs are the int8 values behind QUANTIZE and before DEQUANTIZE.

    The values keep the names of the inputs and outputs that they replace.

    Raises:
        InputError: an input or output is a float that the model does not convert.
    """
    values = list(graph.values)
    dropped: set[int] = set()
    inputs = [_input(graph, values, number, dropped) for number in graph.inputs]
    outputs = [_output(graph, values, number, dropped) for number in graph.outputs]
    operators = tuple(o for o in graph.operators if o.number not in dropped or not isinstance(o, Convert))
    changed = dataclasses.replace(
        graph, values=tuple(values), operators=operators, inputs=tuple(inputs), outputs=tuple(outputs)
    )
    left = [v.name for v in (*_of(changed, inputs), *_of(changed, outputs)) if v.dtype.kind == "f"]
    if left:
        raise InputError(
            f"the model does not convert the floats {', '.join(repr(name) for name in left)} to int8",
            where="--io",
            hint="Leave out --io, or convert the model with quantised inputs and outputs.",
        )
    return changed


def _of(graph: Graph, numbers: list[int]) -> list[Value]:
    return [graph.values[i] for i in numbers]


def _input(graph: Graph, values: list[Value], number: int, dropped: set[int]) -> int:
    readers = [o for o in graph.operators if number in o.inputs]
    result = [o for o in readers if isinstance(o, Convert) and graph.values[o.outputs[0]].dtype == INT8]
    if graph.values[number].dtype.kind != "f" or len(result) != 1 or len(readers) != 1:
        return number
    dropped.add(result[0].number)
    return _renamed(values, result[0].outputs[0], values[number].name)


def _output(graph: Graph, values: list[Value], number: int, dropped: set[int]) -> int:
    if graph.values[number].dtype.kind != "f":
        return number
    for operator in graph.operators:
        if number not in operator.outputs or not isinstance(operator, Convert):
            continue
        before = operator.inputs[0]
        used = any(number in o.inputs for o in graph.operators)
        if graph.values[before].dtype == INT8 and before not in graph.outputs and not used:
            dropped.add(operator.number)
            return _renamed(values, before, values[number].name)
    return number


def _renamed(values: list[Value], number: int, name: str) -> int:
    values[number] = dataclasses.replace(values[number], name=name)
    return number
