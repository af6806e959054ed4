# SPDX-License-Identifier: Apache-2.0
"""SVDF layers: several runs of one state against TFLM, on cores with and without DSP instructions."""

from __future__ import annotations

from pathlib import Path

import pytest

from agreement import agree
from core_images import MISSING, run_on_core
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.options import Core
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError
from small_models import svdf

# Inputs, filters, rank, entries of a line, batches, type of lines and their weights.
SHAPES = [
    (16, 8, 1, 8, 1, "int16"),
    (9, 6, 2, 6, 1, "int16"),
    (5, 7, 1, 5, 1, "int16"),
    (4, 6, 3, 2, 2, "int16"),
    (13, 4, 1, 1, 1, "int16"),
    (7, 10, 2, 4, 2, "int8"),
]


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
