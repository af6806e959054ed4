# SPDX-License-Identifier: Apache-2.0
"""Vertical strips: the first layers once for each of some ranges of columns, their halos computed again.

Each strip reads its columns of the graph's input, which is whole and lies outside of the arena, runs the same
layers on narrower maps, and makes its columns of the last one; a copy joins them. The edges of the image have
the layers' padding, those between strips the columns of their neighbours. What follows, regions of rows
among it, sees nothing but a graph of more layers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.layer import STRIP, macs_of
from mlf_sdk.compiler.operators import Conv2D, DepthwiseConv2D, Move, Operator, Pool2D
from mlf_sdk.compiler.regions import box, concatenate, strides
from mlf_sdk.compiler.rows.needs import ELEMENTWISE

COUNTS: Final = (2, 3, 4)
MOST_ADDED: Final = 0.5  # of the model's multiplications
_MOST_LAYERS: Final = 40
_WORD: Final = 4  # bytes: rows in rings are whole words
_WINDOWS: Final = (Conv2D, DepthwiseConv2D, Pool2D)
Columns = tuple[int, int]
"""First and last column."""


def strip_graphs(graph: Graph) -> Iterator[Graph]:
    """Graphs with some of the first layers in some strips, those of the fewest multiplications first."""
    total = sum(macs_of(graph, one) for one in graph.operators)
    result = []
    for layers in range(2, min(len(graph.operators), _MOST_LAYERS)):
        for count in COUNTS:
            one = in_strips(graph, layers, count)
            if one is not None:
                macs = sum(macs_of(one, operator) for operator in one.operators)
                if macs <= (1 + MOST_ADDED) * total:
                    result.append((macs, layers, count, one))
    yield from (one for *_, one in sorted(result, key=lambda known: known[:3]))


def in_strips(graph: Graph, layers: int, count: int) -> Graph | None:
    """The graph with its first layers in so many strips; None where they can't be.

    Args:
        layers: number of operators, the last of which makes the only value that others read.
    """
    first, rest = graph.operators[:layers], graph.operators[layers:]
    made = {y for one in first for y in one.outputs}
    used = made & {*graph.outputs, *(x for one in rest for x in one.inputs)}
    read = {x for one in first for x in one.inputs if x not in made and graph.values[x].data is None}
    if used != {*first[-1].outputs} or len(used) != 1 or len(read) != 1 or not read <= {*graph.inputs}:
        return None
    if not all(_is_image(graph.values[v]) for v in (*made, *read)):
        return None
    width = _width(graph.values[first[-1].outputs[0]])
    if width < count or not all(_can_be_cut(graph, one) for one in first):
        return None
    cutter = _Cutter(graph, first)
    ends = [at * width // count for at in range(count + 1)]
    parts = [
        cutter.strip((a, b - 1), f"{number} of {count}") for number, (a, b) in enumerate(pairwise(ends), 1)
    ]
    known = [part for part in parts if part is not None]
    if len(known) < count:
        return None
    cutter.join(known)
    return dataclasses.replace(graph, values=tuple(cutter.values), operators=(*cutter.operators, *rest))


def columns_read(graph: Graph, operator: Operator, columns: Columns) -> Columns:
    """Columns of its inputs that an operator reads for some of its output, those of padding among them."""
    if not isinstance(operator, _WINDOWS):
        return columns
    window = operator.window
    first = columns[0] * window.stride[1] - window.before[1]
    last = columns[1] * window.stride[1] - window.before[1] + (window.size[1] - 1) * window.dilation[1]
    return first, last


def _is_image(value: Value) -> bool:
    return len(value.shape) == 4 and value.shape[0] == 1 and value.shape[1] > 1


def _width(value: Value) -> int:
    return value.shape[2]


def _can_be_cut(graph: Graph, operator: Operator) -> bool:
    """True for windows, and for elements at equal places; constants are the same in every column."""
    if len(operator.outputs) != 1:
        return False
    if isinstance(operator, _WINDOWS):
        return graph.values[operator.inputs[0]].data is None
    width = _width(graph.values[operator.outputs[0]])
    return isinstance(operator, ELEMENTWISE) and all(
        (len(x.shape) < 2 or x.shape[-2] == 1) if x.data is not None else _width(x) == width
        for x in graph.read(operator)
    )


def _in_words(value: Value, columns: Columns) -> Columns:
    """More columns where rows of so many are no whole words, and the image has more."""
    low, high = columns
    pixel = value.shape[3] * value.dtype.itemsize
    while (high - low + 1) * pixel % _WORD and (low, high) != (0, _width(value) - 1):
        low, high = (low, high + 1) if high < _width(value) - 1 else (low - 1, high)
    return low, high


class _Cutter:
    """Values and operators of strips."""

    def __init__(self, graph: Graph, layers: tuple[Operator, ...]) -> None:
        self.graph, self.layers = graph, layers
        self.values = [*graph.values]
        self.operators: list[Operator] = []

    def strip(self, columns: Columns, title: str) -> int | None:
        """Add a strip of the last layer's output and return its value; None: a window is all padding."""
        needed = self._needed(columns)
        if needed is None:
            return None
        there: dict[int, tuple[int, Columns]] = {}
        for operator in self.layers:
            inputs = [self._read(x, operator, needed, there, title) for x in operator.inputs]
            y = operator.outputs[0]
            part = self._value(y, needed[y], title)
            there[y] = part, needed[y]
            self.operators.append(_with_edge(self.graph, operator, needed[y], (*inputs,), (part,)))
        return there[self.layers[-1].outputs[0]][0]

    def join(self, parts: list[int]) -> None:
        """Add the copy of the strips to the last layer's output."""
        last = self.layers[-1]
        y = self.graph.values[last.outputs[0]]
        regions = concatenate([self.values[part].shape for part in parts], 2, y.shape)
        self.operators.append(
            Move(number=last.number, kind="STRIPS", inputs=(*parts,), outputs=(y.id,), regions=regions)
        )

    def _needed(self, columns: Columns) -> dict[int, Columns] | None:
        """Columns of each value that a strip needs."""
        values, needed = self.graph.values, {self.layers[-1].outputs[0]: columns}
        for operator in reversed(self.layers):
            y = operator.outputs[0]
            if operator is not self.layers[-1]:
                needed[y] = _in_words(values[y], needed[y])
            first, last = columns_read(self.graph, operator, needed[y])
            for x in operator.inputs:
                if values[x].data is None:
                    end = _width(values[x]) - 1
                    if first > end or last < 0:
                        return None
                    low, high = needed.get(x, (end, 0))
                    needed[x] = min(low, max(0, first)), max(high, min(last, end))
        for x in needed.keys() - {one.outputs[0] for one in self.layers}:
            if not self._is_padded(x):
                needed[x] = _in_words(values[x], needed[x])
        return needed

    def _is_padded(self, x: int) -> bool:
        """True for a value that convolutions alone read: columns of its zero point are padding to them."""
        return all(isinstance(one, Conv2D | DepthwiseConv2D) for one in self.layers if x in one.inputs)

    def _read(
        self,
        x: int,
        operator: Operator,
        needed: dict[int, Columns],
        there: dict[int, tuple[int, Columns]],
        title: str,
    ) -> int:
        """The part of a value that an operator reads, cut from a wider one where it begins elsewhere."""
        value = self.graph.values[x]
        if value.data is not None:
            return x
        if x not in there:
            there[x] = self._cut(x, x, (0, _width(value) - 1), needed[x], operator.number, title), needed[x]
        part, (low, high) = there[x]
        first, last = columns_read(self.graph, operator, needed[operator.outputs[0]])
        wanted = max(0, first), min(last, _width(value) - 1)
        if wanted[0] == low and (wanted[1] == high or isinstance(operator, _WINDOWS)):
            return part
        return self._cut(x, part, (low, high), wanted, operator.number, title)

    def _cut(self, x: int, part: int, whole: Columns, wanted: Columns, number: int, title: str) -> int:
        """Add a copy of some columns of a part of a value, and of zeros behind them up to a whole word."""
        value = self.graph.values[x]
        more = 0
        if self._is_padded(x):
            pixel = value.shape[3] * value.dtype.itemsize
            while (wanted[1] - wanted[0] + 1 + more) * pixel % _WORD:
                more += 1
        y = self._value(x, (wanted[0], wanted[1] + more), title)
        source = self.values[part].shape
        extents = (*source[:2], wanted[1] - wanted[0] + 1, source[3])
        offset = (wanted[0] - whole[0]) * source[3]
        region = box(extents, strides(source), strides(self.values[y].shape), source_offset=offset)
        self.operators.append(
            Move(
                number=number,
                kind=f"{STRIP} {title}",
                inputs=(part,),
                outputs=(y,),
                regions=(region,),
                fill=float(value.zero_point) if more else None,
            )
        )
        return y

    def _value(self, x: int, columns: Columns, title: str) -> int:
        """Add a value of some columns of another."""
        value = self.graph.values[x]
        shape = (*value.shape[:2], columns[1] - columns[0] + 1, value.shape[3])
        name = f"{value.name} (strip {title})"
        self.values.append(dataclasses.replace(value, id=len(self.values), name=name, shape=shape))
        return len(self.values) - 1


def _with_edge(
    graph: Graph, operator: Operator, columns: Columns, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> Operator:
    """The operator on parts of its values; padding is left of the image alone."""
    result = dataclasses.replace(operator, inputs=inputs, outputs=outputs)
    if not isinstance(result, _WINDOWS):
        return result
    left = max(0, -columns_read(graph, operator, columns)[0])
    return dataclasses.replace(
        result, window=dataclasses.replace(result.window, before=(result.window.before[0], left))
    )
