# SPDX-License-Identifier: Apache-2.0
"""Kernels of an operator's rows: those of the same operator on the rows that a firing reads and makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from itertools import groupby

import msgspec

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.conv_2ch_int8 import in_scratch
from mlf_sdk.compiler.kernels.dense_by_rows import dense_rows
from mlf_sdk.compiler.kernels.depthwise_blocks import row_kernel
from mlf_sdk.compiler.kernels.kernel import Kernel, Role
from mlf_sdk.compiler.kernels.pooling import pool_rows
from mlf_sdk.compiler.kernels.reduce import reduce_rows
from mlf_sdk.compiler.kernels.row_copies import RowCopy, copy_kernel, row_copies
from mlf_sdk.compiler.operators import (
    SCRATCH_BYTES,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Move,
    Operator,
    Pool2D,
)
from mlf_sdk.compiler.reals import Reduce
from mlf_sdk.compiler.rows.needs import ELEMENTWISE, Firings, row_bytes, rows_of

Kernels = Callable[[Graph, Operator], Iterator[Kernel]]
"""Kernels that can compute an operator, the preferred one first."""

_MOST_KINDS = 8  # of rows that are put together differently
_MOST_TILES = 16  # tests before a row
_PAIRED = ("depthwise_3x3",)  # families of kernels of pairs of rows
_FITTED = ("conv_2ch", "conv_1x1_2ch")  # families that `conv_2ch_int8.in_scratch` has smaller tiles of
_WORD = 4  # bytes: kernels read words, so that rows must begin at whole ones


class RowTile(msgspec.Struct, frozen=True, kw_only=True):
    """Firings in succession that one kernel computes.

    Attributes:
        end: number of the first firing behind them.
        by_row: the kernel's inputs are pointers to all rows of its windows, NULL for those outside.
        stride: words of its first constant from one firing to the next; 0: all firings share them.
    """

    end: int
    kernel: Kernel
    by_row: bool = False
    stride: int = 0


def row_tiles(
    graph: Graph,
    operator: Operator,
    firings: Firings,
    kernels: Kernels,
    scratch_bytes: int = SCRATCH_BYTES,
    *,
    fit_scratch: bool = False,
) -> tuple[RowTile, ...]:
    """Kernels of all firings of an operator, in their order; none where some firing has none.

    Args:
        scratch_bytes, fit_scratch: see `Fused`.
    """
    if firings.reduces:
        return _sums(graph, operator, firings)
    outputs = [y for y in graph.written(operator) if rows_of(y) > 1]
    in_words = not any(row_bytes(y) % max(_WORD, y.dtype.itemsize) for y in outputs)
    if not in_words:
        return ()
    if isinstance(operator, Move):
        return _copies(graph, operator, firings) if firings.lines == 1 else ()
    if any(firings.line(x) is None for x in firings.first):
        return ()
    blocks: tuple[RowTile, ...] = ()
    if isinstance(operator, DepthwiseConv2D):
        blocks = _blocks(graph, operator, firings, kernels, scratch_bytes)
    if blocks or firings.lines > 1:
        return blocks
    return _tiles(graph, operator, firings, kernels, scratch_bytes if fit_scratch else None)


def _tiles(
    graph: Graph, operator: Operator, firings: Firings, kernels: Kernels, scratch_bytes: int | None
) -> tuple[RowTile, ...]:
    """Kernels of the operator on the rows that each firing reads."""
    if not isinstance(operator, (Conv2D, DepthwiseConv2D, Pool2D, *ELEMENTWISE)):
        return ()
    shapes = [_shape(graph, operator, firings, at) for at in range(len(firings))]
    known: dict[_Shape | None, Kernel | None] = {}
    tiles: list[RowTile] = []
    for shape, same in groupby(shapes):
        if shape not in known:
            known[shape] = None if shape is None else _kernel(graph, operator, shape, kernels, scratch_bytes)
        kernel = known[shape]
        if kernel is None:
            return ()
        tiles.append(RowTile(end=(tiles[-1].end if tiles else 0) + len(list(same)), kernel=kernel))
    return tuple(tiles)


def _blocks(
    graph: Graph, operator: DepthwiseConv2D, firings: Firings, kernels: Kernels, scratch_bytes: int
) -> tuple[RowTile, ...]:
    """Kernels of a depthwise layer by pointers to rows, where that of the whole layer has such ones."""
    preferred = next(kernels(graph, operator), None)
    if preferred is None:
        return ()
    if preferred.of_row is not None and firings.lines == 1:
        return (RowTile(end=len(firings), kernel=preferred.of_row, by_row=True),)
    if preferred.family not in _PAIRED:
        return ()
    layer = Contraction.of(graph, operator)
    height = rows_of(graph.written(operator)[0])
    tiles = []
    for lines, end in ((firings.lines, height // firings.lines), (height % firings.lines, len(firings))):
        if lines and end:
            kernel = row_kernel(layer, lines, scratch_bytes)
            if kernel is None:
                return ()
            tiles.append(RowTile(end=end, kernel=kernel, by_row=True))
    return tuple(tiles)


def _copies(graph: Graph, operator: Move, firings: Firings) -> tuple[RowTile, ...]:
    """Kernels of rows of copies; rows that are put together alike share one."""
    known: dict[tuple[RowCopy, ...], Kernel] = {}
    tiles: list[RowTile] = []
    sizes = [x.elements // rows_of(x) for x in graph.read(operator)]
    first = [firings.first[x] for x in operator.inputs]
    for copies, same in groupby(row_copies(graph, operator, sizes, first)):
        if copies not in known:
            known[copies] = copy_kernel(graph, operator, len(firings), copies)
        end = (tiles[-1].end if tiles else 0) + len(list(same))
        tiles.append(RowTile(end=end, kernel=known[copies]))
    return tuple(tiles) if len(known) <= _MOST_KINDS and len(tiles) <= _MOST_TILES else ()


def _sums(graph: Graph, operator: Operator, firings: Firings) -> tuple[RowTile, ...]:
    """Kernels of a reduction, whose workspace keeps its sums."""
    kernels: tuple[Kernel, ...] = ()
    stride = 0
    if isinstance(operator, Pool2D):
        kernels = pool_rows(graph, operator)
    elif isinstance(operator, Reduce):
        kernels = reduce_rows(graph, operator)
    elif isinstance(operator, FullyConnected):
        dense = dense_rows(Contraction.of(graph, operator), len(firings))
        if dense is not None:
            kernels, stride = dense.kernels, dense.stride // _WORD
    ends = (1, len(firings) - 1, len(firings))
    tiles = [
        RowTile(end=end, kernel=kernel, stride=stride) for end, kernel in zip(ends, kernels, strict=False)
    ]
    if len(firings) == 1:
        return ()
    return tuple(tiles if len(firings) > 2 else tiles[::2])


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
    """Shape of a firing; None for one that begins where kernels can't read, or reads nothing but padding."""
    heights = []
    for x, first in firings.first.items():
        if first[at] * row_bytes(graph.values[x]) % _WORD and not _reads_bytes(graph, operator, x):
            return None
        heights.append((x, firings.last[x][at] - first[at] + 1))
    if not isinstance(operator, Conv2D | DepthwiseConv2D | Pool2D):
        return _Shape(tuple(heights), 0)
    top = at * operator.window.stride[0] - operator.window.before[0]
    bottom = top + (operator.window.size[0] - 1) * operator.window.dilation[0]
    if bottom < 0 or top >= rows_of(graph.values[operator.inputs[0]]):
        return None
    return _Shape(tuple(heights), max(0, -top))


def _reads_bytes(graph: Graph, operator: Operator, x: int) -> bool:
    """True for a kernel that can't count on whole words: its windows begin at any pixel of some bytes."""
    value = graph.values[x]
    return (
        isinstance(operator, Conv2D | DepthwiseConv2D | Pool2D)
        and value.shape[2] > 1
        and value.shape[3] % _WORD != 0
    )


def _kernel(
    graph: Graph, operator: Operator, shape: _Shape, kernels: Kernels, scratch_bytes: int | None
) -> Kernel | None:
    """The preferred kernel of an operator on a firing's rows, in smaller tiles where scratch is short."""
    values = list(graph.values)
    for number, height in (*shape.heights, *((y, 1) for y in operator.outputs)):
        values[number] = _of_height(values[number], height)
    if isinstance(operator, Conv2D | DepthwiseConv2D | Pool2D):
        before = (shape.before, operator.window.before[1])
        operator = dataclasses.replace(operator, window=dataclasses.replace(operator.window, before=before))
    part = dataclasses.replace(graph, values=tuple(values))
    kernel = next(kernels(part, operator), None)
    if (
        kernel is not None
        and scratch_bytes is not None
        and kernel.workspace_bytes > scratch_bytes
        and isinstance(operator, Conv2D)
        and kernel.family in _FITTED
    ):
        kernel = in_scratch(Contraction.of(part, operator), scratch_bytes) or kernel
    states = kernel is not None and any(p.role is Role.STATE for p in kernel.parameters)
    return None if states else kernel


def _of_height(value: Value, height: int) -> Value:
    if rows_of(value) == height:
        return value
    return dataclasses.replace(value, shape=(value.shape[0], height, *value.shape[2:]))
