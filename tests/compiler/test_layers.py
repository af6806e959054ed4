# SPDX-License-Identifier: Apache-2.0
"""Layers with random shapes and numbers: reference, kernels on the host and TFLM give the same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiled_models import KernelRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice, Goal
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from tflite_models import Maker, small_network


def tflm(model: bytes, inputs: list[np.ndarray]) -> list[np.ndarray] | None:
    """Outputs of TFLM's reference kernels, where its wheel is installed."""
    runtime = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="TFLM's wheel is not installed"
    )
    interpreter = runtime.Interpreter.from_bytes(model)
    for number, data in enumerate(inputs):
        interpreter.set_input(data, number)
    interpreter.invoke()
    return [interpreter.get_output(i) for i in range(1)]


def agree(model: bytes, folder: Path, seed: int, goal: Goal = Goal.BALANCED) -> None:
    """Compare three independent answers on two inputs."""
    path = folder / "model.tflite"
    path.write_bytes(model)
    graph = load_tflite(path)
    runner = KernelRunner(archive_of(compile_graph(graph, Choice(goal=goal))), folder, exact=True)
    random = np.random.default_rng(seed)
    for _ in range(2):
        inputs = [random.integers(-128, 128, graph.values[i].shape).astype(np.int8) for i in graph.inputs]
        expected = Interpreter(graph).run(inputs)
        for got, wanted in zip(runner.run(inputs), expected, strict=True):
            np.testing.assert_array_equal(got.reshape(-1), wanted.reshape(-1))
        for got, wanted in zip(tflm(model, inputs), expected, strict=True):
            np.testing.assert_array_equal(got.reshape(-1), wanted.reshape(-1))


def families(model: bytes, folder: Path, goal: Goal) -> list[str]:
    """Kernels that are chosen for a model."""
    path = folder / "model.tflite"
    path.write_bytes(model)
    compiled = compile_graph(load_tflite(path), Choice(goal=goal))
    return [c.kernel.family for c in compiled.operators if c.kernel is not None]


@pytest.mark.parametrize("seed", range(24))
def test_a_convolution(seed: int, tmp_path: Path) -> None:
    m = Maker(seed)
    r = m.random
    size = (int(r.integers(1, 5)), int(r.integers(1, 5)))
    extents = (int(r.integers(max(size[0], 1), 12)), int(r.integers(max(size[1], 1), 14)))
    x = m.input((1, *extents, int(r.choice([1, 2, 3, 4, 5, 8, 16]))))
    y = m.conv(
        x,
        int(r.choice([1, 2, 3, 4, 7, 8, 16])),
        size,
        int(r.integers(1, 3)),
        same=bool(r.integers(0, 2)),
        activation=int(r.choice([0, 1, 3])),
    )
    agree(m.finish(y), tmp_path, seed)


@pytest.mark.parametrize("seed", range(12))
def test_two_channels_at_a_time(seed: int, tmp_path: Path) -> None:
    """The kernel of 16-bit weights: windows of all kinds, rows of one pixel to four tiles."""
    m = Maker(seed)
    r = m.random
    size = [(1, 1), (3, 3), (4, 2), (1, 3)][seed % 4]
    extents = (int(r.integers(size[0], 8)), size[1] + seed)
    x = m.input((1, *extents, int(r.choice([1, 3, 5, 8, 66]))))
    stride = 2 if seed % 4 == 1 else 1 + seed % 2
    model = m.finish(
        m.conv(x, 2 + 2 * seed, size, stride, same=bool(seed & 2), activation=int(r.choice([0, 1, 3])))
    )
    agree(model, tmp_path, seed, Goal.INSTRUCTIONS)


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize(
    ("height", "width", "inputs", "outputs"), [(5, 6, 8, 5), (4, 7, 12, 16), (9, 11, 20, 3), (6, 9, 72, 9)]
)
def test_a_convolution_for_speed(
    height: int, width: int, inputs: int, outputs: int, same: bool, tmp_path: Path
) -> None:
    """Squares of 2x2 pixels: odd extents, channels that do not fill a load, both kinds of padding."""
    m = Maker(height + inputs)
    x = m.input((1, height, width, inputs))
    model = m.finish(m.conv(x, outputs, (3, 3), 1, same=same, activation=width % 2))
    agree(model, tmp_path, inputs, Goal.SPEED)
    assert families(model, tmp_path, Goal.SPEED) == ["conv_winograd"]
    assert "conv_winograd" not in families(model, tmp_path, Goal.BALANCED)


@pytest.mark.parametrize("seed", range(24))
def test_a_depthwise_convolution(seed: int, tmp_path: Path) -> None:
    m = Maker(seed)
    r = m.random
    size = (3, 3) if seed % 3 else (int(r.integers(1, 6)), int(r.integers(1, 3)))
    extents = (int(r.integers(size[0], 12)), int(r.integers(size[1], 12)))
    channels = int(r.choice([1, 2, 3, 4, 8, 12]))
    x = m.input((1, *extents, channels))
    multiplier = 1 if seed % 4 else 2
    y = m.conv(
        x,
        channels * multiplier,
        size,
        int(r.integers(1, 3)),
        same=bool(r.integers(0, 2)),
        activation=int(r.choice([0, 1, 3])),
        depthwise=True,
    )
    agree(m.finish(y), tmp_path, seed)


@pytest.mark.parametrize("seed", range(8))
def test_a_fully_connected_layer(seed: int, tmp_path: Path) -> None:
    m = Maker(seed)
    x = m.input((1, int(m.random.integers(1, 80))))
    agree(m.finish(m.dense(x, int(m.random.integers(1, 20)))), tmp_path, seed)


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("seed", range(4))
def test_an_operator_of_two_values(kind: str, seed: int, tmp_path: Path) -> None:
    m = Maker(seed)
    a = m.input((1, 3, 5, 4))
    b = m.input((1, 3, 5, 4) if seed % 2 else (1, 1, 1, 4))
    agree(m.finish(m.binary(kind, a, b)), tmp_path, seed)


@pytest.mark.parametrize("seed", range(4))
def test_pooling_and_functions(seed: int, tmp_path: Path) -> None:
    m = Maker(seed)
    x = m.input((1, 7, 5, 6))
    agree(m.finish(m.softmax(m.logistic(m.pool(x, 2 + seed % 2, largest=seed > 1)))), tmp_path, seed)


@pytest.mark.parametrize("goal", list(Goal))
def test_a_network(goal: Goal, tmp_path: Path) -> None:
    agree(small_network(), tmp_path, 1, goal)
