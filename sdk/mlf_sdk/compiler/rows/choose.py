# SPDX-License-Identifier: Apache-2.0
"""Pass that fuses layers into regions of rows, so that a graph runs in less RAM."""

from __future__ import annotations

import msgspec

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.rows.fused import fuse
from mlf_sdk.compiler.rows.memory import OperatorMemory, RowMemory
from mlf_sdk.compiler.rows.needs import firings_of
from mlf_sdk.compiler.rows.search import Cut, front
from mlf_sdk.compiler.rows.tiles import Kernels, in_place, row_tiles


class Choices(msgspec.Struct, frozen=True):
    """Regions that a graph can be cut into.

    Attributes:
        cuts: the one of least RAM first, then those of fewer fused layers; the last one fuses none.
    """

    graph: Graph
    memory: RowMemory
    cuts: tuple[Cut, ...]

    def fused(self, cut: Cut) -> Graph:
        """The graph with the regions of a cut."""
        graph = self.graph
        for start, end in cut.intervals:
            if end - start > 1:
                graph = fuse(graph, self.memory.operators[start:end])
        return graph


def row_choices(graph: Graph, kernels: Kernels) -> Choices:
    """Choices of regions of an improved graph: no other takes less RAM with no more layers fused.

    Args:
        kernels: of an operator.
    """
    found = [_memory_of(graph, operator, kernels) for operator in graph.operators]
    plain = RowMemory(graph, found)
    count = len(plain.operators)
    alone = [plain.interval(k, k + 1) for k in range(count)]
    memory = RowMemory(graph, found, most=max((size for size in alone if size is not None), default=0))
    return Choices(graph, memory, front(count, memory.interval))


def least_ram(graph: Graph, kernels: Kernels) -> Graph:
    """The graph with those layers fused, as few as possible, with which it takes the least RAM."""
    choices = row_choices(graph, kernels)
    return choices.fused(choices.cuts[0])


def _memory_of(graph: Graph, operator: Operator, kernels: Kernels) -> OperatorMemory:
    kernel: Kernel | None = next(kernels(graph, operator), None)
    if kernel is None:
        return OperatorMemory(row_workspace_bytes=None)
    firings = firings_of(graph, operator)
    tiles = row_tiles(graph, operator, firings, kernels) if firings is not None else ()
    scratch = max((t.kernel.workspace_bytes for t in tiles), default=None)
    return OperatorMemory(
        workspace_bytes=kernel.workspace_bytes,
        overlaps=kernel.overlaps,
        row_workspace_bytes=0 if firings is not None and firings.reduces and tiles else scratch,
        in_place=in_place(tiles),
    )
