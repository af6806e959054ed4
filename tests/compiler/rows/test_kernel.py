# SPDX-License-Identifier: Apache-2.0
"""Regions that run by rows give the bytes of their layers run one after the other, and those of TFLM."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

from agreement import Tflm, random_inputs, runtime
from compiled_models import KernelRunner
from core_images import run_on_core
from mlf_sdk.compiler.build import CompiledGraph, with_kernels
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import DepthwiseConv2D, Fused
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.rows.flattened import through_reshapes
from mlf_sdk.compiler.rows.fused import fuse
from mlf_sdk.compiler.rows.pull import Pulled, Region, region_of
from mlf_sdk.compiler.schedule import Choice, kernels_of
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from row_networks import (
    BUILDS,
    Build,
    dilated,
    flattened,
    odd_windows,
    pair,
    replaced_twice,
    residual,
    separable,
    shared_slots,
    stacked,
    tall,
    two_branches,
    wide,
)
from row_regions import has_rows, tiles_of
from tflite_models import Maker

M4 = Choice(core=core_named("cortex-m4"))


def both(build: Build, folder: Path) -> tuple[bytes, Graph, Graph]:
    """A model, its graph, and the improved graph with all of it fused."""
    m = Maker(3)
    model = m.finish(build(m))
    path = folder / "model.tflite"
    path.write_bytes(model)
    graph = load_tflite(path)
    improved = through_reshapes(improve(graph))
    return model, graph, fuse(improved, improved.operators)


def two_rows(graph: Graph, choice: Choice, scratch_bytes: int) -> Graph:
    """The graph of one region, whose operators make two rows at once where they can, in little scratch."""
    (fused,) = graph.operators
    assert isinstance(fused, Fused)
    lines = tuple(2 if has_rows(graph, one, choice, 2) else 1 for one in fused.operators)
    region = dataclasses.replace(fused, lines=lines, scratch_bytes=scratch_bytes)
    return dataclasses.replace(graph, operators=(region,))


def compiled(graph: Graph, choice: Choice) -> CompiledGraph:
    """Kernels by rule for a graph as it is."""
    found = with_kernels(graph, kernels_of(graph, choice, None))
    assert all(one.kernel is not None for one in found.operators)
    return found


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(
    "choice",
    [M4, Choice(core=core_named("cortex-m3")), Choice(core=core_named("cortex-m0")), Choice(goal=Goal.SPEED)],
    ids=lambda choice: f"{choice.core.name}-{choice.goal.value}",
)
def test_a_region_equals_its_layers(build: Build, choice: Choice, tmp_path: Path) -> None:
    """At every distance that the kernel states between input and output, too."""
    model, graph, fused = both(build, tmp_path)
    flags = ("-O2" if choice is M4 else "-O0",)
    runner = KernelRunner(archive_of(compiled(fused, choice)), tmp_path, flags, exact=True)
    oracle = Tflm(model) if runtime is not None else None
    random = np.random.default_rng(7)
    for _ in range(3):
        inputs = random_inputs(graph, random)
        (wanted,) = Interpreter(graph).run(inputs)
        answers = [*runner.run(inputs), *Interpreter(fused).run(inputs)]
        answers += oracle.run(inputs, 1) if oracle is not None else []
        for found in answers:
            np.testing.assert_array_equal(found.reshape(-1), wanted.reshape(-1))


@pytest.mark.parametrize("scratch_bytes", [64, 512, 8192])
@pytest.mark.parametrize("build", [pair, separable, shared_slots, wide, stacked])
def test_two_rows_at_once_and_blocks_of_any_size(build: Build, scratch_bytes: int, tmp_path: Path) -> None:
    _, graph, fused = both(build, tmp_path)
    found = two_rows(fused, M4, scratch_bytes)
    (region,) = found.operators
    assert isinstance(region, Fused) and 2 in region.lines
    runner = KernelRunner(archive_of(compiled(found, M4)), tmp_path, ("-O0",), exact=True)
    for inputs in (random_inputs(graph, np.random.default_rng(seed)) for seed in range(2)):
        (wanted,) = Interpreter(graph).run(inputs)
        (got,) = runner.run(inputs)
        np.testing.assert_array_equal(got.reshape(-1), wanted.reshape(-1))


@pytest.mark.parametrize("build", [odd_windows, separable, stacked, wide])
def test_depthwise_rows_without_padded_copies(build: Build, tmp_path: Path) -> None:
    """Scratch is two pixels, whatever the width: the output lies over the first row of the windows."""
    choice = Choice(core=core_named("cortex-m0"))
    _, graph, fused = both(build, tmp_path)
    for one in fused.operators[0].operators:  # type: ignore[attr-defined]
        if isinstance(one, DepthwiseConv2D):
            kernel = tiles_of(improve(graph), one, choice)[0].kernel
            pixel = fused.values[one.outputs[0]].shape[3]
            copies = one.window.before[1] > one.window.stride[1]  # two columns would have to be kept
            assert (kernel.workspace_bytes > 2 * pixel) == copies and 0 in kernel.overlaps
    runner = KernelRunner(archive_of(compiled(fused, choice)), tmp_path, exact=True)
    for inputs in (random_inputs(graph, np.random.default_rng(seed)) for seed in range(2)):
        (wanted,) = Interpreter(graph).run(inputs)
        (got,) = runner.run(inputs)
        np.testing.assert_array_equal(got.reshape(-1), wanted.reshape(-1))


@pytest.mark.qemu
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4"])
def test_a_region_on_an_emulated_core(build: Build, core: str, tmp_path: Path) -> None:
    """Rows begin where a core without unaligned loads can read them."""
    _, _, fused = both(build, tmp_path)
    choice = Choice(core=core_named(core))
    run_on_core(compiled(fused, choice), core_named(core), tmp_path)
    if core == "cortex-m4":
        twice = two_rows(fused, choice, (64, 1024)[BUILDS.index(build) % 2])
        run_on_core(compiled(twice, choice), core_named(core), tmp_path)


def test_a_mean_of_one_row_is_computed_as_a_whole(tmp_path: Path) -> None:
    m = Maker(1)
    axes = m.spec.tensor("axes", "int32", (2,), data=np.array([1, 2], np.int32))
    y = m.activation((1, 8))
    path = tmp_path / "model.tflite"
    inputs = (m.input((1, 1, 5, 8)), axes)
    path.write_bytes(m.finish(m.spec.add("MEAN", inputs, y, ("ReducerOptions", {"KeepDims": False}))))
    graph = improve(load_tflite(path))
    assert not has_rows(graph, graph.operators[0], M4)


def test_one_step_with_a_workspace_and_an_overlap(tmp_path: Path) -> None:
    """Three rows of 48 bytes and the largest scratch; the output may lie over rows of the input that were read."""
    _, _, fused = both(pair, tmp_path)
    (one,) = compiled(fused, M4).operators
    kernel = one.kernel
    assert kernel is not None and kernel.family == "rows"
    pulled = region_of(fused, fused.operators[0]).pull() if isinstance(fused.operators[0], Fused) else None
    assert pulled is not None and list(pulled.rings.values()) == [3]
    assert 3 * 48 < kernel.workspace_bytes < 3 * 48 + 1024
    # the last row of 48 bytes is written when all 9 rows of 24 were read: earlier rows lie further in front
    assert kernel.overlaps == {0: 9 * 48 - 9 * 24}


def test_rows_that_are_replaced_twice_keep_off_the_input(tmp_path: Path) -> None:
    """Their first bytes are written, where the output goes, when row 7 of the input is still read."""
    _, _, fused = both(replaced_twice, tmp_path)
    (one,) = compiled(fused, M4).operators
    assert one.kernel is not None and one.kernel.overlaps == {0: 8 * 16 - 7 * 8}


@pytest.mark.parametrize(
    "build", [flattened, pair, separable, residual, shared_slots, two_branches, dilated, tall]
)
def test_a_ring_of_one_row_less_gives_other_bytes(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, graph, fused = both(build, tmp_path)
    (operator,) = fused.operators
    assert isinstance(operator, Fused)
    rings = region_of(fused, operator).pull().rings
    inputs = random_inputs(graph, np.random.default_rng(7))
    (wanted,) = Interpreter(graph).run(inputs)
    usual = Region.pull
    shortened = [value for value, rows in rings.items() if rows > 1]
    assert shortened
    for value in shortened:

        def pull(region: Region, ahead: Mapping[int, int] | None = None, short: int = value) -> Pulled:
            found = usual(region, ahead)
            return msgspec.structs.replace(found, rings={**found.rings, short: found.rings[short] - 1})

        monkeypatch.setattr(Region, "pull", pull)
        folder = tmp_path / str(value)
        folder.mkdir()
        code = compiled(fused, Choice())
        (got,) = KernelRunner(_without_overlaps(archive_of(code)), folder, ("-O0",)).run(inputs)
        assert (got.reshape(-1) != wanted.reshape(-1)).any(), value
        monkeypatch.undo()


def _without_overlaps(files: dict[str, bytes]) -> dict[str, bytes]:
    """An archive that states no overlaps, so that a wrong kernel is not replayed at them."""
    metadata = msgspec.json.decode(files["metadata.json"])
    for module in metadata["modules"].values():
        for call in module["mlf_sdk"]["calls"].values():
            call.pop("overlaps", None)
    return {**files, "metadata.json": msgspec.json.encode(metadata)}
