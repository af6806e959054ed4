# SPDX-License-Identifier: Apache-2.0
"""From a graph to C text: a kernel for each operator, and the functions that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlf_sdk.compiler.emit import Code, emit
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.layer import note_of
from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.options import Asm
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.schedule import Choice, Counted, Tuner, by_rows, kernels_of
from mlf_sdk.errors import InputError
from mlf_sdk.ir.names import legal_identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledOperator:
    """One operator after compilation; without a kernel it only gives its input another shape.

    Attributes:
        counted: kernels that were measured, the chosen one first; empty: it was chosen by rule.
    """

    operator: Operator
    kernel: Kernel | None
    symbol: str = ""
    counted: tuple[Counted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGraph:
    """A graph, its operators in order, and the C code of all kernels."""

    graph: Graph
    operators: tuple[CompiledOperator, ...]
    code: Code


def compile_graph(
    graph: Graph, choice: Choice, tuner: Tuner | None = None, *, asm: Asm = Asm.INLINE
) -> CompiledGraph:
    """Improve ``graph`` and compile each of its operators.

    Args:
        tuner: measures kernels; None: they are chosen by rule.
        asm: form of what is in assembly.
    """
    graph = by_rows(improve(graph), choice)
    kernels = kernels_of(graph, choice, tuner, others=False)
    return with_kernels(graph, kernels, asm=asm)


def compile_within(
    graph: Graph,
    choice: Choice,
    most_bytes: int,
    arena_of: Callable[[CompiledGraph], int],
    tuner: Tuner | None = None,
    *,
    asm: Asm = Asm.INLINE,
) -> CompiledGraph:
    """Compile a graph to an arena of some bytes, with no more layers fused than that needs.

    Args:
        arena_of: planned bytes of a compiled graph.
        tuner, asm: see `compile_graph`.

    Raises:
        InputError: none of its plans fits; with what the least one takes.
    """
    from mlf_sdk.compiler.rows.bounded import graphs_within

    sizes = []
    for one in graphs_within(improve(graph), choice, most_bytes):
        kernels = with_kernels(one, kernels_of(one, choice, tuner, others=False), asm=asm)
        sizes.append(arena_of(kernels))
        if sizes[-1] <= most_bytes:
            return kernels
    least = min(sizes)
    raise InputError(
        f"the arena takes at least {least:,} bytes, {least - most_bytes:,} more than {most_bytes:,}",
        where="--max-arena",
        hint="Give the board more RAM, or take a smaller model.",
    )


def with_kernels(
    graph: Graph, result: Sequence[tuple[Counted, ...]], *, asm: Asm = Asm.INLINE
) -> CompiledGraph:
    """Compile each operator of a graph with the first of its kernels."""
    chosen = [
        (operator, kernels[0].kernel if kernels else None, kernels)
        for operator, kernels in zip(graph.operators, result, strict=True)
    ]
    name = legal_identifier(graph.name, fallback="model", max_length=40)
    used = [(operator, kernel, kernels[0].cost) for operator, kernel, kernels in chosen if kernel is not None]
    notes = [note_of(graph, operator, kernel, cost) for operator, kernel, cost in used]
    code = emit(name, [kernel for _, kernel, _ in used], notes, asm=asm)
    remaining = iter(code.symbols)
    return CompiledGraph(
        graph=graph,
        operators=tuple(
            CompiledOperator(
                operator=o,
                kernel=k,
                symbol="" if k is None else next(remaining),
                counted=tuple(one for one in kernels if one.cost is not None),
            )
            for o, k, kernels in chosen
        ),
        code=code,
    )
