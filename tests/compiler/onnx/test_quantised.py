# SPDX-License-Identifier: Apache-2.0
"""Quantised ONNX models: integers throughout, and what ONNX Runtime computes within one step a layer."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from compiled_models import KernelRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.operators import Conv2D, Convert, DepthwiseConv2D, FullyConnected, Rounding
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.reals import Reduce
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.errors import MlfError
from mlf_sdk.frontends.mlf.compiled import archive_of
from onnx_models import OnnxMaker

ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
COUNT = 24


def network(seed: int) -> OnnxMaker:
    """Convolutions, a sum, pooling, functions, a join and a layer: output is the last node's."""
    m = OnnxMaker(seed)
    x = m.input(1, 3, 8, 8)
    y = m.add("Relu", m.add("Conv", x, m.weights(8, 3, 3, 3), m.weights(8), pads=[1, 1, 1, 1]))
    z = m.add("Clip", m.add("Conv", y, m.weights(8, 1, 3, 3), m.weights(8), pads=[1, 1, 1, 1], group=8),
              m.constant(np.float32(0)), m.constant(np.float32(6)))  # fmt: skip
    z = m.add("Add", m.add("Conv", z, m.weights(8, 8, 1, 1), m.weights(8)), y)
    z = m.add("MaxPool", z, kernel_shape=[2, 2], strides=[2, 2])
    z = m.add("Concat", z, m.add("Sigmoid", z), axis=1)
    z = m.add("Flatten", m.add("GlobalAveragePool", z))
    m.add("Gemm", z, m.weights(6, 16), m.weights(6), transB=1)
    return m


def quantised(m: OnnxMaker, folder: Path, form: str, activations: str, *, per_channel: bool) -> Path:
    from onnxruntime import quantization as q

    random = np.random.default_rng(9)

    class Data(q.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(
                [{"x": random.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(COUNT)]
            )

        def get_next(self) -> Any:
            return next(self.left, None)

    logging.disable(logging.WARNING)
    try:
        q.quantize_static(
            m.save(folder / "float.onnx", m.nodes[-1].output[0]), folder / "int8.onnx", Data(),
            quant_format=q.QuantFormat[form], activation_type=q.QuantType[activations],
            weight_type=q.QuantType.QInt8, per_channel=per_channel,
        )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)
    return folder / "int8.onnx"


def test_a_mean_whose_result_is_quantised_in_another_shape(tmp_path: Path) -> None:
    """As PyTorch exports its pooling over the whole picture: ReduceMean, then a new shape."""
    m = OnnxMaker(4)
    y = m.add("Relu", m.add("Conv", m.input(1, 3, 8, 8), m.weights(8, 3, 3, 3), m.weights(8)))
    y = m.add("ReduceMean", y, axes=[2, 3], keepdims=1)
    y = m.add("Reshape", y, m.constant(np.array([1, 8])))
    m.add("Gemm", y, m.weights(6, 8), m.weights(6), transB=1)
    path = quantised(m, tmp_path, "QDQ", "QInt8", per_channel=True)
    graph = load_onnx(path)
    (mean,) = (o for o in graph.operators if isinstance(o, Reduce))
    assert graph.values[mean.inputs[0]].shape == (1, 6, 6, 8)  # as the convolution left it
    rules = [o.rounding for o in improve(graph).operators if isinstance(o, Convert)]
    assert sorted(rules, key=str) == [Rounding.NEAREST_EVEN, Rounding.TFLM]
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    runner = KernelRunner(archive_of(compile_graph(graph, Choice())), tmp_path, ("-O1",))
    scale = graph.values[graph.operators[-1].inputs[0]].scale
    for x in np.random.default_rng(3).standard_normal((8, 1, 3, 8, 8)).astype(np.float32):
        (wanted,) = session.run(None, {"x": x})
        assert np.abs(runner.run([x])[0].reshape(wanted.shape) - wanted).max() <= 1.01 * scale


@pytest.mark.parametrize(
    ("form", "activations", "per_channel"),
    [
        ("QDQ", "QInt8", True),
        ("QDQ", "QUInt8", False),
        ("QOperator", "QUInt8", False),
        ("QOperator", "QInt8", False),
    ],
)
def test_a_network(form: str, activations: str, per_channel: bool, tmp_path: Path) -> None:
    path = quantised(network(1), tmp_path, form, activations, per_channel=per_channel)
    graph = load_onnx(path)
    layers = [o for o in graph.operators if isinstance(o, Conv2D | DepthwiseConv2D | FullyConnected)]
    assert len(layers) == 4 and all(graph.written(o)[0].dtype == np.int8 for o in layers)
    better = improve(graph)
    conversions = [o for o in better.operators if isinstance(o, Convert)]
    of_reals = [o.rounding for o in conversions if better.read(o)[0].dtype.kind == "f"]
    assert of_reals == [Rounding.NEAREST_EVEN]  # at the start of the network
    assert sum(o.rounding is Rounding.TFLM for o in conversions) == 1  # at its end
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    runner = KernelRunner(archive_of(compile_graph(graph, Choice())), tmp_path, ("-O1",))
    random = np.random.default_rng(3)
    scale = graph.values[graph.operators[-1].inputs[0]].scale
    for _ in range(8):
        x = random.standard_normal((1, 3, 8, 8)).astype(np.float32)
        (wanted,) = session.run(None, {"x": x})
        (found,) = Interpreter(graph).run([x])
        np.testing.assert_array_equal(runner.run([x])[0].reshape(found.shape), found)
        assert np.abs(found - wanted).max() <= 2.01 * scale  # of five layers in a row, each within one step
        assert wanted.max() - wanted.reshape(-1)[found.argmax()] <= 1.01 * scale


def pair(graph_function: str, tmp_path: Path, **attributes: Any) -> tuple[Graph, Path]:
    m = OnnxMaker()
    x = m.input(1, 1, 16, 16, dtype=onnx.TensorProto.INT8)
    scale, zero = m.constant(np.float32(0.05)), m.constant(np.int8(3))
    y = m.add("DequantizeLinear", x, scale, zero)
    y = m.add(graph_function, y, **attributes)
    y = m.add("QuantizeLinear", y, m.constant(np.float32(0.02)), m.constant(np.int8(-11)))
    path = m.save(tmp_path / "pair.onnx", y)
    return load_onnx(path), path


@pytest.mark.parametrize("function", ["Sigmoid", "Tanh", "Relu", "HardSwish", "LeakyRelu", "Elu"])
def test_a_function_is_a_table_that_is_exact(function: str, tmp_path: Path) -> None:
    graph, path = pair(function, tmp_path)
    assert [type(o).__name__ for o in graph.operators] == ["Convert", "Map", "Convert"]
    graph = improve(graph)
    assert [type(o).__name__ for o in graph.operators] == ["Table"]
    x = np.arange(-128, 128).astype(np.int8).reshape(1, 1, 16, 16)
    (wanted,) = ort.InferenceSession(str(path)).run(None, {"x": x})
    np.testing.assert_array_equal(Interpreter(graph).run([x])[0], wanted)


def test_rounding_is_to_even_as_in_onnx(tmp_path: Path) -> None:
    m = OnnxMaker()
    y = m.add("QuantizeLinear", m.input(1000), m.constant(np.float32(0.5)), m.constant(np.uint8(7)))
    path = m.save(tmp_path / "q.onnx", y)
    graph = load_onnx(path)
    x = (np.arange(1000, dtype=np.float32) - 500) / 4
    (wanted,) = ort.InferenceSession(str(path)).run(None, {"x": x})
    runner = KernelRunner(archive_of(compile_graph(graph, Choice())), tmp_path, ("-O1",))
    for found in (Interpreter(graph).run([x])[0], runner.run([x])[0]):
        np.testing.assert_array_equal(found.reshape(-1), wanted)


def test_quantisation_that_is_not_supported(tmp_path: Path) -> None:
    m = OnnxMaker(opset=21)
    x = m.input(1, 4)
    m.constants.append(onnx.helper.make_tensor("z", onnx.TensorProto.INT4, (), [1]))
    y = m.add("QuantizeLinear", x, m.constant(np.float32(0.5)), "z")
    with pytest.raises(MlfError, match="quantisation to another type than int8, uint8, int16, uint16"):
        load_onnx(m.save(tmp_path / "m.onnx", m.add("DequantizeLinear", y, "c1", "z")))
    m = OnnxMaker()
    y = m.add("QuantizeLinear", m.input(1, 4), m.constant(np.float32(-1)), m.constant(np.int8(7)))
    with pytest.raises(MlfError, match="not a positive number"):
        load_onnx(m.save(tmp_path / "n.onnx", y))


@pytest.mark.parametrize("kind", ["QLinearConv", "QGemm"])
def test_biases_that_a_node_gives(kind: str, tmp_path: Path) -> None:
    """Integers at the scale of the sums, which for QGemm is alpha times the product of those of the operands."""
    m = OnnxMaker(2)
    shape, weights = ((1, 3, 6, 6), (4, 3, 3, 3)) if kind == "QLinearConv" else ((2, 9), (9, 4))
    x = m.input(*shape, dtype=onnx.TensorProto.UINT8)
    numbers = [m.constant(np.float32(n)) for n in (0.05, 0.6)]
    zeros = [m.constant(np.uint8(n)) for n in (120, 130)]
    data = m.constant(m.random.integers(-60, 60, weights).astype(np.int8))
    scale = m.constant(np.array([0.01, 0.02, 0.03, 0.01], np.float32))
    operands = [x, numbers[0], zeros[0], data, scale, m.constant(np.zeros(4, np.int8))]
    value = onnx.numpy_helper.from_array(m.random.integers(-5000, 5000, 4).astype(np.int32))
    bias, last = m.add("Constant", value=value), [numbers[1], zeros[1]]
    if kind == "QLinearConv":
        y = m.add(kind, *operands, *last, bias)
    else:
        y = m.add(kind, *operands, bias, *last, alpha=0.5, domain="com.microsoft")
    path = m.save(tmp_path / "m.onnx", y)
    graph = load_onnx(path)
    given = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    (wanted,) = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": given})
    found = Interpreter(graph).run([given])[0].reshape(wanted.shape)
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1
    assert len(np.unique(wanted)) > 4
