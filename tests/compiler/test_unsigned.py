# SPDX-License-Identifier: Apache-2.0
"""Layers of uint8 values, whose weights less their zero point take nine bits, by the kernels of int8 ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiled_models import KernelRunner
from core_images import MACHINES, MISSING, run_on_core
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.graph import INT8, UINT8, Graph
from mlf_sdk.compiler.kernels.widening import weights_of
from mlf_sdk.compiler.operators import Fused
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.requantise import Multiplier, channel_multipliers
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from tflite_models import Maker

SHARED = Path(__file__).parents[3] / "shared" / "attacks" / "models"


def unsigned(m: Maker, *outputs: int) -> bytes:
    """The model with uint8 for int8: a zero point between its weights, a few of which are far from it."""
    for tensor in m.spec.tensors:
        if tensor.dtype != "int8":
            continue
        tensor.dtype = "uint8"
        if tensor.data is None:
            tensor.zero_point = (tensor.zero_point[0] + 128,)
            continue
        zero = int(m.random.choice([0, 60, 128, 131, 200], p=[0.05, 0.35, 0.1, 0.3, 0.2]))
        data = np.clip(m.random.normal(zero, 30, tensor.shape).round(), 1, 254).astype(np.uint8)
        far = m.random.integers(0, data.size, max(1, data.size // 300))
        data.reshape(-1)[far] = 255 if zero < 128 else 0
        tensor.data, tensor.axis = data, 0
        tensor.scale, tensor.zero_point = (float(np.float32(0.01)),), (zero,)
    return m.finish(*outputs)


def network(seed: int) -> bytes:
    """Layers that follow each other, others between them, values that both and the caller read."""
    m = Maker(seed)
    x = m.input((1, 9 + seed % 3, 8, 3))
    first = m.conv(x, 12, (3, 3), 1 + seed % 2, same=True, activation=1)
    deep = m.conv(first, 12, (3, 3), 1, same=True, depthwise=True, activation=3)
    point = m.conv(deep, 7 + seed % 2, (1, 1), 1, same=True)
    pooled = m.pool(point, 2, largest=bool(seed % 2))
    again = m.conv(pooled, 6, (1, 1), 1, same=True, activation=1)
    wide = m.dense(again, 9)
    return unsigned(m, m.dense(wide, 3), again)


def compiled(folder: Path, seed: int, **choice: Core | Goal) -> tuple[Graph, CompiledGraph]:
    path = folder / "model.tflite"
    path.write_bytes(network(seed))
    graph = load_tflite(path)
    return graph, compile_graph(graph, Choice(**choice))


@pytest.mark.parametrize(
    ("goal", "seed"), [(goal, seed) for i, goal in enumerate(Goal) for seed in (i % 3, i % 3 + 3)]
)
def test_values_of_layers(goal: Goal, seed: int, tmp_path: Path) -> None:
    graph, found = compiled(tmp_path, seed, goal=goal)
    assert all(graph.values[i].dtype == UINT8 for i in (*graph.inputs, *graph.outputs))
    taken = [o.operator for o in found.operators]
    parts = [one for o in taken for one in (o.operators if isinstance(o, Fused) else (o,))]
    layers = [o for o in parts if len(o.inputs) == 3]
    assert len(layers) == 6
    assert all(found.graph.values[o.outputs[0]].dtype == INT8 for o in layers)
    runner = KernelRunner(archive_of(found), tmp_path, exact=True)
    random = np.random.default_rng(seed)
    for _ in range(2):
        inputs = [random.integers(0, 256, graph.values[i].shape).astype(np.uint8) for i in graph.inputs]
        for got, wanted in zip(runner.run(inputs), Interpreter(graph).run(inputs), strict=True):
            np.testing.assert_array_equal(got.reshape(-1), wanted.reshape(-1))


def test_code_does_not_depend_on_models_compiled_before(tmp_path: Path) -> None:
    """Functions are made once a process: what one layer adds to them is not another's."""

    def helpers(seed: int) -> list[set[str]]:
        found = compiled(tmp_path, seed, core=core_named("cortex-m4"), goal=Goal.SPEED)[1]
        return [set(o.kernel.helpers) for o in found.operators if o.kernel is not None]

    before = helpers(2)
    for seed in (0, 1, 3, 4, 5):
        helpers(seed)
    assert helpers(2) == before


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize(
    "core",
    [core_named("cortex-m0"), core_named("cortex-m4"), core_named("cortex-m55")],
    ids=lambda core: core.name,
)
def test_values_of_layers_on_cores(core: Core, tmp_path: Path) -> None:
    _, found = compiled(tmp_path, 1, core=core)
    assert run_on_core(found, core, tmp_path, 1)
    assert core in MACHINES


def test_what_is_left_of_weights(tmp_path: Path) -> None:
    """Weights of uint8 layers are int8 and a few more; the two together are the weights."""
    seen = 0
    for seed in range(6):
        found = compiled(tmp_path, seed)[1]
        for number in (o.operator.inputs[1] for o in found.operators if len(o.operator.inputs) == 3):
            value = found.graph.values[number]
            split = weights_of(value, 8)
            if split is None or split[1] is None:
                continue
            main, spill = split
            whole = main.astype(np.int32).reshape(len(main), -1)
            whole[:, spill.taps] += spill.weights[:, : spill.taps.size]
            np.testing.assert_array_equal(
                whole, value.constant.reshape(len(main), -1).astype(np.int32) - value.zero_point
            )
            assert not spill.weights[:, spill.taps.size :].any()
            seen += 1
    assert seen > 4


def test_tiles_of_many_channels(tmp_path: Path) -> None:
    """Pixels of a tile are so few that a store reaches all of them."""
    m = Maker(3)
    path = tmp_path / "model.tflite"
    path.write_bytes(unsigned(m, m.conv(m.input((1, 2, 5, 4)), 1030, (1, 1), 1, same=True)))
    graph = load_tflite(path)
    found = compile_graph(graph, Choice(core=core_named("cortex-m4")))
    assert "conv_1ch_4x" in found.code.own
    inputs = [np.random.default_rng(3).integers(0, 256, (1, 2, 5, 4)).astype(np.uint8)]
    (got,) = KernelRunner(archive_of(found), tmp_path, exact=True).run(inputs)
    np.testing.assert_array_equal(got, Interpreter(graph).run(inputs)[0])


def single_product(m: Maker, depthwise: bool) -> tuple[int, float]:
    """A layer whose multiplier is another one where the product of the scales is rounded to single precision."""
    x = m.input((1, 5, 6, 4))
    y = m.conv(x, 4, (3, 3), 1, same=True, depthwise=depthwise)
    wanted = 0.0
    for _ in range(100):
        scale = float(np.float32(m.random.uniform(0.005, 0.2)))
        product = float(np.float32(scale) * np.float32(0.01))
        wanted = product / m.spec.tensors[y].scale[0]
        m.spec.tensors[x].scale = (scale,)
        if Multiplier.of(wanted) != Multiplier.of(
            scale * float(np.float32(0.01)) / m.spec.tensors[y].scale[0]
        ):
            return y, wanted
    raise AssertionError("no such scales")


@pytest.mark.parametrize("depthwise", [False, True])
def test_multiplier_of_scales_whose_product_is_single_precision(depthwise: bool, tmp_path: Path) -> None:
    """As TensorFlow Lite's of uint8 layers; those of int8 keep the double product, as TFLM's."""
    path = tmp_path / "model.tflite"
    for seed in range(20):
        m = Maker(seed)
        y, wanted = single_product(m, depthwise)
        path.write_bytes(unsigned(m, y))
        graph = load_tflite(path)
        x, weights = graph.read(graph.operators[0])[:2]
        (found,) = set(channel_multipliers(x, weights, graph.written(graph.operators[0])[0], 4))
        assert found == Multiplier.of(wanted)


@pytest.mark.shared
def test_outputs_of_tensorflow_lite(tmp_path: Path) -> None:
    """A MobileNet of uint8 values."""
    path = SHARED / "mobilenet_v1_075_192_uint8.tflite"
    if not path.is_file():
        pytest.skip(f"no models of others: {SHARED} is missing")
    graph = load_tflite(path)
    runner = KernelRunner(archive_of(compile_graph(graph, Choice())), tmp_path, ("-O1",))
    inputs = np.load(path.with_name(f"{path.stem}_inputs.npz"))["input"]
    wanted = np.load(path.with_name(f"{path.stem}_litert.npz"))["y"]
    for given, expected in zip(inputs[:2], wanted[:2], strict=True):
        np.testing.assert_array_equal(runner.run([given])[0].reshape(-1), expected.reshape(-1))
