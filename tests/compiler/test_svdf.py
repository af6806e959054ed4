# SPDX-License-Identifier: Apache-2.0
"""SVDF layers: several runs of one state against TFLM, on cores with and without DSP instructions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agreement import agree
from core_images import MISSING, run_on_core
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.options import Core
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError
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


def svdf(
    seed: int, size: int, filters: int, rank: int, memory: int, batches: int, kind: str, weights: str = "int8"
) -> bytes:
    """A model of one SVDF with random weights."""
    m = Maker(seed)
    r, tensor = m.random, m.spec.tensor
    x = tensor("x", "int8", (batches, size), scale=(0.05,), zero_point=(int(r.integers(-90, 90)),))
    m.spec.inputs.append(x)
    data = r.integers(-127, 128, (filters, size)).astype(weights)
    features = tensor("features", weights, data.shape, scale=(0.01,), zero_point=(0,), data=data)
    scale = 0.002 if kind == "int16" else 0.05
    limit = np.iinfo(kind).max // 2
    data = r.integers(-limit, limit + 1, (filters, memory)).astype(kind)
    times = tensor("times", kind, data.shape, scale=(scale,), zero_point=(0,), data=data)
    units = filters // rank
    # The bias counts in the scale of the sums: both scales of the second part.
    data = r.integers(-2000, 2000, units).astype(np.int32)
    bias = tensor("bias", "int32", (units,), scale=(scale * scale,), zero_point=(0,), data=data)
    state = tensor("line", kind, (batches, filters * memory), scale=(scale,), zero_point=(0,), variable=True)
    out = float(np.float32(scale * scale * limit * limit / 40))
    y = tensor("y", "int8", (batches, units), scale=(out,), zero_point=(int(r.integers(-20, 20)),))
    fields = {"Rank": rank, "FusedActivationFunction": seed % 2}
    m.spec.add("SVDF", (x, features, times, bias, state), y, ("SVDFOptions", fields))
    return m.finish(y)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_svdf(shape: tuple[int, int, int, int, int, str], tmp_path: Path) -> None:
    agree(svdf(SHAPES.index(shape), *shape), tmp_path, 1, runs=shape[3] + 2)


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
@pytest.mark.parametrize("core", [Core.CORTEX_M0, Core.CORTEX_M4, Core.CORTEX_M55], ids=lambda c: c.value)
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
