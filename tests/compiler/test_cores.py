# SPDX-License-Identifier: Apache-2.0
"""Kernels for each core: their instructions on the emulated core, and their plain C on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiled_models import KernelRunner
from core_images import EMULATED, MACHINES, MISSING, run_on_core
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.layer_sums import Sums, sum_bounds
from mlf_sdk.compiler.kernels.rescale import Form, choose_fine, choose_short
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.requantise import Multiplier, multiply
from mlf_sdk.compiler.schedule import Choice, Counted, TuningTask
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from tflite_models import Maker


def many_layers(seed: int) -> bytes:
    """Layers of odd and even extents and channels, with and without activation, all kinds that have kernels."""
    m = Maker(seed)
    odd = seed % 2
    x = m.input((1, 13, 11 + odd, 3 - 2 * odd))
    first = m.conv(x, 16 + odd, (3, 3), 1, same=True, activation=1)
    point = m.conv(first, 8, (1, 1), 1, same=True, activation=odd)
    deep = m.conv(point, 8, (3, 3), 1, same=True, depthwise=True, activation=3)
    total = m.binary("ADD", point, deep)
    second = m.conv(total, 12, (3, 3), 1, same=True)
    down = m.conv(second, 12, (3, 3), 2, same=True, depthwise=True, activation=1)
    strided = m.conv(down, 7, (3, 2), 2, same=False)
    wide = m.conv(strided, 40, (1, 1), 1, same=True, activation=1)
    long = m.conv(wide, 40, (1, 2) if odd else (2, 1), 1, same=True, depthwise=True)
    pooled = m.pool(long, 2, largest=False)
    return m.finish(m.softmax(m.dense(m.dense(pooled, 33), 10 + odd)))


def compiled(folder: Path, seed: int, core: Core, goal: Goal) -> CompiledGraph:
    path = folder / "model.tflite"
    path.write_bytes(many_layers(seed))
    return compile_graph(load_tflite(path), Choice(core=core, goal=goal))


@pytest.mark.qemu
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("core", EMULATED)
def test_instructions_of_a_core(core: Core, seed: int, tmp_path: Path) -> None:
    counts = run_on_core(compiled(tmp_path, seed, core, Goal.BALANCED), core, tmp_path, seed)
    assert all(instructions > 0 for _, instructions in counts)


def layers_for_speed() -> bytes:
    """Layers whose kernels for speed differ: squares of 2, 3 and 4 beside each other, channels over and under."""
    m = Maker(5)
    x = m.input((1, 9, 14, 4))
    first = m.conv(x, 76, (1, 1), 1, same=True, activation=1)
    second = m.conv(first, 13, (3, 3), 1, same=True, activation=1)
    point = m.conv(second, 12, (1, 1), 1, same=True)
    third = m.conv(point, 16, (3, 3), 1, same=False)
    down = m.conv(third, 9, (3, 3), 2, same=True, activation=3)
    wide = m.conv(down, 24, (1, 1), 1, same=True)
    narrow = m.conv(wide, 8, (3, 3), 1, same=True)
    return m.finish(m.dense(narrow, 21))


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize(("goal", "pairs"), [(Goal.SPEED, 0), (Goal.INSTRUCTIONS, 3)])
def test_kernels_for_speed(goal: Goal, pairs: int, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(layers_for_speed())
    graph = compile_graph(load_tflite(path), Choice(core=core_named("cortex-m4"), goal=goal))
    counts = run_on_core(graph, core_named("cortex-m4"), tmp_path, pairs)
    names = [name for name, _ in counts]
    assert sum("winograd" in name for name in names) == 3
    assert sum("2ch_int16" in name for name in names) == pairs


def test_a_tile_of_pairs_uses_its_whole_workspace(tmp_path: Path) -> None:
    """Rows of a window that end with one byte alone take one word less; a plan states what is used."""
    m = Maker(5)
    path = tmp_path / "model.tflite"
    path.write_bytes(m.finish(m.conv(m.input((1, 10, 9, 3)), 8, (3, 3), 2, same=False)))
    graph = load_tflite(path)
    compiled = compile_graph(graph, Choice(core=core_named("cortex-m4"), goal=Goal.INSTRUCTIONS))
    assert [c.kernel.family for c in compiled.operators if c.kernel] == ["conv_2ch_int16"]
    x = np.random.default_rng(1).integers(-128, 128, (1, 10, 9, 3)).astype(np.int8)
    (got,) = KernelRunner(archive_of(compiled), tmp_path, exact=True).run([x])
    np.testing.assert_array_equal(got, Interpreter(graph).run([x])[0])


def dense_chain(*, channels: bool = False) -> bytes:
    """Matrix products whose inputs and outputs leave every rest when they are divided by four.

    Args:
        channels: each output has a scale of its own.
    """
    m = Maker(2)
    x = m.input((1, 5))
    for outputs in (22, 7, 9, 35, 4, 130, 3):
        x = m.dense(x, outputs, scales=outputs if channels else 1)
    return m.finish(x)


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize(
    "core",
    [core_named("cortex-m0"), core_named("cortex-m3"), core_named("cortex-m4")],
    ids=lambda core: core.name,
)
@pytest.mark.parametrize("channels", [False, True], ids=["layer", "channels"])
def test_matrix_products(core: Core, channels: bool, tmp_path: Path) -> None:
    """On the core, and the plain C beside its instructions on the host."""
    path = tmp_path / "model.tflite"
    path.write_bytes(dense_chain(channels=channels))
    graph = load_tflite(path)
    compiled = compile_graph(graph, Choice(core=core, goal=Goal.BALANCED))
    assert len(run_on_core(compiled, core, tmp_path)) == 7
    x = np.random.default_rng(4).integers(-128, 128, (1, 5)).astype(np.int8)
    (got,) = KernelRunner(archive_of(compiled), tmp_path).run([x])
    np.testing.assert_array_equal(got, Interpreter(graph).run([x])[0])


def small_weights() -> bytes:
    """Matrix products whose weights are small but for some, which take all that sums of 16 bits can hold."""
    m = Maker(6)
    x = m.input((1, 42))
    for outputs, scales in ((50, 1), (45, 45), (23, 1)):
        x = m.dense(x, outputs, scales=scales, largest=8)
        weights = next(t for t in reversed(m.spec.tensors) if t.name.startswith("w")).data
        assert weights is not None
        weights[0, :4] = 127, -127, 127, 127  # in the first four inputs, and in the last ones
        weights[2, -6:] = -127
        weights[5] = 0
        weights[5, 8:10], weights[5, 12] = 127, 1  # 255 in all
        weights[6, 8:10], weights[6, 12] = -127, -1
    return m.finish(x)


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize(
    "core", [core_named("cortex-m0"), core_named("cortex-m3")], ids=lambda core: core.name
)
def test_two_sums_in_a_word(core: Core, tmp_path: Path) -> None:
    """Inputs at their limits, on the core and as plain C on the host."""
    path = tmp_path / "model.tflite"
    path.write_bytes(small_weights())
    graph = load_tflite(path)
    compiled = compile_graph(graph, Choice(core=core, goal=Goal.BALANCED))
    kernels = [c.kernel for c in compiled.operators if c.kernel is not None]
    assert all("field_sums" in kernel.helpers for kernel in kernels)
    weights = graph.read(graph.operators[0])[1].constant
    extremes = [np.where(weights[row] > 0, *ends) for row in (5, 2) for ends in ((-128, 127), (127, -128))]
    runner = KernelRunner(archive_of(compiled), tmp_path)
    for number, x in enumerate(x.astype(np.int8)[None] for x in extremes):
        (got,) = runner.run([x])
        np.testing.assert_array_equal(got, Interpreter(graph).run([x])[0])
        if number < 2:
            run_on_core(compiled, core, tmp_path, given=x)


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize("outputs", [1, 3])
def test_rule_for_few_outputs_chooses_the_cheapest(outputs: int, tmp_path: Path) -> None:
    m = Maker(1)
    path = tmp_path / "model.tflite"
    path.write_bytes(m.finish(m.dense(m.input((1, 48)), outputs, largest=60)))

    def count(number: int) -> int:
        def tuner(_: Graph, tasks: list[TuningTask]) -> list[tuple[Counted, ...]]:
            return [(Counted(kernel=kernels[number]),) for _, kernels in tasks]

        graph = compile_graph(load_tflite(path), Choice(core=core_named("cortex-m3")), tuner)
        return run_on_core(graph, core_named("cortex-m3"), tmp_path)[0][1]

    chosen, second, third = (count(number) for number in range(3))
    assert chosen < min(second, third)


def vector_layers(channels: int) -> bytes:
    """Depthwise layers with an even and an odd number of taps, with and without activation, and sums."""
    m = Maker(9)
    x = m.input((1, 7, 9, channels))
    first = m.conv(x, channels, (3, 3), 1, same=True, depthwise=True, activation=1)
    second = m.conv(first, channels, (2, 2), 1, same=True, depthwise=True)
    total = m.binary("SUB", m.binary("ADD", first, second), x)
    return m.finish(m.conv(total, channels, (2, 3), 2, same=False, depthwise=True, activation=3))


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize("channels", [16, 35])
def test_vectors_of_channels(channels: int, tmp_path: Path) -> None:
    """Sixteen channels at a time, and a rest, on the core and as plain C on the host."""
    path = tmp_path / "model.tflite"
    path.write_bytes(vector_layers(channels))
    graph = load_tflite(path)
    compiled = compile_graph(graph, Choice(core=core_named("cortex-m55"), goal=Goal.BALANCED))
    kernels = [c.kernel for c in compiled.operators if c.kernel is not None]
    starts = ("channels_", "patches_", "sums_")
    helpers = [name for k in kernels for name in k.helpers]
    assert [sum(name.startswith(start) for name in helpers) for start in starts] == [2, 1, 2]
    shape = (1, 7, 9, channels)
    extremes = np.where(np.indices(shape).sum(axis=0) % 2, -128, 127).astype(np.int8)
    runner = KernelRunner(archive_of(compiled), tmp_path)
    for seed, x in enumerate((np.full(shape, -128, np.int8), extremes)):
        (got,) = runner.run([x])
        np.testing.assert_array_equal(got, Interpreter(graph).run([x])[0])
        run_on_core(compiled, core_named("cortex-m55"), tmp_path, seed, given=x)


def test_one_scale_is_stored_once(tmp_path: Path) -> None:
    """Layers of one scale share their instructions; each stream holds one row of words for all outputs."""
    path = tmp_path / "model.tflite"
    m = Maker(3)
    x = m.dense(m.dense(m.dense(m.input((1, 128)), 256), 128), 12)
    path.write_bytes(m.finish(x))
    found = compile_graph(load_tflite(path), Choice(core=core_named("cortex-m4"), goal=Goal.BALANCED))
    kernels = [c.kernel for c in found.operators if c.kernel is not None]
    assert [k.constants_bytes for k in kernels] == [
        head + outputs * (4 + inputs)
        for head, inputs, outputs in ((44, 128, 256), (44, 256, 128), (24, 128, 12))
    ]
    assert len({name for k in kernels for name in k.helpers if name.startswith("layer_")}) == 1


@pytest.mark.parametrize("core", [*MACHINES, core_named("generic")], ids=lambda core: core.name)
def test_plain_c_of_a_core_on_the_host(core: Core, tmp_path: Path) -> None:
    graph = compiled(tmp_path, 3, core, Goal.BALANCED)
    runner = KernelRunner(archive_of(graph), tmp_path, exact=True)
    reference = load_tflite(tmp_path / "model.tflite")
    x = np.random.default_rng(3).integers(-128, 128, reference.values[reference.inputs[0]].shape)
    for got, wanted in zip(
        runner.run([x.astype(np.int8)]), Interpreter(reference).run([x.astype(np.int8)]), strict=True
    ):
        np.testing.assert_array_equal(got.reshape(-1), wanted.reshape(-1))


@pytest.mark.parametrize("seed", range(6))
def test_short_requantisation_equals_the_reference_for_every_sum(seed: int) -> None:
    """Every sum that weights allow, as the kernel computes it in words of 32 bits."""
    random = np.random.default_rng(seed)
    multipliers = tuple(
        Multiplier(int(random.integers(1 << 30, 1 << 31)), -int(5 + random.integers(0, 4))) for _ in range(6)
    )
    weights, bias = random.integers(-60, 60, (6, 8)), random.integers(-5000, 5000, 6)
    bounds = sum_bounds(weights, bias, -255, 255)
    found = choose_short(Sums(multipliers=multipliers, zero_point=-128, bounds=bounds, clamp=(-128, 127)))
    assert found.form is Form.SPLIT
    n = found.shift
    for multiplier, row, (low, high) in zip(multipliers, found.rows.astype(np.int64), bounds, strict=True):
        sums = np.arange(low, high + 1)
        upper, lower = (sums >> n) * row[0], (sums & ((1 << n) - 1)) * row[0]
        assert np.abs(upper).max() < 1 << 31
        assert lower.max() < 1 << 32
        total = upper + (lower >> n) + row[1]
        assert np.abs(total).max() < 1 << 31
        wanted = multiply(sums, multiplier) - 128
        np.testing.assert_array_equal(np.clip(total >> row[2], -128, 127), np.clip(wanted, -128, 127))


@pytest.mark.parametrize("seed", range(6))
def test_fine_requantisation_equals_the_reference_for_every_sum(seed: int) -> None:
    """Every sum that weights allow, for random multipliers whose shifts differ."""
    random = np.random.default_rng(seed)
    channels = 6
    multipliers = tuple(
        Multiplier(int(random.integers(1 << 30, 1 << 31)), -int(6 + random.integers(0, 1 + seed)))
        for _ in range(channels)
    )
    bounds = sum_bounds(
        random.integers(-60, 60, (channels, 8)), random.integers(-5000, 5000, channels), -255, 255
    )
    zero_point = -128 if seed % 2 else int(random.integers(-128, 128))
    found = choose_fine(
        Sums(multipliers=multipliers, zero_point=zero_point, bounds=bounds, clamp=(-128, 127))
    )
    assert found is not None
    assert found.form is (Form.FINE if zero_point == -128 else Form.SIGNED)
    for multiplier, row, (low, high) in zip(multipliers, found.rows.astype(np.int64), bounds, strict=True):
        sums = np.arange(low, high + 1)
        lost = np.where(sums < 0, row[2], 0) if found.form is Form.SIGNED else 0
        got = (((sums * 256 * row[0]) >> 32) + lost + row[1]) >> found.shift
        wanted = multiply(sums, multiplier) + zero_point
        np.testing.assert_array_equal(np.clip(got, -128, 127), np.clip(wanted, -128, 127))


def test_products_of_lowest_weights_on_a_cortex_m0(tmp_path: Path) -> None:
    """Two products of -128 and -128 do not fit the 16 bits that each pixel of a pair has."""
    m = Maker(5)
    y = m.conv(m.input((1, 4, 4, 4)), 3, (1, 1), 1, same=True)
    weights = next(t for t in reversed(m.spec.tensors) if t.name.startswith("w")).data
    assert weights is not None
    weights[...] = -128
    path = tmp_path / "model.tflite"
    path.write_bytes(m.finish(y))
    core, graph = core_named("cortex-m0"), load_tflite(path)
    compiled = compile_graph(graph, Choice(core=core, goal=Goal.BALANCED))
    x = np.random.default_rng(1).integers(-128, 128, (1, 4, 4, 4)).astype(np.int8)
    x[:, :2] = -128
    (got,) = KernelRunner(archive_of(compiled), tmp_path).run([x])
    np.testing.assert_array_equal(got, Interpreter(graph).run([x])[0])
