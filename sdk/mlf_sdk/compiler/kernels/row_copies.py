# SPDX-License-Identifier: Apache-2.0
"""Kernels that copy the elements of one row of the outputs of a `Move`: joins and slices of channels, padding,
nearest neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, Role, c_type
from mlf_sdk.compiler.kernels.movement import fill_value
from mlf_sdk.compiler.operators import Array, Move


class RowCopy(msgspec.Struct, frozen=True):
    """Elements of a row of an input that go to a row of an output, as runs of equal length.

    Attributes:
        source, target: first element of each run, from the start of what is read and of what is written.
    """

    input: int
    output: int
    source: tuple[int, ...]
    target: tuple[int, ...]
    length: int


def row_copies(
    graph: Graph, operator: Move, sizes: Sequence[int], first: Sequence[Sequence[int]]
) -> list[tuple[RowCopy, ...]]:
    """Copies of each row of the outputs, which have the same number of rows.

    Args:
        sizes: elements of a row of each input.
        first: of each input, the row that is read first for each row of the outputs.
    """
    outputs = graph.written(operator)
    rows = len(first[0])
    copies: list[list[RowCopy]] = [[] for _ in range(rows)]
    for region in operator.regions:
        y = outputs[region.output]
        source, target = region.indices()
        row = target // (y.elements // rows)
        starts = np.asarray(first[region.input])[row] * sizes[region.input]
        source, target = source - starts, target % (y.elements // rows)
        order = np.lexsort((target, row))
        for number, part in enumerate(np.split(order, np.searchsorted(row[order], np.arange(1, rows)))):
            if len(part):
                copies[number].append(_copy(region.input, region.output, source[part], target[part]))
    return [tuple(one) for one in copies]


def _copy(number: int, output: int, source: Array, target: Array) -> RowCopy:
    breaks = np.flatnonzero((np.diff(source) != 1) | (np.diff(target) != 1)) + 1
    lengths = np.diff(np.concatenate([[0], breaks, [len(source)]]))
    length = int(np.gcd.reduce(lengths))
    return RowCopy(number, output, tuple(source[::length].tolist()), tuple(target[::length].tolist()), length)


def copy_kernel(graph: Graph, operator: Move, rows: int, copies: Sequence[RowCopy]) -> Kernel:
    """Kernel of some copies of one row of outputs that have so many."""
    inputs, outputs = graph.read(operator), graph.written(operator)
    constants: list[Array] = []
    body = ""
    if operator.fill is not None:
        for number, y in enumerate(outputs):
            value = f"({c_type(y.dtype)})({fill_value(operator.fill)})"
            body += f"    for (int32_t i = 0; i < {y.elements // rows}; ++i) {{\n        y{number}[i] = {value};\n    }}\n"
    for one in copies:
        places = []
        for starts in (one.source, one.target):
            steps = {b - a for a, b in pairwise(starts)}
            if len(steps) <= 1:
                places.append(f"{starts[0]} + i * {max(steps, default=0)}")
            else:
                places.append(f"p{len(constants)}[i]")
                constants.append(np.array(starts, np.int32))
        size = outputs[one.output].dtype.itemsize
        body += f"""    for (int32_t i = 0; i < {len(one.source)}; ++i) {{
        memcpy(y{one.output} + {places[1]}, x{one.input} + {places[0]}, {one.length * size});
    }}
"""
    used = {one.input for one in copies}
    body += "".join(f"    (void)x{k};\n" for k in range(len(inputs)) if k not in used)
    return Kernel(
        family="move",
        parameters=(
            *(Parameter(Role.INPUT, k, c_type(x.dtype)) for k, x in enumerate(inputs)),
            *(Parameter(Role.CONSTANT, k, "int32_t") for k in range(len(constants))),
            *(Parameter(Role.OUTPUT, k, c_type(y.dtype)) for k, y in enumerate(outputs)),
        ),
        body=body,
        constants=tuple(constants),
    )
