# SPDX-License-Identifier: Apache-2.0
"""Three independent answers to one model: the reference, the kernels on the host, and TFLM where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from compiled_models import KernelRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of

try:
    from tflite_micro.python.tflite_micro import runtime
except ImportError:
    runtime = None

Array = np.ndarray[Any, np.dtype[Any]]
TOLERANCE = 1e-5


def random_inputs(graph: Graph, random: np.random.Generator) -> list[Array]:
    """Values of every input, over the whole range of its type."""
    return [_random(graph.values[i], random) for i in graph.inputs]


def _random(value: Value, random: np.random.Generator) -> Array:
    if value.dtype.kind == "f":
        return random.uniform(-3, 3, value.shape).astype(value.dtype)
    if value.dtype.kind == "b":
        return random.integers(0, 2, value.shape).astype(value.dtype)
    limits = np.iinfo(value.dtype)
    low, high = (limits.min, limits.max + 1) if value.dtype.itemsize < 4 else (max(limits.min, -1000), 1000)
    return random.integers(low, high, value.shape).astype(value.dtype)


class Tflm:
    """TFLM's reference kernels on one model, which keeps its states from run to run."""

    def __init__(self, model: bytes) -> None:
        self.interpreter = runtime.Interpreter.from_bytes(model, arena_size=1 << 20)

    def run(self, inputs: list[Array], outputs: int) -> list[Array]:
        for number, data in enumerate(inputs):
            self.interpreter.set_input(data, number)
        self.interpreter.invoke()
        return [np.asarray(self.interpreter.get_output(i)) for i in range(outputs)]


def agree(
    model: bytes,
    folder: Path,
    seed: int,
    runs: int = 2,
    choice: Choice | None = None,
    given: Callable[[Graph, np.random.Generator], list[Array]] = random_inputs,
) -> None:
    """Compare the answers over consecutive runs; floats within `TOLERANCE` of the largest one.

    Args:
        given: makes the inputs of a run.

    Raises:
        AssertionError: two of them differ.
    """
    path = folder / "model.tflite"
    path.write_bytes(model)
    graph = load_tflite(path)
    runner = KernelRunner(archive_of(compile_graph(graph, choice or Choice())), folder, exact=True)
    interpreter, random = Interpreter(graph), np.random.default_rng(seed)
    oracle = Tflm(model) if runtime is not None else None
    for _ in range(runs):
        inputs = given(graph, random)
        expected = interpreter.run(inputs)
        answers = [("kernels", runner.run(inputs))]
        if oracle is not None:
            answers.append(("TFLM", oracle.run(inputs, len(expected))))
        for who, got in answers:
            for number, found, wanted in zip(graph.outputs, got, expected, strict=True):
                _equal(found, wanted, f"{who}: {graph.values[number].name}")


def _equal(got: Array, wanted: Array, what: str) -> None:
    got, wanted = got.reshape(-1), wanted.reshape(-1)
    if wanted.dtype.kind == "f":
        largest = max(1e-9, float(np.nan_to_num(np.abs(wanted), posinf=0).max(initial=0)))
        np.testing.assert_allclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE * largest, err_msg=what)
    else:
        np.testing.assert_array_equal(got, wanted, err_msg=what)
