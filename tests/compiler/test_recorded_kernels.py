# SPDX-License-Identifier: Apache-2.0
"""Recorded parts of kernels: what plain C and numpy make of them is what the kernel is to compute."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.compiler.kernels import (
    conv_2ch_int8,
    dense_shifted_words,
    depthwise,
    vector_matrix,
    widening,
    winograd,
    winograd_input,
)
from mlf_sdk.compiler.kernels.rescale import Form
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import assembly, recorded
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set
from recorded import outcome

DSP = instruction_set("dsp")


def widened(quads: np.ndarray, *, fine: bool, odd_first: bool = False) -> np.ndarray:
    """Halves of the pairs of fours of bytes, shape (..., 4): even bytes and odd ones, shape (2, ..., 2)."""
    even, odd = quads[..., ::2].astype(np.int64), quads[..., 1::2].astype(np.int64)
    if fine:
        odd = odd - 127
        even = 256 * even - odd
    return np.stack([odd, even] if odd_first else [even, odd])


def halves(words: np.ndarray) -> np.ndarray:
    """Numbers of 16 bits, the lower ones of words first."""
    return np.ascontiguousarray(words.astype(np.int32)).view(np.int16)


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize(("pixels", "rows", "quads"), [(5, 3, 2), (4, 1, 10), (1, 2, 9), (3, 2, 16)])
def test_windows_are_widened(pixels: int, rows: int, quads: int, fine: bool, tmp_path: Path) -> None:
    distance, row_bytes = 3, 71
    x = np.random.default_rng(quads).integers(-128, 128, rows * row_bytes + 80).astype(np.int8)
    odd_first = pixels == 4
    b = widening.record(pixels, distance, rows, quads, fine=fine, short=False, odd_first=odd_first)
    got = outcome(b, tmp_path, x, np.zeros(2 * rows * quads * pixels, np.int32), row_bytes)["b"]
    places = np.arange(rows)[:, None, None] * row_bytes + np.arange(quads)[:, None] * 4
    places = places + np.arange(pixels) * distance
    wanted = widened(x[places[..., None] + np.arange(4)], fine=fine, odd_first=odd_first)
    np.testing.assert_array_equal(halves(got), np.moveaxis(wanted, 0, 2).reshape(-1))
    assembly(b, DSP)


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("quads", [1, 2])
def test_the_last_word_of_a_window_may_hold_one_byte(quads: int, fine: bool, tmp_path: Path) -> None:
    x = np.random.default_rng(1).integers(-128, 128, 80).astype(np.int8)
    b = widening.record(2, 3, 1, quads, fine=fine, short=True, odd_first=False)
    got = halves(outcome(b, tmp_path, x, np.zeros(4 * quads - 2, np.int32), 0)["b"])[8 * quads - 8 :]
    first = 4 * quads - 4
    wanted = x[[first, first + 2, first + 3, first + 5]].astype(int) * (256 if fine else 1)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_row_is_widened(count: int, fine: bool, tmp_path: Path) -> None:
    x = np.random.default_rng(count).integers(-128, 128, 8 * count).astype(np.int8)
    b = widening.record_row(count, fine=fine)
    got = outcome(b, tmp_path, x, np.zeros(4 * count, np.int32), 2)["b"]
    np.testing.assert_array_equal(
        halves(got), np.moveaxis(widened(x.reshape(-1, 4), fine=fine), 0, 1).reshape(-1)
    )


def test_two_rows_become_pairs(tmp_path: Path) -> None:
    u, lower = np.random.default_rng(0).integers(-128, 128, (2, 16)).astype(np.int8)
    b = depthwise.record_pairs(-100, 2)
    got = outcome(b, tmp_path, u, lower, np.zeros(16, np.int32), 4)["b"]
    np.testing.assert_array_equal(halves(got).reshape(-1, 2), np.stack([u, lower], axis=1).astype(int) + 100)


@pytest.mark.parametrize("count", [1, 2])
def test_windows_at_stride_2(count: int, tmp_path: Path) -> None:
    channels, random = 4, np.random.default_rng(count)
    rows = random.integers(-200, 200, (2, 5, channels, 2))
    weights = random.integers(-100, 100, (channels, 3, 2, 2))  # from the last column to the first
    weights[:, :, 1, 0] = weights[:, :, 0, 1]
    bias, words = random.integers(-99, 99, channels), np.array([1 << 30, 5])
    u, lower = np.ascontiguousarray(rows.astype(np.int16)).view(np.int32).reshape(2, -1)
    pairs = np.ascontiguousarray(weights.astype(np.int16)).view(np.int32).reshape(channels, -1)
    stream = np.concatenate([bias[:, None], pairs, np.tile(words, (channels, 1))], axis=1)
    b = depthwise.record_columns(count, channels, channels, Epilogue(Form.FINE, 9, (-128, 127), 2))
    y = np.zeros(count * channels, np.int8)
    got = outcome(b, tmp_path, u, lower, stream.astype(np.int32).reshape(-1), y)["y"].reshape(count, -1)
    for pixel in range(count):
        sums = bias.copy()
        for column in range(3):
            upper, below = rows[:, 2 * pixel + column]
            upper_weights, lower_weights = weights[:, 2 - column].transpose(1, 0, 2)
            sums += (upper * upper_weights).sum(axis=1) + below[:, 0] * lower_weights[:, 1]
        np.testing.assert_array_equal(got[pixel], np.clip(((sums >> 2) + 5) >> 9, -128, 127))
    assert len({*got.ravel()}) > 2


def test_a_vector_times_four_rows(tmp_path: Path) -> None:
    inputs, random = 8, np.random.default_rng(0)
    vector, rows = (
        random.integers(-9999, 9999, inputs),
        random.integers(-128, 128, (4, 1, inputs)).astype(np.int8),
    )
    sums = random.integers(-99, 99, 4)
    packed = np.ascontiguousarray(vector_matrix.pack([*rows])).view(np.int32).reshape(-1)
    memory = np.concatenate([np.ascontiguousarray(vector.astype(np.int16)).view(np.int32), sums])
    size = inputs // 2
    got = outcome(vector_matrix.record(), tmp_path, memory.astype(np.int32), packed, ("x", size))["x"]
    np.testing.assert_array_equal(got[size:], sums + rows[:, 0].astype(np.int64) @ vector)


@pytest.mark.parametrize(("record", "target"), [("record_m3", "thumb2"), ("record_m0", "thumb1")])
def test_products_of_shifted_words(record: str, target: str, tmp_path: Path) -> None:
    """Words of weights times factors, each with the word eight bits further to the right."""
    random, taps = np.random.default_rng(0), 16
    factors, start = random.integers(-99999, 99999, taps), -777
    words = random.integers(-(1 << 31), 1 << 31, (taps // 4, 4))
    biases = random.integers(-999, 999, 4)
    x = np.append(start, factors).astype(np.int32)
    w = np.concatenate([biases, words.reshape(-1)]).astype(np.int32)
    b = getattr(dense_shifted_words, record)()
    got = outcome(b, tmp_path, x, w, np.zeros(4, np.int32), taps, target=target)["s"]
    wanted = biases + start
    for quad in range(taps // 4):
        for k in range(4):
            wanted = wanted + (words[quad] >> 8 * k) * factors[4 * quad + k]
    np.testing.assert_array_equal(got, wanted.astype(np.uint32).view(np.int32))
    assembly(b, instruction_set(target))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("squares", "ic"), [(2, 8), (3, 12), (4, 20)])
def test_squares_of_two_rows_are_transformed(squares: int, ic: int, sign: int, tmp_path: Path) -> None:
    """Four products a square, rows of all squares behind each other: even channels of four, then odd ones."""
    b = winograd_input.record("sadd16" if sign > 0 else "ssub16", squares, ic)
    columns, row = 2 * squares + 2, ic // 2 * squares
    u, lower = np.random.default_rng(ic).integers(-128, 128, (2, columns, ic)).astype(np.int8)
    got = outcome(b, tmp_path, u.reshape(-1), lower.reshape(-1), np.zeros(4 * row, np.int32))["b"]
    v = u.astype(np.int64) + sign * lower.astype(np.int64)
    for square in range(squares):
        first, second, third, fourth = v[2 * square : 2 * square + 4]
        for number, wanted in enumerate((second + third, third - second, first - third, second - fourth)):
            words = got[number * row :][:row].reshape(ic // 4, 2, squares)[:, :, square]
            found = halves(words).reshape(ic // 4, 2, 2)  # four channels, half, pair
            np.testing.assert_array_equal(found, wanted.reshape(ic // 4, 2, 2).transpose(0, 2, 1))
    assembly(b, DSP)


def test_squares_fit_the_offsets_of_loads(tmp_path: Path) -> None:
    for squares, most in ((2, 512), (3, 512), (4, 452)):
        assert winograd_input.reaches(squares, most)
        assembly(winograd_input.record("ssub16", squares, most), DSP)
    assert not winograd_input.reaches(4, 456)


@pytest.mark.parametrize("form", [Form.FINE, Form.SINGLE])
@pytest.mark.parametrize(("squares", "ic"), [(2, 8), (3, 12), (4, 16), (3, 76), (4, 72)])
def test_products_of_squares(squares: int, ic: int, form: Form, tmp_path: Path) -> None:
    """Sums of the products of each row of a square, then of rows; from 72 channels on in a loop."""
    channels, row, random = 3, 100, np.random.default_rng(ic)
    values = random.integers(-90, 90, (4, 4, ic // 2, squares, 2))
    weights = random.integers(-9, 9, (channels, 4, 4, ic // 2, 2))
    k0, k1, k2, k3 = np.moveaxis(np.einsum("rkqsi,crkqi->ckrs", values, weights), 1, 0)
    columns = np.stack([k0 + k1 + k2, k0 - k1 + k3])
    u0, u1, u2, u3 = np.moveaxis(columns, 2, 0)
    sums = np.stack([u0 + u1 + u2, u1 - u2 - u3])  # row, column, channel, square
    starts = random.integers(-999, 999, channels)
    fine = form is Form.FINE
    words = np.array([1 << 28, 5]) if fine else np.array([1 << 28, 5, 6])
    sums = starts[:, None] + (sums << 6 if fine else sums >> 2)
    wanted = ((sums >> 4) + 5) >> 12 if fine else (((sums * 2 + 8) >> 4) + 5) >> 6
    wanted = np.clip(wanted, -90, 127)

    packed = np.ascontiguousarray(weights.astype(np.int16)).view(np.int32).reshape(channels, -1)
    stream = np.concatenate([packed, starts[:, None], np.tile(words, (channels, 1))], axis=1)
    b = winograd.record(squares, ic, row, channels, Epilogue(form, 12 if fine else 0, (-90, 127), len(words)))
    x = np.ascontiguousarray(values.astype(np.int16)).view(np.int32).reshape(-1)
    y, s = np.zeros(2 * row, np.int8), np.zeros(8 * squares, np.int32)
    got = outcome(b, tmp_path, x, stream.astype(np.int32).reshape(-1), y, channels, s)["y"].reshape(2, row)
    got = got[:, : 2 * squares * channels].reshape(2, squares, 2, channels)
    np.testing.assert_array_equal(got, wanted.transpose(0, 3, 1, 2))
    assert len({*got.ravel()}) > 3
    assembly(b, DSP)


def test_a_function_begins_with_its_instructions_and_products() -> None:
    """Each as often as it stands there, as a reader would count them."""
    text = recorded("tile", "dsp", conv_2ch_int8.record, 4, 16, 64, Epilogue(Form.FINE, 12, (-128, 127), 2))
    lines = re.findall(r'^ +"(.*)\\n"$', text["tile"], re.MULTILINE)
    instructions = [line for line in lines if not re.fullmatch(r"\d+:", line)]
    assert sum(line.startswith("smlad ") for line in instructions) == 4 * 16 * 4
    about = f"/* conv_2ch_int8: {len(instructions)} instructions for {4 * 16 * 4 * 2} products */"
    assert text["tile"].partition("volatile(")[2].split("\n")[1].strip() == about
