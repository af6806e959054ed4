# SPDX-License-Identifier: Apache-2.0
"""Kernels for size: exact in every type, and never more flash than those of the balanced choice."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agreement import random_inputs
from compiled_models import KernelRunner
from core_images import EMULATED, MACHINES, MISSING, run_on_core
from mlf_sdk.compiler.build import CompiledGraph, compile_graph, with_kernels
from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice, Counted, candidates
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from operator_cases import model_of
from tflite_models import Maker


def loaded(model: bytes, folder: Path) -> Graph:
    path = folder / "model.tflite"
    path.write_bytes(model)
    return load_tflite(path)


def compact(graph: Graph, core: str = "generic") -> CompiledGraph:
    """The graph with the compact kernel of every operator that has one."""

    def chosen(kernels: tuple[Kernel, ...]) -> tuple[Counted, ...]:
        return tuple(Counted(kernel=k) for k in sorted(kernels, key=lambda k: k.variant != "compact"))

    graph = improve(graph)
    choice = Choice(core=core_named(core), goal=Goal.SIZE)
    return with_kernels(graph, [chosen(tuple(candidates(graph, o, choice))) for o in graph.operators])


def layers(seed: int) -> bytes:
    """Windows with borders, strides, dilation and one scale or many; channels that no four divides."""
    m = Maker(seed)
    x = m.input((1, 9, 7, 3))
    first = m.conv(x, 6, (3, 2), 1, same=True, activation=1)
    deep = m.conv(first, 6, (3, 3), 2, same=True, depthwise=True, activation=3)
    apart = m.conv(deep, 9, (2, 2), 1, same=False, dilation=2)
    point = m.conv(apart, 8, (1, 1), 1, same=True)
    return m.finish(m.dense(m.dense(point, 7, scales=7), 5))


@pytest.mark.parametrize("seed", range(6))
def test_compact_layers(seed: int, tmp_path: Path) -> None:
    graph = loaded(layers(seed), tmp_path)
    found = compact(graph)
    kernels = [one.kernel for one in found.operators if one.kernel is not None]
    assert [k.variant for k in kernels] == ["compact"] * 6
    assert (
        len({name for k in kernels for name in k.helpers if name.startswith("compact_")}) == 2
    )  # by dilation
    inputs = random_inputs(graph, np.random.default_rng(seed))
    (got,) = KernelRunner(archive_of(found), tmp_path).run(inputs)
    np.testing.assert_array_equal(got, Interpreter(graph).run(inputs)[0])


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_compact_layers_of_16_bits(kind: str, tmp_path: Path) -> None:
    graph = loaded(model_of(kind, "int16", 2), tmp_path)
    found = compact(graph)
    assert [c.kernel.variant for c in found.operators if c.kernel is not None] == ["compact"]
    inputs = random_inputs(graph, np.random.default_rng(2))
    (got,) = KernelRunner(archive_of(found), tmp_path).run(inputs)
    np.testing.assert_array_equal(got.reshape(-1), Interpreter(graph).run(inputs)[0].reshape(-1))


@pytest.mark.qemu
@pytest.mark.parametrize("core", EMULATED)
def test_compact_layers_on_a_core(core: Core, tmp_path: Path) -> None:
    found = compact(loaded(layers(7), tmp_path), core.name)
    assert len(run_on_core(found, core, tmp_path, 7)) == 6


def residual(m: Maker) -> int:
    """Image classification: 3x3 convolutions, sums, a pool and a matrix product."""
    x = m.conv(m.input((1, 16, 16, 3)), 8, (3, 3), 1, same=True, activation=1)
    for channels in (8, 16, 24):
        stride = 1 if channels == 8 else 2
        inner = m.conv(x, channels, (3, 3), stride, same=True, activation=1)
        around = m.conv(x, channels, (1, 1), stride, same=True)
        x = m.binary("ADD", m.conv(inner, channels, (3, 3), 1, same=True), around)
    return m.softmax(m.dense(m.pool(x, 4, largest=False), 10))


def separable(m: Maker) -> int:
    """Keyword spotting: equal blocks of a depthwise and a pointwise convolution."""
    x = m.conv(m.input((1, 25, 10, 1)), 16, (5, 4), 2, same=True, activation=1)
    for _ in range(4):
        x = m.conv(x, 16, (3, 3), 1, same=True, depthwise=True, activation=1)
        x = m.conv(x, 16, (1, 1), 1, same=True, activation=1)
    return m.softmax(m.dense(m.pool(x, 5, largest=False), 12))


def mobile(m: Maker) -> int:
    """Person detection: blocks whose channels grow while their extents shrink."""
    x = m.conv(m.input((1, 24, 24, 3)), 8, (3, 3), 2, same=True, activation=3)
    for number, channels in enumerate((8, 16, 16, 32, 32, 64)):
        stride = 2 if number % 2 else 1
        x = m.conv(x, m.spec.tensors[x].shape[3], (3, 3), stride, same=True, depthwise=True, activation=3)
        x = m.conv(x, channels, (1, 1), 1, same=True, activation=3)
    return m.softmax(m.dense(m.pool(x, 2, largest=False), 2))


def autoencoder(m: Maker) -> int:
    """Anomaly detection: matrix products of one scale."""
    x = m.input((1, 160))
    for outputs in (64, 64, 64, 8, 64, 64, 160):
        x = m.dense(x, outputs)
    return x


def flash_bytes(found: CompiledGraph, core: Core, folder: Path) -> int:
    """Bytes of code, tables and constants of all kernels, as the project's compiler flags make them."""
    source, built = folder / "kernels.c", folder / "kernels.o"
    source.write_text(found.code.own)
    (folder / found.code.header_name).write_text(found.code.header)
    command = ["arm-none-eabi-gcc", *MACHINES[core].flags, "-O2", "-ffp-contract=off", "-c"]
    subprocess.run([*command, "-o", str(built), str(source)], check=True)
    sizes = subprocess.run(["arm-none-eabi-size", str(built)], check=True, capture_output=True, text=True)
    constants = sum(c.kernel.constants_bytes for c in found.operators if c.kernel is not None)
    return int(sizes.stdout.splitlines()[1].split()[0]) + constants


@pytest.mark.skipif("arm-none-eabi-gcc" in MISSING, reason="arm-none-eabi-gcc is not installed")
@pytest.mark.parametrize(
    "core", [core_named("cortex-m0"), core_named("cortex-m4")], ids=lambda core: core.name
)
@pytest.mark.parametrize("build", [residual, separable, mobile, autoencoder])
def test_size_is_the_least(build: Callable[[Maker], int], core: Core, tmp_path: Path) -> None:
    m = Maker(3)
    graph = loaded(m.finish(build(m)), tmp_path)
    size, balanced = (
        flash_bytes(compile_graph(graph, Choice(core=core, goal=goal)), core, tmp_path)
        for goal in (Goal.SIZE, Goal.BALANCED)
    )
    assert size < balanced


@pytest.mark.skipif("arm-none-eabi-gcc" in MISSING, reason="arm-none-eabi-gcc is not installed")
@pytest.mark.parametrize("outputs", [4, 64])
def test_a_single_layer(outputs: int, tmp_path: Path) -> None:
    """One layer is not worth the code that many can share."""
    m = Maker(3)
    graph = loaded(m.finish(m.dense(m.input((1, 8)), outputs)), tmp_path)
    found = compile_graph(graph, Choice(core=core_named("cortex-m4"), goal=Goal.SIZE))
    size = flash_bytes(found, core_named("cortex-m4"), tmp_path)
    choice = Choice(core=core_named("cortex-m4"), goal=Goal.SIZE)
    improved = improve(graph)
    for kernel in candidates(improved, improved.operators[0], choice):
        other = with_kernels(improved, [(Counted(kernel=kernel),)])
        assert size <= flash_bytes(other, core_named("cortex-m4"), tmp_path)
