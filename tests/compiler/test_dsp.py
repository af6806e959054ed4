# SPDX-License-Identifier: Apache-2.0
"""Kernels for cores with the DSP extension at the limits of numbers: on the core, and their plain C on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiled_models import KernelRunner
from core_images import MISSING, run_on_core
from mlf_sdk.compiler.build import CompiledGraph, compile_graph, with_kernels
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels import conv_2ch_int8
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice, Counted
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from tflite_models import Maker

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}"),
]


M4 = Choice(core=core_named("cortex-m4"))


def proven(model: bytes, folder: Path, *families: str, goal: Goal = Goal.BALANCED) -> None:
    """Inputs at their limits and random ones give what the reference gives, everywhere."""
    path = folder / "model.tflite"
    path.write_bytes(model)
    graph = load_tflite(path)
    compiled = compile_graph(graph, Choice(core=core_named("cortex-m4"), goal=goal))
    kernels = [c.kernel.family for c in compiled.operators if c.kernel is not None]
    assert {*families} <= {*kernels}, kernels
    equal_at_limits(graph, compiled, folder)


def equal_at_limits(graph: Graph, compiled: CompiledGraph, folder: Path) -> None:
    """A compiled graph gives what the reference gives, on the host and on the core."""
    shape = graph.values[graph.inputs[0]].shape
    odd = np.indices(shape).sum(axis=0) % 2 == 1
    given = [np.full(shape, -128), np.full(shape, 127), np.where(odd, 127, -128)]
    given.append(np.random.default_rng(sum(shape)).integers(-128, 128, shape))
    runner = KernelRunner(archive_of(compiled), folder, exact=True)
    for number, x in enumerate(x.astype(np.int8) for x in given):
        for got, wanted in zip(runner.run([x]), Interpreter(graph).run([x]), strict=True):
            np.testing.assert_array_equal(got, wanted)
        if number == 2:
            run_on_core(compiled, core_named("cortex-m4"), folder, given=x)


def limited(m: Maker, x: int, y: int, zero_point: int) -> bytes:
    """The model with weights of its last layer at their limits, so that sums are as large as they can be."""
    layer = m.spec.operators[-1]
    weights = m.spec.tensors[layer.inputs[1]]
    assert weights.data is not None
    weights.scale = tuple(float(np.float32(0.01 + 0.0001 * i)) for i in range(len(weights.scale)))
    rows = np.moveaxis(weights.data, weights.axis, 0)
    most = min(127, ((1 << 23) - 20_000) // (128 * rows[0].size))  # of sums times 256
    rows[0], rows[1] = most, -most
    rows[-1][::2], rows[-1][1::2] = -most, most
    m.spec.tensors[x].zero_point, m.spec.tensors[y].zero_point = (0,), (zero_point,)
    return m.finish(y)


@pytest.mark.parametrize(
    ("shape", "outputs", "size", "stride"),
    [
        ((1, 2, 9, 3), 6, (3, 3), 1),  # the last word of a row of the window holds one byte
        ((1, 5, 8, 16), 4, (3, 3), 1),  # 36 words: no loop
        ((1, 3, 7, 1), 8, (2, 5), 1),
        ((1, 3, 6, 50), 4, (3, 3), 2),  # 114 words: a loop, and words in front of it
        ((1, 4, 4, 37), 10, (1, 1), 1),
        ((1, 1, 3, 6), 4, (1, 1), 1),
        ((1, 1, 2, 8), 4, (1, 1), 1),
    ],
)
@pytest.mark.parametrize("zero_point", [-128, 7])
def test_tiles_of_two_channels(
    shape: tuple[int, ...], outputs: int, size: tuple[int, int], stride: int, zero_point: int, tmp_path: Path
) -> None:
    m = Maker(sum(shape))
    x = m.input(shape)
    y = m.conv(x, outputs, size, stride, same=True, activation=int(zero_point == -128))
    family = "conv_1x1_2ch" if size == (1, 1) else "conv_2ch"
    proven(limited(m, x, y, zero_point), tmp_path, family)


@pytest.mark.parametrize(
    ("shape", "size", "stride"),
    [
        ((1, 5, 8, 3), (3, 3), 1),  # the last word of a row of the window holds one byte
        ((1, 4, 7, 1), (2, 5), 1),
        ((1, 5, 9, 32), (3, 3), 2),
        ((1, 4, 8, 64), (3, 3), 1),
        ((1, 3, 6, 50), (1, 3), 1),  # one row of the window
    ],
)
def test_tiles_whose_copy_of_windows_lies_in_their_buffer(
    shape: tuple[int, ...], size: tuple[int, int], stride: int, tmp_path: Path
) -> None:
    """Bytes that were written over before they are read would change the outputs: the host's runs show it."""
    m = Maker(sum(shape))
    x = m.input(shape)
    y = m.conv(x, 6, size, stride, same=True)
    path = tmp_path / "model.tflite"
    path.write_bytes(limited(m, x, y, 7))
    graph = load_tflite(path)
    layer = Contraction.of(graph, graph.operators[0])
    for pixels in (4, 3, 2):
        layout = conv_2ch_int8.layout_of(layer, pixels, lambda layout, n: layout.ow / n)
        assert layout is not None and layout.pixels == pixels
        layout.overlay_patch()
        kernel = conv_2ch_int8.of_layout(layer, layout)
        assert kernel is not None
        assert layout.buffer_bytes <= kernel.workspace_bytes < layout.buffer_bytes + layout.patch_bytes
        folder = tmp_path / str(pixels)
        folder.mkdir()
        equal_at_limits(graph, with_kernels(graph, [(Counted(kernel=kernel),)]), folder)


@pytest.mark.parametrize(
    ("height", "width", "channels", "same"),
    [
        *((3 + width % 2, width, 4, True) for width in (1, 2, 3, 4, 5, 7)),
        *((4 - width % 2, width, 8, False) for width in (3, 6, 7)),
        (1, 5, 4, True),
        (3, 40, 104, True),  # rows of output further apart than the offset of a store
        (2, 5, 256, True),  # two columns are as far as a load reaches
        (2, 4, 344, True),  # one column is
    ],
)
def test_blocks_of_a_depthwise_layer(
    height: int, width: int, channels: int, same: bool, tmp_path: Path
) -> None:
    m = Maker(width)
    x = m.input((1, height, width, channels))
    y = m.conv(x, channels, (3, 3), 1, same=same, depthwise=True)
    proven(limited(m, x, y, -128 if width % 3 else 20), tmp_path, "depthwise_3x3", goal=Goal.SPEED)


@pytest.mark.parametrize("zero_point", [-128, 7])
@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (128, 20),  # no loop, no rest
        (96, 33),  # a rest of eight
        (9, 24),  # inputs that no four divides, a rest of four
        (640, 28),  # a loop
    ],
)
def test_five_outputs_at_a_time(inputs: int, outputs: int, zero_point: int, tmp_path: Path) -> None:
    m = Maker(inputs)
    x = m.input((1, inputs))
    y = m.dense(x, outputs, largest=127 if inputs < 200 else 60)
    proven(limited(m, x, y, zero_point), tmp_path, "dense_5rows")


@pytest.mark.qemu
@pytest.mark.parametrize(("inputs", "outputs"), [(12, 3), (64, 4), (4000, 4), (100, 1), (512, 2)])
@pytest.mark.parametrize("largest", [127, 128])
def test_few_outputs_need_no_widened_input(inputs: int, outputs: int, largest: int, tmp_path: Path) -> None:
    """Weights of -128 take words of bytes, others words of two numbers."""
    m = Maker(inputs + outputs)
    x = m.input((1, inputs))
    y = m.dense(x, outputs, scales=outputs)
    weights = m.spec.tensors[m.spec.operators[-1].inputs[1]].data
    assert weights is not None
    weights.flat[:: max(1, inputs // 7)] = 127 if largest == 127 else -128
    model = m.finish(y)
    proven(model, tmp_path, "dense")
    (kernel,) = (c.kernel for c in compile_graph(load_tflite(tmp_path / "model.tflite"), M4).operators)
    assert kernel is not None and kernel.workspace_bytes == 0
