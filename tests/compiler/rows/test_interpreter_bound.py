# SPDX-License-Identifier: Apache-2.0
"""Balanced models take no more RAM than an interpreter, whose kernels need no scratch."""

from __future__ import annotations

from pathlib import Path

import pytest

from agreement import agree
from corpus import CORPUS
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Fused
from mlf_sdk.compiler.options import CompileOptions, Goal
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.direct import model_of
from mlf_sdk.ir.model import FileDigest
from mlf_sdk.planner.layout import lay_out
from tflite_models import Maker

M4 = Choice(core=core_named("cortex-m4"))

# Arena of the interpreter of the wheel tflite-micro 0.dev20261009205824, as it prints it.
TFLM = {
    "tinymaix_tflite_cifar10_q": 14_320,
    "mlonmcu_models_cnn_s_quantized_cnn_s_quantized": 12_640,
    "secda_tflite_models_dcgan_disc": 28_656,
    "tensorflow_micropython_examples_unix_model": 6_836,
}


def large_windows() -> bytes:
    """Windows of many channels, whose unpacked values are as large as the maps."""
    m = Maker(2)
    x = m.conv(m.input((1, 24, 16, 3)), 32, (5, 5), 1, same=True)
    x = m.conv(x, 32, (5, 5), 2, same=True)
    return m.finish(m.dense(m.conv(x, 16, (5, 5), 2, same=True), 4))


def arena_of(compiled: CompiledGraph) -> int:
    return lay_out(
        model_of(compiled, CompileOptions(), FileDigest(name="a.tflite", sha256="0" * 64), "TFLite")
    ).arena_bytes


def side_by_side(graph: Graph) -> int:
    """Most bytes of the inputs and outputs of a layer of a chain."""
    sizes = [
        sum(v.size_bytes for v in (*graph.read(o), *graph.written(o)) if v.data is None)
        for o in graph.operators
    ]
    return max(sizes)


def test_scratch_that_is_larger_than_what_overlaps_save(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(large_windows())
    graph = load_tflite(path)
    compiled = compile_graph(graph, M4)
    assert any(isinstance(one.operator, Fused) for one in compiled.operators)
    assert arena_of(compiled) <= side_by_side(graph) + 2560
    agree(large_windows(), tmp_path, 3, choice=M4)


def test_other_models_run_layer_by_layer(tmp_path: Path) -> None:
    m = Maker(2)
    x = m.conv(m.input((1, 24, 16, 8)), 8, (3, 3), 1, same=True)
    path = tmp_path / "model.tflite"
    path.write_bytes(m.finish(m.conv(x, 8, (3, 3), 1, same=True, depthwise=True)))
    compiled = compile_graph(load_tflite(path), M4)
    assert not any(isinstance(one.operator, Fused) for one in compiled.operators)


def test_a_small_model_keeps_its_fast_kernels(tmp_path: Path) -> None:
    """A dense layer whose scratch exceeds the bound, in an arena of less than 4 KiB."""
    m = Maker(2)
    path = tmp_path / "model.tflite"
    path.write_bytes(m.finish(m.dense(m.input((1, 720)), 64)))
    graph = load_tflite(path)
    m3 = core_named("cortex-m3")
    balanced, least = (
        compile_graph(graph, Choice(core=m3, goal=goal)).operators[0].kernel
        for goal in (Goal.BALANCED, Goal.RAM)
    )
    assert balanced is not None
    assert least is not None
    assert side_by_side(graph) + 2560 < side_by_side(graph) + balanced.workspace_bytes <= 4096
    assert least.workspace_bytes < balanced.workspace_bytes


@pytest.mark.parametrize("name", TFLM)
def test_models_of_the_corpus(name: str) -> None:
    path = CORPUS / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"{name} is not here")
    assert arena_of(compile_graph(load_tflite(path), M4)) <= TFLM[name]
