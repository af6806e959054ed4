# SPDX-License-Identifier: Apache-2.0
"""SVDF layers: several runs of one state against TFLM, on cores with and without DSP instructions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agreement import agree
from core_images import MISSING, run_on_core
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError
from small_models import svdf
from tflite_models import Maker

# Inputs, filters, rank, entries of a line, batches, type of lines and their weights.
SHAPES = [
    (16, 8, 1, 8, 1, "int16"),
    (9, 6, 2, 6, 1, "int16"),
    (5, 7, 1, 5, 1, "int16"),
    (4, 6, 3, 2, 2, "int16"),
    (13, 4, 1, 1, 1, "int16"),
    (7, 10, 2, 4, 2, "int8"),
]


def real_svdf(
    seed: int,
    size: int,
    filters: int,
    rank: int,
    memory: int,
    batches: int,
    weights: str = "float32",
    bias: float | None = 1.0,
) -> bytes:
    """A model of one SVDF of real numbers; int8 weights are those numbers, stored with a scale."""
    m = Maker(seed)
    tensor = m.spec.tensor
    x = tensor("x", "float32", (batches, size))
    m.spec.inputs.append(x)

    def constant(name: str, shape: tuple[int, ...], scale: float) -> int:
        data = m.random.integers(-127, 128, shape).astype(np.int8)
        if weights == "int8":
            return tensor(name, "int8", shape, scale=(scale,), zero_point=(0,), data=data)
        return tensor(name, "float32", shape, data=data.astype(np.float32) * np.float32(scale))

    features, times = constant("features", (filters, size), 0.01), constant("times", (filters, memory), 0.02)
    data = (m.random.normal(0, 1, filters // rank) * (bias or 0)).astype(np.float32)
    term = -1 if bias is None else tensor("bias", "float32", data.shape, data=data)
    state = tensor("line", "float32", (batches, filters * memory), variable=True)
    y = tensor("y", "float32", (batches, filters // rank))
    fields = {"Rank": rank, "FusedActivationFunction": seed % 2}
    m.spec.add("SVDF", (x, features, times, term, state), y, ("SVDFOptions", fields))
    return m.finish(y)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_svdf_of_real_numbers(shape: tuple[int, int, int, int, int, str], tmp_path: Path) -> None:
    """TFLM computes that of real weights with a bias; int8 ones are the same numbers, no bias is one of 0."""
    seed = SHAPES.index(shape)
    agree(real_svdf(seed, *shape[:5]), tmp_path, 1, runs=shape[3] + 2)
    for changed, like in (({"weights": "int8"}, {}), ({"bias": None}, {"bias": 0.0})):
        runners = []
        for name, options in (("changed", changed), ("like", like)):
            (tmp_path / f"{name}.tflite").write_bytes(real_svdf(seed, *shape[:5], **options))
            runners.append(Interpreter(load_tflite(tmp_path / f"{name}.tflite")))
        for number in range(3):
            given = [np.random.default_rng(number).normal(size=(shape[4], shape[0])).astype(np.float32)]
            np.testing.assert_array_equal(runners[0].run(given)[0], runners[1].run(given)[0])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_svdf(shape: tuple[int, int, int, int, int, str], tmp_path: Path) -> None:
    agree(svdf(SHAPES.index(shape), *shape), tmp_path, 1, runs=shape[3] + 2)


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize(
    "core",
    [core_named("cortex-m0"), core_named("cortex-m4"), core_named("cortex-m55")],
    ids=lambda c: c.name,
)
def test_an_svdf_on_cores(core: Core, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    for number, shape in enumerate(SHAPES):
        path.write_bytes(svdf(number, *shape))
        assert run_on_core(compile_graph(load_tflite(path), Choice(core=core)), core, tmp_path, 3)


def test_weights_of_another_type(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(svdf(0, 4, 4, 1, 2, 1, "int16", weights="int16"))
    with pytest.raises(ArchiveError, match="weights of types int16 and int16"):
        load_tflite(path)
