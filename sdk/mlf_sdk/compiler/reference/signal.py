# SPDX-License-Identifier: Apache-2.0
"""References of audio preprocessing in whole numbers, bit for bit as TFLM's signal library computes it."""

from __future__ import annotations

import functools
import math

import numpy as np

from mlf_sdk.compiler import signals
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.reference import States, reference

_UNIT = 32767  # 1 as a factor of 16 bits


@reference(signals.SignalWindow)
def window(graph: Graph, operator: signals.SignalWindow, inputs: list[Array], _: States) -> list[Array]:
    """SignalWindow."""
    x, weights = (array.astype(np.int64) for array in inputs)
    return [np.clip(x.reshape(-1, len(weights)) * weights >> operator.shift, -32768, 32767)]


@reference(signals.SignalAutoScale)
def auto_scale(
    graph: Graph, operator: signals.SignalAutoScale, inputs: list[Array], _: States
) -> list[Array]:
    """SignalFftAutoScale; the largest magnitude is kept in 16 bits, where that of -32768 is negative."""
    most = 0
    for x in map(int, inputs[0]):
        if x > most:
            most = x
        elif -x > most:
            most = -x if x > -32768 else x
    bits = 15 - most.bit_length() if most > 0 else 0
    return [(inputs[0].astype(np.int64) << bits).astype(np.int16), np.array(bits)]


@reference(signals.SignalRfft)
def rfft(graph: Graph, operator: signals.SignalRfft, inputs: list[Array], _: States) -> list[Array]:
    """SignalRfft: even and odd samples as one row of complex numbers, taken apart in the end."""
    rows = inputs[0].reshape(-1, inputs[0].shape[-1]).astype(np.int64)
    rows = np.pad(rows, ((0, 0), (0, operator.length - rows.shape[1])))
    return [np.stack([_spectrum(_transform(row.reshape(-1, 2))) for row in rows])]


def _transform(z: Array) -> Array:
    """Transform of complex numbers (n, 2), divided by n: by fours, by two at the end."""
    if len(z) == 1:
        return z
    radix = 2 if len(z) % 4 else 4
    size = len(z) // radix
    a, b, *rest = (
        _times(_part(_transform(z[k::radix]), radix), _turns(k, size, len(z))) for k in range(radix)
    )
    if radix == 2:
        return _word(np.concatenate([a + b, a - b]))
    c, d = rest
    odd = b - d
    turned = np.stack([odd[:, 1], -odd[:, 0]], axis=1)
    return _word(np.concatenate([a + c + (b + d), a - c + turned, a + c - (b + d), a - c - turned]))


def _spectrum(z: Array) -> Array:
    """Bins of a real signal from the transform of its even and odd samples."""
    n = len(z)
    result = np.zeros((n + 1, 2), np.int64)
    first = _part(z[0], 2)
    result[0, 0], result[n, 0] = first.sum(), first[0] - first[1]
    k = np.arange(1, n // 2 + 1)
    near, far = _part(z[k], 2), _part(_word(z[n - k] * [1, -1]), 2)
    even = near + far
    odd = _word(_times(near - far, _halves(n)))
    result[k] = even + odd >> 1
    result[n - k] = (even - odd) * [1, -1] >> 1
    return result.reshape(-1)


def _word(x: Array) -> Array:
    """Numbers as 16 bits hold them."""
    return x.astype(np.int16).astype(np.int64)


def _part(z: Array, divisor: int) -> Array:
    return z * (_UNIT // divisor) + (1 << 14) >> 15


@functools.lru_cache(maxsize=64)
def _turns(k: int, size: int, points: int) -> tuple[Array, Array]:
    return _roots([-2 * math.pi * k * t / points for t in range(size)])


@functools.lru_cache(maxsize=8)
def _halves(points: int) -> tuple[Array, Array]:
    return _roots([-math.pi * (k / points + 0.5) for k in range(1, points // 2 + 1)])


def _roots(phases: list[float]) -> tuple[Array, Array]:
    """Real and imaginary parts of the numbers of length 1 at these angles."""
    real, imaginary = (
        [math.floor(0.5 + _UNIT * function(phase)) for phase in phases] for function in (math.cos, math.sin)
    )
    return np.array(real), np.array(imaginary)


def _times(z: Array, turns: tuple[Array, Array]) -> Array:
    """Complex numbers, each turned by an angle."""
    real, imaginary = turns
    product = [z[:, 0] * real - z[:, 1] * imaginary, z[:, 0] * imaginary + z[:, 1] * real]
    return np.stack(product, axis=1) + (1 << 14) >> 15


@reference(signals.SignalEnergy)
def energy(graph: Graph, operator: signals.SignalEnergy, inputs: list[Array], _: States) -> list[Array]:
    """SignalEnergy."""
    squares = (inputs[0].reshape(-1, 2).astype(np.int64) ** 2).sum(axis=1)
    places = np.arange(len(squares))
    return [np.where((places >= operator.start) & (places < operator.end), squares, 0)]


@reference(signals.SignalFilterBank)
def filter_bank(
    graph: Graph, operator: signals.SignalFilterBank, inputs: list[Array], _: States
) -> list[Array]:
    """SignalFilterBank."""
    x, weights, complements = (array.astype(np.uint64) for array in inputs[:3])
    sums = np.zeros(operator.channels + 2, np.uint64)
    tables = (table[: operator.channels + 1].tolist() for table in inputs[3:])
    for channel, (first, start, width) in enumerate(zip(*tables, strict=True)):
        part = x[first : first + max(0, width)]
        sums[channel : channel + 1] += np.sum(weights[start : start + len(part)] * part)
        sums[channel + 1 : channel + 2] += np.sum(complements[start : start + len(part)] * part)
    return [sums[1:-1]]


@reference(signals.SignalSquareRoot)
def square_root(
    graph: Graph, operator: signals.SignalSquareRoot, inputs: list[Array], _: States
) -> list[Array]:
    """SignalFilterBankSquareRoot."""
    bits = int(inputs[1].reshape(-1)[0]) & 31
    return [np.array([_root(int(x)) >> bits for x in inputs[0]])]


def _root(x: int) -> int:
    """Nearest root, of as many bits as half of the number's word has."""
    root = math.isqrt(x)
    return min(root + (x - root * root > root), 0xFFFF if x < 1 << 32 else 0xFFFFFFFF)


@reference(signals.SignalSpectralSubtraction)
def spectral_subtraction(
    graph: Graph, operator: signals.SignalSpectralSubtraction, inputs: list[Array], states: States
) -> list[Array]:
    """SignalFilterBankSpectralSubtraction."""
    word = 0xFFFFFFFF
    estimate = states[operator.state]
    result = []
    for channel, x in enumerate(map(int, inputs[0])):
        new, old = operator.smoothing[channel & 1]
        signal = x << operator.smoothing_bits & word
        noise = (signal * new + int(estimate[channel]) * old >> operator.bits) & word
        left = signal - min(noise, signal) >> operator.smoothing_bits
        result.append(max(left, (x * operator.least_left >> operator.bits) & word))
        estimate[channel] = min(noise, signal) if operator.clamping else noise
    return [np.array(result), estimate.copy()]


@reference(signals.SignalGain)
def gain(graph: Graph, operator: signals.SignalGain, inputs: list[Array], _: States) -> list[Array]:
    """SignalPCAN."""
    table = [int(v) for v in inputs[2]]
    result = []
    for x, noise in zip(map(int, inputs[0]), map(int, inputs[1]), strict=True):
        ratio = (x * (_gain(noise, table) & 0xFFFFFFFF) >> operator.shift) & 0xFFFFFFFF
        result.append(ratio * ratio >> 20 if ratio < 2 << 12 else (ratio >> 6) - (1 << 6))
    return [np.array(result)]


def _gain(x: int, table: list[int]) -> int:
    """Gain at a number: from the table, or of the parabola of its power of two, as 16 bits hold it."""
    if x <= 2:
        return table[x]
    bits = x.bit_length()
    part = (x << 11 >> bits) & 0x3FF
    value, slope, curve = table[4 * bits - 6 : 4 * bits - 3]
    bent = ((curve * part >> 5) + (slope << 5)) * part
    return (value + (bent + (1 << 14) >> 15) + (1 << 15)) % (1 << 16) - (1 << 15)


@reference(signals.SignalLog)
def log(graph: Graph, operator: signals.SignalLog, inputs: list[Array], _: States) -> list[Array]:
    """SignalFilterBankLog."""
    scaled = [int(x) << operator.shift & 0xFFFFFFFF for x in inputs[0]]
    return [np.array([_log(x, operator.scale) if x > 1 else 0 for x in scaled])]


def _log(x: int, scale: int) -> int:
    """Logarithm by that of base 2, whose fraction is interpolated between 128 places."""
    power = x.bit_length() - 1
    part = (x << 16 >> power) - (1 << 16)
    place, rest = divmod(part, 512)
    low, high = (round(65536 * (math.log2(1 + i / 128) - i / 128)) for i in (place, place + 1))
    binary = (power << 16) + part + low + ((high - low) * rest >> 16)
    natural = 45426 * binary + (1 << 15) >> 16
    return min((scale * natural + (1 << 15) & 0xFFFFFFFF) >> 16, 32767)


@reference(signals.SignalOverlapAdd)
def overlap_add(
    graph: Graph, operator: signals.SignalOverlapAdd, inputs: list[Array], states: States
) -> list[Array]:
    """SignalOverlapAdd."""
    sums = states[operator.state]
    frames = inputs[0].reshape(len(sums), -1, sums.shape[1])
    done = []
    for frame in frames.swapaxes(0, 1):
        sums[:] = sums + frame if sums.dtype.kind == "f" else _limited_sum(sums, frame)
        done.append(sums[:, : operator.step].copy())
        sums[:, : -operator.step] = sums[:, operator.step :].copy()
        sums[:, -operator.step :] = 0
    return [np.concatenate(done, axis=1)]


def _limited_sum(a: Array, b: Array) -> Array:
    return np.clip(a.astype(np.int32) + b, -32768, 32767).astype(np.int16)
