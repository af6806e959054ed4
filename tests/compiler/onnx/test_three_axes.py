# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pooling over depth, height and width."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.operators import Conv2D, Map, Move
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.passes.integer_layers import settled
from mlf_sdk.compiler.passes.layout import sink_transpositions
from mlf_sdk.errors import MlfError
from onnx_models import OnnxMaker
from pass_checks import changed, read_onnx

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from onnx_agreement import agree

AROUND = [1] * 6


def video(m: OnnxMaker) -> str:
    """Two layers with batch normalisation, pooling and a classifier, as networks of videos have them."""
    y = m.add("Conv", m.input(1, 2, 4, 6, 8), m.weights(4, 2, 3, 3, 3), m.weights(4), pads=AROUND)
    variance = m.constant(np.abs(m.random.standard_normal(4)).astype(np.float32) + 0.5)
    y = m.add("Relu", m.add("BatchNormalization", y, m.weights(4), m.weights(4), m.weights(4), variance))
    y = m.add("MaxPool", y, kernel_shape=[1, 2, 2], strides=[1, 2, 2])
    y = m.add("Relu", m.add("Conv", y, m.weights(6, 4, 3, 3, 3), m.weights(6), pads=AROUND))
    y = m.add("AveragePool", y, kernel_shape=[2, 2, 2], strides=[2, 1, 2])
    return m.add("Gemm", m.add("Flatten", y), m.weights(48, 5), m.weights(5))


def test_a_network_of_videos(tmp_path: Path) -> None:
    """By ONNX Runtime; between its layers nothing is transposed, and their functions are their own."""
    m = OnnxMaker(3)
    graph = improve(settled(agree(m.save(tmp_path / "m.onnx", video(m)))))
    assert Counter(o.kind for o in graph.operators if isinstance(o, Move)) == {"Transpose": 1, "Conv": 2}
    assert not any(isinstance(o, Map) for o in graph.operators)


LAYERS: dict[str, tuple[list[int], dict[str, Any]]] = {
    "strides": ([6, 4, 2, 3, 2], {"strides": [2, 1, 3], "pads": [1, 0, 1, 0, 2, 1]}),
    "groups": ([6, 2, 3, 1, 2], {"group": 2, "dilations": [2, 1, 2]}),
    "depthwise": ([4, 1, 3, 2, 2], {"group": 4, "auto_pad": "SAME_UPPER"}),
    "planes": ([3, 4, 1, 3, 3], {}),
    "every third": ([3, 4, 1, 1, 1], {"strides": [3, 2, 1]}),
    "depth alone": ([3, 4, 5, 1, 1], {}),
}


@pytest.mark.parametrize("constant", [True, False])
def test_layers(constant: bool, tmp_path: Path) -> None:
    m = OnnxMaker(5)
    x = m.input(2, 4, 5, 4, 5)
    ends = []
    for number, (shape, attributes) in enumerate(LAYERS.values()):
        weights = m.weights(*shape) if constant else m.input(*shape, name=f"w{number}")
        ends.append(m.add("Conv", x, weights, m.weights(shape[0]), **attributes))
    agree(m.save(tmp_path / "m.onnx", *ends))


def test_pooling(tmp_path: Path) -> None:
    m = OnnxMaker(6)
    x = m.input(1, 3, 5, 4, 6)
    window: dict[str, Any] = {"kernel_shape": [3, 2, 3], "pads": [1, 1, 0, 2, 0, 1], "strides": [2, 1, 2]}
    ends = [m.add(kind, x, **window, ceil_mode=1) for kind in ("MaxPool", "AveragePool")]
    ends.append(m.add("AveragePool", x, **window, count_include_pad=1))
    ends += [m.add("MaxPool", x, kernel_shape=size) for size in ([3, 1, 1], [1, 1, 1])]
    ends += [m.add(kind, m.add("Sigmoid", x)) for kind in ("GlobalMaxPool", "GlobalAveragePool")]
    agree(m.save(tmp_path / "m.onnx", *ends))


def test_a_quantised_layer_computes_with_integers(tmp_path: Path) -> None:
    m = OnnxMaker(7)
    scale, zero = m.constant(np.float32(0.03)), m.constant(np.int8(5))
    fine, centre = m.constant(np.float32(0.004)), m.constant(np.int8(0))
    x = m.add("DequantizeLinear", m.add("QuantizeLinear", m.input(1, 2, 4, 5, 5), scale, zero), scale, zero)
    weights = m.constant(m.random.integers(-127, 128, (3, 2, 3, 3, 3)).astype(np.int8))
    weights = m.add("DequantizeLinear", weights, fine, centre)
    y = m.add("QuantizeLinear", m.add("Relu", m.add("Conv", x, weights, pads=AROUND)), scale, zero)
    graph = agree(m.save(tmp_path / "m.onnx", m.add("DequantizeLinear", y, scale, zero)), tolerance=0.0301)
    (layer,) = (o for o in graph.operators if isinstance(o, Conv2D))
    assert [v.dtype.name for v in (*graph.read(layer)[:2], *graph.written(layer))] == ["int8"] * 3


def test_operands_behind_a_layer_are_broadcast(tmp_path: Path) -> None:
    """Along height and width as one, or not with the channels last."""
    m = OnnxMaker(8)
    y = m.add("Conv", m.input(1, 2, 3, 4, 5), m.weights(4, 2, 1, 1, 1))
    shapes = [(1, 1, 1, 1, 1), (1, 4, 1, 1, 1), (3, 4, 5), (1, 4, 1), (3, 1, 5)]
    ends = [m.add("Add", y, m.weights(*shape)) for shape in shapes]
    ends += [m.add("ReduceMax", y, axes=axes, keepdims=0) for axes in ([2, 3, 4], [3], [1, 4], [1, 3, 4])]
    path = m.save(tmp_path / "m.onnx", *ends)
    agree(path)
    changed(read_onnx(path), sink_transpositions)


@pytest.mark.parametrize(
    ("kind", "outputs", "attributes"),
    [("ConvTranspose", 1, {}), ("MaxPool", 2, {"kernel_shape": [2, 2, 2]})],
)
def test_layers_that_are_not_supported(
    kind: str, outputs: int, attributes: dict[str, Any], tmp_path: Path
) -> None:
    m = OnnxMaker(9)
    weights = [m.weights(2, 3, 2, 2, 2)] if kind == "ConvTranspose" else []
    y = m.add(kind, m.input(1, 2, 3, 3, 3), *weights, outputs=outputs, **attributes)
    ends = [y, f"{y}_1"][:outputs]
    with pytest.raises(MlfError, match="at most 2 axes behind the channels are supported"):
        load_onnx(m.save(tmp_path / "m.onnx", *ends))
