# SPDX-License-Identifier: Apache-2.0
"""Winograd's convolution for cores with many registers and no SIMD, against sums of products of windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiled_models import KernelRunner
from core_images import MACHINES, run_on_core
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.kernels import winograd_tiles
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.rescale import Form
from mlf_sdk.compiler.kernels.winograd_code import (
    SQUARES,
    record_input,
    record_outputs,
    record_products,
)
from mlf_sdk.compiler.microkernels.builder import Builder
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import assembly
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from random_windows import random_windows
from recorded import outcome
from tflite_models import Maker

RV32 = core_named("rv32imac")
TARGET = instruction_set("rv32im")
TILES, CHANNELS, IC = 2, 4, 8


def ran(part: Builder, folder: Path, name: str, *arguments: np.ndarray | int) -> np.ndarray:
    """Contents of an array after a microkernel, each in a folder of its own; it can be written as assembly."""
    own = folder / f"{name}{len([*folder.iterdir()])}"
    own.mkdir()
    assembly(part, TARGET)
    return outcome(part, own, *arguments, target="rv32im")[name]


@pytest.mark.parametrize("form", [Form.FINE, Form.SIGNED, Form.SINGLE])
@pytest.mark.parametrize("m", [2, 4])
def test_squares_by_three_microkernels(m: int, form: Form, tmp_path: Path) -> None:
    """Bytes and weights at their limits, to stored outputs; each microkernel in C and in numpy."""
    random, squares = np.random.default_rng(m), SQUARES[m]
    side, row = m + 2, 5 + (m * TILES + 2) * IC
    x = random.choice([-128, -127, -3, 0, 90, 127], (side, row)).astype(np.int8)
    w = random.choice([-128, -1, 0, 2, 127], (CHANNELS, 3, 3, IC)).astype(np.int8)
    x[:m, : 3 * IC], w[0, :2], w[1, 1:] = -128, 127, -128  # the largest sums
    v, part = np.zeros((IC, squares.places, TILES), np.int16), record_input(m, TILES, IC)
    for tile in range(TILES):
        from_tile = np.ascontiguousarray(x.reshape(-1)[tile * m * IC :])
        one = ran(part, tmp_path, "v", from_tile, np.zeros(v.size, np.int16), row)
        v[..., tile] = one.reshape(v.shape)[..., 0]

    u = squares.transformed(w)
    stream = u.reshape(CHANNELS, -1).T.reshape(-1)
    part = record_products(m, TILES, CHANNELS)
    sums = np.zeros(squares.places * TILES * CHANNELS, np.int32)
    sums = ran(part, tmp_path, "s", v.reshape(-1), stream, sums, 2 * v.size).astype(np.int32)

    fine, oc = form is not Form.SINGLE, CHANNELS + 3
    starts, r = (
        random.integers(-9999, 9999, CHANNELS),
        random.integers(0, 190 << (8 if fine else 4), CHANNELS),
    )
    given = [np.full(CHANNELS, 1 << 26), r]
    given += [] if form is Form.FINE else [np.full(CHANNELS, -9 if fine else 4)]
    epilogue = Epilogue(form, 8 if fine else 0, (-100, 90), len(given))
    part = record_outputs(m, TILES, TILES, CHANNELS, oc, epilogue)
    table = np.concatenate([starts * (256 if fine else 1), *given]).astype(np.int32)
    distance = m * TILES * oc + 2
    y = ran(part, tmp_path, "y", sums, table, np.zeros(m * distance, np.int8), distance)

    pixels = x.astype(np.int64)[:, : (m * TILES + 2) * IC].reshape(side, -1, IC)
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (3, 3), axis=(0, 1))
    total = np.einsum("rcihw,ohwi->rco", windows, w.astype(np.int64)) + starts
    high = total * (256 if fine else 2) * (1 << 26)
    high = (high >> 32) + r if fine else ((high + (1 << 31)) >> 32) + r
    high = high + np.where(total < 0, -9, 0) if form is Form.SIGNED else high
    wanted = np.clip(high >> (8 if fine else 4), 0, 190) - 100
    got = y.reshape(m, distance)[:, : m * TILES * oc].reshape(m, m * TILES, oc)
    np.testing.assert_array_equal(got[..., :CHANNELS], wanted)
    assert len({*wanted.ravel()}) > 3 and not got[..., CHANNELS:].any()


LAYERS = [
    (4, 4, 8, 4, True), (5, 7, 12, 8, True), (6, 17, 8, 9, False), (9, 18, 16, 7, True), (2, 9, 12, 6, True),
    (8, 8, 20, 11, True), (11, 6, 8, 4, False), (3, 2, 16, 8, True),
]  # fmt: skip
"""Rows and columns, channels of the input and of the output, padding: extents that no block fits."""


def compiled(case: tuple[int, int, int, int, bool], folder: Path) -> CompiledGraph:
    height, width, inputs, outputs, same = case
    m = Maker(height * width)
    x = m.input((1, height, width, inputs))
    x = m.conv(x, outputs, (3, 3), 1, same=same, activation=width % 2)
    (folder / "model.tflite").write_bytes(m.finish(x))
    return compile_graph(load_tflite(folder / "model.tflite"), Choice(core=RV32, goal=Goal.SPEED))


@pytest.mark.parametrize("case", LAYERS)
def test_layers(case: tuple[int, int, int, int, bool], tmp_path: Path) -> None:
    found = compiled(case, tmp_path)
    assert [c.kernel.family for c in found.operators if c.kernel] == ["conv_winograd"]
    for seed in range(2):
        x = np.random.default_rng(seed).integers(-128, 128, (1, *case[:3])).astype(np.int8)
        (got,) = KernelRunner(archive_of(found), tmp_path, exact=True).run([x])
        (wanted,) = Interpreter(load_tflite(tmp_path / "model.tflite")).run([x])
        np.testing.assert_array_equal(got.reshape(-1), wanted.reshape(-1))
        assert len({*wanted.ravel()}) > 2


@pytest.mark.qemu
@pytest.mark.skipif(bool(MACHINES[RV32].missing), reason=f"not installed: {MACHINES[RV32].missing}")
def test_a_layer_on_a_core_takes_fewer_instructions(tmp_path: Path) -> None:
    fast = run_on_core(compiled((9, 18, 16, 7, True), tmp_path), RV32, tmp_path)
    usual = compile_graph(load_tflite(tmp_path / "model.tflite"), Choice(core=RV32))
    ((_, usual_count),) = run_on_core(usual, RV32, tmp_path)
    assert fast[0][1] < 0.8 * usual_count


def test_layers_of_other_kinds(tmp_path: Path) -> None:
    """None with a stride, other windows, channels that fill no turn, or a map without a square."""
    for size, stride, inputs, outputs, extent in (
        ((3, 3), 2, 8, 8, 9), ((3, 2), 1, 8, 8, 9), ((3, 3), 1, 6, 8, 9), ((3, 3), 1, 4, 8, 9),
        ((3, 3), 1, 8, 3, 9), ((3, 3), 1, 8, 8, 1),
    ):  # fmt: skip
        m = Maker(1)
        y = m.conv(m.input((1, extent, extent, inputs)), outputs, size, stride, same=True)
        (tmp_path / "model.tflite").write_bytes(m.finish(y))
        graph = load_tflite(tmp_path / "model.tflite")
        assert winograd_tiles.convolution(Contraction.of(graph, graph.operators[0])) is None


def test_random_networks_of_windows_have_both_squares(tmp_path: Path) -> None:
    """What `make operators` draws by WINDOWS is what these kernels are for, on maps that no square fits, too."""
    variants: set[str] = set()
    for seed in range(12):
        (tmp_path / "model.tflite").write_bytes(random_windows(seed).file())
        graph = load_tflite(tmp_path / "model.tflite")
        kernels = [winograd_tiles.convolution(Contraction.of(graph, one)) for one in graph.operators]
        variants |= {"none" if kernel is None else kernel.variant for kernel in kernels}
    assert variants == {"none", "F(2x2, 3x3)", "F(4x4, 3x3)"}
