# SPDX-License-Identifier: Apache-2.0
"""Inputs that come row by row: the bytes of whole inputs, in rings none of which could be smaller."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

from agreement import random_inputs
from compiled_models import KernelRunner, NoRoomError, PlannedRunner
from corpus import CORPUS
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Fused
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.passes.edges import strip_conversions
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.rows.pull import Pulled, Region, region_of
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.direct import model_of
from mlf_sdk.frontends.mlf.compiled import archive_of
from mlf_sdk.frontends.mlf.load import load_model
from mlf_sdk.frontends.mlf.writer import tar_of
from mlf_sdk.ir.model import FileDigest
from row_networks import (
    Build,
    dilated,
    flattened,
    narrow_bytes,
    pair,
    reduced,
    residual,
    separable,
    shared_slots,
    stacked,
    tall,
    two_branches,
    two_rows_dense,
    whole_network,
    wide,
)
from tflite_models import Maker

M4 = core_named("cortex-m4")
GOALS = [Goal.RAM, Goal.BALANCED]


def narrow(m: Maker) -> int:
    """Rows of 6 bytes, two of which begin at whole words: a spectrogram."""
    return m.conv(m.input((1, 13, 6, 1)), 8, (5, 4), 2, same=True)


def skipping(m: Maker) -> int:
    """Rows that no window reads, the last ones among them."""
    return m.conv(m.conv(m.input((1, 14, 4, 4)), 8, (1, 1), 3, same=False), 4, (3, 3), 1, same=True)


def narrow_skipping(m: Maker) -> int:
    """Rows of 6 bytes of which every second one is read."""
    return m.conv(m.conv(m.input((1, 11, 6, 1)), 4, (1, 1), 2, same=False), 4, (3, 3), 1, same=True)


def done_early(m: Maker) -> int:
    """An input of which one layer reads the first row alone, and another one all rows."""
    x = m.input((1, 8, 8, 4))
    size = m.spec.tensor("size", "int32", (2,), data=np.array([1, 1], np.int32))
    nearest = ("ResizeNearestNeighborOptions", {"AlignCorners": False, "HalfPixelCenters": False})
    top = m.spec.add("RESIZE_NEAREST_NEIGHBOR", (x, size), m.same_scale(x, (1, 1, 1, 4)), nearest)
    return m.binary("ADD", m.pool(m.conv(x, 4, (3, 3), 1, same=True), 8, largest=False), top)


def twice(m: Maker) -> int:
    """An input that two layers read, one of them later rows."""
    x = m.input((1, 9, 5, 4))
    return m.binary("ADD", m.conv(m.conv(x, 4, (3, 3), 1, same=True), 4, (3, 3), 1, same=True), x)


BUILDS = [
    pair, separable, residual, shared_slots, two_branches, reduced, dilated, tall, narrow, skipping,
    narrow_skipping, twice, done_early, whole_network, wide, stacked, narrow_bytes, flattened,
    two_rows_dense,
]  # fmt: skip


def graph_of(build: Build, folder: Path, seed: int = 3) -> Graph:
    m = Maker(seed)
    path = folder / "model.tflite"
    path.write_bytes(m.finish(build(m)))
    return load_tflite(path)


def streamed(graph: Graph, goal: Goal, core: str = "cortex-m4") -> CompiledGraph:
    return compile_graph(graph, Choice(goal=goal, stream=True, core=core_named(core)))


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("goal", GOALS)
def test_rows_give_the_bytes_of_a_whole_input(build: Build, goal: Goal, tmp_path: Path) -> None:
    """Whatever number of rows comes at once; each tensor in memory of its own, and as planned."""
    graph = graph_of(build, tmp_path)
    files = archive_of(streamed(graph, goal))
    runner = KernelRunner(files, tmp_path, ("-O2" if goal is Goal.RAM else "-O0",))
    planned = PlannedRunner(runner, files, tmp_path)
    assert planned.layout.model.streamed == planned.layout.model.inputs[0]
    random = np.random.default_rng(7)
    for _ in range(3):
        inputs = random_inputs(graph, random)
        wanted = [x.tobytes() for x in Interpreter(graph).run(inputs)]
        assert [x.tobytes() for x in runner.run(inputs)] == wanted
        assert planned.run(inputs) == wanted


@pytest.mark.parametrize(
    "build", [build for build in BUILDS if build is not whole_network]
)  # softmax hides much
def test_a_ring_of_one_row_less_is_noticed(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_of(build, tmp_path)
    found = streamed(graph, Goal.RAM)
    region = next(one.operator for one in found.operators if isinstance(one.operator, Fused))
    rings = region_of(found.graph, region).pull().rings
    inputs = random_inputs(graph, np.random.default_rng(7))
    wanted = [x.tobytes() for x in Interpreter(graph).run(inputs)]
    usual = Region.pull
    shortened = [value for value, rows in rings.items() if rows > 1]
    assert region.streamed[0] in rings
    for value in shortened:

        def pull(region: Region, ahead: Mapping[int, int] | None = None, short: int = value) -> Pulled:
            found = usual(region, ahead)
            rings = {v: rows - 1 if v == short and rows > 1 else rows for v, rows in found.rings.items()}
            return msgspec.structs.replace(found, rings=rings)

        monkeypatch.setattr(Region, "pull", pull)
        folder = tmp_path / str(value)
        folder.mkdir()
        runner = KernelRunner(archive_of(streamed(graph, Goal.RAM)), folder, ("-O0",))
        try:
            got = [x.tobytes() for x in runner.run(inputs)]
        except NoRoomError:
            got = []
        assert got != wanted, graph.values[value].name if value < len(graph.values) else value
        monkeypatch.undo()


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m3", "cortex-m33"])
def test_kernels_of_other_cores(core: str, tmp_path: Path) -> None:
    graph = graph_of(separable, tmp_path)
    runner = KernelRunner(archive_of(streamed(graph, Goal.RAM, core)), tmp_path)
    inputs = random_inputs(graph, np.random.default_rng(7))
    (wanted,) = Interpreter(graph).run(inputs)
    np.testing.assert_array_equal(runner.run(inputs)[0].reshape(-1), wanted.reshape(-1))


def test_an_archive_says_the_same_as_the_compiler(tmp_path: Path) -> None:
    found = streamed(graph_of(whole_network, tmp_path), Goal.RAM)
    path = tmp_path / "model.tar"
    path.write_bytes(tar_of(archive_of(found)))
    from mlf_sdk.compiler.options import CompileOptions

    direct = model_of(found, CompileOptions(), FileDigest(name="x", sha256=""), "TFLite")
    read = load_model(path)
    assert read.steps[0].stream == direct.steps[0].stream is not None
    assert read.stream == read.steps[0].stream
    assert all(read.streamed not in step.arguments for step in read.steps)


def several(m: Maker) -> int:
    return m.binary("ADD", m.input((1, 4, 4, 4)), m.input((1, 4, 4, 4)))


def flat(m: Maker) -> int:
    return m.dense(m.input((1, 64)), 8)


def backwards(m: Maker) -> int:
    return m.softmax(m.input((1, 4, 4, 4)))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (several, "2 inputs"),
        (flat, "has no rows"),
        (backwards, r"layer 0 \(SOFTMAX\) can't run by rows"),
    ],
)
def test_models_that_are_refused(build: Build, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said) as caught:
        streamed(graph_of(build, tmp_path), Goal.BALANCED)
    assert caught.value.where == "--stream"


@pytest.mark.parametrize(("name", "most"), [("resnet8_int8", 13800), ("vww_int8", 14300), ("kws_int8", 5300)])
def test_arenas_of_models_that_are_known(name: str, most: int, tmp_path: Path) -> None:
    path = CORPUS.parent / "tflite" / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no tflite/{path.name} beside the project")
    graph = strip_conversions(load_tflite(path))
    files = archive_of(streamed(graph, Goal.RAM))
    planned = PlannedRunner(KernelRunner(files, tmp_path), files, tmp_path)
    assert planned.layout.arena_bytes <= most
    inputs = random_inputs(graph, np.random.default_rng(1))
    assert planned.run(inputs) == [x.tobytes() for x in Interpreter(graph).run(inputs)]
