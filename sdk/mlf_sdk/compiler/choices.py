# SPDX-License-Identifier: Apache-2.0
"""Kernels that can compute each layer of a graph: the chosen one, the others, and what each takes."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.layer import detail_of, macs_of
from mlf_sdk.compiler.schedule import Choice, Tuner, kernels_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A kernel that can compute a layer.

    Attributes:
        kernel: its family.
        constants_bytes: packed weights, biases and multipliers, in flash.
        workspace_bytes: of scratch memory, in RAM.
        overlaps: its output may lie over its input.
        cost: of one call, counted; None: it was not.
    """

    kernel: str
    constants_bytes: int
    workspace_bytes: int
    overlaps: bool
    cost: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerChoice:
    """A layer and its kernels, the chosen one first.

    Attributes:
        weights_bytes: of its constants as the graph holds them.
    """

    number: int
    operator: str
    detail: str
    shapes: tuple[tuple[int, ...], ...]
    macs: int
    weights_bytes: int
    candidates: tuple[Candidate, ...]


def choices_of(graph: Graph, choice: Choice, tuner: Tuner | None = None) -> tuple[LayerChoice, ...]:
    """Candidates of every operator of an improved graph that needs code."""
    result = []
    for operator, counted in zip(graph.operators, kernels_of(graph, choice, tuner), strict=True):
        reads = graph.read(operator)
        kernels = tuple(
            Candidate(
                kernel=one.kernel.label,
                constants_bytes=one.kernel.constants_bytes,
                workspace_bytes=one.kernel.workspace_bytes,
                overlaps=bool(one.kernel.overlaps),
                cost=one.cost,
            )
            for one in counted
        )
        if kernels:
            result.append(
                LayerChoice(
                    number=operator.number,
                    operator=operator.kind,
                    detail=detail_of(operator),
                    shapes=tuple(v.shape for v in (*reads[:1], *graph.written(operator)[:1])),
                    macs=macs_of(graph, operator),
                    weights_bytes=sum(v.size_bytes for v in reads if v.data is not None),
                    candidates=kernels,
                )
            )
    return tuple(result)
