# SPDX-License-Identifier: Apache-2.0
"""Pass that makes a model of a window of a time series one of its newest frames, exact for every frame.

Rows of the input are moments, the newest one last. Where each row of a value is made of the rows of another
one at the same distances, all but its newest rows were made for the frames before: a layer computes those
alone, of rows that a state keeps. A layer whose result is one row is computed anew for each frame.
"""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import msgspec
import numpy as np

from mlf_sdk.compiler.graph import Graph, State, Value
from mlf_sdk.compiler.kernels.row_copies import row_copies
from mlf_sdk.compiler.operators import (
    Conv2D,
    DepthwiseConv2D,
    Move,
    Operator,
    Pool2D,
    Reshape,
    Softmax,
)
from mlf_sdk.compiler.passes.layers import multiply_whole_windows
from mlf_sdk.compiler.recurrences import AppendRows
from mlf_sdk.compiler.regions import Axis
from mlf_sdk.compiler.regions import Region as Copied
from mlf_sdk.compiler.rows.needs import firings_of, row_bytes, rows_of
from mlf_sdk.compiler.rows.upright import time_on_rows
from mlf_sdk.errors import InputError

_FLAG = "--frames"
_WINDOWS = (Conv2D, DepthwiseConv2D, Pool2D)


class Line(msgspec.Struct, frozen=True):
    """Rows of an input that a row of the output is made of: row k needs those from step * k + offset on."""

    step: int
    offset: int


def by_frames(graph: Graph) -> Graph:
    """The improved graph, whose input is as many rows of a window as come at once.

    Raises:
        InputError: it has several inputs or no rows, or an operator that makes rows out of others than those
            at fixed distances, such as padding; names it.
    """
    if len(graph.inputs) != 1 or graph.states:
        what = f"{len(graph.inputs)} inputs" if len(graph.inputs) != 1 else "states of its own"
        raise InputError(f"the model has {what}: frames of one input alone can be taken", where=_FLAG)
    given = graph.values[graph.inputs[0]]
    graph = time_on_rows(graph)
    value = graph.values[graph.inputs[0]]
    if rows_of(value) < 2:
        shape = "x".join(map(str, value.shape))
        raise InputError(
            f"the input '{value.name}' of {shape} has no rows of time",
            where=_FLAG,
            hint="An input of shape 1 x time x ... can be taken in frames.",
        )
    result = multiply_whole_windows(_Frames(graph).result())
    return result if given.shape == value.shape else _with_input(result, given)


def _with_input(graph: Graph, given: Value) -> Graph:
    """The graph with an input of as many axes as that of the model, whose rows of time are its third."""
    number = len(graph.values)
    turned = graph.values[graph.inputs[0]]
    rows = (*given.shape[:2], rows_of(turned), given.shape[3])
    first = Reshape(number=0, kind="RESHAPE", inputs=(number,), outputs=(turned.id,))
    value = dataclasses.replace(turned, id=number, shape=rows)
    turned = dataclasses.replace(turned, name=f"{turned.name}_rows")
    values = (*graph.values[: turned.id], turned, *graph.values[turned.id + 1 :], value)
    operators = (first, *graph.operators)
    return dataclasses.replace(
        graph, values=values, operators=operators, inputs=(number,), window=given.shape
    )


class _Frames:
    """A graph while it is changed.

    Attributes:
        jumps: rows of the input from one row of a value to the next, of those whose rows are moments.
        hop: rows of the input in a frame.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = list(graph.values)
        self.states: list[State] = []
        self.operators: list[Operator] = []
        self.jumps = {graph.inputs[0]: 1}
        self.lines: dict[int, dict[int, Line]] = {}  # by the position of an operator
        self._kept: dict[tuple[int, int], int] = {}
        for position, operator in enumerate(graph.operators):
            self._follow(position, operator)
        self.hop = math.lcm(*self.jumps.values())

    def result(self) -> Graph:
        """The graph of a frame."""
        for number in self.jumps:
            value = self.values[number]
            self.values[number] = _of_rows(value, self._new(number))
        for position, operator in enumerate(self.graph.operators):
            self._add(position, operator)
        for y in self.graph.outputs:
            if y in self.jumps:
                raise InputError(
                    f"the output '{self.values[y].name}' has {rows_of(self.graph.values[y])} rows of time",
                    where=_FLAG,
                    hint="Let the model give what it finds at the end of a window.",
                )
        return dataclasses.replace(
            self.graph,
            values=tuple(self.values),
            operators=tuple(self.operators),
            states=tuple(self.states),
            window=self.graph.values[self.graph.inputs[0]].shape,
        )

    def _follow(self, position: int, operator: Operator) -> None:
        """Note which rows an operator needs, if its input has moments."""
        read = [x for x in self.graph.read(operator) if x.id in self.jumps]
        if not read or all(rows_of(y) == 1 for y in self.graph.written(operator)):
            return
        lines = self._lines(operator)
        if len({self.jumps[x.id] * lines[x.id].step for x in read}) > 1:
            raise _prevented(operator, "joins rows of different rates")
        self.lines[position] = lines
        self.jumps |= dict.fromkeys(operator.outputs, self.jumps[read[0].id] * lines[read[0].id].step)

    def _lines(self, operator: Operator) -> dict[int, Line]:
        """By each input, the rows that an operator needs; raises InputError where they are on no line."""
        graph = self.graph
        inputs = [x for x in graph.read(operator) if x.data is None]
        if any(x.id not in self.jumps for x in inputs):
            raise _prevented(operator, "gives each row something of the whole window")
        if isinstance(operator, Softmax) and all(x.shape == graph.written(operator)[0].shape for x in inputs):
            return {x.id: Line(1, 0) for x in inputs}
        if isinstance(operator, _WINDOWS):
            x, window = inputs[0], operator.window
            last = (rows_of(graph.written(operator)[0]) - 1) * window.stride[0] - window.before[0]
            if window.before[0] > 0 or last + (window.size[0] - 1) * window.dilation[0] >= rows_of(x):
                raise _prevented(operator, "pads its input in time")
            return {x.id: Line(window.stride[0], -window.before[0])}
        firings = firings_of(graph, operator)
        if firings is None or firings.reduces or (isinstance(operator, Reshape) and not self._same(operator)):
            raise _prevented(operator, "does not keep rows in their order")
        if isinstance(operator, Move) and len(set(self._copies(operator, firings.first))) > 1:
            raise _prevented(operator, "puts rows together differently, as padding in time does")
        lines = {}
        for x in inputs:
            rows = firings.first[x.id]
            if len({b - a for a, b in pairwise(rows)}) != 1 or rows[1] == rows[0]:
                raise _prevented(operator, "repeats or skips rows")
            lines[x.id] = Line(rows[1] - rows[0], rows[0])
        return lines

    def _same(self, operator: Reshape) -> bool:
        x, y = self.graph.read(operator)[0], self.graph.written(operator)[0]
        return rows_of(x) == rows_of(y) and row_bytes(x) == row_bytes(y)

    def _copies(self, operator: Move, first: dict[int, list[int]]) -> list[object]:
        sizes = [x.elements // rows_of(x) for x in self.graph.read(operator)]
        return [*row_copies(self.graph, operator, sizes, [first[x] for x in operator.inputs])]

    def _new(self, value: int) -> int:
        """Rows of a value that are made for each frame."""
        return min(rows_of(self.graph.values[value]), self.hop // self.jumps[value])

    def _add(self, position: int, operator: Operator) -> None:
        """Add an operator, and before it those that keep the rows which it reads."""
        lines = self.lines.get(position)
        instead: dict[int, int] = {}
        for x in operator.inputs:
            if x in self.jumps:
                count = rows_of(self.graph.values[x])
                if lines is not None:
                    newest = rows_of(self.graph.values[operator.outputs[0]]) - self._new(operator.outputs[0])
                    count -= lines[x].step * newest + lines[x].offset
                if count < self._new(x):
                    raise _prevented(operator, "does not read the newest rows")
                instead[x] = self._newest(x, count, operator)
        if lines is not None and isinstance(operator, Move):
            operator = dataclasses.replace(operator, regions=self._regions(operator, lines))
        elif lines is not None and isinstance(operator, Conv2D | DepthwiseConv2D | Pool2D):
            window = operator.window
            before = (0, window.before[1])
            operator = dataclasses.replace(operator, window=dataclasses.replace(window, before=before))
        inputs = tuple(instead.get(x, x) for x in operator.inputs)
        self.operators.append(dataclasses.replace(operator, inputs=inputs))

    def _regions(self, operator: Move, lines: dict[int, Line]) -> tuple[Copied, ...]:
        """Copies of the newest rows."""
        graph, result = self.graph, []
        count = rows_of(graph.written(operator)[0])
        first = {x: [one.step * k + one.offset for k in range(count)] for x, one in lines.items()}
        for copy in row_copies(
            graph,
            operator,
            [x.elements // rows_of(x) for x in graph.read(operator)],
            [first[x] for x in operator.inputs],
        )[0]:
            x, y = operator.inputs[copy.input], operator.outputs[copy.output]
            size, row = (graph.values[v].elements // rows_of(graph.values[v]) for v in (x, y))
            rows = Axis(extent=self._new(y), source=lines[x].step * size, target=row)
            run = Axis(extent=copy.length, source=1, target=1)
            for source, target in zip(copy.source, copy.target, strict=True):
                result.append(
                    Copied(
                        input=copy.input, output=copy.output, source=source, target=target, axes=(rows, run)
                    )
                )
        return tuple(result)

    def _newest(self, x: int, count: int, reader: Operator) -> int:
        """The value that holds the newest rows of another one, in a state where it has fewer."""
        if count == self._new(x):
            return x
        if (x, count) not in self._kept:
            value, state = self.graph.values[x], len(self.states)
            shape = _of_rows(value, count).shape
            zero = value.zero_point if value.quantisation else 0
            name = f"rows_{reader.number}_{state}"
            initial = np.full(shape, zero, value.dtype)
            self.states.append(State(name=name, dtype=value.dtype, shape=shape, initial=initial))
            kept = dataclasses.replace(value, id=len(self.values), shape=shape, name=name)
            self.values.append(kept)
            self.operators.append(
                AppendRows(number=reader.number, kind="ROWS", inputs=(x,), outputs=(kept.id,), state=state)
            )
            self._kept[x, count] = kept.id
        return self._kept[x, count]


def _of_rows(value: Value, rows: int) -> Value:
    return dataclasses.replace(value, shape=(value.shape[0], rows, *value.shape[2:]))


def _prevented(operator: Operator, why: str) -> InputError:
    return InputError(
        f"the model isn't exact by frames: layer {operator.number} ({operator.kind}) {why}",
        where=_FLAG,
        hint="Layers over time need padding VALID; leave out --frames for others.",
    )
