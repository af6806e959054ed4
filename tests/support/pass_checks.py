# SPDX-License-Identifier: Apache-2.0
"""Comparison of graphs before and after passes, by the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.passes import PASSES
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.load import load_tflite

Array = np.ndarray[Any, np.dtype[Any]]
Pass = Callable[[Graph], Graph]


def graph_of(model: bytes, folder: Path) -> Graph:
    """The graph of a .tflite model as it is read."""
    path = folder / "model.tflite"
    path.write_bytes(model)
    return load_tflite(path)


def read_onnx(path: Path) -> Graph:
    """The graph of an ONNX model before any pass; skips the test where it can't be read."""
    from mlf_sdk.compiler.onnx.load import model_faults, read_graph

    faults = model_faults(path)
    graph = read_graph(path, "m", {}, 1, faults).graph
    if faults.faults:
        pytest.skip("not read")
    return graph


def random_values(random: np.random.Generator, value: Value) -> Array:
    """Elements for an input."""
    if value.dtype.kind == "f":
        return random.standard_normal(value.shape).astype(value.dtype)
    if value.dtype.kind == "b":
        return random.integers(0, 2, value.shape).astype(value.dtype)
    info = np.iinfo(value.dtype)
    return random.integers(info.min, info.max, value.shape, endpoint=True).astype(value.dtype)


def changed(graph: Graph, *passes: Pass, seed: int = 0) -> Graph:
    """The graph after passes; after each of them outputs are the same, integers bit for bit.

    Args:
        passes: all of the compiler's by default.
    """
    random = np.random.default_rng(seed)
    inputs = [[random_values(random, graph.values[i]) for i in graph.inputs] for _ in range(2)]
    wanted = [Interpreter(graph).run(one) for one in inputs]
    for change in passes or PASSES:
        graph = change(graph)
        for one, outputs in zip(inputs, wanted, strict=True):
            for a, b in zip(Interpreter(graph).run(one), outputs, strict=True):
                near = (
                    1e-4 * max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
                    if b.dtype.kind == "f"
                    else 0
                )
                np.testing.assert_allclose(a, b, rtol=near, atol=near, err_msg=change.__name__)
    return graph
