# SPDX-License-Identifier: Apache-2.0
"""Every pass keeps the outputs of random networks of both formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.passes import PASSES
from mlf_sdk.compiler.passes.rewrite import Rewrite, remove_unread
from mlf_sdk.errors import MlfError
from pass_checks import changed, graph_of
from random_networks import random_network
from tflite_models import Maker


@pytest.mark.parametrize("seed", range(30))
def test_networks_of_tflite(seed: int, tmp_path: Path) -> None:
    network = random_network(1000 + seed, ("int8", "float32", "int16")[seed % 3])
    changed(graph_of(network.file(), tmp_path), seed=seed)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of what is drawn: numbers may be infinite
@pytest.mark.parametrize("seed", range(30))
def test_networks_of_onnx(seed: int, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    from mlf_sdk.compiler.onnx.load import load_onnx
    from onnx_drawing import network

    path = tmp_path / "model.onnx"
    path.write_bytes(network(1000 + seed, style="qdq").model().SerializeToString())
    try:
        graph = load_onnx(path)
    except MlfError:
        pytest.skip("not read")
    changed(graph, seed=seed)


def test_names_of_passes_are_what_they_do() -> None:
    assert all(
        change.__doc__ and change.__module__.startswith("mlf_sdk.compiler.passes.") for change in PASSES
    )


def test_operators_whose_results_nothing_reads_go(tmp_path: Path) -> None:
    m = Maker(1)
    x = m.input((1, 4, 4, 3))
    m.pool(m.conv(x, 8, (1, 1), 1, same=True), 2, largest=False)
    kept = m.conv(x, 4, (1, 1), 1, same=True)
    before = graph_of(m.finish(kept), tmp_path)
    assert len(before.operators) == 3
    assert len(remove_unread(before).operators) == 1


def test_a_value_that_stands_for_another_has_its_name(tmp_path: Path) -> None:
    m = Maker(2)
    layer = m.conv(m.input((1, 4, 4, 3)), 8, (1, 1), 1, same=True)
    before = graph_of(m.finish(m.pool(layer, 1, largest=False)), tmp_path)
    rewrite = Rewrite(before)
    rewrite.redirect(before.outputs[0], before.operators[0].outputs[0])
    after: Graph = rewrite.finish()
    operators: tuple[Operator, ...] = after.operators
    assert [o.kind for o in operators] == ["CONV_2D"]
    assert after.values[after.outputs[0]].name == before.values[before.outputs[0]].name
