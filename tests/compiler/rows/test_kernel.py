# SPDX-License-Identifier: Apache-2.0
"""Regions that run by rows give the bytes of their layers run one after the other, and those of TFLM."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
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
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.operators import Fused, Operator
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.rows.fused import fuse
from mlf_sdk.compiler.rows.needs import firings_of
from mlf_sdk.compiler.rows.pull import Pulled, Region, region_of
from mlf_sdk.compiler.rows.tiles import row_tiles
from mlf_sdk.compiler.schedule import Choice, candidates
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.compiler.tuning import kernels_of
from mlf_sdk.frontends.mlf.compiled import archive_of
from tflite_models import Maker

Build = Callable[[Maker], int]
M4 = Choice(core=core_named("cortex-m4"))


def pair(m: Maker) -> int:
    """A convolution and a depthwise one."""
    x = m.conv(m.input((1, 9, 6, 4)), 8, (3, 3), 1, same=True)
    return m.conv(x, 8, (3, 3), 1, same=True, depthwise=True)


def separable(m: Maker) -> int:
    """Two blocks of a MobileNet, the second of stride 2."""
    x = m.conv(m.input((1, 12, 10, 4)), 8, (3, 3), 2, same=True, activation=1)
    x = m.conv(m.conv(x, 8, (3, 3), 1, same=True, depthwise=True, activation=3), 12, (1, 1), 1, same=True)
    x = m.conv(m.conv(x, 12, (3, 3), 2, same=True, depthwise=True), 16, (1, 1), 1, same=True)
    return m.conv(x, 16, (3, 3), 1, same=True, depthwise=True)


def residual(m: Maker) -> int:
    """A sum of an image and of two convolutions of it."""
    x = m.conv(m.input((1, 8, 5, 4)), 8, (3, 3), 1, same=True)
    y = m.conv(m.conv(x, 8, (3, 3), 1, same=True), 8, (3, 3), 1, same=True)
    return m.conv(m.binary("ADD", x, y), 4, (3, 3), 2, same=True)


def shared_slots(m: Maker) -> int:
    """Rows of depthwise layers and of operands lie where others end: MobileNetV2's block between other layers."""
    x = m.conv(m.input((1, 9, 6, 4)), 8, (1, 1), 1, same=True)
    y = m.conv(m.conv(x, 16, (1, 1), 1, same=True), 16, (3, 3), 1, same=True, depthwise=True)
    x = m.binary("ADD", x, m.conv(y, 8, (1, 1), 1, same=True))
    x = m.conv(m.conv(x, 8, (5, 5), 2, same=True, depthwise=True), 4, (1, 1), 1, same=True)
    return m.binary("MUL", m.logistic(x), x)


def two_branches(m: Maker) -> int:
    """Branches of windows and strides that differ, added."""
    x = m.conv(m.input((1, 8, 8, 4)), 8, (1, 1), 1, same=True)
    y = m.conv(x, 8, (5, 3), 2, same=True)
    return m.binary("ADD", y, m.conv(x, 8, (1, 1), 2, same=True))


def pooled(m: Maker) -> int:
    """Pooling, a table, and a factor a channel."""
    x = m.pool(m.conv(m.input((1, 10, 8, 4)), 8, (3, 3), 1, same=True), 2, largest=True)
    x = m.pool(m.logistic(x), 2, largest=False)
    return m.binary("MUL", x, m.input((1, 1, 1, 8)))


def reduced(m: Maker) -> int:
    """The average of all pixels of a map, and a table behind it."""
    x = m.conv(m.input((1, 9, 7, 4)), 8, (3, 3), 1, same=True)
    x = m.pool(m.conv(x, 8, (3, 3), 1, same=True, depthwise=True), 9, largest=False)
    return m.logistic(x)


def largest(m: Maker) -> int:
    """The largest value of each channel of a map of two rows."""
    return m.pool(m.conv(m.input((1, 2, 5, 4)), 8, (3, 3), 1, same=True), 5, largest=True)


def dilated(m: Maker) -> int:
    """Windows with gaps, of even size, and without padding."""
    x = m.conv(m.input((1, 16, 8, 4)), 4, (3, 3), 1, same=True, dilation=2)
    x = m.conv(x, 4, (3, 3), 1, same=True, depthwise=True, dilation=3)
    return m.conv(m.conv(x, 8, (2, 2), 1, same=False), 4, (4, 4), 2, same=True)


def tall(m: Maker) -> int:
    """Maps of one column; windows that are larger than the map."""
    x = m.conv(m.input((1, 7, 1, 4)), 8, (5, 1), 2, same=True)
    return m.conv(m.conv(x, 8, (7, 1), 1, same=True), 4, (3, 1), 3, same=True)


def wide(m: Maker) -> int:
    """Depthwise layers of more columns than a block has, of both strides, and with no padding."""
    x = m.conv(m.input((1, 8, 31, 4)), 16, (1, 1), 1, same=True)
    x = m.conv(m.conv(x, 16, (3, 3), 1, same=True, depthwise=True), 8, (1, 1), 1, same=True)
    x = m.conv(m.conv(x, 8, (3, 3), 1, same=False, depthwise=True), 8, (1, 1), 1, same=True)
    x = m.conv(m.conv(x, 8, (3, 3), 2, same=True, depthwise=True), 12, (1, 1), 1, same=True)
    return m.conv(x, 12, (3, 3), 2, same=False, depthwise=True)


def stacked(m: Maker) -> int:
    """Depthwise layers behind each other, and rows of one that a sum reads as well."""
    x = m.conv(m.input((1, 7, 6, 4)), 8, (1, 1), 1, same=True)
    x = m.conv(m.conv(x, 8, (3, 3), 1, same=True, depthwise=True), 8, (3, 3), 1, same=True, depthwise=True)
    y = m.conv(x, 8, (3, 3), 1, same=True, depthwise=True)
    return m.conv(m.binary("ADD", x, y), 4, (1, 1), 1, same=True)


def narrow_bytes(m: Maker) -> int:
    """Rows of ten bytes, which begin within words: the first layer of a network of spectra."""
    x = m.conv(m.input((1, 13, 10, 1)), 8, (5, 4), 1, same=True)
    return m.conv(m.conv(x, 8, (3, 3), 2, same=True, depthwise=True), 8, (1, 1), 1, same=True)


BUILDS = [
    wide,
    stacked,
    narrow_bytes,
    pair,
    separable,
    residual,
    shared_slots,
    two_branches,
    pooled,
    reduced,
    largest,
    dilated,
    tall,
]


def both(build: Build, folder: Path) -> tuple[bytes, Graph, Graph]:
    """A model, its graph, and the improved graph with all of it fused."""
    m = Maker(3)
    model = m.finish(build(m))
    path = folder / "model.tflite"
    path.write_bytes(model)
    graph = load_tflite(path)
    improved = improve(graph)
    return model, graph, fuse(improved, improved.operators)


def two_rows(graph: Graph, choice: Choice, scratch_bytes: int) -> Graph:
    """The graph of one region, whose operators make two rows at once where they can, in little scratch."""
    (fused,) = graph.operators
    assert isinstance(fused, Fused)

    def kernels(part: Graph, one: Operator) -> Iterator[Kernel]:
        return candidates(part, one, choice)

    lines = []
    for operator in fused.operators:
        firings = firings_of(graph, operator, 2)
        found = firings is not None and firings.lines == 2
        tiles = row_tiles(graph, operator, firings, kernels, scratch_bytes) if found and firings else ()
        lines.append(2 if tiles else 1)
    region = dataclasses.replace(fused, lines=tuple(lines), scratch_bytes=scratch_bytes)
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
    runner = KernelRunner(archive_of(compiled(fused, choice)), tmp_path, exact=True)
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
    runner = KernelRunner(archive_of(compiled(found, M4)), tmp_path, exact=True)
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
    for scratch_bytes in (64, 1024) if core == "cortex-m4" else ():
        folder = tmp_path / str(scratch_bytes)
        folder.mkdir()
        run_on_core(compiled(two_rows(fused, choice, scratch_bytes), choice), core_named(core), folder)


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


@pytest.mark.parametrize("build", [pair, separable, residual, shared_slots, two_branches, dilated, tall])
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
        (got,) = KernelRunner(_without_overlaps(archive_of(code)), folder).run(inputs)
        assert (got.reshape(-1) != wanted.reshape(-1)).any(), value
        monkeypatch.undo()


def _without_overlaps(files: dict[str, bytes]) -> dict[str, bytes]:
    """An archive that states no overlaps, so that a wrong kernel is not replayed at them."""
    metadata = msgspec.json.decode(files["metadata.json"])
    for module in metadata["modules"].values():
        for call in module["mlf_sdk"]["calls"].values():
            call.pop("overlaps", None)
    return {**files, "metadata.json": msgspec.json.encode(metadata)}
