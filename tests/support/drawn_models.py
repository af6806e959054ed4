# SPDX-License-Identifier: Apache-2.0
"""Random models of operators that a network of one type has no place for: with states, of audio, of families."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from recurrent_models import lstm
from signal_models import SUBTRACTION, circular_buffer, one, preprocessor
from small_models import svdf
from tflite_families import FAMILIES

RUNS = 4  # consecutive ones


def _svdf(r: np.random.Generator) -> bytes:
    rank = int(r.integers(1, 4))
    filters = rank * int(r.integers(1, 9))
    sizes = (int(r.integers(1, 30)), filters, rank, int(r.integers(1, 11)), int(r.integers(1, 3)))
    return svdf(int(r.integers(1 << 30)), *sizes, kind=str(r.choice(["int8", "int16"])))


def _lstm(r: np.random.Generator) -> bytes:
    shape = (int(r.integers(1, 3)), int(r.integers(1, 6)), int(r.integers(1, 14)))
    return lstm(
        int(r.integers(1 << 30)),
        str(r.choice(["int8", "int16", "float32"])),
        shape=shape,
        units=int(r.integers(1, 12)),
        time_major=bool(r.integers(2)),
        clip=float(r.choice([0.0, 1.5, 10.0])),
    )


def _signal(r: np.random.Generator) -> bytes:
    """One operator of an audio front end."""
    n = int(r.integers(2, 40))
    words, sums = ("int16", (n,)), ("uint32", (n,))
    length = max(8, 1 << (n - 1).bit_length())
    bins = ("uint32", (length // 2 + 1,))
    models: list[Callable[[], bytes]] = [
        lambda: one("Window", [words, r.integers(-32768, 32768, n).astype(np.int16)], words, shift=int(r.integers(0, 16))),
        lambda: one("FftAutoScale", [words], words, ("int32", ())),
        lambda: one("Rfft", [words], ("int16", (length + 2,)), T=7, fft_length=length),
        lambda: one("Energy", [("int16", (length + 2,))], bins, start_index=0, end_index=length // 2 + 1),
        lambda: one("FilterBankSquareRoot", [("uint64", (n,)), ("int32", ())], sums),
        lambda: one("FilterBankSpectralSubtraction", [("uint32", (6,))], *[("uint32", (6,))] * 2, **SUBTRACTION),
        lambda: one("PCAN", [sums, sums, r.integers(0, 32768, 125).astype(np.int16)], sums, snr_shift=6),
        lambda: one("Delay", [words], words, delay_length=int(r.integers(0, 9))),
        lambda: one("OverlapAdd", [("int16", (2, n))], ("int16", (4,)), T=7, frame_step=2),
        lambda: one("Framer", [("int16", (2 * n,))], ("int16", (2, n + 3)), ("bool", ()), frame_size=n + 3, frame_step=n, prefill=True),
        lambda: one("Stacker", [words], ("int16", (3 * n,)), ("bool", ()), num_channels=n, stacker_left_context=2, stacker_right_context=0, stacker_step=1),
        lambda: circular_buffer(n, 1, two=False),
        lambda: one("FilterBankLog", [sums], words, input_correction_bits=3, output_scale=64),
        preprocessor,
    ]  # fmt: skip
    return models[int(r.integers(len(models)))]()


def drawn_model(seed: int) -> bytes:
    """A model of a seed."""
    r = np.random.default_rng(seed)
    family = list(FAMILIES.values())
    makers: list[Callable[[np.random.Generator], bytes]] = [
        _svdf, _lstm, _signal, _signal, lambda r: family[int(r.integers(len(family)))](),
    ]  # fmt: skip
    return makers[seed % len(makers)](r)
