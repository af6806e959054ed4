# SPDX-License-Identifier: Apache-2.0
"""Kernels for cores with many registers and no SIMD: recorded tiles against sums of products, on random layers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from compiled_models import KernelRunner
from core_images import MACHINES, run_on_core
from interpret import interpret
from mlf_sdk.compiler.build import CompiledGraph, compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.kernels import conv_4x4, conv_pairs_2ch, depthwise_in_registers
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.convolution import Layout
from mlf_sdk.compiler.kernels.rescale import Form, low_words
from mlf_sdk.compiler.kernels.winograd_code import record_products
from mlf_sdk.compiler.microkernels.builder import BYTES, OUTPUT_BYTES, WORD, Builder
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import assembly
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.mlf.compiled import archive_of
from recorded import outcome, run_c
from tflite_models import Maker

RV32 = core_named("rv32imac")
TARGET = instruction_set("rv32im")
CLAMPS = [(-128, 127), (-100, 90)]


def words(random: np.random.Generator, form: Form, channels: int) -> np.ndarray:
    """Start, multiplier, addend and what else a form has; a row a channel."""
    low, high = ([-2000, 1 << 29, -(1 << 14)], [2000, 1 << 30, 1 << 14])
    rows = random.integers(low, high, (channels, 3))
    if form is Form.FINE:
        return rows
    last = {Form.SIGNED: (-9, 0)}.get(form, (5, 9))
    return np.concatenate([rows, random.integers(*last, (channels, 1))], axis=1)


def stored(sums: np.ndarray, given: np.ndarray, epilogue: Epilogue) -> np.ndarray:
    """Results of sums, shape (..., channels), by the definition of the forms; the lowest one is off the addends."""
    m, r, *others = given.T
    high, low = epilogue.clamp[1] - epilogue.clamp[0], epilogue.clamp[0]
    if epilogue.is_fine:
        values = (sums * 256 * m >> 32) + r
        values = values + np.where(sums < 0, others[0], 0) if epilogue.form is Form.SIGNED else values
        values = values >> epilogue.shift
    else:
        values = (2 * sums * m + (1 << 31)) >> 32
        values = values + (values >> 31) if epilogue.form is Form.DOUBLE else values
        values = (values + r) >> others[0]
    return np.clip(values, 0, high) + low


@pytest.mark.parametrize("form", [Form.FINE, Form.SIGNED, Form.SINGLE, Form.DOUBLE])
@pytest.mark.parametrize(("pixels", "outputs", "channels"), [(4, 4, 8), (5, 3, 7), (1, 4, 5), (3, 1, 2)])
@pytest.mark.parametrize("clamp", CLAMPS)
def test_a_tile_of_sums_in_registers(
    pixels: int, outputs: int, channels: int, form: Form, clamp: tuple[int, int], tmp_path: Path
) -> None:
    random, taps = np.random.default_rng(pixels), 6
    x, w = random.integers(-128, 128, (taps, pixels)), random.integers(-128, 128, (channels, taps))
    p = words(random, form, channels)
    epilogue = Epilogue(form, 12, clamp, p.shape[1] - 1)
    b = conv_4x4.record(pixels, outputs, epilogue)
    packed = [conv_4x4.groups_of(rows, outputs).reshape(-1) for rows in (w, p)]
    groups, first, distance = -(-channels // outputs), (channels - 1) % outputs + 1, channels + 3
    got = outcome(
        b, tmp_path, x.astype(np.int8).reshape(-1), packed[0].astype(np.int8), packed[1].astype(np.int32),
        np.zeros(pixels * distance, np.int8), taps * pixels, groups, first, distance, target="rv32im",
    )["y"].reshape(pixels, distance)  # fmt: skip
    wanted = stored(x.T @ w.T + p[:, 0], p[:, 1:], epilogue)
    np.testing.assert_array_equal(got[:, :channels], wanted)
    assert len({*wanted.ravel()}) > 2 and not got[:, channels:].any()
    assembly(b, TARGET)


@pytest.mark.parametrize("form", [Form.FINE, Form.SINGLE])
@pytest.mark.parametrize(("pixels", "channels", "largest"), [(6, 3, 20), (4, 4, 127), (3, 2, 60), (1, 5, 2)])
def test_a_tile_of_pairs(pixels: int, channels: int, largest: int, form: Form, tmp_path: Path) -> None:
    """Two products in one: with pixels of -128 and weights of 127 halves of words are full."""
    random, taps, pairs = np.random.default_rng(pixels), 12, -(-pixels // 2)
    x, w = (
        random.integers(-128, 128, (taps, pixels)),
        random.integers(-largest, largest + 1, (channels, taps)),
    )
    x[:4], w[0, :2], w[1, 2:4] = -128, largest, -largest
    p, groups = words(random, form, channels), conv_4x4.groups_of(w, 2)
    chunks = [conv_pairs_2ch._chunks(group) for group in groups]
    lengths = [chunk for chunk in chunks if chunk is not None]
    assert len(lengths) == len(groups) and all(sum(chunk) * 2 == taps for chunk in lengths)
    assert (max(map(len, lengths)) > 2) == (largest > 20)
    upper = conv_4x4.groups_of(p[:, :1], 2).reshape(-1, 2)
    lower = upper - (1 << 15) * np.array([[len(chunk)] for chunk in lengths]) + (upper << 16)
    others = conv_4x4.groups_of(p[:, 1:], 2).reshape(len(groups), -1)
    table = np.concatenate([upper, low_words(lower), others], axis=1).astype(np.int32).reshape(-1)
    stream = np.concatenate([conv_pairs_2ch._stream(*one) for one in zip(groups, lengths, strict=True)])
    buffer = np.pad(x, ((0, 0), (0, 2 * pairs - pixels))).reshape(taps, pairs, 2)
    buffer = (buffer[..., 0] + (buffer[..., 1] << 16)).astype(np.int32).reshape(-1)
    epilogue = Epilogue(form, 12, (-128, 100), p.shape[1] - 1)
    b, first, distance = conv_pairs_2ch.record(pixels, epilogue), (channels - 1) % 2 + 1, channels + 3
    given = buffer, stream, table, np.zeros(pixels * distance, np.int8), len(groups), first, distance
    got = outcome(b, tmp_path, *given, target="rv32im")["y"].reshape(pixels, distance)
    np.testing.assert_array_equal(got[:, :channels], stored(x.T @ w.T + p[:, 0], p[:, 1:], epilogue))
    assert not got[:, channels:].any()
    assembly(b, TARGET)


def innermost_loop(b: Builder) -> list[str]:
    """Instructions between the label of the first loop that ends and its branch."""
    lines = [line.strip('"').removesuffix("\\n") for line in assembly(b, TARGET) if line.startswith('"')]
    end = next(at for at, line in enumerate(lines) if re.fullmatch(r"b\w+ .*\db", line))
    start = max(at for at in range(end) if lines[at].endswith(":"))
    return lines[start + 1 : end + 1]


@pytest.mark.parametrize(
    "b",
    [
        conv_pairs_2ch.record(4, Epilogue(Form.FINE, 12, (-128, 127), 2)),
        conv_pairs_2ch.record(6, Epilogue(Form.FINE, 12, (-128, 127), 2)),
        conv_4x4.record(4, 4, Epilogue(Form.FINE, 12, (-128, 127), 2)),
        conv_4x4.record(5, 3, Epilogue(Form.SINGLE, 12, (-128, 127), 3)),
        record_products(4, 4, 4),
    ],
    ids=["pairs of 4", "pairs of 6", "4x4", "5x3", "Winograd"],
)
def test_no_instruction_of_a_loop_waits_for_a_load(b: Builder) -> None:
    """What one loads the next one does not read: that costs a cycle on cores with pipelines."""
    loop = innermost_loop(b)
    loads = [re.fullmatch(r"l[bhw] (\w+), .*", line) for line in loop]
    assert sum(load is not None for load in loads) > 7
    for load, following in zip(loads, loop[1:], strict=False):
        assert load is None or load[1] not in re.split(r"\W+", following.partition(",")[2])


def test_a_loop_begins_with_its_count() -> None:
    """The first instruction is short, so that one fetch reads it; a count that the body reads stays at the end."""
    loop = innermost_loop(conv_pairs_2ch.record(4, Epilogue(Form.FINE, 12, (-128, 127), 2)))
    count = re.fullmatch(r"addi (\w+), \1, -1", loop[0])
    assert count is not None and loop[-1].startswith(f"bgtz {count[1]}, ")
    b = Builder(w=BYTES, y=OUTPUT_BYTES, n=WORD)
    w, y, n = b.parameters
    with b.counted(n):
        b.store_byte(y, b.do("add", b.do("load_byte", w), n), 0)
    assert [line.split()[0] for line in innermost_loop(b)] == ["lb", "add", "sb", "addi", "bgtz"]


def test_weights_that_no_chunk_holds() -> None:
    """Two taps of -128 times pixels of -128 are more than a half of a word."""
    assert conv_pairs_2ch._chunks(np.array([[-128, 0], [-128, 0]])) is None
    assert conv_pairs_2ch._chunks(np.array([[-128, 0], [127, 0], [3, 1], [1, 1]])) == [1, 1]


@pytest.mark.parametrize("form", [Form.FINE, Form.DOUBLE])
@pytest.mark.parametrize(("stride", "width"), [(1, 1), (1, 4), (1, 5), (2, 3)])
def test_a_row_of_depthwise_windows(form: Form, stride: int, width: int, tmp_path: Path) -> None:
    random, channels = np.random.default_rng(width), 3
    columns = (width - 1) * stride + 3
    rows = random.integers(-128, 128, (3, columns, channels))
    w, p = random.integers(-128, 128, (channels, 3, 3)), words(random, form, channels)
    epilogue = Epilogue(form, 9, (-90, 127), p.shape[1] - 1)
    b = depthwise_in_registers.record(stride, epilogue)
    scale = 256 if form is Form.FINE else 1
    starts = p * np.append(scale, np.ones(p.shape[1] - 1, np.int64))
    y, got = np.zeros((1, width * channels), np.int64), np.zeros(width * channels, np.int8)
    flat = rows.reshape(3, 1, -1)
    given = {"rows": [(row, 0) for row in flat], "w": w.reshape(1, -1), "p": starts.reshape(1, -1), "y": y}
    interpret(b, TARGET.meanings, given, channels=channels, size=width * channels)
    bytes_ = flat.astype(np.int8)
    places = np.array([row.ctypes.data for row in bytes_], np.uintp)
    weights, table = w.astype(np.int8).reshape(-1), starts.astype(np.int32).reshape(-1)
    run_c(b, TARGET.meanings, tmp_path, places, weights, table, got, channels, width * channels)
    windows = np.stack([rows[:, at * stride : at * stride + 3] for at in range(width)])
    wanted = stored(np.einsum("oijc,cij->oc", windows, w) + p[:, 0], p[:, 1:], epilogue)
    np.testing.assert_array_equal(y[0].reshape(width, -1), wanted)
    np.testing.assert_array_equal(got.reshape(width, -1), wanted)
    assembly(b, TARGET)


CASES = [("dense", 0), ("dense", 1), ("dense", 2), ("conv", 1), ("conv", 2), ("conv", 4)]


def layers(kind: str, seed: int) -> bytes:
    """Layers whose extents fit no tile, with small weights and with large ones."""
    m = Maker(seed)
    if kind == "dense":  # chunks of all lengths
        x = m.dense(m.input((1, 37)), 21, scales=21, largest=(5, 20, 5)[seed])
        if seed == 2:  # a block of inputs that two chunks share
            weights = m.spec.tensors[m.spec.operators[-1].inputs[1]].data
            assert weights is not None
            weights[3, 8:12] = [100, -120, 90, 127]
        x = m.dense(m.dense(x, 6), 9, largest=7)  # the first by tiles of convolutions: its weights are large
        return m.finish(x)
    x = m.conv(m.input((1, 7 + seed, 5, 3)), 6 + seed, (3, 2), 1, same=True)
    x = m.conv(x, 5, (1, 1), 1, same=True)
    for stride in (1, 2):
        x = m.conv(x, 5, (3, 3), stride, same=True, depthwise=True)
    return m.finish(m.conv(x, 1 + seed, (2, 2), 1, same=False))


def compiled(kind: str, seed: int, folder: Path, core: str = "rv32imac") -> CompiledGraph:
    (folder / "model.tflite").write_bytes(layers(kind, seed))
    return compile_graph(load_tflite(folder / "model.tflite"), Choice(core=core_named(core)))


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_plain_c_of_layers(kind: str, seed: int, tmp_path: Path) -> None:
    found = compiled(kind, seed, tmp_path)
    names = {
        "dense": ["dense_fields_", "conv_1x3_", "dense_fields_"],
        "conv": ["conv_"] * 2 + ["depthwise_row_"] * 2 + ["conv_"],
    }
    for one, name in zip(found.operators, names[kind], strict=True):
        assert one.kernel is not None and any(re.match(name, helper) for helper in one.kernel.helpers)
    x = np.random.default_rng(seed).integers(-128, 128, found.graph.values[found.graph.inputs[0]].shape)
    (got,) = KernelRunner(archive_of(found), tmp_path, exact=True).run([x.astype(np.int8)])
    (wanted,) = Interpreter(load_tflite(tmp_path / "model.tflite")).run([x.astype(np.int8)])
    np.testing.assert_array_equal(got.reshape(-1), wanted.reshape(-1))
    assert len({*wanted.ravel()}) > 2


@pytest.mark.qemu
@pytest.mark.skipif(bool(MACHINES[RV32].missing), reason=f"not installed: {MACHINES[RV32].missing}")
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_layers_on_a_core(kind: str, seed: int, tmp_path: Path) -> None:
    for _, instructions in run_on_core(compiled(kind, seed, tmp_path), RV32, tmp_path, seed):
        assert instructions > 0


@pytest.mark.parametrize(
    ("width", "channels", "tile"), [(5, 12, (5, 3)), (32, 16, (4, 4)), (1, 16, (1, 4)), (6, 1, (6, 1))]
)
def test_tiles_that_waste_the_least(width: int, channels: int, tile: tuple[int, int], tmp_path: Path) -> None:
    """Of narrow maps tiles as wide as these, although they share less code."""
    m = Maker(0)
    (tmp_path / "model.tflite").write_bytes(
        m.finish(m.conv(m.input((1, 4, width, 4)), channels, (3, 3), 1, same=True))
    )
    graph = load_tflite(tmp_path / "model.tflite")
    layer = Contraction.of(graph, graph.operators[0])
    assert conv_4x4.best_tile(Layout(layer, 1, 1), channels) == tile
