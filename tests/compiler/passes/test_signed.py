# SPDX-License-Identifier: Apache-2.0
"""Quantised uint8 values become int8 ones; the reference says the same before and after."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from mlf_sdk.compiler.graph import UINT8, Graph
from mlf_sdk.compiler.passes.integer_layers import compute_in_integers, settled
from mlf_sdk.compiler.passes.signed import sign_values
from onnx_models import OnnxMaker
from pass_checks import changed, read_onnx


def quantised(m: OnnxMaker, x: str, scale: float = 0.05, zero: int = 120) -> str:
    pair = m.constant(np.float32(scale)), m.constant(np.uint8(zero))
    return m.add("DequantizeLinear", m.add("QuantizeLinear", x, *pair), *pair)


def kinds(graph: Graph) -> list[str]:
    return [o.kind for o in graph.operators]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of what is drawn: numbers may be infinite
@pytest.mark.parametrize("style", ["qdq", "qoperator"])
@pytest.mark.parametrize("seed", range(8))
def test_networks(seed: int, style: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    from onnx_drawing import network

    path = tmp_path / "model.onnx"
    path.write_bytes(network(4000 + seed, style=style).model().SerializeToString())
    changed(read_onnx(path), sign_values, seed=seed)


def test_nothing_converts_between_quantised_values(tmp_path: Path) -> None:
    m = OnnxMaker(1)
    x = quantised(m, m.input(1, 4, 6, 6))
    x = m.add("MaxPool", m.add("Pad", x, m.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1]))), kernel_shape=[2, 2])
    x = m.add("Concat", x, quantised(m, m.add("Relu", x)), axis=1)
    graph = changed(read_onnx(m.save(tmp_path / "m.onnx", m.add("Exp", x))), sign_values)
    assert "Cast" not in kinds(graph) and not any(v.dtype == UINT8 for v in graph.computed())


def test_inputs_and_outputs_keep_their_type(tmp_path: Path) -> None:
    m = OnnxMaker(2)
    pair = m.constant(np.float32(0.1)), m.constant(np.uint8(7))
    x = m.add("DequantizeLinear", m.input(1, 6, dtype=TensorProto.UINT8), *pair)
    graph = read_onnx(m.save(tmp_path / "m.onnx", m.add("QuantizeLinear", m.add("Tanh", x), *pair)))
    after = changed(graph, sign_values)
    assert kinds(after).count("Cast") == 2
    assert [after.values[i].dtype for i in (*after.inputs, *after.outputs)] == [UINT8, UINT8]


def test_layers_of_uint8_compute_in_integers(tmp_path: Path) -> None:
    m = OnnxMaker(3)
    pair = m.constant(np.float32(0.02)), m.constant(np.uint8(128))
    weights = m.constant(m.random.integers(1, 255, (5, 4, 3, 3)).astype(np.uint8))
    x = quantised(m, m.input(1, 4, 6, 6))
    x = quantised(m, m.add("Conv", x, m.add("DequantizeLinear", weights, *pair)))
    graph = read_onnx(m.save(tmp_path / "m.onnx", x))
    (layer,) = (o for o in settled(graph).operators if o.kind == "Conv")
    assert [v.dtype.name for v in settled(graph).read(layer)][:2] == ["int8", "int8"]
    assert not any(v.dtype.name == "int8" for o in compute_in_integers(graph).operators for v in graph.values)
