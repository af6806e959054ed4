# SPDX-License-Identifier: Apache-2.0
"""Regions of a graph whose input comes row by row."""

from __future__ import annotations

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import SCRATCH_BYTES, Operator
from mlf_sdk.compiler.rows.choose import WORTH, Choices, row_choices, with_small_tiles
from mlf_sdk.compiler.rows.memory import InputMode
from mlf_sdk.compiler.rows.needs import firings_of, rows_of
from mlf_sdk.compiler.rows.tiles import Kernels, row_tiles
from mlf_sdk.errors import InputError


def streamed_choices(graph: Graph, kernels: Kernels) -> Choices:
    """Choices of regions of a graph whose input comes row by row.

    Raises:
        InputError: it has several inputs, or its first layers can't run by rows; names what prevents it.
    """
    if len(graph.inputs) != 1:
        raise InputError(
            f"the model has {len(graph.inputs)} inputs: rows of one alone can be streamed", where="--stream"
        )
    value = graph.values[graph.inputs[0]]
    if rows_of(value) < 2:
        shape = "x".join(map(str, value.shape))
        raise InputError(
            f"the input '{value.name}' of {shape} has no rows",
            where="--stream",
            hint="An input of shape 1 x rows x ... can be streamed.",
        )
    if value.id not in graph.operators[0].inputs:
        raise _prevented(graph.operators[0], "runs before the rows come")
    try:
        return row_choices(graph, kernels, InputMode.STREAMED)
    except ValueError as error:
        raise _refusal(graph, kernels) from error


def streamed(graph: Graph, kernels: Kernels, *, least: bool) -> Graph:
    """The graph whose input comes row by row.

    Args:
        least: fuse the layers with which it takes the least RAM, else no more than it needs.

    Raises:
        InputError: as `streamed_choices`.
    """
    choices = streamed_choices(graph, kernels)
    if not least:
        return choices.fused(choices.cuts[-1])
    choices = with_small_tiles(choices, WORTH)
    return choices.fused(choices.cuts[0])


def _refusal(graph: Graph, kernels: Kernels) -> InputError:
    """Error that names the first layer that can't run by rows."""
    for operator in graph.operators:
        firings = firings_of(graph, operator)
        if firings is None or not row_tiles(graph, operator, firings, kernels, SCRATCH_BYTES):
            return _prevented(operator, "can't run by rows")
    return InputError("no region of the first layers ends where one output is left", where="--stream")


def _prevented(operator: Operator, why: str) -> InputError:
    return InputError(
        f"the input can't be streamed: layer {operator.number} ({operator.kind}) {why}",
        where="--stream",
        hint="Leave out --stream.",
    )
