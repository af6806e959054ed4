# SPDX-License-Identifier: Apache-2.0
"""One node's result by ONNX Runtime, by the reference and by the kernels of two goals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiled_models import KernelRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.frontends.mlf.compiled import archive_of
from onnx_models import Array, OnnxMaker

ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")


def answers(m: OnnxMaker, folder: Path, *given: Array) -> tuple[Array, list[Array]]:
    """Result of the last node by ONNX Runtime, node by node; by the reference, and by the kernels of two goals."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    path = m.save(folder / "m.onnx", m.nodes[-1].output[0])
    session = ort.InferenceSession(str(path), options)
    (wanted,) = session.run(None, {i.name: x for i, x in zip(session.get_inputs(), given, strict=True)})
    return wanted, computed(path, *given)


def computed(path: Path, *given: Array) -> list[Array]:
    """First output by the reference, and by the kernels of two goals."""
    graph = load_onnx(path)
    found = Interpreter(graph).run(list(given))[:1]
    for goal in (Goal.BALANCED, Goal.SIZE):
        archive = archive_of(compile_graph(graph, Choice(goal=goal)))
        found += KernelRunner(archive, path.parent, ("-O0",)).run(list(given))[:1]
    return found


def agree(m: OnnxMaker, folder: Path, *given: Array) -> None:
    wanted, found = answers(m, folder, *given)
    for one in found:
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(one.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(one.reshape(wanted.shape), wanted)


def reals(*shape: int) -> Array:
    return np.random.default_rng(7).uniform(-2, 2, shape).astype(np.float32)
