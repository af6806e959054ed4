# SPDX-License-Identifier: Apache-2.0
"""Graphs with every layer fused that can hand rows on, whether that takes less RAM or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import SCRATCH_BYTES, Operator
from mlf_sdk.compiler.rows.flattened import through_reshapes
from mlf_sdk.compiler.rows.fused import fuse
from mlf_sdk.compiler.rows.needs import firings_of
from mlf_sdk.compiler.rows.pull import Region
from mlf_sdk.compiler.rows.streamed import streamed
from mlf_sdk.compiler.rows.tiles import RowTile, row_tiles
from mlf_sdk.compiler.schedule import Choice, candidates
from mlf_sdk.errors import InputError


def has_rows(graph: Graph, operator: Operator, choice: Choice, lines: int = 1) -> bool:
    """Return whether an operator has kernels of so many rows at once."""
    return bool(tiles_of(graph, operator, choice, lines))


def tiles_of(graph: Graph, operator: Operator, choice: Choice, lines: int = 1) -> tuple[RowTile, ...]:
    """Kernels of an operator's rows, so many at once; none where there are no such ones."""
    firings = firings_of(graph, operator, lines)
    if firings is None or firings.lines != lines:
        return ()
    return row_tiles(graph, operator, firings, lambda part, one: candidates(part, one, choice))


def with_longest_regions(
    graph: Graph, choice: Choice, lines: int = 1, scratch_bytes: int = SCRATCH_BYTES
) -> Graph:
    """An improved graph, with runs of operators that have kernels of rows as one; dense layers read maps.

    Args:
        lines: rows at once, of operators that have kernels of so many.
        scratch_bytes: see `Fused`.
    """
    graph = fused = through_reshapes(graph)
    for by_rows, found in groupby(graph.operators, lambda one: has_rows(graph, one, choice)):
        run = list(found)
        if by_rows and len(run) > 1:
            counts = [lines if has_rows(graph, one, choice, lines) else 1 for one in run]
            fused = fuse(fused, run, counts, scratch_bytes)
    return fused


def with_streamed_input(graph: Graph, choice: Choice, *, least: bool) -> Graph | None:
    """An improved graph whose input comes by rows; None where that can't be.

    Args:
        least: layers are fused for the least RAM, else no more than are needed.
    """
    try:
        return streamed(graph, lambda part, one: candidates(part, one, choice), least=least)
    except InputError:
        return None


def lost_row(region: Region, order: Sequence[int], rings: Mapping[int, int]) -> str:
    """Name the first row that is read after it left its ring, or before it was made; empty: there is none.

    Args:
        order: of firings, as of `Pulled`.
        rings: rows that each ring holds: the newest ones.
    """
    made = dict.fromkeys(region.makers, 0) | dict.fromkeys(region.streamed, 0)
    done = [0] * len(region.operators)
    for k in order:
        if k >= len(region.firings):
            continue
        one = region.firings[k]
        for x, first in one.first.items():
            while x in region.streamed and made[x] <= one.last[x][done[k]]:
                made[x] += 1
            if x not in made:
                continue
            name = region.graph.values[x].name
            if made[x] <= one.last[x][done[k]]:
                return f"'{name}' row {one.last[x][done[k]]} was not made yet"
            if x in rings and first[done[k]] < made[x] - rings[x]:
                return f"'{name}' row {first[done[k]]} was overwritten"
        for y in region.operators[k].outputs:
            made[y] = one.made[done[k]]
        done[k] += 1
    return ""
