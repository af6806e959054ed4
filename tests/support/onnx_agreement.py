# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime, the numpy reference and kernels of all goals, of one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from compiled_models import KernelRunner, PlannedRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.frontends.mlf.compiled import archive_of

Array = np.ndarray[Any, np.dtype[Any]]
# Products of bytes with and without sign are saturated by ONNX Runtime on some processors, in pairs.
LIMITS: dict[Any, tuple[int, int]] = {np.uint8: (0, 256), np.int8: (-64, 64)}


def drawn(graph: Graph, random: np.random.Generator) -> list[Array]:
    """Inputs of a graph: real numbers, bytes of any value, or small indices."""
    found: list[Array] = []
    for value in (graph.values[i] for i in graph.inputs):
        if value.dtype.kind == "f":
            found.append(random.standard_normal(value.shape).astype(np.float32))
        elif value.dtype.itemsize == 1:
            low, high = LIMITS[value.dtype.type]
            found.append(random.integers(low, high, value.shape).astype(value.dtype))
        else:
            found.append(random.integers(-3, 3, value.shape).astype(value.dtype))
    return found


def agree(path: Path, *sets: list[Array], tolerance: float = 2e-6) -> Graph:
    """Compare ONNX Runtime, the numpy reference, and kernels of every goal, also in their arena."""
    graph = load_onnx(path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    made = {goal.value: archive_of(compile_graph(graph, Choice(goal=goal))) for goal in Goal}
    runners = []
    for goal, files in made.items():
        if goal == "speed" or files != made["speed"]:
            folder = path.parent / goal
            folder.mkdir(exist_ok=True)
            runner = KernelRunner(files, folder, ("-O1",))
            runners.append((runner, PlannedRunner(runner, files, folder)))
    for given in sets or (drawn(graph, np.random.default_rng(5)),):
        wanted = session.run(None, dict(zip(names, given, strict=True)))
        results = [Interpreter(graph).run(given), *(runner.run(given) for runner, _ in runners)]
        for found, (_, planned) in zip(results[1:], runners, strict=True):
            assert [one.tobytes() for one in found] == planned.run(given)
        for found in results:
            _equal(found, wanted, tolerance)
    return graph


def _equal(found: list[Array], wanted: list[Array], tolerance: float) -> None:
    for got, expected in zip(found, wanted, strict=True):
        assert got.dtype == expected.dtype
        most = max(1.0, float(np.abs(expected).max())) if expected.dtype.kind == "f" else 0
        np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=0, atol=tolerance * most)
