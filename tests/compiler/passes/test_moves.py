# SPDX-License-Identifier: Apache-2.0
"""Moves of real numbers become moves of bytes where the numbers are made of bytes, or become bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Move
from mlf_sdk.compiler.passes import move_bytes
from mlf_sdk.compiler.passes.rewrite import Rewrite
from pass_checks import changed, graph_of
from tflite_models import Maker


def real(m: Maker, *shape: int) -> int:
    return m.spec.tensor(f"real{len(m.spec.tensors)}", "float32", shape)


def numbers(m: Maker, *rows: object) -> int:
    data = np.array(rows, np.int32)
    return m.spec.tensor(f"n{len(m.spec.tensors)}", "int32", data.shape, data=data)


def moved_types(graph: Graph) -> set[str]:
    """Types of what is moved."""
    return {v.dtype.name for o in graph.operators if isinstance(o, Move) for v in graph.read(o)}


def test_a_concatenation_whose_result_is_quantised(tmp_path: Path) -> None:
    """A function in between goes along; parts whose quantisation is the result's are moved as they are."""
    m = Maker(1)
    parts = [m.spec.add("DEQUANTIZE", (m.activation((1, 3, 4)),), real(m, 1, 3, 4)) for _ in range(2)]
    m.spec.inputs = [0, 2]
    joined = m.spec.add(
        "CONCATENATION", tuple(parts), real(m, 1, 6, 4), ("ConcatenationOptions", {"Axis": 1})
    )
    positive = m.spec.add("RELU", (joined,), real(m, 1, 6, 4))
    m.spec.tensors[2].zero_point = (-128,)
    y = m.spec.add("QUANTIZE", (positive,), m.same_scale(2, (1, 6, 4)))
    before = graph_of(m.finish(y), tmp_path)
    after = changed(before)
    assert (moved_types(before), moved_types(after)) == ({"float32"}, {"int8"})
    assert [o.kind for o in after.operators] == ["RELU", "CONCATENATION"]


@pytest.mark.parametrize("start", [0, 2])
def test_parts_of_dequantised_numbers(start: int, tmp_path: Path) -> None:
    m = Maker(2)
    x = m.spec.add("DEQUANTIZE", (m.input((1, 6, 4)),), real(m, 1, 6, 4))
    part = m.spec.add("SLICE", (x, numbers(m, 0, start, 0), numbers(m, 1, 3, 4)), real(m, 1, 3, 4))
    before = graph_of(m.finish(part), tmp_path)
    after = changed(before, move_bytes)
    assert [o.kind for o in after.operators] == ["SLICE", "DEQUANTIZE"]
    assert moved_types(after) == {"int8"}


def test_padding_is_quantised_as_what_is_around_it(tmp_path: Path) -> None:
    m = Maker(3)
    amounts = numbers(m, (0, 0), (1, 2), (0, 1))
    x = m.spec.add("DEQUANTIZE", (m.input((1, 6, 4)),), real(m, 1, 6, 4))
    wide = m.spec.add("PAD", (x, amounts), real(m, 1, 9, 5))
    before = graph_of(m.finish(m.spec.add("QUANTIZE", (wide,), m.activation((1, 9, 5)))), tmp_path)
    after = changed(before)
    assert moved_types(after) == {"int8"}
    (move,) = (o for o in after.operators if isinstance(o, Move))
    assert move.fill == after.written(move)[0].zero_point


def test_what_others_read_as_real_numbers_is_moved_as_such(tmp_path: Path) -> None:
    m = Maker(4)
    x = m.spec.tensor("x", "float32", (1, 6, 4))
    m.spec.inputs = [x]
    turned = m.spec.add("TRANSPOSE", (x, numbers(m, 0, 2, 1)), real(m, 1, 4, 6))
    quantised = m.spec.add("QUANTIZE", (turned,), m.activation((1, 4, 6)))
    after = changed(graph_of(m.finish(quantised, turned), tmp_path))
    assert moved_types(after) == {"float32"}


def test_a_graph_is_gone_through_once_however_many_moves_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = Maker(5)
    x = m.input((1, 4, 6))
    for n in range(30):
        shape = (1, 6, 4) if n % 2 == 0 else (1, 4, 6)
        turned = m.spec.add("DEQUANTIZE", (x,), real(m, 1, *shape[:0:-1]))
        turned = m.spec.add("TRANSPOSE", (turned, numbers(m, 0, 2, 1)), real(m, *shape))
        x = m.spec.add("QUANTIZE", (turned,), m.activation(shape))
    before = graph_of(m.finish(x), tmp_path)
    made: list[Rewrite] = []

    def counted(graph: Graph) -> Rewrite:
        made.append(Rewrite(graph))
        return made[-1]

    monkeypatch.setattr("mlf_sdk.compiler.passes.moves.Rewrite", counted)
    after = changed(before, move_bytes)
    assert moved_types(after) == {"int8"}
    assert len(made) == 2
