# SPDX-License-Identifier: Apache-2.0
"""Rows that operators need, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.compiler.graph import INT8, Graph, Value
from mlf_sdk.compiler.operators import Call, Map, Reshape
from mlf_sdk.compiler.rows.needs import Firings, firings_of, row_bytes, rows_of
from mlf_sdk.compiler.tflite.load import load_tflite
from tflite_models import Maker


def graph_of(build: Callable[[Maker], int], folder: Path) -> Graph:
    """The graph of a model as it is read."""
    m = Maker(1)
    path = folder / "model.tflite"
    path.write_bytes(m.finish(build(m)))
    return load_tflite(path)


@pytest.mark.parametrize(
    ("build", "first", "last"),
    [
        # 3x3, one row of padding above and below
        (lambda m: m.conv(m.input((1, 4, 4, 4)), 4, (3, 3), 1, same=True), [0, 0, 1, 2], [1, 2, 3, 3]),
        # stride 2 of an even height: all the padding is below
        (lambda m: m.conv(m.input((1, 6, 6, 4)), 4, (3, 3), 2, same=True), [0, 2, 4], [2, 4, 5]),
        # of an odd one: above and below
        (lambda m: m.conv(m.input((1, 5, 5, 4)), 4, (3, 3), 2, same=True), [0, 1, 3], [1, 3, 4]),
        (
            lambda m: m.conv(m.input((1, 6, 6, 4)), 4, (3, 3), 1, same=True, depthwise=True, dilation=2),
            [0, 0, 0, 1, 2, 3],
            [2, 3, 4, 5, 5, 5],
        ),
        (lambda m: m.conv(m.input((1, 5, 5, 4)), 4, (2, 2), 1, same=False), [0, 1, 2, 3], [1, 2, 3, 4]),
        (lambda m: m.pool(m.input((1, 5, 4, 4)), 2, largest=True), [0, 2, 4], [1, 3, 4]),
        (lambda m: m.logistic(m.input((1, 3, 2, 2))), [0, 1, 2], [0, 1, 2]),
        (lambda m: m.dense(m.input((1, 12)), 4), [0], [0]),
    ],
)
def test_rows_of_the_input(
    build: Callable[[Maker], int], first: list[int], last: list[int], tmp_path: Path
) -> None:
    graph = graph_of(build, tmp_path)
    found = firings_of(graph, graph.operators[0])
    assert found is not None
    x = graph.inputs[0]
    assert (found.first, found.last) == ({x: first}, {x: last})
    assert found.made == list(range(1, len(first) + 1))
    assert not found.reduces


def test_both_inputs_of_a_sum(tmp_path: Path) -> None:
    graph = graph_of(lambda m: m.binary("ADD", m.input((1, 2, 4, 4)), m.input((1, 2, 4, 4))), tmp_path)
    found = firings_of(graph, graph.operators[0])
    assert found is not None and found.first == found.last == {i: [0, 1] for i in graph.inputs}


def test_an_operand_of_one_row_is_needed_by_all(tmp_path: Path) -> None:
    graph = graph_of(lambda m: m.binary("MUL", m.input((1, 3, 4, 4)), m.input((1, 1, 1, 4))), tmp_path)
    found = firings_of(graph, graph.operators[0])
    a, b = graph.inputs
    assert found is not None and found.last == {a: [0, 1, 2], b: [0, 0, 0]}


def test_an_operand_that_adds_an_axis_is_no_row(tmp_path: Path) -> None:
    """(3, 4, 4) has no rows, though its elements meet those of three rows."""
    graph = graph_of(lambda m: m.binary("MUL", m.input((1, 3, 4, 4)), m.input((3, 4, 4))), tmp_path)
    assert firings_of(graph, graph.operators[0]) is None


def test_a_constant_with_rows_of_its_own_is_refused() -> None:
    """However few elements it has; one that is the same for all rows is part of each."""

    def firings(shape: tuple[int, ...]) -> Firings | None:
        values = [Value(id=i, name=f"t{i}", dtype=INT8, shape=(1, 3, 4, 4)) for i in range(2)]
        values.append(Value(id=2, name="c", dtype=INT8, shape=shape, data=np.zeros(shape, np.int8)))
        add = Map(number=0, kind="ADD", inputs=(0, 2), outputs=(1,), expression=Call.of("add", 2))
        graph = Graph(name="sum", values=tuple(values), operators=(add,), inputs=(0,), outputs=(1,))
        return firings_of(graph, add)

    assert firings((1, 3, 1, 1)) is None and firings((3, 1, 1)) is None
    for shape in ((1, 1, 4, 1), (4, 1), (4,), (), (1, 4, 4)):
        found = firings(shape)
        assert found is not None and found.last == {0: [0, 1, 2]}


def test_all_of_an_operand_is_needed_where_the_result_is_one_row(tmp_path: Path) -> None:
    """(2, 3, 4) has no rows, (1, 3, 4) three."""
    graph = graph_of(lambda m: m.binary("ADD", m.input((2, 3, 4)), m.input((1, 3, 4))), tmp_path)
    found = firings_of(graph, graph.operators[0])
    a, b = graph.inputs
    assert found is not None and (found.first, found.last) == ({a: [0], b: [0]}, {a: [0], b: [2]})


def test_pooling_of_a_whole_map_is_a_sum_of_rows(tmp_path: Path) -> None:
    graph = graph_of(lambda m: m.pool(m.input((1, 3, 3, 4)), 3, largest=False), tmp_path)
    found = firings_of(graph, graph.operators[0])
    assert found is not None and found.reduces
    assert (found.last, found.made) == ({graph.inputs[0]: [0, 1, 2]}, [0, 0, 1])


def test_a_matrix_product_of_a_map_is_a_sum_where_its_sums_are_few(tmp_path: Path) -> None:
    few = graph_of(lambda m: m.dense(m.input((1, 4, 4, 4)), 16), tmp_path)
    found = firings_of(few, few.operators[-1])
    assert found is not None and found.reduces
    many = graph_of(lambda m: m.dense(m.input((1, 4, 4, 4)), 17), tmp_path)
    assert firings_of(many, many.operators[-1]) is None


def test_softmax_is_no_operator_of_rows(tmp_path: Path) -> None:
    graph = graph_of(lambda m: m.softmax(m.input((1, 8))), tmp_path)
    assert firings_of(graph, graph.operators[0]) is None


def test_rows_of_another_shape(tmp_path: Path) -> None:
    """Six rows of four bytes as three of eight."""
    shapes = [(1, 6, 1, 4), (1, 3, 2, 4)]
    values = tuple(Value(id=i, name=f"t{i}", dtype=INT8, shape=shape) for i, shape in enumerate(shapes))
    x, y = 0, 1
    graph = Graph(name="reshaped", values=values, operators=(), inputs=(x,), outputs=(y,))
    found = firings_of(graph, Reshape(number=0, kind="RESHAPE", inputs=(x,), outputs=(y,)))
    assert found is not None
    assert (found.first[x], found.last[x]) == ([0, 2, 4], [1, 3, 5])


def test_rows_of_a_tensor(tmp_path: Path) -> None:
    graph = graph_of(lambda m: m.logistic(m.input((1, 3, 5, 2))), tmp_path)
    assert (rows_of(graph.values[graph.inputs[0]]), row_bytes(graph.values[graph.inputs[0]])) == (3, 10)
    flat = graph_of(lambda m: m.logistic(m.input((3, 5))), tmp_path)
    assert (rows_of(flat.values[flat.inputs[0]]), row_bytes(flat.values[flat.inputs[0]])) == (1, 15)
