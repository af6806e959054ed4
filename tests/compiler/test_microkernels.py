# SPDX-License-Identifier: Apache-2.0
"""Microkernels: one recording as assembly, as C and in numpy."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import toy_microkernel
from ccode import compiler
from core_images import MACHINES, MISSING, START, emulate, emulator, image_text, link
from interpret import interpret
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.kernels import conv_2ch_int8, mve, mve_depthwise, mve_row_code, mve_row_tile, scalar
from mlf_sdk.compiler.kernels.assembly import register_names
from mlf_sdk.compiler.kernels.rescale import Form
from mlf_sdk.compiler.microkernels.assignments import is_assignments
from mlf_sdk.compiler.microkernels.builder import OUTPUT_BYTES, WORDS, Builder
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import assembly, recorded, static_function
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set, read_instruction_set
from mlf_sdk.compiler.microkernels.operations import PYTHON_FUNCTIONS, signed
from mlf_sdk.compiler.microkernels.plain import plain
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import InputError
from recorded import run_c
from tflite_models import Maker

on_core = [pytest.mark.qemu, pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")]
MVE = instruction_set("mve")
CORTEX_M4, THUMB = core_named("cortex-m4"), instruction_set("dsp")


def words(random: np.random.Generator, count: int) -> np.ndarray:
    return random.integers(-(1 << 31), 1 << 31, count)


def instructions(lines: list[str]) -> list[str]:
    return [found[1] for line in lines if (found := re.fullmatch(r'"(.*)\\n"', line))]


def c_result(
    b: Builder,
    meanings: dict[str, str],
    x: np.ndarray,
    w: np.ndarray,
    size: int,
    n: int,
    at: Path,
    *others: int,
) -> np.ndarray:
    """Output bytes of the plain C, with all warnings and checks for undefined behaviour."""
    y = np.zeros(size, np.int8)
    run_c(b, meanings, at, x.astype(np.int32), w.astype(np.int32), y, n, *others)
    return y


def numpy_result(
    b: Builder, meanings: dict[str, str], x: np.ndarray, w: np.ndarray, size: int, n: int, **others: int
) -> np.ndarray:
    y = np.zeros((1, size), np.int64)
    interpret(b, meanings, {"x": x[None, :], "w": w[None, :], "y": y}, n=n, **others)
    return y[0]


@pytest.mark.parametrize(("pixels", "count"), [(1, 1), (2, 3), (4, 2)])
def test_a_microkernel_of_an_instruction_set_of_its_own(pixels: int, count: int, tmp_path: Path) -> None:
    toy, b, n = toy_microkernel.toy(), toy_microkernel.record(pixels, count), 3
    random = np.random.default_rng(pixels)
    x, w = words(random, pixels * count), words(random, n * (1 + count))
    pairs = [signed(np.stack([a, a >> 16]), 8) for a in (x.reshape(count, pixels), w.reshape(n, -1)[:, 1:])]
    sums = np.einsum("bwp,bcw->pc", *pairs) + w.reshape(n, -1)[:, 0]
    wanted = np.zeros(4 * pixels, np.int64)
    for pixel in range(pixels):
        wanted[4 * pixel : 4 * pixel + n] = signed(np.maximum(signed(sums[pixel]), -5), 8)

    lines = instructions(assembly(b, toy))
    memory = bytearray(4096)
    memory[: 4 * x.size] = x.astype("<i4").tobytes()
    memory[1024 : 1024 + 4 * w.size] = w.astype("<i4").tobytes()
    toy_microkernel.run(lines, (0, 1024, 2048, n), memory)

    np.testing.assert_array_equal(np.frombuffer(memory[2048 : 2048 + wanted.size], np.int8), wanted)
    np.testing.assert_array_equal(numpy_result(b, toy.meanings, x, w, wanted.size, n), wanted)
    np.testing.assert_array_equal(c_result(b, toy.meanings, x, w, wanted.size, n, tmp_path), wanted)
    assert any(line.startswith("put(SP") for line in lines)  # six registers are too few


@pytest.mark.parametrize("some", [0, 1])
def test_registers_of_other_files_and_groups(some: int, tmp_path: Path) -> None:
    """Vectors, sums that only some registers may hold, parameters on the stack, a body that may be left out."""
    toy, b, n, start = toy_microkernel.toy(), toy_microkernel.record_lanes(), 3, 7
    random = np.random.default_rng(some)
    x, w = words(random, 4 * n), words(random, 4 * n)
    wanted = signed(start + some * (x + w).reshape(n, 4).sum(axis=1), 8)

    text = assembly(b, toy)
    lines = instructions(text)
    memory = bytearray(4096)
    for at, values in ((0, x), (1024, w)):
        memory[at : at + 4 * values.size] = values.astype("<i4").tobytes()
    toy_microkernel.run(lines, (0, 1024, 2048, n, some, start), memory)
    (total,) = {found[1] for line in lines if (found := re.match(r"(\w) = \1 \+ sum\(V\) \+ sum\(W\)", line))}
    assert total in "BDF"
    assert [lines[0], lines[-2]] == ["SP = SP - 16", "SP = SP + 16"]  # W is to be preserved
    assert 'MLF_UNWIND("adjust_cfa_offset 16")' in text

    np.testing.assert_array_equal(np.frombuffer(memory[2048 : 2048 + n], np.int8), wanted)
    given = b, toy.meanings, x, w, n, n
    np.testing.assert_array_equal(numpy_result(*given, some=some, start=start), wanted)
    np.testing.assert_array_equal(c_result(*given, tmp_path, some, start), wanted)


@pytest.mark.parametrize(("pixels", "quads", "short"), [(1, 6, 3), (3, 5, 0), (4, 40, 0)])
@pytest.mark.parametrize("form", [Form.FINE, Form.SIGNED])
def test_c_of_a_tile_of_two_channels_computes_what_was_recorded(
    pixels: int, quads: int, short: int, form: Form, tmp_path: Path
) -> None:
    width, n = 2 if form is Form.FINE else 3, 4
    b = conv_2ch_int8.record(pixels, quads, n, Epilogue(form, 13, (-100, 90), width), short=short)
    random = np.random.default_rng(quads)
    x, w = words(random, 2 * quads * pixels), words(random, n * (1 + quads + width))
    wanted = numpy_result(b, THUMB.meanings, x, w, pixels * n, n)
    assert len({*wanted}) > 1
    np.testing.assert_array_equal(c_result(b, THUMB.meanings, x, w, pixels * n, n, tmp_path), wanted)


def table(random: np.random.Generator, rows: int) -> np.ndarray:
    """Biases, multipliers, addends and negative shifts of four channels, or of sixteen."""
    limits = [(-(1 << 12), 1 << 12), (1 << 28, 1 << 31), (-9, 9), (-9, -2)]
    return np.stack([random.integers(low, high, (rows, 4)) for low, high in limits], axis=1).reshape(1, -1)


@pytest.mark.parametrize(
    ("pixels", "depth", "channels", "tile"),
    [
        (1, 5, 3, (4, 1, 1)),
        (1, 40, 14, (8, 3, 1)),
        (1, 300, 16, (8, 10, 2)),
        (2, 37, 10, (4, 3, 1)),
        (2, 32, 4, (4, 2, 1)),
        (2, 260, 5, (4, 9, 2)),
    ],
)
@pytest.mark.parametrize(("form", "clamp"), [(Form.SINGLE, (-128, 127)), (Form.DOUBLE, (-90, 100))])
def test_c_of_a_tile_of_vectors_computes_what_was_recorded(
    pixels: int,
    depth: int,
    channels: int,
    tile: tuple[int, int, int],
    form: Form,
    clamp: tuple[int, int],
    tmp_path: Path,
) -> None:
    random, vectors = np.random.default_rng(depth), mve.Vectors.of(pixels, depth, channels)
    assert (vectors.channels, vectors.rounds, vectors.loops) == tile
    groups, loads = -(-channels // vectors.channels), vectors.channels // 4
    b = mve.record(vectors, Epilogue(form, 0, clamp, 3))
    x8 = random.integers(-128, 128, (1, pixels * vectors.bytes)).astype(np.int8)
    w = random.integers(-128, 128, (1, groups * vectors.channels * vectors.bytes))
    p = table(random, groups * loads).reshape(groups, loads, 4, 4).transpose(0, 2, 1, 3).reshape(1, -1)
    y, got = np.zeros((1, pixels * 16), np.int64), np.zeros(pixels * 16, np.int8)
    x32, sizes = x8.view("<i4"), {"n": channels, "distance": 16}
    interpret(b, MVE.meanings, {"x": x32.astype(np.int64), "w": w, "p": p, "y": y}, **sizes)
    run_c(b, MVE.meanings, tmp_path, x32, w.astype(np.int8), p.astype(np.int32), got, channels, 16)
    np.testing.assert_array_equal(got, y[0])
    stored = y.reshape(pixels, 16)
    assert len({*stored[:, :channels].ravel()}) > 1 and not stored[:, channels:].any()


@pytest.mark.parametrize(
    ("size", "depth", "stride", "pixels"),
    [
        *[((3, 3), 16, 1, 2), ((2, 3), 32, 2, 2), ((3, 3), 3, 2, 2), ((1, 5), 4, 1, 2)],
        *[((1, 1), 8, 1, 2), ((1, 1), 116, 1, 2), ((1, 1), 32, 2, 2)],
        *[((3, 3), 16, 1, 4), ((3, 3), 3, 2, 4), ((1, 5), 4, 1, 4), ((2, 3), 32, 2, 4), ((3, 3), 64, 1, 4)],
    ],
)
@pytest.mark.parametrize(("form", "clamp"), [(Form.SINGLE, (-128, 127)), (Form.DOUBLE, (-90, 100))])
def test_c_of_a_row_of_windows_computes_what_was_recorded(
    size: tuple[int, int],
    depth: int,
    stride: int,
    pixels: int,
    form: Form,
    clamp: tuple[int, int],
    tmp_path: Path,
) -> None:
    random, tiles = np.random.default_rng(depth), 2
    channels = 132 if depth == 116 else 8
    (kh, kw), count = size, pixels * tiles
    tile = mve_row_tile.RowTile(size, depth, stride, channels, is_copied=size != (1, 1), pixels=pixels)
    assert tile.fits()
    b = mve_row_code.record(tile, Epilogue(form, 0, clamp, 3))
    columns = (count - 1) * stride + kw
    rows8 = random.integers(-128, 128, (kh, 1, columns * depth + 16)).astype(np.int8)
    rows8 = rows8[:, :, : rows8.shape[2] // 4 * 4].copy()
    weights = random.integers(-128, 128, (channels, kh * kw * depth)).astype(np.int8)
    numbers = table(random, channels // 4).reshape(-1, 4, 4).transpose(0, 2, 1).reshape(channels, 4)
    w, p = tile.packed(weights)[None], tile.table(numbers)[None]
    y, got = np.zeros((1, channels * count), np.int64), np.zeros(channels * count, np.int8)
    words_or_bytes = [(row.view("<i4") if tile.has_words else row).astype(np.int64) for row in rows8]
    memory = {"window": [(row, 0) for row in words_or_bytes], "y": y}
    memory |= {"w": w.astype(np.int64), "p": p.astype(np.int64)}
    interpret(b, MVE.meanings, memory, n=channels, tiles=tiles)
    addresses = np.array([row.ctypes.data for row in rows8], np.uintp)
    run_c(b, MVE.meanings, tmp_path, addresses, w, p, got, channels, tiles)
    np.testing.assert_array_equal(got, y[0])

    windows = [rows8[:, 0, pixel * tile.distance :][:, : kw * depth].reshape(-1) for pixel in range(count)]
    bias, multiplier, addend, shift = numbers.T
    values = (np.array(windows, np.int64) @ weights.astype(np.int64).T + bias) * multiplier + (1 << 30) >> 31
    values = values + (values >> 31 if form is Form.DOUBLE else 0) + addend >> -shift
    np.testing.assert_array_equal(y.reshape(count, channels), np.clip(values, *clamp))
    assert len({*y[0]}) > 2


@pytest.mark.parametrize(
    ("size", "form", "channels"),
    [((3, 3), Form.DOUBLE, 20), ((1, 2), Form.SINGLE, 19), ((2, 2), Form.SINGLE, 16)],
)
def test_c_of_depthwise_vectors_computes_what_was_recorded(
    size: tuple[int, int], form: Form, channels: int, tmp_path: Path
) -> None:
    pixels, stride, taps = 2, 2, size[0] * size[1]
    random = np.random.default_rng(taps)
    row = mve_depthwise.DepthwiseRow(size, channels, stride)
    b = mve_depthwise.record_depthwise(row, Epilogue(form, 0, (-50, 60), 3))
    rows = random.integers(-128, 128, (size[0], 1, channels * (stride + size[1]) + 16))
    w = random.integers(-127, 128, (1, 32 * taps))
    p, y, got = table(random, 8), np.zeros((1, 60), np.int64), np.zeros(60, np.int8)
    sizes = {"pixels": pixels}
    rows8 = rows.astype(np.int8)
    elements = [(each.view("<i4") if row.is_near else each).astype(np.int64) for each in rows8]
    interpret(b, MVE.meanings, {"window": [(each, 0) for each in elements], "w": w, "p": p, "y": y}, **sizes)
    w8, p32 = w.astype(np.int8), p.astype(np.int32)
    addresses = np.array([each.ctypes.data for each in rows8], np.uintp)
    run_c(b, MVE.meanings, tmp_path, addresses, w8, p32, got, *sizes.values())
    np.testing.assert_array_equal(got, y[0])
    assert len({*y[0]}) > 2 and not y[0, channels * pixels :].any()


def test_a_recorded_function_is_made_once() -> None:
    given = 4, 16, 64, Epilogue(Form.FINE, 13, (-128, 127), 2)
    kept = recorded("tile", "dsp", conv_2ch_int8.record, *given)
    assert kept == static_function("tile", conv_2ch_int8.record(*given), THUMB, "conv_2ch_int8: ")
    assert recorded("tile", "dsp", conv_2ch_int8.record, *given) is kept
    other = recorded("tile", "dsp", conv_2ch_int8.record, *given, short=16)
    assert other["tile"] != kept["tile"]


def test_c_of_a_sum_of_vectors_computes_what_was_recorded(tmp_path: Path) -> None:
    random, n = np.random.default_rng(0), 11
    b = mve_depthwise.record_sum(4, -100, 90)
    one, other = random.integers(-128, 128, (2, 1, n))
    y, got = np.zeros((1, 12), np.int64), np.zeros(12, np.int8)
    interpret(b, MVE.meanings, {"a": one, "b": other, "y": y}, n=n, fa=9, fb=-5, fc=-3)
    run_c(b, MVE.meanings, tmp_path, one.astype(np.int8), other.astype(np.int8), got, n, 9, -5, -3)
    np.testing.assert_array_equal(got[:n], np.clip((one[0] * 9 - other[0] * 5 - 3) >> 4, -100, 90))
    np.testing.assert_array_equal(got, y[0])


@pytest.mark.parametrize("pairs", [1, 2, 3])
@pytest.mark.parametrize(("name", "apart"), [("thumb2", 23), ("thumb1", 16)])
def test_c_of_products_of_pairs_computes_what_was_recorded(
    name: str, apart: int, pairs: int, tmp_path: Path
) -> None:
    if name == "thumb1" and pairs > 2:
        pytest.skip("a tile for a Cortex-M0 has two pairs at most")
    random, taps, target = np.random.default_rng(pairs), 8, instruction_set(name)
    pixels, w = random.integers(-128, 128, (taps, pairs, 2)), random.integers(-128, 128, (1, taps))
    w[0, :2] = -127  # whose products with pixels of -128 are the largest
    pixels[:2] = -128
    x = (pixels[..., 0] + (pixels[..., 1] << apart)).reshape(1, -1)
    wanted = np.einsum("tpk,t->pk", pixels, w[0]).ravel()
    b = scalar.record_m3(pairs) if apart == 23 else scalar.record_m0(pairs)
    sums, got = np.zeros((1, 2 * pairs), np.int64), np.zeros(2 * pairs, np.int32)
    interpret(b, target.meanings, {"x": x, "w": w, "s": sums}, taps=taps)
    run_c(b, target.meanings, tmp_path, x.astype(np.int32), w.astype(np.int8), got, taps)
    np.testing.assert_array_equal(sums[0], wanted)
    np.testing.assert_array_equal(got, wanted)


def test_repetitions_are_loops_in_c_and_unrolled_in_assembly() -> None:
    b = conv_2ch_int8.record(4, 16, 64, Epilogue(Form.FINE, 13, (-128, 127), 2))
    body, _ = plain(b, THUMB.meanings)
    assert "for (int32_t k = 0; k < 16; ++k) {" in body
    lines = assembly(b, THUMB)
    assert sum("smlad" in line for line in lines) == 16 * 16
    assert "/* weights 60 to 63 of two channels */" in lines
    assert lines == assembly(conv_2ch_int8.record(4, 16, 64, Epilogue(Form.FINE, 13, (-128, 127), 2)), THUMB)


def test_words_that_are_only_used_by_parts_are_loaded_by_parts_in_c() -> None:
    b = Builder(x=WORDS, w=WORDS, y=OUTPUT_BYTES)
    x, w, y = b.parameters
    (pairs,), (weights,), (bias,) = b.load(x, 1), b.load(w, 1), b.load(w, 1)
    b.store_byte(y, b.do("smlad", pairs, weights, b.do("sxtb16", weights)), 0)
    b.store_byte(y, b.do("add", b.do("smlatb", pairs, bias, bias), bias), 1)
    body, functions = plain(b, THUMB.meanings)
    assert re.findall(r"(\w+) = (half_at\(\w+, \d\)|word_at\(\w+(?:\+\+)?\)|.*\[\d\]);", body) == [
        ("v0_low", "half_at(x, 0)"),
        ("v0_high", "half_at(x, 1)"),
        ("v1_low", "half_at(w, 0)"),
        ("v1_high", "half_at(w, 1)"),
        ("v1_byte0", "(uint32_t)((const int8_t *)w)[0]"),
        ("v1_byte2", "(uint32_t)((const int8_t *)w)[2]"),
        ("v2", "word_at(w++)"),
    ]
    assert {"half_at", "word_at"} <= set(functions)


def test_an_operation_that_needs_too_many_registers_is_an_error() -> None:
    b = Builder(x=toy_microkernel.WORDS, y=toy_microkernel.OUTPUT_BYTES)
    x, y = b.parameters
    total = b.load(x, 9)
    for k, value in enumerate(total):
        b.store_byte(y, value, k)
    with pytest.raises(ValueError, match="more registers than there are"):
        assembly(b, toy_microkernel.toy())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('add = { text = ["x"], meaning = "a + b" }', "operation 'add' has two meanings"),
        ('other = "x"', "operation 'other' has no meaning"),
        ("add = 3", "operations"),
    ],
)
def test_a_bad_row_of_an_instruction_set_is_named(row: str, message: str, tmp_path: Path) -> None:
    text = (Path(toy_microkernel.__file__).with_name("toy_instruction_set.toml")).read_text()
    path = tmp_path / "bad.toml"
    path.write_text(re.sub(r'add = "\{d\}.*', row, text))
    with pytest.raises(InputError, match=message):
        read_instruction_set(path)


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("core", "name", "registers"),
    [("cortex-m4", "dsp", "r0 r1 r2 r3"), ("rv32imac", "rv32im", "a0 a1 a2 a3")],
)
def test_instructions_do_what_the_table_says(core: str, name: str, registers: str, tmp_path: Path) -> None:
    machine, target = MACHINES[core_named(core)], instruction_set(name)
    if machine.missing:
        pytest.skip(f"not installed: {machine.missing}")
    random, calls, wanted = np.random.default_rng(0), [], []
    first, *others = registers.split()
    expressions = {n: s for n, s in target.spellings.items() if not is_assignments(target.meanings[n])}
    for operation, spelling in expressions.items():
        for i in (1, 7, 13):
            given = {letter: int(v) for letter, v in zip("abc", words(random, 3), strict=True)}
            meaning = target.meanings[operation]
            if "shift_right(a, b)" in meaning:
                given["b"] = i
            if "minimum(maximum(a, 0), b)" in meaning:  # a in between, below and above
                given |= {"a": {1: 200, 7: -3, 13: 256}[i], "b": 255}
            value = eval(meaning, PYTHON_FUNCTIONS, {**given, "i": i})
            wanted.append(str(int(signed(value)) & 0xFFFFFFFF))
            d = others[0] if spelling.modifies else first
            named = dict(zip("abc", others, strict=True)) | {"d": d, "i": i, "low": i, "high": 0}
            texts = "".join(f"{t.format(**named)}\\n" for t in spelling.text)
            variables = "".join(
                f' register uint32_t {letter} __asm("{r}") = {v & 0xFFFFFFFF}u;'
                for r, (letter, v) in zip(others, given.items(), strict=True)
            )
            calls.append(
                f'{{{variables} register uint32_t d __asm("{first}"); __asm volatile("{texts}" : "=&r"(d), "+r"(a),'
                f' "+r"(b), "+r"(c) : : "cc"); number({"a" if spelling.modifies else "d"}); host(4, "\\n"); }}'
            )
    text = START + f"int main(void)\n{{\n{''.join(calls)}    return 0;\n}}\n"
    assert emulate(text, core_named(core), tmp_path) == wanted


class TestOnACore:
    pytestmark = on_core

    def test_a_debugger_walks_from_a_tile_to_main(self, tmp_path: Path) -> None:
        gdb = compiler("gdb-multiarch")
        m = Maker(1)
        y = m.conv(m.input((1, 5, 8, 16)), 4, (3, 3), 1, same=True)
        (tmp_path / "model.tflite").write_bytes(m.finish(y))
        graph = load_tflite(tmp_path / "model.tflite")
        compiled = compile_graph(graph, Choice(core=CORTEX_M4))
        (tile,) = re.findall(r"\nstatic void (conv_2ch_\w+)\(", compiled.code.own)
        elf = link(image_text(compiled, 0, None)[0], CORTEX_M4, tmp_path, "-g")
        stub = " ".join(
            [*emulator(elf, CORTEX_M4), "-monitor", "none", "-serial", "none", "-S", "-gdb", "stdio"]
        )
        script = [f"target remote | {stub}", f"break {tile}", "continue", "stepi 60", "backtrace", "kill"]
        command = [gdb, "-nx", "-batch", *(a for line in script for a in ("-ex", line)), str(elf)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        frames = re.findall(r"#\d+ .*?(\w+) \(", done.stdout)
        assert frames[:1] == [tile] and "main" in frames, done.stdout + done.stderr


def test_debuggers_find_what_a_frame_of_stores_keeps() -> None:
    """Unwind rules of a frame that is made by one step of the stack pointer and a store a register."""
    frame = instruction_set("rv32im").frame
    enter, leave = ([t.format() for t in lines] for lines in (frame.enter, frame.leave))
    stored = dict(re.findall(r"sw (\w+), (\d+)\(sp\)", "\n".join(enter)))
    assert stored == dict(re.findall(r"lw (\w+), (\d+)\(sp\)", "\n".join(leave)))
    kept = {r for r in instruction_set("rv32im").registers.all if r[0] == "s" or r == "ra"}
    assert {*stored} == kept and len({*stored.values()}) == len(kept)
    offsets = re.findall(r"\.cfi_offset (\w+), (-\d+)", "\n".join(enter))
    assert {r: frame.bytes + int(at) for r, at in offsets} == {r: int(at) for r, at in stored.items()}
    assert enter[:2] == [f"addi sp, sp, -{frame.bytes}", f".cfi_def_cfa_offset {frame.bytes}"]
    assert leave[-2:] == [f"addi sp, sp, {frame.bytes}", "ret"]


@pytest.mark.parametrize("name", ["thumb1", "thumb2", "dsp", "mve"])
def test_debuggers_find_the_registers_of_a_caller_behind_each_instruction(name: str) -> None:
    """The unwind rules of a frame, on a model of the stack and of what it holds."""
    frame = instruction_set(name).frame
    callers = [*(f"r{k}" for k in range(4, 12)), "lr"]
    held, memory, sp, cfa = {r: r for r in callers}, {}, 0, 0
    rules: dict[str, str] = {}
    lines = [*(t.format() for t in frame.enter), "", *(t.format() for t in frame.leave)]
    for line, behind in itertools.pairwise(lines):  # the last one returns
        pattern = r"(\.cfi_|push|pop|mov)(?:\w+)? (\{.*\}|\w+)(?:, (\S+))?"
        found = re.fullmatch(pattern, line)
        assert found or line in ("", ".syntax unified"), line
        kind, first, second = found.groups() if found else ("", "", "")
        if kind == ".cfi_" and not second:
            cfa = -int(first)
        elif kind == ".cfi_":
            rules[first] = second
        elif kind == "push":
            registers = register_names(first.strip("{}"))
            sp -= 4 * len(registers)
            memory |= {sp + 4 * k: held[r] for k, r in enumerate(registers)}
        elif kind == "pop":
            for register in register_names(first.strip("{}")):
                held[register] = memory.pop(sp)
                sp += 4
        elif kind == "mov":
            held[first] = held[second]
        elif not line:  # the body
            assert sp == -frame.bytes
            held = dict.fromkeys(callers, "of the body")
        if not behind.startswith(".cfi_"):
            at = {r: rules.get(r, r) for r in callers}
            assert cfa == sp, line
            assert [held[a] if a in held else memory[int(a)] for a in at.values()] == callers, line
