# SPDX-License-Identifier: Apache-2.0
"""Small .tflite models of audio preprocessing: TFLM's signal operators, one by one and behind each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from tflite_models import ModelSpec, OperatorSpec, write_model

Array = np.ndarray[Any, np.dtype[Any]]
Tensor = tuple[str, tuple[int, ...]]
SUBTRACTION = {
    "alternate_one_minus_smoothing": 15401, "alternate_smoothing": 983, "clamping": False,
    "min_signal_remaining": 819, "num_channels": 6, "one_minus_smoothing": 15975, "smoothing": 409,
    "smoothing_bits": 10, "spectral_subtraction_bits": 14,
}  # fmt: skip


class Chain:
    """A model under construction."""

    def __init__(self) -> None:
        self.spec = ModelSpec()

    def input(self, dtype: str, *shape: int) -> int:
        number = self.spec.tensor(f"x{len(self.spec.inputs)}", dtype, shape)
        self.spec.inputs.append(number)
        return number

    def constant(self, data: Any, dtype: str = "int16") -> int:
        array = np.array(data, dtype)
        return self.spec.tensor(f"c{len(self.spec.tensors)}", dtype, array.shape, data=array)

    def add(self, kind: str, inputs: tuple[int, ...], *outputs: Tensor, **options: Any) -> tuple[int, ...]:
        names = [self.spec.tensor(f"{kind}{k}", *output) for k, output in enumerate(outputs)]
        packed = bytes(flexbuffers.Dumps(options)) if options else b""
        self.spec.operators.append(OperatorSpec(f"CUSTOM:Signal{kind}", inputs, tuple(names), custom=packed))
        return tuple(names)

    def finish(self, *outputs: int) -> bytes:
        self.spec.outputs = list(outputs)
        return write_model(self.spec)


def one(kind: str, reads: list[Tensor | Array], *writes: Tensor, **options: Any) -> bytes:
    """A model of one operator; arrays among what it reads are constants."""
    chain = Chain()
    inputs = tuple(
        chain.input(value[0], *value[1])
        if isinstance(value, tuple)
        else chain.constant(value, value.dtype.name)
        for value in reads
    )
    return chain.finish(*chain.add(kind, inputs, *writes, **options))


def preprocessor() -> bytes:
    """All operators behind each other: 100 samples to five features."""
    chain, channels = Chain(), ("uint32", (5,))
    x = chain.input("int16", 100)
    (x,) = chain.add("Window", (x, chain.constant(np.hanning(100) * 4096)), ("int16", (100,)), shift=12)
    x, bits = chain.add("FftAutoScale", (x,), ("int16", (100,)), ("int32", ()))
    (x,) = chain.add("Rfft", (x,), ("int16", (130,)), T=7, fft_length=128)
    (x,) = chain.add("Energy", (x,), ("uint32", (65,)), start_index=2, end_index=60)
    weights = np.arange(58) % 10 * 400
    tables = [weights, 4096 - weights, range(2, 62, 10), range(0, 60, 10), [10] * 5 + [8]]
    inputs = (x, *(chain.constant(table) for table in tables))
    (x,) = chain.add("FilterBank", inputs, ("uint64", (5,)), num_channels=5)
    (x,) = chain.add("FilterBankSquareRoot", (x, bits), channels)
    options = {**SUBTRACTION, "num_channels": 5}
    x, noise = chain.add("FilterBankSpectralSubtraction", (x,), channels, channels, **options)
    gains = chain.constant(np.linspace(30000, 300, 125))
    (x,) = chain.add("PCAN", (x, noise, gains), channels, snr_shift=6)
    (x,) = chain.add("FilterBankLog", (x,), ("int16", (5,)), input_correction_bits=3, output_scale=64)
    return chain.finish(x)


def circular_buffer(slots: int, period: int, *, two: bool) -> bytes:
    """A model of a buffer of int8 values; with a second output that tells when its period is over.

    Args:
        period: runs; 0: none is stated.
    """
    spec, scale = ModelSpec(), {"scale": (0.1,), "zero_point": (3,)}
    x = spec.tensor("x", "int8", (1, 1, 2, 3), **scale)
    y = [spec.tensor("y", "int8", (1, slots, 2, 3), variable=True, **scale)]
    y += [spec.tensor("valid", "bool", ())] if two else []
    packed = bytes(flexbuffers.Dumps({"cycles_max": period})) if period else b""
    spec.operators.append(OperatorSpec("CUSTOM:CIRCULAR_BUFFER", (x,), tuple(y), custom=packed))
    spec.inputs, spec.outputs = [x], y
    return write_model(spec)
