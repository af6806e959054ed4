# SPDX-License-Identifier: Apache-2.0
"""Kernels for vectors of any length (RISC-V's V): as recorded, in C, and on emulated cores of several lengths."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from compiled_models import KernelRunner
from core_images import MACHINES, emulator, image_text, link, run_on_core, vectors_of
from interpret import interpret
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.kernels import lanes, lanes_common, lanes_depthwise, lanes_elements
from mlf_sdk.compiler.kernels.rescale import Form
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import assembly
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from recorded import outcome, run_c
from tflite_models import Maker

CORE = core_named("rv32imac_zve32x")
TARGET = instruction_set("zve32x")
on_core = pytest.mark.skipif(bool(MACHINES[CORE].missing), reason=f"not installed: {MACHINES[CORE].missing}")
BOTH = [(Form.SINGLE, (-128, 127)), (Form.DOUBLE, (-100, 90))]


def words(random: np.random.Generator, channels: int) -> np.ndarray:
    """Bias, multiplier, addend without its half, and shift of each channel, shape (4, channels)."""
    low, high = [-2000, 1 << 29, -200, 5], [2000, 1 << 30, 200, 9]
    return random.integers(low, high, (channels, 4)).T


def stored(sums: np.ndarray, given: np.ndarray, epilogue: Epilogue) -> np.ndarray:
    """Results of sums, shape (..., channels)."""
    bias, m, r, n = given
    values = (2 * (sums + bias) * m + (1 << 31)) >> 32
    values = values + (values >> 31) if epilogue.form is Form.DOUBLE else values
    return np.clip((values + r + (1 << (n - 1))) >> n, *epilogue.clamp)


@pytest.mark.parametrize(("form", "clamp"), BOTH)
@pytest.mark.parametrize(
    ("run", "channels", "columns", "group", "pixels"), [(5, 37, 7, 8, 3), (21, 16, 4, 4, 4), (12, 3, 1, 2, 1)]
)
def test_pixels_by_lanes(
    run: int, channels: int, columns: int, group: int, pixels: int, form: Form, clamp: tuple[int, int], tmp_path: Path
) -> None:  # fmt: skip
    """More channels than lanes, and fewer pixels in the last tile."""
    random, distance = np.random.default_rng(run), run - 2
    x = random.integers(-128, 128, distance * columns + run)
    w, p = random.integers(-128, 128, (run, channels)), words(random, channels)
    epilogue = Epilogue(form, 0, clamp, 3)
    b = lanes.record(lanes.LanesTile(1, run, distance, channels, columns, group, pixels), epilogue)
    arrays = x.astype(np.int8), w.astype(np.int8).reshape(-1), p.astype(np.int32).reshape(-1)
    y = outcome(b, tmp_path, *arrays, np.zeros(columns * channels + 5, np.int8), channels, target="zve32x")[
        "y"
    ]
    windows = np.stack([x[at * distance : at * distance + run] for at in range(columns)])
    wanted = stored(windows @ w, p, epilogue)
    np.testing.assert_array_equal(y[: columns * channels].reshape(columns, -1), wanted)
    assert len({*wanted.ravel()}) > 2 and not y[columns * channels :].any()
    assembly(b, TARGET)


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(("form", "clamp"), BOTH)
def test_rows_of_windows(depthwise: bool, form: Form, clamp: tuple[int, int], tmp_path: Path) -> None:
    random, (kh, kw), stride, channels, columns, depth = np.random.default_rng(1), (3, 2), 2, 19, 5, 3
    depth = channels if depthwise else depth
    rows = random.integers(-128, 128, (kh, 1, (columns * stride + kw) * depth))
    shape = (kh * kw, channels) if depthwise else (kh * kw * depth, channels)
    w, p, epilogue = random.integers(-128, 128, shape), words(random, channels), Epilogue(form, 0, clamp, 3)
    if depthwise:
        tile = lanes_depthwise.DepthwiseTile((kh, kw), stride, channels, columns, 8, 3)
        b = lanes_depthwise.record(tile, epilogue)
    else:
        b = lanes.record(lanes.LanesTile(kh, kw * depth, stride * depth, channels, columns, 4, 2), epilogue)
    y, got = np.zeros((1, columns * channels), np.int64), np.zeros(columns * channels, np.int8)
    name = b.parameters[0].name
    given = {name: [(row, 0) for row in rows], "w": w.reshape(1, -1), "p": p.reshape(1, -1), "y": y}
    interpret(b, TARGET.meanings, given, n=channels)
    bytes_, weights, table = (
        rows.astype(np.int8),
        w.astype(np.int8).reshape(-1),
        p.astype(np.int32).reshape(-1),
    )
    places = np.array([row.ctypes.data for row in bytes_], np.uintp)
    run_c(b, TARGET.meanings, tmp_path, places, weights, table, got, channels)
    pixels = rows.reshape(kh, -1, depth)
    windows = np.stack([pixels[:, at * stride : at * stride + kw] for at in range(columns)])
    sums = (
        np.einsum("oijc,ijc->oc", windows, w.reshape(kh, kw, channels))
        if depthwise
        else windows.reshape(columns, -1) @ w
    )
    wanted = stored(sums, p, epilogue)
    np.testing.assert_array_equal(y[0].reshape(columns, -1), wanted)
    np.testing.assert_array_equal(got.reshape(columns, -1), wanted)
    assert len({*wanted.ravel()}) > 2
    assembly(b, TARGET)


def folder(parent: Path, name: str) -> Path:
    """A folder of its own for each library that a test loads."""
    (parent / name).mkdir()
    return parent / name


def test_sums_and_averages(tmp_path: Path) -> None:
    random, n = np.random.default_rng(0), 35
    one, other = random.integers(-128, 128, (2, n)).astype(np.int8)
    b = lanes_elements.record_sum(4, -100, 90)
    y = outcome(
        b,
        folder(tmp_path, "sum"),
        one,
        other,
        np.zeros(n, np.int8),
        n,
        9,
        -5 & 0xFFFFFFFF,
        -3 & 0xFFFFFFFF,
        target="zve32x",
    )["y"]
    np.testing.assert_array_equal(
        y, np.clip((one.astype(int) * 9 - other.astype(int) * 5 - 3) >> 4, -100, 90)
    )
    rows, columns, across = 3, 4, 6
    x = random.integers(-128, 128, (rows, across, n)).astype(np.int8)
    b, count = lanes_elements.record_average((-128, 20)), rows * columns
    given = x.reshape(-1), np.zeros(n, np.int8), n, rows, columns, across * n, count
    y = outcome(b, folder(tmp_path, "average"), *given, target="zve32x")["y"]
    sums = x[:, :columns].astype(int).sum(axis=(0, 1))
    wanted = np.clip(np.trunc((sums + np.where(sums > 0, count // 2, -(count // 2))) / count), -128, 20)
    np.testing.assert_array_equal(y, wanted)
    assert (sums < 0).any() and (wanted == 20).any()


def test_copies(tmp_path: Path) -> None:
    x = np.arange(40, dtype=np.int8)
    y = outcome(
        lanes_common._record_copy(), folder(tmp_path, "copy"), np.zeros(41, np.int8), x, 39, target="zve32x"
    )["y"]
    np.testing.assert_array_equal(y, [*range(39), 0, 0])
    y = outcome(
        lanes_common._record_fill(), folder(tmp_path, "fill"), np.zeros(41, np.int8), 7, 35, target="zve32x"
    )["y"]
    np.testing.assert_array_equal(y, [7] * 35 + [0] * 6)


def layers(seed: int) -> bytes:
    """Layers of all kernels, whose channels fill no vector."""
    m = Maker(seed)
    x = m.conv(m.input((1, 9, 7, 3)), 21 + seed, (3, 2), 1, same=True)
    x = m.conv(x, 37, (1, 1), 1, same=True)
    for stride in (1, 2):
        x = m.conv(x, 37, (3, 3), stride, same=True, depthwise=True)
    x = m.conv(x, 70, (1, 1), 2, same=True)
    return m.finish(m.conv(m.pool(x, 2, largest=False), 11, (1, 1), 1, same=True))


def compiled(seed: int, folder: Path) -> CompiledGraph:
    (folder / "model.tflite").write_bytes(layers(seed))
    return compile_graph(load_tflite(folder / "model.tflite"), Choice(core=CORE))


@pytest.mark.parametrize("seed", [0, 1])
def test_plain_c_of_layers(seed: int, tmp_path: Path) -> None:
    found = compiled(seed, tmp_path)
    kernels = [one.kernel for one in found.operators if one.kernel is not None]
    assert sum(any(re.match("lanes_", helper) for helper in kernel.helpers) for kernel in kernels) >= 6
    x = np.random.default_rng(seed).integers(-128, 128, found.graph.values[found.graph.inputs[0]].shape)
    (got,) = KernelRunner(archive_of(found), tmp_path, exact=True).run([x.astype(np.int8)])
    (wanted,) = Interpreter(load_tflite(tmp_path / "model.tflite")).run([x.astype(np.int8)])
    np.testing.assert_array_equal(got.reshape(-1), wanted.reshape(-1))
    assert len({*wanted.ravel()}) > 2


@pytest.mark.qemu
@on_core
def test_layers_on_cores_of_all_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same image gives the same results with longer vectors, in fewer instructions."""
    found, counts = compiled(0, tmp_path), []
    for bits in (128, 256, 512):
        emulated = "qemu-system-riscv32", "-bios", "none", "-cpu", vectors_of(bits)
        monkeypatch.setitem(MACHINES, CORE, dataclasses.replace(MACHINES[CORE], emulator=emulated))
        counts.append(sum(n for _, n in run_on_core(found, CORE, tmp_path)))
    assert counts == sorted(counts, reverse=True) and counts[2] < counts[0]


@pytest.mark.qemu
@on_core
def test_a_core_without_vectors_takes_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first vector instruction is a fault, not a wrong result."""
    elf = link(image_text(compiled(0, tmp_path), 0, None)[0], CORE, tmp_path)
    machine = dataclasses.replace(MACHINES[CORE], emulator=("qemu-system-riscv32", "-bios", "none"))
    monkeypatch.setitem(MACHINES, CORE, machine)
    done = subprocess.run(
        emulator(elf, CORE), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False
    )
    assert (done.stdout + done.stderr).strip() == "fault"


def test_layers_that_words_do_faster(tmp_path: Path) -> None:
    assert lanes.best_tile(1, 64, 64, 1, 1) is None
    tile = lanes.best_tile(1, 64, 64, 64, 25)
    assert tile is not None and (tile.group, tile.pixels) == (8, 3)
