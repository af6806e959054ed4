# SPDX-License-Identifier: Apache-2.0
"""Passes keep every output, bit for bit, and do what they are for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.load import load_tflite
from tflite_models import Maker


def both(model: bytes, folder: Path, seed: int) -> tuple[Graph, Graph]:
    """The graph before and after, with equal outputs on four random inputs."""
    path = folder / "model.tflite"
    path.write_bytes(model)
    before = load_tflite(path)
    after = improve(before)
    random = np.random.default_rng(seed)
    for _ in range(4):
        inputs = [random.integers(-128, 128, before.values[i].shape).astype(np.int8) for i in before.inputs]
        for a, b in zip(Interpreter(before).run(inputs), Interpreter(after).run(inputs), strict=True):
            np.testing.assert_array_equal(a, b)
    return before, after


def dead(m: Maker, layer: int, channels: list[int], value: int) -> None:
    """Make channels of the output of a convolution constant: no weights, and a bias beyond any range."""
    operator = next(o for o in m.spec.operators if o.outputs == (layer,))
    weights, bias = (m.spec.tensors[i] for i in operator.inputs[1:])
    assert weights.data is not None and bias.data is not None
    axis = weights.axis
    for channel in channels:
        np.moveaxis(weights.data, axis, 0)[channel] = 0
        bias.data[channel] = value


@pytest.mark.parametrize(("dilation", "kinds"), [(1, ["FullyConnected"]), (2, ["Conv2D"])])
def test_a_window_of_the_whole_input(dilation: int, kinds: list[str], tmp_path: Path) -> None:
    """It is a matrix product; with a dilation, one of its two rows lies in the padding."""
    m = Maker(3)
    y = m.conv(m.input((1, 2, 1, 8)), 16, (2, 1), 2, same=True, dilation=dilation)
    _, after = both(m.finish(y), tmp_path, 3)
    assert [type(one).__name__ for one in after.operators] == kinds


@pytest.mark.parametrize("seed", range(12))
def test_constant_channels(seed: int, tmp_path: Path) -> None:
    """Channels that hold the zero point go before layers that pad, others before 1x1 ones only."""
    m = Maker(seed)
    x = m.input((1, 9, 7, 4))
    first = m.conv(x, 16, (3, 3), 1, same=True, activation=1)
    m.spec.tensors[first].zero_point = (-128,)
    dead(m, first, [1, 2, 5, 6, 9, 12, 13], -(1 << 29) if seed % 3 else 1 << 29)
    deep = m.conv(first, 16, (3, 3), 1 + seed % 2, same=True, depthwise=True, activation=1)
    if seed % 2:
        m.spec.tensors[deep].zero_point = (-128,)
    point = m.conv(deep, 8, (1, 1), 1, same=True)
    before, after = both(m.finish(m.dense(m.pool(point, 2, largest=False), 5)), tmp_path, seed)
    shrunk = sum(v.elements for v in after.computed()) < sum(v.elements for v in before.computed())
    assert shrunk or seed % 3 == 0


def test_constant_channels_of_a_depthwise_layer_stay_with_its_input(tmp_path: Path) -> None:
    m = Maker(2)
    deep = m.conv(m.input((1, 6, 6, 8)), 8, (3, 3), 1, same=True, depthwise=True, activation=1)
    m.spec.tensors[deep].zero_point = (-128,)
    dead(m, deep, [0, 1, 2, 5], -(1 << 29))
    both(m.finish(m.conv(deep, 8, (1, 1), 1, same=True)), tmp_path, 2)


@pytest.mark.parametrize("reshaped", [False, True])
@pytest.mark.parametrize("size", [5, 3])
def test_constant_channels_before_a_matrix_product(size: int, reshaped: bool, tmp_path: Path) -> None:
    """Whatever they hold, they go where the product takes single pixels, and stay where it takes several."""
    m = Maker(size)
    layer = m.conv(m.input((1, 5, 5, 4)), 16, (1, 1), 1, same=True, activation=1)
    dead(m, layer, [0, 3, 4, 5, 6, 9, 10, 11], 1 << 29)
    value = m.pool(layer, size, largest=False)
    elements = int(np.prod(m.spec.tensors[value].shape))
    if reshaped:
        flat = m.same_scale(value, (1, elements))
        extents = m.spec.tensor("extents", "int32", (2,), data=np.array([1, elements], np.int32))
        value = m.spec.add("RESHAPE", (value, extents), flat)
    before, after = both(m.finish(m.dense(value, 6)), tmp_path, size)
    sizes = [{v.shape[-1] for v in graph.computed()} for graph in (before, after)]
    assert 16 in sizes[0]
    assert (16 in sizes[1]) == (size == 3)
    if size == 5:
        assert 8 in sizes[1]


def test_padding_before_a_convolution(tmp_path: Path) -> None:
    m = Maker(1)
    x = m.input((1, 6, 6, 4))
    padded = m.same_scale(x, (1, 8, 8, 4))
    amounts = m.spec.tensor(
        "amounts", "int32", (4, 2), data=np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    )
    m.spec.add("PAD", (x, amounts), padded)
    before, after = both(m.finish(m.conv(padded, 8, (3, 3), 1, same=False)), tmp_path, 1)
    assert [o.kind for o in before.operators] == ["PAD", "CONV_2D"]
    assert [o.kind for o in after.operators] == ["CONV_2D"]


@pytest.mark.parametrize("seed", range(4))
def test_layers_that_are_another_kind_of_layer(seed: int, tmp_path: Path) -> None:
    """A depthwise layer of one channel and a convolution over the whole input."""
    m = Maker(seed)
    x = m.input((1, 6, 5, 1))
    many = m.conv(x, 8, (3, 3), 2, same=bool(seed % 2), depthwise=True, activation=1)
    size = m.spec.tensors[many].shape[1:3]
    _, after = both(m.finish(m.conv(many, 5, size, 1, same=False)), tmp_path, seed)
    assert [type(o).__name__ for o in after.operators] == ["Conv2D", "FullyConnected"]
    assert [o.kind for o in after.operators] == ["DEPTHWISE_CONV_2D", "CONV_2D"]
