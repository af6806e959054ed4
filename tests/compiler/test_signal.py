# SPDX-License-Identifier: Apache-2.0
"""Audio preprocessing: reference, kernels and TFLM on the whole range of each operator, its state, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

import mlf_sdk
from agreement import agree
from compiled_models import KernelRunner
from core_images import MISSING
from mlf_sdk.compiler.build import compile_graph
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError
from mlf_sdk.frontends.mlf.compiled import archive_of
from signal_models import SUBTRACTION, Chain, one, preprocessor

Array = np.ndarray[Any, np.dtype[Any]]


def of(rows: list[list[Array]]) -> Callable[[Graph, np.random.Generator], list[Array]]:
    """Inputs of the runs, one after the other."""
    left: Iterator[list[Array]] = iter(rows)
    return lambda graph, random: next(left)


def samples(shape: tuple[int, ...]) -> list[list[Array]]:
    """Noise, extremes, a quiet sine, silence, and one largest value."""
    random = np.random.default_rng(sum(shape))
    rows = [
        random.integers(-32768, 32768, shape),
        random.choice([-32768, 32767], shape),
        np.sin(np.arange(math.prod(shape)) * 0.3).reshape(shape) * 90,
        np.zeros(shape),
        np.where(np.arange(math.prod(shape)).reshape(shape) == 2, -32768, 5),
        np.full(shape, -32768),
    ]
    return [[row.astype(np.int16)] for row in rows]


@pytest.mark.parametrize(
    ("low", "high", "shift"), [(-32768, 32767, 3), (0, 4096, 12), (0, 4097, 12), (-1, 4, 12)]
)
def test_a_window(low: int, high: int, shift: int, tmp_path: Path) -> None:
    """With weights that give more than 16 bits, and with those that can't."""
    weights = np.random.default_rng(shift).integers(low, high, 12).astype(np.int16)
    weights[2:4] = low, high
    model = one("Window", [("int16", (2, 24)), weights], ("int16", (2, 24)), shift=shift)
    agree(model, tmp_path, 0, runs=6, given=of(samples((2, 24))))


def test_samples_are_scaled(tmp_path: Path) -> None:
    """-32768 has no magnitude in 16 bits: behind it, TFLM looks for the largest one again."""
    rows = samples((9,)) + [
        [np.array(row, np.int16)]
        for row in (
            [1] * 9,
            [0] * 8 + [-1],
            [9, -32768, -5, -9, 3, 0, 0, 0, 0],
            [-32768] + [-7] * 8,
            [-32767] * 9,
        )
    ]
    model = one("FftAutoScale", [("int16", (9,))], ("int16", (9,)), ("int32", ()))
    agree(model, tmp_path, 0, runs=len(rows), given=of(rows))


@pytest.mark.parametrize(
    ("shape", "length"), [((4,), 4), ((2, 7), 8), ((3, 16), 16), ((27,), 32), ((480,), 512)]
)
def test_a_fourier_transform(shape: tuple[int, ...], length: int, tmp_path: Path) -> None:
    model = one(
        "Rfft", [("int16", shape)], ("int16", (*shape[:-1], length + 2)), T=7, fft_length=length
    )  # fmt: skip
    agree(model, tmp_path, 0, runs=6, given=of(samples(shape)))


def test_a_spectrum_is_near_the_real_one(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(one("Rfft", [("int16", (2048,))], ("int16", (2050,)), T=7, fft_length=2048))
    x = np.random.default_rng(1).integers(-30000, 30000, 2048).astype(np.int16)
    (found,) = Interpreter(load_tflite(path)).run([x])
    exact = np.fft.rfft(x) / 2048
    assert np.abs(found[0::2] - exact.real).max() < 5 and np.abs(found[1::2] - exact.imag).max() < 5


def test_energies(tmp_path: Path) -> None:
    """The largest one needs 32 bits; bins that are not asked for, which TFLM leaves as they were, are 0."""
    model = one("Energy", [("int16", (18,))], ("uint32", (9,)), start_index=0, end_index=9)
    agree(model, tmp_path, 0, runs=6, given=of(samples((18,))))
    path = tmp_path / "m.tflite"
    path.write_bytes(one("Energy", [("int16", (8,))], ("uint32", (4,)), start_index=1, end_index=3))
    graph = load_tflite(path)
    x = np.array([1, 2, -32768, -32768, 3, -4, 5, 6], np.int16)
    for found in (Interpreter(graph), KernelRunner(archive_of(compile_graph(graph, Choice())), tmp_path)):
        assert found.run([x])[0].tolist() == [0, 1 << 31, 25, 0]


@pytest.mark.parametrize("negative", [False, True])
def test_a_filter_bank(negative: bool, tmp_path: Path) -> None:
    """Channels that overlap, that stand apart, and one of no bins."""
    random = np.random.default_rng(4)
    weights = random.integers(-32768 if negative else 0, 32768, (2, 40)).astype(np.int16)
    tables = [[3, 0, 5, 9, 12], [0, 7, 0, 11, 20], [5, 8, 0, 3, 18]]
    model = one(
        "FilterBank",
        [("uint32", (30,)), *weights, *np.array(tables, np.int16)],
        ("uint64", (4,)),
        num_channels=4,
    )
    rows = [[random.integers(0, high, 30).astype(np.uint32)] for high in (1 << 32, 1 << 20, 1)]
    agree(model, tmp_path, 0, runs=4, given=of([*rows, [np.full(30, 0xFFFFFFFF, np.uint32)]]))


def test_square_roots(tmp_path: Path) -> None:
    """Numbers around each point where the rounded root changes, of all sizes."""
    random = np.random.default_rng(2)
    roots = [0, 1, 2, 3, 0x7FFF, 0xFFFF, 0x10000, 0x10001, 0xFFFFFFFE, 0xFFFFFFFF]
    roots += [
        int(r) >> int(s)
        for r, s in zip(random.integers(0, 1 << 32, 190), random.integers(0, 32, 190), strict=True)
    ]
    near = [r * r + k for r in roots for k in (-1, 0, 1, r, r + 1, 2 * r)]
    numbers = np.array([min(max(0, n), (1 << 64) - 1) for n in near], np.uint64)
    model = one("FilterBankSquareRoot", [("uint64", numbers.shape), ("int32", ())], ("uint32", numbers.shape))
    agree(model, tmp_path, 0, runs=3, given=of([[numbers, np.array(bits, np.int32)] for bits in (0, 5, 31)]))
    big = np.array([math.isqrt(int(n)) for n in numbers])
    path = tmp_path / "model.tflite"
    (found,) = Interpreter(load_tflite(path)).run([numbers, np.array(0, np.int32)])
    assert set((found.astype(np.int64) - big).tolist()) == {0, 1}


@pytest.mark.parametrize("clamping", [False, True])
def test_noise_is_subtracted(clamping: bool, tmp_path: Path) -> None:
    """The estimate of each run is that of the one before, also where the signal's upper bits are lost."""
    options = {**SUBTRACTION, "clamping": clamping}
    model = one("FilterBankSpectralSubtraction", [("uint32", (6,))], *[("uint32", (6,))] * 2, **options)
    random = np.random.default_rng(6)
    rows = [
        [random.integers(0, 1 << int(bits), 6).astype(np.uint32)] for bits in (20, 22, 4, 12, 32, 30, 1, 22)
    ]
    agree(model, tmp_path, 0, runs=8, given=of(rows))
    interpreter = Interpreter(load_tflite(tmp_path / "model.tflite"))
    first = interpreter.run(rows[0])
    assert not np.array_equal(interpreter.run(rows[0])[1], first[1])
    interpreter.reset()
    assert np.array_equal(interpreter.run(rows[0]), first)


@pytest.mark.parametrize("shift", [6, 0, 40])
def test_gains(shift: int, tmp_path: Path) -> None:
    random = np.random.default_rng(shift)
    noise = np.array(
        [0, 1, 2, 3, *(1 << k for k in range(2, 32)), 0xFFFFFFFF, *random.integers(0, 1 << 32, 65)]
    )
    noise = noise.astype(np.uint32)
    table = random.integers(-32768 if shift else 0, 32768, 125).astype(np.int16)
    kind = ("uint32", noise.shape)
    rows = [[(random.integers(0, 1 << bits, noise.shape)).astype(np.uint32), noise] for bits in (32, 12, 5)]
    agree(one("PCAN", [kind, kind, table], kind, snr_shift=shift), tmp_path, 0, runs=3, given=of(rows))


@pytest.mark.parametrize(("shift", "scale"), [(3, 64), (0, 1600), (31, 0x7FFFFFFF)])
def test_logarithms(shift: int, scale: int, tmp_path: Path) -> None:
    random = np.random.default_rng(shift)
    x = np.array([0, 1, 2, 3, *(1 << k for k in range(2, 32)), 0xFFFFFFFF, *random.integers(0, 1 << 32, 400)])
    x = np.concatenate([x, x >> 13, x >> 22]).astype(np.uint32)
    model = one("FilterBankLog", [("uint32", x.shape)], ("int16", x.shape), input_correction_bits=shift, output_scale=scale)  # fmt: skip
    agree(model, tmp_path, 0, runs=1, given=of([[x]]))


@pytest.mark.qemu
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
def test_a_preprocessor_on_a_board(tmp_path: Path) -> None:
    """Consecutive runs on the emulated board, and on the host with its sanitizer, from a fresh start each."""
    path = tmp_path / "audio.tflite"
    path.write_bytes(preprocessor())
    chance = np.random.default_rng(5)
    rows = [
        (chance.normal(size=100) * size).clip(-32768, 32767).astype(np.int16) for size in (9000, 300, 20000)
    ]
    interpreter = Interpreter(load_tflite(path))
    expected = np.stack([interpreter.run([row])[0] for row in rows])
    assert len(np.unique(expected)) > 8
    (name,) = mlf_sdk.load(path).output_names
    report = mlf_sdk.run(path, board="mps2-an386", inputs={"x0": np.stack(rows)}, expect={name: expected})
    assert report.ok and report.compare is not None and report.compare.max_abs == 0


def test_a_preprocessor_against_tflm(tmp_path: Path) -> None:
    agree(preprocessor(), tmp_path, 7, runs=6)


ROW = ("int16", (8,))
REFUSED: list[tuple[bytes, str]] = [
    (one("Window", [ROW, np.ones(8, np.int16)], ROW), "has no options"),
    (one("Window", [ROW, np.ones(8, np.int16)], ROW, shifts=3), "its options lack shift"),
    (one("Window", [ROW, np.ones(8, np.int16)], ROW, shift=32), "has shift 32; a whole number from 0 to 31"),
    (one("Window", [ROW, np.ones(8, np.int16)], ROW, shift=1.5), "has shift 1.5; a whole number"),
    (one("Window", [ROW, np.ones(3, np.int16)], ROW, shift=1), "has 3 weights; a number that divides 8 samples"),
    (one("Window", [ROW, np.ones(8, np.int8)], ROW, shift=1), "is of int8; int16 is needed"),
    (one("Window", [ROW], ROW, shift=1), "has 1 inputs; 2 are needed"),
    (one("FftAutoScale", [ROW], ROW), "has 1 outputs; 2 are needed"),
    (one("FftAutoScale", [ROW], ROW, ("int32", (2,))), r"is stated with shape \(2,\); \(\) follows"),
    (one("FftAutoScale", [("int16", (1, 8))], ("int16", (1, 8)), ("int32", ())), "one dimension is needed"),
    (one("Rfft", [ROW], ("int16", (14,)), T=7, fft_length=12), "has fft_length 12; a power of two is needed"),
    (one("Rfft", [ROW], ("int16", (6,)), T=7, fft_length=4), r"at most fft_length \(4\) samples"),
    (one("Rfft", [ROW], ("int16", (16,)), T=7, fft_length=16), r"\(18,\) follows from the operator"),
    (one("Rfft", [ROW], ("int16", (18,)), T=7, fft_length=1 << 20), "has fft_length 1048576; a whole number"),
    (one("Rfft", [("float32", (8,))], ("float32", (18,)), T=0, fft_length=16), "computes with the type 0; int16"),
    (one("Rfft", [ROW], ("int16", (18,)), fft_length=16), "its options lack T"),
    (one("Energy", [ROW], ("uint32", (4,)), start_index=0, end_index=5), "has end_index 5; a whole number from 0 to 4"),
    (one("Energy", [ROW], ("uint32", (4,)), start_index=4, end_index=3), "has start_index 4"),
    (one("Energy", [ROW], ("uint32", (8,)), start_index=0, end_index=3), r"\(4,\) follows"),
    (one("FilterBankSquareRoot", [("uint64", (4,)), ("int32", (2,))], ("uint32", (4,))), "has 2 elements; 1 follow"),
    (
        one("PCAN", [("uint32", (4,))] * 2 + [np.ones(124, np.int16)], ("uint32", (4,)), snr_shift=6),
        "has 124 gains; 125 are needed",
    ),
    (
        one("FilterBankSpectralSubtraction", [("uint32", (5,))], *[("uint32", (5,))] * 2, **SUBTRACTION),
        "has num_channels 6; 'x0' has 5",
    ),
    (
        one("FilterBankSpectralSubtraction", [("uint32", (6,))], *[("uint32", (6,))] * 2, **{**SUBTRACTION, "smoothing_bits": 40}),
        "has smoothing_bits 40",
    ),
    (
        one("FilterBankLog", [("uint32", (4,))], ("int16", (4,)), input_correction_bits=3, output_scale=-1),
        "has output_scale -1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("model", "says"), REFUSED, ids=[says[:40] for _, says in REFUSED])
def test_what_is_refused(model: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(model)
    with pytest.raises(ArchiveError, match=rf"operator 0 CUSTOM:Signal\w+ \('.*'\): .*{says}") as caught:
        load_tflite(path)
    assert str(caught.value).count("onvert the model again") == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {3: [0, 3, 28]},
            "channel 2 reads 4 bins from 28 with weights from 6; there are 30 bins and 10 weights",
        ),
        ({4: [0, 3, 7]}, "channel 2 reads 4 bins from 6 with weights from 7"),
        ({3: [-1, 3, 6]}, "channel 0 reads 3 bins from -1"),
        ({5: [3, 3]}, "has tables of 2 channels; 3 are needed"),
        ({1: None}, r"its weights \('x1'\) is known only at run time"),
    ],
)
def test_filters_beyond_their_bins_are_refused(change: dict[int, Any], says: str, tmp_path: Path) -> None:
    tables: list[Any] = [None, [1] * 10, [2] * 10, [0, 3, 6], [0, 3, 6], [3, 3, 4]]
    for number, row in change.items():
        tables[number] = row
    chain = Chain()
    inputs = [chain.input("uint32", 30)]
    for row in tables[1:]:
        inputs.append(chain.input("int16", 10) if row is None else chain.constant(row))
    model = chain.finish(*chain.add("FilterBank", tuple(inputs), ("uint64", (2,)), num_channels=2))
    test_what_is_refused(model, says, tmp_path)


def test_damaged_options_are_refused_or_read(tmp_path: Path) -> None:
    """Bytes of the options changed: another number, or an error that says so."""
    options = bytes(flexbuffers.Dumps(SUBTRACTION))
    model = one("FilterBankSpectralSubtraction", [("uint32", (6,))], *[("uint32", (6,))] * 2, **SUBTRACTION)
    assert model.count(options) == 1
    path, refused = tmp_path / "m.tflite", 0
    places = range(0, len(options), 5)
    for place in places:
        damaged = options[:place] + bytes([options[place] ^ 0xFF]) + options[place + 1 :]
        path.write_bytes(model.replace(options, damaged))
        try:
            load_tflite(path)
        except ArchiveError as error:
            assert (
                "its options" in str(error)
                or "; a whole number" in str(error)
                or "has num_channels" in str(error)
            )
            refused += 1
    assert len(places) / 4 < refused < len(places)
