# SPDX-License-Identifier: Apache-2.0
"""Layers of real numbers between conversions become integer ones, whose results are at most one step off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.onnx.load import model_faults, read_graph
from mlf_sdk.compiler.operators import Conv2D, DepthwiseConv2D, FullyConnected, Map, Pool2D
from mlf_sdk.compiler.passes.integer_layers import settled
from mlf_sdk.compiler.reals import Reduce
from mlf_sdk.compiler.reference import Interpreter
from onnx_models import OnnxMaker
from pass_checks import random_values

Given = dict[str, Any]
LAYERS: dict[str, tuple[str, tuple[int, ...], tuple[tuple[int, ...], ...], Given, type]] = {
    "convolution": ("Conv", (1, 3, 6, 5), ((4, 3, 3, 3), (4,)), {"pads": [1, 1, 1, 1]}, Conv2D),
    "without bias": ("Conv", (1, 3, 6, 5), ((4, 3, 2, 2),), {"strides": [2, 1]}, Conv2D),
    "depthwise": ("Conv", (1, 4, 6, 5), ((4, 1, 3, 3), (4,)), {"group": 4}, DepthwiseConv2D),
    "line": ("Conv", (1, 3, 9), ((4, 3, 3), (4,)), {}, Conv2D),
    "product": ("Gemm", (2, 8), ((5, 8), (5,)), {"transB": 1}, FullyConnected),
    "matrix": ("MatMul", (2, 8), ((8, 5),), {}, FullyConnected),
    "sum": ("Add", (1, 3, 4, 4), ((1, 3, 4, 4),), {}, Map),
    "channels": ("Mul", (1, 3, 4, 4), ((3, 1, 1),), {}, Map),
    "average": ("AveragePool", (1, 3, 6, 6), (), {"kernel_shape": [2, 2]}, DepthwiseConv2D),
    "padding counts": (
        "AveragePool", (1, 3, 6, 6), (),
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, DepthwiseConv2D,
    ),
    "whole": ("GlobalAveragePool", (1, 3, 6, 6), (), {}, Reduce),
    "mean": ("ReduceMean", (1, 3, 6, 6), (), {"axes": [2, 3], "keepdims": 1}, Reduce),
}  # fmt: skip


def read(m: OnnxMaker, y: str, path: Path) -> Graph:
    """The graph of a file as its nodes stand."""
    faults = model_faults(m.save(path, y))
    graph = read_graph(path, "", {}, 1, faults).graph
    faults.raise_if_any()
    return graph


def layer(name: str, path: Path, *, scale: float = 0.09, limits: str = "", stored: bool = True) -> Graph:
    kind, shape, weights, attributes, _ = LAYERS[name]
    m = OnnxMaker(3)
    zero = m.constant(np.int8(5))
    x = m.add(
        "DequantizeLinear", m.input(*shape, dtype=onnx.TensorProto.INT8), m.constant(np.float32(0.04)), zero
    )
    if kind in ("ReduceMean", "AveragePool", "GlobalAveragePool"):  # the layer before has its channels last
        x = m.add("MaxPool", x, kernel_shape=[1, 1])
    operands = []
    for extents in weights:
        data = m.constant(m.random.integers(-90, 90, extents).astype(np.int8))
        given = (data, m.constant(np.float32(0.01)), m.constant(np.int8(0)))
        operands.append(m.add("DequantizeLinear", *given) if stored else m.weights(*extents))
    y = m.add(kind, x, *operands, **attributes)
    if limits:
        y = m.add(limits, y)
    return read(m, m.add("QuantizeLinear", y, m.constant(np.float32(scale)), zero), path)


@pytest.mark.parametrize("limits", ["", "Relu"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer(name: str, limits: str, tmp_path: Path) -> None:
    before = layer(name, tmp_path / "m.onnx", limits=limits)
    after = settled(before)
    chosen = LAYERS[name][-1]
    types = [after.written(o)[0].dtype.name for o in after.operators if isinstance(o, chosen)]
    assert types == ["int8", *["float32"] * (chosen is Map and bool(limits))]  # Relu is a map, too
    random = np.random.default_rng(7)
    spread: set[int] = set()
    for _ in range(4):
        inputs = [random_values(random, before.values[i]) for i in before.inputs]
        (wanted,), (found,) = Interpreter(before).run(inputs), Interpreter(after).run(inputs)
        assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1
        spread |= {*wanted.reshape(-1).tolist()}
    assert len(spread) > 3


def test_an_average_at_the_scale_of_its_input_is_pooled(tmp_path: Path) -> None:
    after = settled(layer("average", tmp_path / "m.onnx", scale=0.04))
    assert [after.written(o)[0].dtype.name for o in after.operators if isinstance(o, Pool2D)] == [
        "int8",
        "int8",
    ]


def test_a_layer_whose_weights_are_real_stays_real(tmp_path: Path) -> None:
    after = settled(layer("convolution", tmp_path / "m.onnx", stored=False))
    assert [after.written(o)[0].dtype.name for o in after.operators if isinstance(o, Conv2D)] == ["float32"]


def test_a_result_that_is_read_as_real_numbers_as_well_stays_real(tmp_path: Path) -> None:
    m = OnnxMaker(4)
    scale, zero = m.constant(np.float32(0.05)), m.constant(np.int8(0))
    x = m.add("DequantizeLinear", m.input(1, 3, 4, 4, dtype=onnx.TensorProto.INT8), scale, zero)
    weights = m.constant(m.random.integers(-90, 90, (4, 3, 1, 1)).astype(np.int8))
    y = m.add("Conv", x, m.add("DequantizeLinear", weights, scale, zero))
    both = m.add("Add", m.add("DequantizeLinear", m.add("QuantizeLinear", y, scale, zero), scale, zero), y)
    after = settled(read(m, both, tmp_path / "m.onnx"))
    assert [after.written(o)[0].dtype.name for o in after.operators if isinstance(o, Conv2D)] == ["float32"]


def test_constants_are_folded(tmp_path: Path) -> None:
    """Weights that stay real are dequantised when the model is compiled, by channels."""
    m = OnnxMaker(5)
    weights = m.random.integers(-90, 90, (4, 3, 1, 1)).astype(np.int8)
    scales = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    given = (m.constant(weights), m.constant(scales), m.constant(np.zeros(4, np.int8)))
    y = m.add("Conv", m.input(1, 3, 4, 4), m.add("DequantizeLinear", *given, axis=0))
    after = settled(read(m, y, tmp_path / "m.onnx"))
    (convolution,) = (o for o in after.operators if isinstance(o, Conv2D))
    found = after.read(convolution)[1].constant.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(found, weights * scales.reshape(4, 1, 1, 1))
