# SPDX-License-Identifier: Apache-2.0
"""Rows that operators need which only move elements: from the regions that they copy."""

from __future__ import annotations

import numpy as np
import pytest

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import INT8, Graph, Value
from mlf_sdk.compiler.operators import Move
from mlf_sdk.compiler.regions import Region
from mlf_sdk.compiler.rows.needs import firings_of

Shape = tuple[int, ...]


def moved(inputs: list[Shape], outputs: list[Shape], copies: tuple[Region, ...]) -> Graph:
    """A graph of one `Move`."""
    values = tuple(Value(id=i, name=f"t{i}", dtype=INT8, shape=s) for i, s in enumerate([*inputs, *outputs]))
    x, y = tuple(range(len(inputs))), tuple(range(len(inputs), len(values)))
    move = Move(number=0, kind="MOVE", inputs=x, outputs=y, regions=copies, fill=0)
    return Graph(name="moved", values=values, operators=(move,), inputs=x, outputs=y)


SHAPE = (1, 4, 3, 2)


@pytest.mark.parametrize(
    ("graph", "first", "last"),
    [
        (
            moved(
                [SHAPE], [(1, 7, 5, 2)], (regions.pad(SHAPE, (0, 2, 1, 0), (1, 7, 5, 2)),)
            ),  # two rows above, one below
            {0: [0, 0, 0, 1, 2, 3, 3]},
            {0: [0, 0, 0, 1, 2, 3, 3]},
        ),
        (
            moved([SHAPE, SHAPE], [(1, 4, 3, 4)], regions.concatenate([SHAPE, SHAPE], 3, (1, 4, 3, 4))),
            {0: [0, 1, 2, 3], 1: [0, 1, 2, 3]},
            {0: [0, 1, 2, 3], 1: [0, 1, 2, 3]},
        ),
        (
            moved([SHAPE], [(1, 4, 3, 1)] * 2, regions.split(SHAPE, 3, [(1, 4, 3, 1)] * 2)),
            {0: [0, 1, 2, 3]},
            {0: [0, 1, 2, 3]},
        ),
        (
            moved(
                [SHAPE],
                [(1, 2, 3, 2)],
                (regions.strided_slice(SHAPE, (0, 1, 0, 0), (1, 2, 1, 1), (1, 2, 3, 2)),),
            ),  # rows 1 and 3
            {0: [1, 3]},
            {0: [1, 3]},
        ),
        (
            moved([(1, 2, 3, 2), SHAPE], [(1, 6, 3, 2)], regions.concatenate([(1, 2, 3, 2), SHAPE], 1, (1, 6, 3, 2))),
            {0: [0, 1, 1, 1, 1, 1], 1: [0, 0, 0, 1, 2, 3]},
            {0: [0, 1, 1, 1, 1, 1], 1: [0, 0, 0, 1, 2, 3]},
        ),
    ],
)  # fmt: skip
def test_rows_that_a_move_needs(
    graph: Graph, first: dict[int, list[int]], last: dict[int, list[int]]
) -> None:
    found = firings_of(graph, graph.operators[0])
    assert found is not None
    assert (found.first, found.last) == (first, last)


def test_a_move_that_reads_backwards_is_refused() -> None:
    shape = (1, 3, 2, 1)
    turned = regions.pick(shape, [[0], [2, 1, 0], [0, 1], [0]])
    assert firings_of(*_only(moved([shape], [shape], (turned,)))) is None


def test_a_transposed_image_needs_all_rows_at_once() -> None:
    graph = moved([(1, 4, 3, 2)], [(1, 3, 4, 2)], (regions.transpose((1, 4, 3, 2), (0, 2, 1, 3)),))
    found = firings_of(*_only(graph))
    assert found is not None
    assert (found.first[0], found.last[0]) == ([0, 0, 0], [3, 3, 3])


def test_outputs_of_different_heights_are_refused() -> None:
    shapes = [(1, 1, 3, 2), (1, 3, 3, 2)]
    assert firings_of(*_only(moved([SHAPE], shapes, regions.split(SHAPE, 1, shapes)))) is None


def test_a_constant_part_is_refused() -> None:
    graph = moved([SHAPE, SHAPE], [(1, 4, 3, 4)], regions.concatenate([SHAPE, SHAPE], 3, (1, 4, 3, 4)))
    values = list(graph.values)
    values[1] = Value(id=1, name="c", dtype=INT8, shape=SHAPE, data=np.zeros(SHAPE, np.int8))
    graph = Graph(
        name="c", values=tuple(values), operators=graph.operators, inputs=(0,), outputs=graph.outputs
    )
    assert firings_of(*_only(graph)) is None


def _only(graph: Graph) -> tuple[Graph, Move]:
    (operator,) = graph.operators
    assert isinstance(operator, Move)
    return graph, operator
