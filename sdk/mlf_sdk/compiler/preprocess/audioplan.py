# SPDX-License-Identifier: Apache-2.0
"""From sound to the features of a speech model: tables, and the operators that compute one window.

A window of samples is weighted (Hann) and transformed, and its energies are summed by mel filters. A
feature is ln(sqrt(sum(w * |X|^2))) * 64, where X is the transform of the weighted samples as they are, and
0 below 1. It is computed as TensorFlow's and TFLM's microfrontend does, in the same whole numbers, with the
same optional estimates of noise and gain. With ``coefficients`` features are those of its cosine transform
(MFCC: type 2, times sqrt(2 / channels)). The input is a feature times ``unit``; that is 1/64 where nothing
is stated, for natural logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler import signals
from mlf_sdk.compiler.graph import Graph, State, Value
from mlf_sdk.compiler.operators import Array, Operator
from mlf_sdk.compiler.preprocess.section import refuse, stored_limits
from mlf_sdk.ir.tensor import InputFacts, Section

COSINE_BITS: Final = 14
_UNIT: Final = 1 / 64
_FILTER_BITS: Final = 12
_SMOOTHING_BITS: Final = 10
_SUBTRACTION_BITS: Final = 14
_SMOOTHING: Final = ((0.025, 0.975), (0.06, 0.94))  # of even and odd channels: weights of signal and estimate
_LEAST_LEFT: Final = 0.05
_GAIN_BITS: Final = 21
_GAIN_OFFSET: Final = 80.0
_GAIN_STRENGTH: Final = 0.95
_SNR_BITS: Final = 12
_LOG_SCALE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPlan:
    """Preprocessing of sound.

    Attributes:
        window, stride: in samples.
        windows: of an inference.
        graph: from the samples of a window to its int16 features before the cosine transform.
        cosines: (features, channels) times 2 to the power of `COSINE_BITS`; None: there is no transform.
        multiplier, shift: stored value = (feature * multiplier + half) >> shift, plus the zero point.
        unit: real value of 1 as a feature, for an input of floats, as single precision.
        limits: of the stored values; None: floats.
        title: description for people.
    """

    window: int
    stride: int
    windows: int
    features: int
    graph: Graph
    cosines: Array | None
    multiplier: int
    shift: int
    zero_point: int
    unit: float
    limits: tuple[int, int] | None
    dtype: str
    title: str

    @property
    def samples(self) -> int:
        """Samples of an inference."""
        return self.window + (self.windows - 1) * self.stride


def plan_audio(section: Section, facts: InputFacts) -> AudioPlan:
    """Decide everything about the preprocessing of sound.

    Raises:
        InputError: a key does not fit the others or the input; it is named.
    """
    rate = section.rate or 0
    if not 1000 <= rate <= 96_000:
        refuse("rate", f"{rate} is not within 1,000 to 96,000 Hz")
    window, stride = (_samples(section, key, rate) for key in ("window_ms", "stride_ms"))
    length = 1 << max(6, (window - 1).bit_length())
    if length > 4096:
        refuse("window_ms", f"{window} samples; a window has at most 4,096")
    if not 2 <= section.channels <= 128:
        refuse("channels", f"{section.channels} is not within 2 to 128")
    features = section.channels if section.coefficients is None else section.coefficients
    if not 1 <= features <= section.channels:
        refuse("coefficients", f"{features} is not within 1 to the {section.channels} channels")
    elements = math.prod(facts.shape)
    if elements % features:
        key = "channels" if section.coefficients is None else "coefficients"
        refuse(key, f"{features} features a window do not divide the {elements} elements of the input")
    limits = stored_limits(facts, "features")
    unit = _UNIT if section.unit is None else section.unit
    if not 0 < unit < math.inf:
        refuse("unit", f"{unit:g} is not a number > 0")
    unit /= 1 if section.coefficients is None else 1 << COSINE_BITS
    multiplier, shift = (0, 1) if limits is None else _multiplier(unit / facts.scale)
    kind = f"{section.channels} mel" if section.coefficients is None else f"{features} MFCC"
    return AudioPlan(
        window=window,
        stride=stride,
        windows=elements // features,
        features=features,
        graph=_graph(section, rate, window, length),
        cosines=None if section.coefficients is None else _cosines(features, section.channels),
        multiplier=multiplier,
        shift=shift,
        zero_point=facts.zero_point,
        unit=float(np.float32(unit)),
        limits=limits,
        dtype=facts.dtype,
        title=f"{elements // features} windows of {window} samples at {rate} Hz, {stride} apart, "
        f"to {kind} features each",
    )


def _samples(section: Section, key: str, rate: int) -> int:
    milliseconds: int = getattr(section, key)
    samples, rest = divmod(milliseconds * rate, 1000)
    if milliseconds < 1 or rest or samples < 2:
        refuse(key, f"{milliseconds} ms at {rate} Hz is no whole number of samples > 1")
    return samples


def _multiplier(ratio: float) -> tuple[int, int]:
    """Ratio as a whole number of 31 bits and a shift.

    Raises:
        InputError: it is too small or too large for features to be stored.
    """
    mantissa, exponent = math.frexp(ratio)
    multiplier, shift = round(mantissa * (1 << 31)), 31 - exponent
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift - 1
    if not 1 <= shift <= 62:
        refuse("unit", f"a feature is {ratio:.3g} steps of the input")
    return multiplier, shift


def _cosines(features: int, channels: int) -> Array:
    k, c = np.arange(features)[:, None], np.arange(channels)[None, :]
    exact = np.cos(np.pi * k * (c + 0.5) / channels) * math.sqrt(2 / channels)
    return np.floor(exact * (1 << COSINE_BITS) + 0.5).astype(np.int16)


class _Chain:
    """Values and operators of a graph under construction."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.operators: list[Operator] = []
        self.states: list[State] = []

    def value(self, dtype: str, shape: tuple[int, ...], data: Array | None = None) -> int:
        number = len(self.values)
        self.values.append(Value(id=number, name=f"v{number}", dtype=np.dtype(dtype), shape=shape, data=data))
        return number

    def constant(self, data: Array) -> int:
        return self.value(data.dtype.name, data.shape, data)

    def add(
        self,
        kind: type[Operator],
        inputs: tuple[int, ...],
        *outputs: tuple[str, int],
        **more: Any,  # noqa: ANN401 (attributes of the operator)
    ) -> tuple[int, ...]:
        numbers = tuple(self.value(dtype, (size,)) for dtype, size in outputs)
        number = len(self.operators)
        self.operators.append(kind(number=number, kind=kind.__name__, inputs=inputs, outputs=numbers, **more))
        return numbers


def _graph(section: Section, rate: int, window: int, length: int) -> Graph:
    """Operators from the samples of a window to its features."""
    chain, channels = _Chain(), section.channels
    bank, start, end = _filters(section, rate, length)
    correction = (
        length.bit_length() - 1 - _FILTER_BITS // 2
    )  # what the transform divides by, less the filters' bits
    samples = chain.value("int16", (window,))
    (x,) = chain.add(
        signals.SignalWindow, (samples, chain.constant(_hann(window))), ("int16", window), shift=12
    )
    x, bits = chain.add(signals.SignalAutoScale, (x,), ("int16", window), ("int32", 1))
    (x,) = chain.add(signals.SignalRfft, (x,), ("int16", length + 2), length=length)
    (x,) = chain.add(signals.SignalEnergy, (x,), ("uint32", length // 2 + 1), start=start, end=end)
    (x,) = chain.add(
        signals.SignalFilterBank, (x, *map(chain.constant, bank)), ("uint64", channels), channels=channels
    )
    (x,) = chain.add(signals.SignalSquareRoot, (x, bits), ("uint32", channels))
    if section.noise or section.gain:
        chain.states.append(
            State(
                name="noise",
                dtype=np.dtype("uint32"),
                shape=(channels,),
                initial=np.zeros(channels, np.uint32),
            )
        )
        one = 1 << _SUBTRACTION_BITS
        left, noise = chain.add(
            signals.SignalSpectralSubtraction,
            (x,),
            *[("uint32", channels)] * 2,
            state=0,
            smoothing=tuple((int(new * one), one - int(new * one)) for new, _ in _SMOOTHING),
            least_left=int(_LEAST_LEFT * one),
            smoothing_bits=_SMOOTHING_BITS,
            bits=_SUBTRACTION_BITS,
            clamping=False,
        )
        x = left if section.noise else x
        if section.gain:
            table = chain.constant(_gains(_SMOOTHING_BITS - correction))
            shift = _GAIN_BITS - correction - _SNR_BITS
            (x,) = chain.add(signals.SignalGain, (x, noise, table), ("uint32", channels), shift=shift)
    (x,) = chain.add(signals.SignalLog, (x,), ("int16", channels), shift=correction, scale=_LOG_SCALE)
    return Graph(
        name="window",
        values=tuple(chain.values),
        operators=tuple(chain.operators),
        inputs=(samples,),
        outputs=(x,),
        states=tuple(chain.states),
    )


def _hann(size: int) -> Array:
    places = (np.arange(size) + 0.5) / size
    return np.floor((0.5 - 0.5 * np.cos(2 * np.pi * places)) * 4096 + 0.5).astype(np.int16)


def _mel(hertz: float) -> float:
    return 1127.0 * math.log1p(hertz / 700.0)


def _filters(section: Section, rate: int, length: int) -> tuple[list[Array], int, int]:
    """Tables of `signals.SignalFilterBank`; the first bin that a filter reads, and the one after the last."""
    low, high = section.low_hz, section.high_hz
    if not 0 <= low < high or 2 * high > rate:
        refuse("high_hz", f"{low} to {high} Hz do not lie within 0 to half of the rate, {rate // 2} Hz")
    width = rate / length
    first, spacing = _mel(low), (_mel(high) - _mel(low)) / (section.channels + 1)
    ends = [first + spacing * (channel + 1) for channel in range(section.channels + 1)]
    bin_number = start = int(1.5 + low / width)
    weights: list[float] = []
    rows: list[tuple[int, int, int]] = []
    for channel, end in enumerate(ends):
        before = ends[channel - 1] if channel else first
        begin, bin_first = len(weights), bin_number
        while bin_number <= length // 2 and _mel(bin_number * width) <= end:
            weights.append((end - _mel(bin_number * width)) / (end - before))
            bin_number += 1
        rows.append((bin_first, begin, bin_number - bin_first))
    falling, one = np.array(weights), 1 << _FILTER_BITS
    tables = [(falling * one).astype(np.int16), ((1 - falling) * one).astype(np.int16)]
    if section.channels > bin_number - start:
        refuse(
            "channels", f"{section.channels} for {bin_number - start} bins of the transform", "Give fewer."
        )
    return [*tables, *(np.array(column, np.int16) for column in zip(*rows, strict=True))], start, bin_number


def _gains(fraction_bits: int) -> Array:
    """Gains of noise: of 0 and 1, then three coefficients for each power of two."""
    table = [_gain(0, fraction_bits), _gain(1, fraction_bits)]
    for interval in range(2, 33):
        low = 1 << (interval - 1)
        places = (low, low + (low >> 1), 2 * low - (interval == 32))
        values = [_gain(place, fraction_bits) for place in places]
        half, whole = values[1] - values[0], values[2] - values[0]
        slope = 4 * half - whole
        table += [values[0], slope, whole - slope, 0]
    return np.array(table[:125], np.int16)


def _gain(noise: int, fraction_bits: int) -> int:
    value = noise / 2.0**fraction_bits
    gain = (1 << _GAIN_BITS) * (value + _GAIN_OFFSET) ** -_GAIN_STRENGTH
    return min(int(gain + 0.5), 0x7FFF)
