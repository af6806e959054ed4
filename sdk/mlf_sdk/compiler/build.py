# SPDX-License-Identifier: Apache-2.0
"""From a graph to C text: a kernel for each operator, and the functions that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mlf_sdk.compiler.emit import Code, emit
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.layer import note_of
from mlf_sdk.compiler.operators import Conv2D, Operator
from mlf_sdk.compiler.options import Asm, Goal
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.schedule import Choice, Counted, Tuner, by_rows, candidates, kernels_of, subject_of
from mlf_sdk.errors import InputError
from mlf_sdk.ir.names import legal_identifier

_INTERPRETER_BYTES: Final = 2560  # of what an interpreter keeps beside the tensors
_SMALL_BYTES: Final = 4096  # for less no instructions are spent, but where RAM is the goal
_TRIES: Final = 2  # with the room that a plan has, and with what is left when the arena took more than that


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
    if choice.goal in (Goal.BALANCED, Goal.RAM) and not choice.stream and not choice.frames:
        most = max(_live_bytes(graph, [None] * len(kernels)), default=0) + _INTERPRETER_BYTES
        if choice.goal is Goal.BALANCED:
            most = max(most, _SMALL_BYTES)
        if max(_live_bytes(graph, _first(kernels)), default=0) > most:
            from mlf_sdk.compiler.rows.bounded import smaller_within  # few models have so much scratch

            smaller = graph if choice.goal is Goal.RAM else smaller_within(graph, choice, most)
            if smaller is graph:
                kernels = _with_less_scratch(graph, choice, kernels, most)
            else:
                graph, kernels = smaller, kernels_of(smaller, choice, tuner, others=False)
    return with_kernels(graph, kernels, asm=asm)


def _first(kernels: Sequence[tuple[Counted, ...]]) -> list[Kernel | None]:
    return [one[0].kernel if one else None for one in kernels]


def _with_less_scratch(
    graph: Graph, choice: Choice, kernels: Sequence[tuple[Counted, ...]], most_bytes: int
) -> list[tuple[Counted, ...]]:
    """Kernels, others in place of those with which operators take more RAM, where they take less scratch."""
    result = list(kernels)
    for at, taken in enumerate(_live_bytes(graph, _first(kernels))):
        if taken > most_bytes and kernels[at]:
            room = kernels[at][0].kernel.workspace_bytes - (taken - most_bytes)
            others = _in_scratch(graph, graph.operators[at], choice, room)
            fitting = next((kernel for kernel in others if kernel.workspace_bytes <= room), None)
            result[at] = kernels[at] if fitting is None else (Counted(kernel=fitting),)
    return result


def _in_scratch(graph: Graph, operator: Operator, choice: Choice, room: int) -> Iterator[Kernel]:
    """Kernels of an operator; before them that of a convolution whose tiles have so few pixels as fit."""
    if isinstance(operator, Conv2D) and room > 0 and "dsp" in choice.core.instruction_sets:
        from mlf_sdk.compiler.kernels.conv_2ch_int8 import in_scratch

        tiles = in_scratch(subject_of(graph, operator)[0], room)
        yield from () if tiles is None else (tiles,)
    yield from candidates(graph, operator, choice)


def _live_bytes(graph: Graph, kernels: Sequence[Kernel | None]) -> list[int]:
    """Bytes that live while each operator runs; without kernels, those of its tensors side by side."""
    last = {x: at for at, operator in enumerate(graph.operators) for x in operator.inputs}
    last |= dict.fromkeys(graph.outputs, len(graph.operators))
    live, result = {*graph.inputs}, []
    for at, (operator, kernel) in enumerate(zip(graph.operators, kernels, strict=True)):
        live.update(operator.outputs)
        taken = sum(graph.values[v].size_bytes for v in live)
        if kernel is not None:
            written = sum(y.size_bytes for y in graph.written(operator))
            saved = [0]
            for number, distance in kernel.overlaps.items():
                x = operator.inputs[number]
                if last[x] == at and x in live:
                    size = graph.values[x].size_bytes
                    saved.append(size + written - max(written, distance + size))
            taken += kernel.workspace_bytes - max(saved)
        result.append(taken)
        live = {v for v in live if last.get(v, -1) > at}
    return result


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
    from mlf_sdk.compiler.rows.bounded import plans_within
    from mlf_sdk.compiler.rows.memory import aligned

    sizes = []
    for plan in plans_within(improve(graph), choice, most_bytes):
        room, tried = most_bytes, None
        for _ in range(_TRIES):
            one = plan(room)
            if one.operators == tried:
                break
            kernels = with_kernels(one, kernels_of(one, choice, tuner, others=False), asm=asm)
            sizes.append(arena_of(kernels))
            if sizes[-1] <= most_bytes:
                return kernels
            room, tried = room - aligned(sizes[-1] - most_bytes), one.operators
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
