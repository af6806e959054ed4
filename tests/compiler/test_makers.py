# SPDX-License-Identifier: Apache-2.0
"""Every maker of kernels in the schedule: models of the tests draw each of them, and what they give is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agreement import random_inputs
from kernel_checks import all_choices, checks_of, trace
from kernel_library import KernelLibrary
from maker_graphs import detection, graphs, onnx, state
from makers import counted_makers, made_kernels
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.tflite.load import load_tflite
from onnx_models import OnnxMaker

# TVM makes these where it is installed, outside of the choice of kernels; tests/compiler/onnx/test_tvm.py runs them.
ELSEWHERE = ["Generated custom:generated"]


def test_every_maker_is_drawn(tmp_path: Path) -> None:
    """A maker that no model of the tests reaches is compared with nothing: give it a case."""
    with counted_makers() as drawn:
        for _ in made_kernels(map(improve, graphs(tmp_path))):
            pass
    assert [name for name in drawn.never if name not in ELSEWHERE] == []


@pytest.mark.parametrize("make", [state, detection, onnx], ids=lambda make: make.__name__)
def test_kernels_that_networks_do_not_draw(
    make: Callable[[], Graph | bytes | OnnxMaker], tmp_path: Path
) -> None:
    subject = make()
    if isinstance(subject, bytes):
        (tmp_path / "m.tflite").write_bytes(subject)
        subject = load_tflite(tmp_path / "m.tflite")
    elif isinstance(subject, OnnxMaker):
        subject = load_onnx(subject.save(tmp_path / "m.onnx", "lstm6"))
    graph, random = improve(subject), np.random.default_rng(3)
    traced = trace(graph, [random_inputs(graph, random) for _ in range(3)])
    checks = checks_of(make.__name__, graph, traced, all_choices(core_named("generic")))
    library = KernelLibrary(checks, tmp_path)
    assert checks and [fault for check in checks for fault in library.faults(check)] == []
