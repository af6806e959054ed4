# SPDX-License-Identifier: Apache-2.0
"""Transpositions around layers sink through what reads them; the reference says the same before and after."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Move
from mlf_sdk.compiler.passes.layout import sink_transpositions
from onnx_models import OnnxMaker
from pass_checks import changed, read_onnx


def made(m: OnnxMaker, tmp_path: Path, *outputs: str) -> tuple[Graph, Counter[str]]:
    """The graph after the pass, and how many of its operators move elements, by kind."""
    graph = changed(read_onnx(m.save(tmp_path / "m.onnx", *outputs)), sink_transpositions)
    return graph, Counter(o.kind for o in graph.operators if isinstance(o, Move))


def layer(m: OnnxMaker, x: str, channels: int, inputs: int, *size: int) -> str:
    return m.add("Conv", x, m.weights(channels, inputs, *size), pads=[1] * 2 * len(size))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of what is drawn: numbers may be infinite
@pytest.mark.parametrize("style", ["float", "qdq", "qoperator"])
@pytest.mark.parametrize("seed", range(8))
def test_networks(seed: int, style: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    from onnx_drawing import network

    path = tmp_path / "model.onnx"
    path.write_bytes(network(3000 + seed, style=style).model().SerializeToString())
    changed(read_onnx(path), sink_transpositions, seed=seed)


@pytest.mark.parametrize("space", [(6,), (6, 5)])
def test_a_chain_changes_the_order_at_its_ends_alone(space: tuple[int, ...], tmp_path: Path) -> None:
    m, size = OnnxMaker(3), (3,) * len(space)
    x = layer(m, m.input(1, 4, *space), 6, 4, *size)
    x = m.add("Mul", m.add("Sigmoid", x), m.weights(6, *(1,) * len(space)))
    left, right = m.add("Relu", x), m.add("Slice", x, *(m.constant(np.array([v])) for v in (1, 5, 1)))
    x = m.add("Concat", left, m.add("Tile", right, m.constant(np.ones(2 + len(space), np.int64))), axis=1)
    x = layer(m, m.add("Softmax", x, axis=1), 3, 10, *size)
    _, moves = made(m, tmp_path, x)
    assert moves["Transpose"] == 2 and moves["Concat"] == moves["Slice"] == 1


def test_weights_behind_a_flattening_take_the_order(tmp_path: Path) -> None:
    m = OnnxMaker(4)
    x = m.add("Flatten", m.add("Relu", layer(m, m.input(2, 3, 5, 4), 6, 3, 3, 3)))
    graph, moves = made(m, tmp_path, m.add("Gemm", m.add("Tanh", x), m.weights(120, 7)))
    assert moves["Transpose"] == 1 and graph.operators[-1].kind == "Gemm"


def test_interpolation_keeps_the_channels_last(tmp_path: Path) -> None:
    m = OnnxMaker(5)
    scales = m.constant(np.array([1, 1, 2, 3], np.float32))
    x = m.add("Resize", layer(m, m.input(1, 3, 5, 4), 4, 3, 3, 3), "", scales, mode="linear")
    _, moves = made(m, tmp_path, layer(m, x, 2, 4, 3, 3))
    assert moves["Transpose"] == 2


def test_what_needs_the_order_of_the_format_gets_it(tmp_path: Path) -> None:
    """A reshape that joins channels and rows reads a transposition; other readers don't wait for it."""
    m = OnnxMaker(6)
    x = layer(m, m.input(1, 4, 6, 6), 4, 4, 3, 3)
    rows = m.add("Reshape", x, m.constant(np.array([12, 12])))
    _, moves = made(m, tmp_path, m.add("ReduceMean", x, axes=[2, 3]), m.add("Exp", rows))
    assert moves["Transpose"] == 2


def test_an_output_that_is_a_transposition(tmp_path: Path) -> None:
    m = OnnxMaker(7)
    x = layer(m, m.input(1, 4, 6, 6), 4, 4, 3, 3)
    made(m, tmp_path, m.add("Transpose", x, perm=[0, 2, 3, 1]), m.add("Relu", x))
