# SPDX-License-Identifier: Apache-2.0
"""Kernels of an operator's rows: those of the same operator on the rows that a firing reads and makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise

import msgspec

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel, Role
from mlf_sdk.compiler.kernels.pooling import pool_rows
from mlf_sdk.compiler.operators import Conv2D, DepthwiseConv2D, Operator, Pool2D
from mlf_sdk.compiler.rows.needs import ELEMENTWISE, Firings, row_bytes, rows_of

Kernels = Callable[[Graph, Operator], Iterator[Kernel]]
"""Kernels that can compute an operator, the preferred one first."""

_WORD = 4  # bytes: kernels read words, so that rows must begin at whole ones


class RowTile(msgspec.Struct, frozen=True, kw_only=True):
    """Firings in succession that one kernel computes.

    Attributes:
        end: number of the first firing behind them.
    """

    end: int
    kernel: Kernel


def row_tiles(graph: Graph, operator: Operator, firings: Firings, kernels: Kernels) -> tuple[RowTile, ...]:
    """Kernels of all firings of an operator, in their order; none where some firing has none."""
    if firings.reduces:
        return _sums(graph, operator, firings)
    if not isinstance(operator, (Conv2D, DepthwiseConv2D, Pool2D, *ELEMENTWISE)):
        return ()
    outputs = [y for y in graph.written(operator) if rows_of(y) > 1]
    if any(row_bytes(y) % max(_WORD, y.dtype.itemsize) for y in outputs):
        return ()
    if any(line_of(rows) is None for rows in firings.first.values()):
        return ()
    shapes = [_shape(graph, operator, firings, at) for at in range(len(firings))]
    known: dict[_Shape | None, Kernel | None] = {}
    found: list[RowTile] = []
    for shape, same in groupby(shapes):
        if shape not in known:
            known[shape] = None if shape is None else _kernel(graph, operator, shape, kernels)
        kernel = known[shape]
        if kernel is None:
            return ()
        found.append(RowTile(end=(found[-1].end if found else 0) + len(list(same)), kernel=kernel))
    return tuple(found)


def _sums(graph: Graph, operator: Operator, firings: Firings) -> tuple[RowTile, ...]:
    """Kernels of a reduction, whose workspace keeps its sums."""
    kernels = pool_rows(graph, operator) if isinstance(operator, Pool2D) else ()
    ends = (1, len(firings) - 1, len(firings))
    found = [RowTile(end=end, kernel=kernel) for end, kernel in zip(ends, kernels, strict=False)]
    return tuple(found if len(firings) > 2 else found[::2])


def line_of(rows: list[int]) -> tuple[int, int] | None:
    """Step and offset of rows: the k-th is step * k + offset, or 0 where that is less; None: it is not."""
    step = max((b - a for a, b in pairwise(rows)), default=0)
    offset = rows[-1] - step * (len(rows) - 1)
    return (step, offset) if rows == [max(0, step * k + offset) for k in range(len(rows))] else None


def in_place(tiles: tuple[RowTile, ...]) -> frozenset[int]:
    """Numbers of the inputs over whose first row the kernels of all firings may write."""
    allowed = [{n for n, distance in tile.kernel.overlaps.items() if distance == 0} for tile in tiles]
    return frozenset(set.intersection(*allowed)) if allowed else frozenset()


class _Shape(msgspec.Struct, frozen=True):
    """Shape of what a firing reads, by which kernels of firings differ.

    Attributes:
        heights: rows of each input.
        before: rows of padding above them.
    """

    heights: tuple[tuple[int, int], ...]
    before: int


def _shape(graph: Graph, operator: Operator, firings: Firings, at: int) -> _Shape | None:
    """Shape of a firing; None for one that begins within a word, or reads nothing but padding."""
    heights = []
    for x, first in firings.first.items():
        if first[at] * row_bytes(graph.values[x]) % _WORD:
            return None
        heights.append((x, firings.last[x][at] - first[at] + 1))
    if not isinstance(operator, Conv2D | DepthwiseConv2D | Pool2D):
        return _Shape(tuple(heights), 0)
    top = at * operator.window.stride[0] - operator.window.before[0]
    bottom = top + (operator.window.size[0] - 1) * operator.window.dilation[0]
    if bottom < 0 or top >= rows_of(graph.values[operator.inputs[0]]):
        return None
    return _Shape(tuple(heights), max(0, -top))


def _kernel(graph: Graph, operator: Operator, shape: _Shape, kernels: Kernels) -> Kernel | None:
    """The preferred kernel of an operator on the rows of a firing."""
    values = list(graph.values)
    for number, height in (*shape.heights, *((y, 1) for y in operator.outputs)):
        values[number] = _of_height(values[number], height)
    if isinstance(operator, Conv2D | DepthwiseConv2D | Pool2D):
        before = (shape.before, operator.window.before[1])
        operator = dataclasses.replace(operator, window=dataclasses.replace(operator.window, before=before))
    part = dataclasses.replace(graph, values=tuple(values))
    kernel = next(kernels(part, operator), None)
    states = kernel is not None and any(p.role is Role.STATE for p in kernel.parameters)
    return None if states else kernel


def _of_height(value: Value, height: int) -> Value:
    if rows_of(value) == height:
        return value
    return dataclasses.replace(value, shape=(value.shape[0], height, *value.shape[2:]))
