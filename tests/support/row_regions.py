# SPDX-License-Identifier: Apache-2.0
"""Graphs with every layer fused that can hand rows on, whether that takes less RAM or not."""

from __future__ import annotations

from itertools import groupby

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.rows.fused import fuse
from mlf_sdk.compiler.rows.needs import firings_of
from mlf_sdk.compiler.rows.tiles import row_tiles
from mlf_sdk.compiler.schedule import Choice, candidates


def with_longest_regions(graph: Graph, choice: Choice) -> Graph:
    """An improved graph, with runs of operators that have kernels of rows as one."""

    def has_rows(operator: Operator) -> bool:
        firings = firings_of(graph, operator)
        if firings is None:
            return False
        return bool(row_tiles(graph, operator, firings, lambda part, one: candidates(part, one, choice)))

    fused = graph
    for by_rows, found in groupby(graph.operators, has_rows):
        run = list(found)
        if by_rows and len(run) > 1:
            fused = fuse(fused, run)
    return fused
