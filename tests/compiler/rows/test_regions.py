# SPDX-License-Identifier: Apache-2.0
"""Rings, memory and choice of regions: small graphs worked out by hand, and models whose figures are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corpus import CORPUS
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import DepthwiseConv2D
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.passes.edges import strip_conversions
from mlf_sdk.compiler.rows.memory import InputMode, OperatorMemory, RowMemory
from mlf_sdk.compiler.rows.pull import Pulled, Region
from mlf_sdk.compiler.rows.search import front
from mlf_sdk.compiler.rows.slots import shared_slots
from mlf_sdk.compiler.schedule import Choice, candidates
from mlf_sdk.compiler.tflite.load import load_tflite
from row_regions import lost_row
from tflite_models import Maker

Build = Callable[[Maker], int]


def graph_of(build: Build, folder: Path) -> Graph:
    """The graph of a model as it is read."""
    m = Maker(1)
    path = folder / "model.tflite"
    path.write_bytes(m.finish(build(m)))
    return load_tflite(path)


def whole_region(graph: Graph, mode: InputMode = InputMode.WHOLE) -> tuple[RowMemory, Region, Pulled]:
    """All of a graph as one region, with kernels that need no scratch."""
    memory = RowMemory(graph, [OperatorMemory()] * len(graph.operators), mode)
    found = memory.region(0, len(memory.operators))
    assert found is not None
    return memory, found[0], found[2]


def rings_of(region: Region, pulled: Pulled) -> list[int]:
    """Rows of the rings, in the order of the values that they hold."""
    return [pulled.rings[v] for v in sorted(pulled.rings)]


def chain(*layers: tuple[int, int, int]) -> Build:
    """Layers of (size, stride, dilation), SAME, over 12 x 4 pixels of 4 channels."""

    def build(m: Maker) -> int:
        x = m.input((1, 12, 4, 4))
        for size, stride, dilation in layers:
            x = m.conv(x, 4, (size, size), stride, same=True, dilation=dilation)
        return x

    return build


def residual(m: Maker) -> int:
    """A sum of an image and of three 3x3 convolutions of it."""
    x = y = m.logistic(m.input((1, 8, 4, 4)))
    for _ in range(3):
        y = m.conv(y, 4, (3, 3), 1, same=True)
    return m.logistic(m.binary("ADD", x, y))


def separable(m: Maker) -> int:
    """1x1, depthwise 3x3, 1x1."""
    x = m.conv(m.input((1, 8, 4, 4)), 8, (1, 1), 1, same=True)
    x = m.conv(x, 8, (3, 3), 1, same=True, depthwise=True)
    return m.conv(x, 4, (1, 1), 1, same=True)


@pytest.mark.parametrize(
    ("build", "rings"),
    [
        (chain((1, 1, 1), (1, 1, 1)), [1]),
        (chain((1, 1, 1), (3, 1, 1)), [3]),
        (chain((3, 1, 1), (3, 2, 1), (5, 1, 1)), [3, 5]),
        (chain((1, 1, 1), (3, 1, 2)), [5]),  # (3 - 1) * 2 + 1
        (residual, [4, 3, 3, 1, 1]),  # the image waits for a row of each convolution
        (separable, [3, 1]),
    ],
)
def test_rings_of_a_region(build: Build, rings: list[int], tmp_path: Path) -> None:
    _, region, pulled = whole_region(graph_of(build, tmp_path))
    assert rings_of(region, pulled) == rings


@pytest.mark.parametrize(
    "build", [chain((1, 1, 1), (3, 1, 1)), chain((3, 1, 1), (3, 2, 1), (5, 1, 1)), residual, separable]
)
@pytest.mark.parametrize("mode", InputMode)
def test_a_ring_of_one_row_less_loses_a_row(build: Build, mode: InputMode, tmp_path: Path) -> None:
    _, region, pulled = whole_region(graph_of(build, tmp_path), mode)
    assert lost_row(region, pulled.order, pulled.rings) == ""
    assert pulled.rings
    for value, rows in pulled.rings.items():
        assert lost_row(region, pulled.order, {**pulled.rings, value: rows - 1}).endswith("was overwritten")


def test_a_firing_too_early_is_noticed(tmp_path: Path) -> None:
    _, region, pulled = whole_region(graph_of(chain((1, 1, 1), (3, 1, 1)), tmp_path))
    assert pulled.order[:3] == (0, 0, 1)
    assert lost_row(region, (0, 1), pulled.rings).endswith("row 1 was not made yet")


def test_an_output_that_lies_over_the_input(tmp_path: Path) -> None:
    """Rows of 16 bytes: output row y is written when rows up to y + 1 were read by a layer of 3x3."""
    graph = graph_of(chain((3, 1, 1), (1, 1, 1)), tmp_path)
    memory, _, pulled = whole_region(graph)
    assert pulled.distances == {(graph.outputs[0], graph.inputs[0]): 16}
    # input and output of 192 bytes, 16 apart, and a ring of a row
    assert memory.interval(0, 2) == 192 + 16 + 16
    assert memory.interval(0, 1) == 2 * 192


def test_an_input_that_is_streamed(tmp_path: Path) -> None:
    graph = graph_of(chain((3, 2, 1), (1, 1, 1)), tmp_path)
    memory, _, pulled = whole_region(graph, InputMode.STREAMED)
    assert pulled.rings[graph.inputs[0]] == 3
    # three rows of 16 bytes, one of 8 in 16, and the output of 6 rows of 2 pixels
    assert memory.interval(0, 2) == 48 + 16 + 48


def test_a_depthwise_row_takes_the_slot_of_its_input(tmp_path: Path) -> None:
    graph = graph_of(separable, tmp_path)
    _, region, pulled = whole_region(graph)
    wide, deep = (graph.operators[i].outputs[0] for i in (0, 1))
    assert shared_slots(region, pulled.rings, [frozenset({0})] * 3) == {deep: wide}


def test_values_that_live_across_a_region_count(tmp_path: Path) -> None:
    graph = graph_of(residual, tmp_path)
    memory, *_ = whole_region(graph)
    # the image is read by the sum later: it stays beside the output and the ring of two convolutions
    assert memory.interval(1, 3) == 128 + 128 + 3 * 16


def test_the_front_of_a_choice() -> None:
    """Least RAM first, then cuts of fewer fused operators."""
    sizes = {(0, 1): 100, (1, 2): 80, (2, 3): 50, (0, 2): 60, (1, 3): 70, (0, 3): 40}
    found = front(3, lambda a, b: sizes[a, b])
    assert [(one.peak_bytes, one.cost, one.intervals) for one in found] == [
        (40, 2, ((0, 3),)),
        (60, 1, ((0, 2), (2, 3))),
        (100, 0, ((0, 1), (1, 2), (2, 3))),
    ]


def test_intervals_that_cannot_run_by_rows_are_left_out() -> None:
    sizes = {(0, 1): 100, (1, 2): 80, (2, 3): 50, (1, 3): 20}
    found = front(3, lambda a, b: sizes.get((a, b)))
    assert [one.intervals for one in found] == [((0, 1), (1, 2), (2, 3))]
    with pytest.raises(ValueError, match="operator 1 can't run by itself"):
        front(2, lambda a, b: 1 if a == 0 and b == 1 else None)


_BLOCK_COLUMNS, _BLOCK_CHANNELS = 14, 16  # of depthwise rows in blocks


def kernel_memory(graph: Graph, *, blocks: bool) -> list[OperatorMemory]:
    """Memory of today's kernels; depthwise rows of 3x3 in blocks, which plain layers may use, too."""
    found = []
    for operator in graph.operators:
        kernel = next(iter(candidates(graph, operator, Choice(core=core_named("cortex-m4")))), None)
        if kernel is None:
            found.append(OperatorMemory())
            continue
        whole = rows = kernel.workspace_bytes
        if isinstance(operator, DepthwiseConv2D):
            _, _, width, channels = graph.values[operator.inputs[0]].shape
            columns = min(width + 2, _BLOCK_COLUMNS + operator.window.stride[1] - 1)
            block = 8 * columns * min(channels, _BLOCK_CHANNELS)
            rows = min(rows, block) if kernel.family == "depthwise_3x3" else 0  # others pad rows in a ring
            whole = min(whole, block) if blocks and kernel.family == "depthwise_3x3" else whole
        found.append(
            OperatorMemory(workspace_bytes=whole, overlaps=kernel.overlaps, row_workspace_bytes=rows)
        )
    return found


_SHARED = CORPUS.parent / "tflite"


@pytest.mark.parametrize(
    ("path", "layers", "whole", "streamed"),
    [
        (_SHARED / "resnet8_int8.tflite", 34736, 17728, 17120),
        (_SHARED / "kws_int8.tflite", 11392, 5872, 5488),
        (_SHARED / "vww_int8.tflite", 43904, 28080, 15456),
        (CORPUS / "cfu_playground_mnv2_model_mobilenetv2_160_035.tflite", 342144, 82432, 32640),
        (CORPUS / "mcux_sdk_middleware_eiq_tflite_mobilenetv1_model_data.tflite", 74880, 49616, 22016),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else str(value),
)
def test_models_whose_figures_are_known(path: Path, layers: int, whole: int, streamed: int) -> None:
    """Another program's exact search found these bytes; kernels that need less scratch may give fewer."""
    if not path.exists():
        pytest.skip(f"no {path.parent.name}/{path.name} beside the project")
    graph = improve(strip_conversions(load_tflite(path)))
    plain = RowMemory(graph, kernel_memory(graph, blocks=False))
    alone = [plain.interval(k, k + 1) or 0 for k in range(len(plain.operators))]
    assert 0.95 * layers <= max(alone) <= layers
    kernels = kernel_memory(graph, blocks=True)
    for mode, known in ((InputMode.WHOLE, whole), (InputMode.STREAMED, streamed)):
        memory = RowMemory(graph, kernels, mode, most=max(alone))
        best = front(len(memory.operators), memory.interval, longest=14)[0]
        assert 0.98 * known <= best.peak_bytes <= known
        for start, end in best.intervals:
            found = memory.region(start, end) if end - start > 1 else None
            if found is not None:
                region, _, pulled = found
                assert lost_row(region, pulled.order, pulled.rings) == ""
                for value, rows in pulled.rings.items():
                    assert lost_row(region, pulled.order, {**pulled.rings, value: rows - 1})
