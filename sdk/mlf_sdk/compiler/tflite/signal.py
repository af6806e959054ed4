# SPDX-License-Identifier: Apache-2.0
"""Builders of the custom operators of audio preprocessors (TensorFlow Lite Micro's signal library)."""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler import signals
from mlf_sdk.compiler.graph import State, Value, refuse
from mlf_sdk.compiler.tflite.context import Context, expect_elements, expect_shape, whole_numbers
from mlf_sdk.compiler.tflite.file import RawOperator
from mlf_sdk.compiler.tflite.flexbuffer import options_of, whole_number

_INT16: Final = 7  # of the schema's types
_WORD: Final = (1 << 31) - 1
_LENGTHS: Final = tuple(1 << bits for bits in range(2, 16))
GAINS: Final = 125  # of a table for all powers of two of 32 bits
_SUBTRACTION: Final = (
    *("smoothing", "one_minus_smoothing", "alternate_smoothing", "alternate_one_minus_smoothing"),
    *("min_signal_remaining", "smoothing_bits", "spectral_subtraction_bits", "clamping", "num_channels"),
)


def window(context: Context, operator: RawOperator) -> None:
    """SignalWindow."""
    options = options_of(operator.custom, ("shift",))
    (x, weights), (y,) = typed_values(context, operator, ("int16", "int16"), ("int16",))
    _expect_row(weights)
    if not weights.elements or x.elements % weights.elements:
        refuse(f"has {weights.elements} weights; a number that divides {x.elements} samples is needed")
    expect_shape(y, x.shape)
    context.add_operator(
        signals.SignalWindow, operator, [x, weights], y, shift=whole_number(options, "shift", 0, 31)
    )


def auto_scale(context: Context, operator: RawOperator) -> None:
    """SignalFftAutoScale."""
    (x,), (y, bits) = typed_values(context, operator, ("int16",), ("int16", "int32"))
    _expect_row(x)
    expect_shape(y, x.shape)
    expect_shape(bits, ())
    context.add_operator(signals.SignalAutoScale, operator, [x], y, bits)


def rfft(context: Context, operator: RawOperator) -> None:
    """SignalRfft."""
    options = options_of(operator.custom, ("T", "fft_length"))
    if options["T"] != _INT16:
        refuse(
            f"computes with the type {options['T']!r:.40}; int16 is supported", "convert it with int16 input"
        )
    (x,), (y,) = typed_values(context, operator, ("int16",), ("int16",))
    length = whole_number(options, "fft_length", _LENGTHS[0], _LENGTHS[-1])
    if length not in _LENGTHS:
        refuse(f"has fft_length {length}; a power of two is needed", "convert the model with a longer one")
    if not x.shape or x.shape[-1] > length:
        refuse(
            f"'{x.name}' has shape {x.shape}; its last dimension holds at most fft_length ({length}) samples"
        )
    expect_shape(y, (*x.shape[:-1], length + 2))
    context.add_operator(signals.SignalRfft, operator, [x], y, length=length)


def energy(context: Context, operator: RawOperator) -> None:
    """SignalEnergy."""
    options = options_of(operator.custom, ("start_index", "end_index"))
    (x,), (y,) = typed_values(context, operator, ("int16",), ("uint32",))
    _expect_row(x)
    expect_shape(y, (x.elements // 2,))
    end = whole_number(options, "end_index", 0, y.elements)
    start = whole_number(options, "start_index", 0, end)
    context.add_operator(signals.SignalEnergy, operator, [x], y, start=start, end=end)


def filter_bank(context: Context, operator: RawOperator) -> None:
    """SignalFilterBank; its tables must be constant."""
    options = options_of(operator.custom, ("num_channels",))
    values, (y,) = typed_values(context, operator, ("uint32", *("int16",) * 5), ("uint64",))
    x, weights, complements, *tables = values
    for value in values:
        _expect_row(value)
    channels = whole_number(options, "num_channels", 1, _WORD)
    expect_shape(y, (channels,))
    numbers = ("first bins", "first weights", "numbers of bins")
    rows = [whole_numbers(table, what) for table, what in zip(tables, numbers, strict=True)]
    if min(map(len, rows)) <= channels:
        refuse(f"has tables of {min(map(len, rows))} channels; {channels + 1} are needed")
    for value, what in ((weights, "weights"), (complements, "complements of the weights")):
        whole_numbers(value, what)
    held = min(weights.elements, complements.elements)
    for number, (first, weight, width) in enumerate(list(zip(*rows, strict=False))[: channels + 1]):
        if width > 0 and (min(first, weight) < 0 or first + width > x.elements or weight + width > held):
            refuse(
                f"channel {number} reads {width} bins from {first} with weights from {weight}; "
                f"there are {x.elements} bins and {held} weights"
            )
    context.add_operator(signals.SignalFilterBank, operator, values, y, channels=channels)


def square_root(context: Context, operator: RawOperator) -> None:
    """SignalFilterBankSquareRoot."""
    (x, bits), (y,) = typed_values(context, operator, ("uint64", "int32"), ("uint32",))
    _expect_row(x)
    expect_elements(bits, 1)
    expect_shape(y, x.shape)
    context.add_operator(signals.SignalSquareRoot, operator, [x, bits], y)


def spectral_subtraction(context: Context, operator: RawOperator) -> None:
    """SignalFilterBankSpectralSubtraction; its estimate of the noise is 0 before the first run."""
    options = options_of(operator.custom, _SUBTRACTION)
    (x,), (y, noise) = typed_values(context, operator, ("uint32",), ("uint32", "uint32"))
    _expect_row(x)
    for value in (y, noise):
        expect_shape(value, x.shape)
    if options["num_channels"] != x.elements:
        refuse(f"has num_channels {options['num_channels']!r:.40}; '{x.name}' has {x.elements}")
    even, even_old, odd, odd_old, least = (whole_number(options, name, 0, _WORD) for name in _SUBTRACTION[:5])
    state = len(context.states)
    context.add_operator(
        signals.SignalSpectralSubtraction, operator, [x], y, noise,
        state=state, smoothing=((even, even_old), (odd, odd_old)), least_left=least,
        smoothing_bits=whole_number(options, "smoothing_bits", 0, 31),
        bits=whole_number(options, "spectral_subtraction_bits", 0, 31),
        clamping=bool(whole_number(options, "clamping", 0, 1)),
    )  # fmt: skip
    initial = np.zeros(x.shape, np.uint32)
    context.states.append(State(name=noise.name, dtype=initial.dtype, shape=x.shape, initial=initial))


def gain(context: Context, operator: RawOperator) -> None:
    """SignalPCAN."""
    options = options_of(operator.custom, ("snr_shift",))
    (x, noise, table), (y,) = typed_values(context, operator, ("uint32", "uint32", "int16"), ("uint32",))
    _expect_row(x)
    _expect_row(table)
    for value in (noise, y):
        expect_shape(value, x.shape)
    if table.elements < GAINS:
        refuse(f"'{table.name}' has {table.elements} gains; {GAINS} are needed")
    shift = whole_number(options, "snr_shift", 0, 63)
    context.add_operator(signals.SignalGain, operator, [x, noise, table], y, shift=shift)


def log(context: Context, operator: RawOperator) -> None:
    """SignalFilterBankLog."""
    options = options_of(operator.custom, ("input_correction_bits", "output_scale"))
    (x,), (y,) = typed_values(context, operator, ("uint32",), ("int16",))
    _expect_row(x)
    expect_shape(y, x.shape)
    shift = whole_number(options, "input_correction_bits", 0, 31)
    scale = whole_number(options, "output_scale", 0, _WORD)
    context.add_operator(signals.SignalLog, operator, [x], y, shift=shift, scale=scale)


def typed_values(
    context: Context, operator: RawOperator, reads: tuple[str, ...], writes: tuple[str, ...]
) -> tuple[list[Value], list[Value]]:
    """Inputs and outputs of the types that the operator has."""
    inputs = context.inputs(operator, len(reads))
    if len(operator.outputs) != len(writes):
        refuse(f"has {len(operator.outputs)} outputs; {len(writes)} are needed")
    outputs = [context.output(operator, position) for position in range(len(writes))]
    for value, dtype in zip((*inputs, *outputs), (*reads, *writes), strict=True):
        if value.dtype != dtype:
            refuse(f"'{value.name}' is of {value.dtype}; {dtype} is needed")
    return inputs, outputs


def _expect_row(value: Value) -> None:
    if len(value.shape) != 1:
        refuse(f"'{value.name}' has shape {value.shape}; one dimension is needed")
