# SPDX-License-Identifier: Apache-2.0
"""Kernels that move or choose elements, and those of states."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.computed import ArgExtreme
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, Role, arguments, c_type, loops, operands
from mlf_sdk.compiler.operators import Move, ReadState, WriteState
from mlf_sdk.compiler.recurrences import AppendRows
from mlf_sdk.compiler.regions import Region, simplified


def move(graph: Graph, operator: Move) -> Kernel:
    """Copies of regions, runs of neighbours as one block."""
    held, known = operands(graph, operator)
    parameters, constants = list(held), list(known)
    names = dict(enumerate(p.name for p in parameters))
    lines: list[str] = []
    for number, y in enumerate(graph.written(operator)):
        if operator.fill is not None:
            lines.append(
                f"    for (int32_t i = 0; i < {y.elements}; ++i) {{\n        y{number}[i] = ({c_type(y.dtype)})({fill_value(operator.fill)});\n    }}"
            )
    for region in operator.regions:
        for position, axis in enumerate(region.axes):
            if isinstance(axis.source, tuple):
                names[-1 - position] = f"p{len(constants)}"
                parameters.append(Parameter(Role.CONSTANT, len(constants), "int32_t"))
                constants.append(np.array(axis.source, np.int32))
        lines.append(_copy(region, names, graph.written(operator)[region.output].dtype.itemsize))
    return Kernel(
        family="move",
        parameters=tuple(parameters),
        body="\n".join(lines) + "\n",
        constants=tuple(constants),
        joins=_joins(graph, operator),
        slices=_slices(graph, operator),
    )


def _is_run(region: Region, count: int) -> bool:
    """True where a region is ``count`` neighbours that stay neighbours."""
    axes = [axis for axis in simplified(region).axes if axis.extent != 1]
    return (count == 1 and not axes) or [(a.extent, a.source, a.target) for a in axes] == [(count, 1, 1)]


def _joins(graph: Graph, operator: Move) -> tuple[int, ...]:
    """Byte offsets of whole inputs in the one output that they fill; empty for any other move."""
    inputs, outputs = graph.read(operator), graph.written(operator)
    regions = {region.input: region for region in operator.regions}
    fills = sum(x.elements for x in inputs) == outputs[0].elements and len(outputs) == 1
    if not fills or len(regions) != len(inputs) or any(x.data is not None for x in inputs):
        return ()
    if len(operator.regions) != len(regions) or not all(
        r.source == 0 and _is_run(r, inputs[r.input].elements) for r in regions.values()
    ):
        return ()
    return tuple(regions[i].target * outputs[0].dtype.itemsize for i in range(len(inputs)))


def _slices(graph: Graph, operator: Move) -> tuple[int, ...]:
    """Byte offsets of the outputs in the one input that holds them as they are; empty for any other move."""
    inputs, outputs = graph.read(operator), graph.written(operator)
    regions = {region.output: region for region in operator.regions}
    if {r.input for r in operator.regions} != {0} or inputs[0].data is not None:
        return ()
    if not len(operator.regions) == len(regions) == len(outputs) or not all(
        r.target == 0 and _is_run(r, outputs[r.output].elements) for r in regions.values()
    ):
        return ()
    return tuple(regions[i].source * inputs[0].dtype.itemsize for i in range(len(outputs)))


def fill_value(value: float) -> str:
    """C text of what fills the places that no region writes."""
    if isinstance(value, int) and not -(1 << 31) < value < 1 << 31:
        return "INT64_MIN" if value == -(1 << 63) else f"{'U' * (value >= 1 << 63)}INT64_C({value})"
    return (
        "NAN" if np.isnan(value) else repr(value) if abs(value) < np.inf else f"{'-' * (value < 0)}INFINITY"
    )


def _copy(region: Region, names: dict[int, str], size: int) -> str:
    axes = list(region.axes)
    run = 1
    if axes and axes[-1].source == 1 and axes[-1].target == 1:
        run = axes.pop().extent
    lines = loops("i", (axis.extent for axis in axes))
    source = [names[region.input], str(region.source)]
    target = [f"y{region.output}", str(region.target)]
    for k, axis in enumerate(axes):
        source.append(f"{names[-1 - k]}[i{k}]" if isinstance(axis.source, tuple) else f"i{k} * {axis.source}")
        target.append(f"i{k} * {axis.target}")
    if run > 1:
        lines.append(
            f"    {{\n        memcpy({' + '.join(target)}, {' + '.join(source)}, {run * size});\n    }}"
        )
    else:
        lines.append(
            f"    {{\n        {target[0]}[{' + '.join(target[1:])}] = {source[0]}[{' + '.join(source[1:])}];\n    }}"
        )
    return "\n".join(lines)


def read_state(graph: Graph, operator: ReadState) -> Kernel:
    """READ_VARIABLE."""
    (y,) = graph.written(operator)
    body = f"    memcpy(y0, s0, {y.size_bytes});\n"
    return Kernel.of(graph, operator, "copy", body)


def write_state(graph: Graph, operator: WriteState) -> Kernel:
    """ASSIGN_VARIABLE."""
    (x,) = graph.read(operator)
    body = f"    memcpy(s0, x0, {x.size_bytes});\n"
    return Kernel.of(graph, operator, "copy", body)


_KEEP_WORDS = """static void keep_newest(int32_t *rows, const int32_t *more, int32_t kept, int32_t added)
{ /* words */
    typedef int32_t MLF_MAY_ALIAS word_t;
    word_t *to = rows;
    const word_t *from = to + added;
    for (; kept >= 4; kept -= 4, to += 4, from += 4) {
        int32_t a = from[0], b = from[1], c = from[2], d = from[3];
        to[0] = a;
        to[1] = b;
        to[2] = c;
        to[3] = d;
    }
    for (; kept > 0; --kept) {
        *to++ = *from++;
    }
    for (from = more; added > 0; --added) {
        *to++ = *from++;
    }
}
"""


def append_rows(graph: Graph, operator: AppendRows) -> Kernel:
    """Rows of a state move to its front, and new ones go behind them."""
    (x,), state = graph.read(operator), graph.states[operator.state]
    added, kept = x.size_bytes, state.initial.nbytes - x.size_bytes
    helpers = {}
    body = f"""    uint8_t *rows = (uint8_t *)s0;
    memmove(rows, rows + {added}, {kept});
    memcpy(rows + {kept}, x0, {added});
"""
    if added % 4 == kept % 4 == 0:
        helpers["keep_newest"] = _KEEP_WORDS
        state_words, new_words = "(int32_t *)(void *)s0", "(const int32_t *)(const void *)x0"
        body = f"    keep_newest({state_words}, {new_words}, {kept // 4}, {added // 4});\n"
    parameters = tuple(p for p in arguments(graph, operator) if p.role is not Role.OUTPUT)
    return Kernel("append_rows", parameters, body, helpers=helpers)


def arg_extreme(graph: Graph, operator: ArgExtreme) -> Kernel:
    """ARG_MAX and ARG_MIN."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    extent = x.shape[operator.axis]
    inner = int(np.prod(x.shape[operator.axis + 1 :], dtype=np.int64))
    sign = ("<" if operator.smallest else ">") + ("=" if operator.last else "")
    body = f"""    for (int32_t o = 0; o < {x.elements // extent // inner}; ++o)
    for (int32_t i = 0; i < {inner}; ++i) {{
        const {c_type(x.dtype)} *v = x0 + o * {extent * inner} + i;
        int32_t best = 0;
        for (int32_t k = 1; k < {extent}; ++k) {{
            if (v[k * {inner}] {sign} v[best * {inner}]) {{
                best = k;
            }}
        }}
        y0[o * {inner} + i] = ({c_type(y.dtype)})best;
    }}
"""
    return Kernel.of(graph, operator, "arg_extreme", body, reads=1)
