# SPDX-License-Identifier: Apache-2.0
"""Models that the compiler once got wrong: right for every goal, on the host and on cores, or refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiled_models import KernelRunner
from core_images import MISSING, run_on_core
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError
from mlf_sdk.frontends.mlf.compiled import archive_of

Array = np.ndarray[Any, np.dtype[Any]]
FOLDER = Path(__file__).parents[3] / "shared" / "attacks" / "compiler"
MODELS = sorted(path.name.removesuffix("_in.npz") for path in FOLDER.glob("*_in.npz"))
TOLERANCE = 5e-6  # of the largest number of an output
CORES = {
    core_named("cortex-m0"): Goal.SIZE,
    core_named("cortex-m4"): Goal.SPEED,
    core_named("cortex-m55"): Goal.BALANCED,
}

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not MODELS, reason=f"no models that attack the compiler: {FOLDER} is missing"),
]


def loaded(name: str) -> tuple[Graph, list[Array], list[Array]]:
    """A model's graph, its inputs and the outputs that the field's interpreter gives; skips one that is refused."""
    path = next(p for p in FOLDER.glob(f"{name}.*") if p.suffix in (".onnx", ".tflite"))
    try:
        graph = load_onnx(path) if path.suffix == ".onnx" else load_tflite(path)
    except ArchiveError as error:
        pytest.skip(f"refused: {error}")
    with np.load(FOLDER / f"{name}_in.npz") as inputs, np.load(FOLDER / f"{name}_out.npz") as outputs:
        return graph, [inputs[n] for n in inputs.files], [outputs[n] for n in outputs.files]


def compare(found: list[Array], wanted: list[Array]) -> None:
    """Raise AssertionError where integers differ, or floats by more than the tolerance."""
    for got, expected in zip(found, wanted, strict=True):
        limit = TOLERANCE * float(np.abs(expected).max(initial=0)) if expected.dtype.kind == "f" else 0
        np.testing.assert_allclose(
            got.reshape(-1).astype(np.float64), expected.reshape(-1).astype(np.float64), rtol=0, atol=limit
        )


@pytest.mark.parametrize("name", MODELS)
def test_on_the_host(name: str, tmp_path: Path) -> None:
    """The reference, and the kernels of each goal and core."""
    graph, inputs, expected = loaded(name)
    compare(Interpreter(graph).run(inputs), expected)
    different: dict[str, CompiledGraph] = {}
    for core, goal in product((core_named("generic"), *CORES), Goal):
        compiled = compile_graph(graph, Choice(core=core, goal=goal))
        different.setdefault(compiled.code, compiled)
    for number, compiled in enumerate(different.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        compare(KernelRunner(archive_of(compiled), folder).run(inputs), expected)


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
def test_on_a_core(core: Core, tmp_path: Path) -> None:
    """Each kernel gives what the reference does, which gives what is recorded."""
    for name in MODELS:
        try:
            graph, inputs, _ = loaded(name)
        except pytest.skip.Exception:
            continue
        compiled = compile_graph(graph, Choice(core=core, goal=CORES[core]))
        run_on_core(compiled, core, tmp_path, given=inputs[0])
