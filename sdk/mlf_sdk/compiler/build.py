# SPDX-License-Identifier: Apache-2.0
"""From a graph to C text: a kernel for each operator, and the functions that they share."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.compiler.emit import emit
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.schedule import Choice, kernel_for
from mlf_sdk.ir.names import legal_identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledOperator:
    """One operator after compilation; without a kernel it only gives its input another shape."""

    operator: Operator
    kernel: Kernel | None
    symbol: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGraph:
    """A graph, its operators in order, and the C source of all kernels."""

    graph: Graph
    operators: tuple[CompiledOperator, ...]
    source: str


def compile_graph(graph: Graph, choice: Choice) -> CompiledGraph:
    """Improve ``graph`` and compile each of its operators."""
    graph = improve(graph)
    chosen = [(operator, kernel_for(graph, operator, choice)) for operator in graph.operators]
    name = legal_identifier(graph.name, fallback="model", max_length=40)
    source, symbols = emit(name, [kernel for _, kernel in chosen if kernel is not None])
    remaining = iter(symbols)
    return CompiledGraph(
        graph=graph,
        operators=tuple(
            CompiledOperator(operator=o, kernel=k, symbol="" if k is None else next(remaining))
            for o, k in chosen
        ),
        source=source,
    )
