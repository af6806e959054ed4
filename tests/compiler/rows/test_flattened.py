# SPDX-License-Identifier: Apache-2.0
"""Dense layers that take the map before them row by row: chosen where that takes less RAM, else left as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agreement import agree, random_inputs
from compiled_models import KernelRunner, PlannedRunner
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.dense_by_rows import dense_rows
from mlf_sdk.compiler.operators import Conv2D, FullyConnected, Fused, Reshape
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.rows.choose import row_choices
from mlf_sdk.compiler.rows.flattened import through_reshapes, with_reshapes
from mlf_sdk.compiler.schedule import Choice, candidates
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from row_networks import flattened, keyword
from tflite_models import Maker

RAM = Choice(goal=Goal.RAM, core=core_named("cortex-m4"))


def read(model: bytes, folder: Path) -> Graph:
    path = folder / "model.tflite"
    path.write_bytes(model)
    return load_tflite(path)


def test_the_map_before_a_dense_layer_is_never_there(tmp_path: Path) -> None:
    """A row of 80 bytes and four sums take the place of 960 bytes; the input of 480 stays."""
    m = Maker(5)
    graph = read(m.finish(keyword(m)), tmp_path)
    choices = row_choices(improve(graph), lambda part, one: candidates(part, one, RAM))
    assert choices.cuts[-1].peak_bytes >= 480 + 960
    found = compile_graph(graph, RAM)
    (region,) = (one.operator for one in found.operators if isinstance(one.operator, Fused))
    assert [layer.kind for layer in region.operators] == ["CONV_2D", "FULLY_CONNECTED"]
    assert "layer 2: FULLY_CONNECTED " in found.code.own
    files = archive_of(found)
    made = PlannedRunner(KernelRunner(files, tmp_path), files, tmp_path)
    assert made.layout.arena_bytes <= choices.cuts[0].peak_bytes * 1.06 < 480 + 960
    inputs = random_inputs(graph, np.random.default_rng(1))
    assert made.run(inputs) == [x.tobytes() for x in Interpreter(graph).run(inputs)]


@pytest.mark.parametrize("seed", range(3))
def test_kernels_reference_and_tflm_agree(seed: int, tmp_path: Path) -> None:
    m = Maker(seed)
    agree(m.finish(keyword(m)), tmp_path, seed, choice=RAM)


def test_what_is_not_fused_is_flattened_again(tmp_path: Path) -> None:
    m = Maker(5)
    graph = improve(read(m.finish(flattened(m)), tmp_path))
    seen = through_reshapes(graph)
    assert [type(o) for o in graph.operators] == [Conv2D, Conv2D, Reshape, FullyConnected]
    assert [type(o) for o in seen.operators] == [Conv2D, Conv2D, FullyConnected]
    assert seen.operators[2].inputs[0] == graph.operators[2].inputs[0]
    assert with_reshapes(seen, graph) == graph


def test_a_flattened_map_that_others_read_stays(tmp_path: Path) -> None:
    m = Maker(5)
    x = m.conv(m.input((1, 6, 5, 4)), 8, (3, 3), 1, same=True)
    shape = m.spec.tensor("shape", "int32", (2,), data=np.array([1, 240], np.int32))
    flat = m.spec.add("RESHAPE", (x, shape), m.same_scale(x, (1, 240)), ("ReshapeOptions", {}))
    graph = improve(read(m.finish(m.dense(flat, 6), m.logistic(flat)), tmp_path))
    seen = through_reshapes(graph)
    assert len(seen.operators) == len(graph.operators)
    assert sum(one.inputs[0] == graph.operators[1].inputs[0] for one in seen.operators) == 2
    assert with_reshapes(seen, graph) == graph


def test_weights_are_those_of_the_rows(tmp_path: Path) -> None:
    """Rows of 15 bytes, whose weights of seven outputs are filled up to whole words."""
    m = Maker(5)
    graph = read(m.finish(m.dense(m.input((1, 2, 5, 3)), 7)), tmp_path)
    (operator,) = graph.operators
    assert isinstance(operator, FullyConnected)
    layer = Contraction.of(graph, operator)
    found = dense_rows(layer, 2)
    assert found is not None and found.stride == 108
    for kernel in found.kernels:
        parts = kernel.constants[0].reshape(2, 108)[:, :105].reshape(2, 7, 15)
        np.testing.assert_array_equal(np.concatenate([*parts], axis=1), layer.rows)
