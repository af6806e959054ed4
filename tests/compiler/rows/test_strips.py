# SPDX-License-Identifier: Apache-2.0
"""Vertical strips give the bytes of the layers on the whole image, in less RAM where the input is the caller's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agreement import Tflm, random_inputs, runtime
from compiled_models import KernelRunner
from mlf_sdk.compiler.build import CompiledGraph, compile_within, with_kernels
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.layer import STRIP, detail_of
from mlf_sdk.compiler.operators import Conv2D, DepthwiseConv2D, Fused, Operator
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.rows import strips
from mlf_sdk.compiler.rows.strips import in_strips
from mlf_sdk.compiler.schedule import Choice, kernels_of
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.direct import model_of
from mlf_sdk.frontends.mlf.compiled import archive_of
from mlf_sdk.ir.model import FileDigest
from mlf_sdk.planner.layout import lay_out
from random_rows import random_rows
from row_networks import (
    Build,
    camera,
    pooled,
    residual,
    separable,
    stacked,
    two_branches,
    whole_network,
    wide,
)
from row_regions import with_longest_regions
from tflite_models import Maker

M4 = Choice(core=core_named("cortex-m4"), caller_inputs=True)


def rescaled(m: Maker) -> int:
    """A map of three channels that elements and windows read: rows in rings are whole words whatever the strip."""
    x = m.logistic(m.input((1, 12, 21, 3)))
    x = m.conv(m.conv(x, 8, (3, 3), 2, same=True), 8, (5, 5), 1, same=True, depthwise=True)
    return m.conv(x, 8, (3, 3), 2, same=False)


def graph_of(build: Build, folder: Path) -> tuple[bytes, Graph]:
    m = Maker(5)
    model = m.finish(build(m))
    path = folder / "model.tflite"
    path.write_bytes(model)
    return model, load_tflite(path)


def all_strips(graph: Graph) -> list[Graph]:
    found = [in_strips(graph, n, k) for n in range(1, len(graph.operators) + 1) for k in strips.COUNTS]
    return [one for one in found if one is not None]


@pytest.mark.parametrize("build", [separable, residual, stacked, two_branches, wide, rescaled, whole_network])
def test_strips_equal_the_whole(build: Build, tmp_path: Path) -> None:
    """By the reference, of as many first layers as can be, and by TFLM."""
    model, graph = graph_of(build, tmp_path)
    oracle = Tflm(model) if runtime is not None else None
    inputs = random_inputs(graph, np.random.default_rng(1))
    (wanted,) = Interpreter(graph).run(inputs)
    cut = all_strips(improve(graph))
    assert len(cut) >= 3
    for one in cut:
        np.testing.assert_array_equal(Interpreter(one).run(inputs)[0], wanted)
    if oracle is not None:
        np.testing.assert_array_equal(oracle.run(inputs, 1)[0].reshape(-1), wanted.reshape(-1))


def test_random_networks(tmp_path: Path) -> None:
    """Strides, dilations, padding and pooling of any kind, residuals: each cut that there is."""
    count = 0
    for seed in range(40):
        path = tmp_path / "model.tflite"
        path.write_bytes(random_rows(seed).file())
        graph = load_tflite(path)
        inputs = random_inputs(graph, np.random.default_rng(seed))
        wanted = [y.tobytes() for y in Interpreter(graph).run(inputs)]
        for one in all_strips(improve(graph)):
            assert [y.tobytes() for y in Interpreter(one).run(inputs)] == wanted, f"seed {seed}"
            count += 1
    assert count >= 50


@pytest.mark.parametrize("build", [separable, residual, rescaled])
def test_kernels_of_strips(build: Build, tmp_path: Path) -> None:
    """All layers in three strips, each one region, the join in what follows: rings begin at whole words."""
    _, graph = graph_of(build, tmp_path)
    improved = improve(graph)
    cut = in_strips(improved, len(improved.operators), 3)
    assert cut is not None
    fused = with_longest_regions(cut, M4)
    assert len(fused.operators) < 4
    runner = KernelRunner(archive_of(with_kernels(fused, kernels_of(fused, M4, None))), tmp_path, exact=True)
    for seed in range(2):
        inputs = random_inputs(graph, np.random.default_rng(seed))
        np.testing.assert_array_equal(
            runner.run(inputs)[0].reshape(-1), Interpreter(graph).run(inputs)[0].reshape(-1)
        )


@pytest.mark.parametrize("side", [0, 1])
def test_a_halo_of_one_column_less_is_noticed(
    side: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, graph = graph_of(rescaled, tmp_path)
    inputs = random_inputs(graph, np.random.default_rng(2))
    (wanted,) = Interpreter(graph).run(inputs)
    usual = strips.columns_read

    def narrow(one: Graph, operator: Operator, columns: tuple[int, int]) -> tuple[int, int]:
        first, last = usual(one, operator, columns)
        if not isinstance(operator, Conv2D | DepthwiseConv2D):
            return first, last
        return (first + 1, last) if side == 0 and first > 0 else (first, last - side)

    monkeypatch.setattr(strips, "columns_read", narrow)
    improved = improve(graph)
    cut = in_strips(improved, len(improved.operators), 2)
    assert cut is not None
    assert (Interpreter(cut).run(inputs)[0] != wanted).any()


def test_what_cannot_be_cut(tmp_path: Path) -> None:
    _, graph = graph_of(pooled, tmp_path)
    improved = improve(graph)
    assert in_strips(improved, len(improved.operators), 2) is None  # a second input
    _, graph = graph_of(residual, tmp_path)
    improved = improve(graph)
    assert in_strips(improved, 2, 2) is None  # two values are read later
    assert in_strips(improved, len(improved.operators), 4) is None  # three columns


def within(graph: Graph, most_bytes: int, choice: Choice) -> CompiledGraph:
    """A compiled graph whose inputs are the caller's, and whose arena has so many bytes at most."""
    options = CompileOptions(core=choice.core.name, caller_inputs=choice.caller_inputs)
    digest = FileDigest(name="model.tflite", sha256="0" * 64)

    def arena_of(compiled: CompiledGraph) -> int:
        return lay_out(model_of(compiled, options, digest, "TFLite")).arena_bytes

    return compile_within(graph, choice, most_bytes, arena_of)


def test_a_bound_of_the_arena_chooses_strips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where no regions of whole rows fit."""
    monkeypatch.setattr(strips, "COUNTS", (2,))
    _, graph = graph_of(camera, tmp_path)
    with pytest.raises(InputError, match="at least") as caught:
        within(graph, 1, M4)
    least = int(caught.value.what.split(" bytes")[0].rpartition(" ")[2].replace(",", ""))
    found = within(graph, least, M4)
    regions = [one.operator for one in found.operators if isinstance(one.operator, Fused)]
    details = [detail_of(one) for one in regions]
    assert any(detail.endswith(", strip 2 of 2") for detail in details), details
    plain = within(graph, 3 * least, M4)
    assert not any(one.operator.kind.startswith(STRIP) for one in plain.operators)
    runner = KernelRunner(archive_of(found), tmp_path, exact=True)
    inputs = random_inputs(graph, np.random.default_rng(4))
    np.testing.assert_array_equal(
        runner.run(inputs)[0].reshape(-1), Interpreter(graph).run(inputs)[0].reshape(-1)
    )
