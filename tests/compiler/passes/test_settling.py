# SPDX-License-Identifier: Apache-2.0
"""Passes that decide what the layers of a format with real operators compute keep every number but one's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.compiler.operators import Convert, Move, Reshape
from mlf_sdk.compiler.passes.integer_layers import SETTLING, compute_in_integers
from mlf_sdk.compiler.passes.moves import move_stored
from onnx_models import OnnxMaker
from pass_checks import changed, read_onnx

EXACT = [change for change in SETTLING if change is not compute_in_integers]


def stored(m: OnnxMaker, x: str, scale: float = 0.05) -> str:
    pair = m.constant(np.float32(scale)), m.constant(np.int8(3))
    return m.add("DequantizeLinear", m.add("QuantizeLinear", x, *pair), *pair)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of what is drawn: numbers may be infinite
@pytest.mark.parametrize("style", ["float", "qdq", "qoperator"])
@pytest.mark.parametrize("seed", range(20))
def test_networks(seed: int, style: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    from onnx_drawing import network

    path = tmp_path / "model.onnx"
    path.write_bytes(network(3000 + seed, style=style).model().SerializeToString())
    changed(read_onnx(path), *EXACT, seed=seed)


def test_dequantised_values_are_moved_as_bytes(tmp_path: Path) -> None:
    m = OnnxMaker(1)
    x = stored(m, m.input(1, 4, 6, 6))
    x = m.add("MaxPool", m.add("Transpose", x, perm=[0, 1, 3, 2]), kernel_shape=[2, 2])
    x = m.add("Reshape", m.add("Concat", x, x, axis=1), m.constant(np.array([8, 25])))
    graph = changed(read_onnx(m.save(tmp_path / "m.onnx", m.add("Exp", x))), move_stored)
    reads = [v.dtype.name for o in graph.operators if isinstance(o, Move | Reshape) for v in graph.read(o)]
    assert set(reads) == {"int8"} and graph.operators[-2].kind == "DequantizeLinear"


@pytest.mark.parametrize(("value", "dtype"), [(0.1, "int8"), (0.11, "float32")])
def test_padding_is_of_bytes_where_one_stands_for_it(value: float, dtype: str, tmp_path: Path) -> None:
    m = OnnxMaker(2)
    amounts = m.constant(np.array([0, 0, 1, 0, 0, 1]))
    x = m.add("Pad", stored(m, m.input(1, 4, 6)), amounts, m.constant(np.float32(value)))
    graph = changed(read_onnx(m.save(tmp_path / "m.onnx", m.add("Exp", x))), move_stored)
    (pad,) = (o for o in graph.operators if isinstance(o, Move))
    assert [v.dtype.name for v in graph.read(pad)] == [dtype]


def test_parts_in_other_quantisations_are_joined_as_real_numbers(tmp_path: Path) -> None:
    m = OnnxMaker(3)
    x = m.input(1, 4, 6)
    joined = m.add("Concat", stored(m, x, 0.05), stored(m, x, 0.04), axis=1)
    graph = changed(read_onnx(m.save(tmp_path / "m.onnx", m.add("Exp", joined))), move_stored)
    assert sum(isinstance(o, Convert) for o in graph.operators) == 4


def test_places_of_extremes_are_looked_for_among_bytes(tmp_path: Path) -> None:
    m = OnnxMaker(4)
    graph = read_onnx(m.save(tmp_path / "m.onnx", m.add("ArgMax", stored(m, m.input(3, 7)), axis=1)))
    assert [o.kind for o in changed(graph, move_stored).operators] == ["QuantizeLinear", "ArgMax"]


def test_one_value_in_two_quantisations(tmp_path: Path) -> None:
    """Each DequantizeLinear of the same bytes has its own scale."""
    m = OnnxMaker(5)
    x = m.add("QuantizeLinear", m.input(2, 6), m.constant(np.float32(0.1)), m.constant(np.int8(0)))
    parts = [
        m.add("DequantizeLinear", x, m.constant(np.float32(s)), m.constant(np.int8(0))) for s in (0.1, 0.2)
    ]
    graph = read_onnx(m.save(tmp_path / "m.onnx", m.add("Sub", parts[1], parts[0]), m.add("Abs", parts[0])))
    after = changed(graph, *EXACT)
    sums = {v.quantisation.scale for v in after.values if v.quantisation is not None}
    assert {round(s[0], 3) for s in sums} == {0.1, 0.2}
