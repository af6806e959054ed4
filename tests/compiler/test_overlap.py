# SPDX-License-Identifier: Apache-2.0
"""Distances at which kernels may write over their input: right at that distance, wrong one byte closer.

Kernels of whole networks are replayed at every distance that their archive states by `KernelRunner`, which all
tests of layers and of recorded models use.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from compiled_models import KernelRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.schedule import Choice, Goal
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from tflite_models import Maker

Build = Callable[[Maker], tuple[int, ...]]


def compiled(build: Build, folder: Path, goal: Goal) -> tuple[KernelRunner, list[np.ndarray]]:
    """Kernels of a model of one layer, and random inputs."""
    m = Maker(5)
    outputs = build(m)
    path = folder / "model.tflite"
    path.write_bytes(m.finish(*outputs))
    graph = load_tflite(path)
    random = np.random.default_rng(5)
    inputs = [random.integers(-128, 128, graph.values[i].shape).astype(np.int8) for i in graph.inputs]
    return KernelRunner(archive_of(compile_graph(graph, Choice(goal=goal))), folder), inputs


def conv(shape: tuple[int, ...], channels: int, size: tuple[int, int], stride: int = 1) -> Build:
    return lambda m: (m.conv(m.input(shape), channels, size, stride, same=True),)


def depthwise(shape: tuple[int, ...], size: tuple[int, int], stride: int = 1, times: int = 1) -> Build:
    return lambda m: (m.conv(m.input(shape), shape[3] * times, size, stride, same=True, depthwise=True),)


@pytest.mark.parametrize(
    ("build", "goal", "distance"),
    [
        (conv((1, 6, 8, 8), 8, (3, 3)), Goal.BALANCED, 72),  # a row and a pixel
        (conv((1, 1, 7, 8), 8, (1, 1)), Goal.BALANCED, 8),  # tiles of four pixels, the last from pixel 3
        (conv((1, 4, 5, 8), 8, (1, 1)), Goal.BALANCED, 0),
        (conv((1, 4, 5, 8), 16, (1, 1)), Goal.BALANCED, 128),  # twice as large: begins as much earlier
        (conv((1, 6, 6, 8), 8, (3, 3)), Goal.SIZE, 63),  # a row, a pixel, and all channels but one
        (lambda m: (m.pool(m.input((1, 6, 6, 8)), 2, largest=True),), Goal.BALANCED, 0),
        (depthwise((1, 6, 6, 8), (3, 3)), Goal.BALANCED, 0),
        (depthwise((1, 7, 6, 8), (3, 3), 2), Goal.BALANCED, 0),
        (lambda m: (m.softmax(m.input((1, 10))),), Goal.BALANCED, 0),
        (lambda m: (m.dense(m.input((1, 24)), 40),), Goal.BALANCED, 0),
    ],
)
def test_least_distance_of_a_kernel(build: Build, goal: Goal, distance: int, tmp_path: Path) -> None:
    runner, inputs = compiled(build, tmp_path, goal)
    (facts,) = runner.facts["calls"].values()
    (overlap,) = facts["overlaps"]
    assert overlap == {"input": 0, "output": 0, "distance_bytes": distance}
    runner.run(inputs)
    if distance:
        overlap["distance_bytes"] -= 1
        with pytest.raises(AssertionError, match=r"'distance_bytes': "):
            runner.run(inputs)


def test_a_sum_takes_the_place_of_either_operand(tmp_path: Path) -> None:
    def build(m: Maker) -> tuple[int, ...]:
        shape = (1, 4, 4, 4)
        return (m.binary("ADD", m.input(shape), m.input(shape)),)

    runner, inputs = compiled(build, tmp_path, Goal.BALANCED)
    (facts,) = runner.facts["calls"].values()
    assert [(o["input"], o["distance_bytes"]) for o in facts["overlaps"]] == [(0, 0), (1, 0)]
    runner.run(inputs)


def test_an_operand_that_is_read_again_is_not_overwritten(tmp_path: Path) -> None:
    runner, inputs = compiled(
        lambda m: (m.binary("MUL", m.input((1, 4, 4, 4)), m.input((1, 1, 1, 4))),), tmp_path, Goal.BALANCED
    )
    (facts,) = runner.facts["calls"].values()
    assert [o["input"] for o in facts["overlaps"]] == [0]
    runner.run(inputs)
