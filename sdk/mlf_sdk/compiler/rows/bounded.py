# SPDX-License-Identifier: Apache-2.0
"""Graphs with regions of rows for a bound of RAM, and the choices that there are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.rows.choose import (
    Choices,
    Plan,
    choices_in_strips,
    row_choices,
    with_small_tiles,
)
from mlf_sdk.compiler.rows.memory import InputMode
from mlf_sdk.compiler.rows.streamed import streamed_choices
from mlf_sdk.compiler.rows.strips import strip_graphs
from mlf_sdk.compiler.rows.tiles import Kernels
from mlf_sdk.compiler.schedule import Choice, by_rows, candidates


def plans_within(graph: Graph, choice: Choice, most_bytes: int) -> Iterator[Plan]:
    """Plans with regions that may take some RAM, those first that take the fewest instructions, by estimate.

    That of least RAM by regions, and that with strips where inputs are the caller's, come last, whether they
    fit or not.

    Raises:
        InputError: the input is to be streamed and can't be.
    """
    if choice.frames:
        yield lambda _: by_rows(graph, choice)
        return
    choices = streamed_choices(graph, _kernels(choice)) if choice.stream else _choices(graph, choice)
    yield from choices.within(most_bytes)
    least = with_small_tiles(choices)
    yield lambda _: least.fused(least.cuts[0])
    if choice.caller_inputs:
        yield from _in_strips(least, most_bytes)


def _in_strips(choices: Choices, most_bytes: int) -> Iterator[Plan]:
    """Plans with strips, those of the fewest multiplications first, each of less RAM than those before."""
    better = [choices]
    for graph in strip_graphs(choices.given):
        one = choices_in_strips(choices, graph, better[-1].cuts[0].peak_bytes - 1)
        if one is not None:
            better.append(one)
            yield from one.within(most_bytes)
    for one in better[1:]:  # to state the least: arenas may be packed less well than the search counts
        yield partial(one.fused, one.cuts[0])


def _choices(graph: Graph, choice: Choice) -> Choices:
    """Choices of regions of a graph whose inputs are there as a whole."""
    return row_choices(graph, _kernels(choice), InputMode.of(caller_inputs=choice.caller_inputs))


def _kernels(choice: Choice) -> Kernels:
    return lambda part, one: candidates(part, one, choice)


def front_of(graph: Graph, choice: Choice) -> tuple[tuple[int, int], ...]:
    """Choices of regions of an improved graph: bytes of RAM by the search, and layers that run by rows."""
    choices = _choices(graph, choice)
    least = with_small_tiles(choices)  # as for a bound: whatever it takes
    cuts = choices.cuts if least is choices else (least.cuts[0], *choices.cuts)
    return tuple((cut.peak_bytes, sum(b - a for a, b in cut.intervals if b - a > 1)) for cut in cuts)


def smaller_within(graph: Graph, choice: Choice, most_bytes: int) -> Graph:
    """The graph with so few regions as take no more than some RAM; where none fits, as it is."""
    choices = _choices(graph, choice)
    for plan in choices.within(most_bytes):
        return plan(most_bytes)
    return graph
