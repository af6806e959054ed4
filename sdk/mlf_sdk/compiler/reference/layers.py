# SPDX-License-Identifier: Apache-2.0
"""References of layers with weights, of pooling and of softmax with its fixed-point functions."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import (
    Array,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Layer,
    Pool2D,
    PoolKind,
    Softmax,
    TransposeConv,
    Window,
)
from mlf_sdk.compiler.reference import States, reference
from mlf_sdk.compiler.reference.fixed import (
    exp_of_negative,
    high_product,
    interpolate,
    interpolated_table,
    leading_zeros,
    log_of_sum,
    reciprocal_of_one_plus,
)
from mlf_sdk.compiler.requantise import (
    Multiplier,
    doubling_high_product,
    has_wide_sums,
    layer_multipliers,
    multiply,
    multiply_wide,
    rounding_shift,
    wrap32,
)


def patches(x: Array, window: Window, output: tuple[int, int], fill: float) -> Array:
    """Windows of an NHWC array: (N, OH, OW, KH, KW, C), padding filled."""
    n, c = x.shape[0], x.shape[3]
    kh, kw = ((k - 1) * d + 1 for k, d in zip(window.size, window.dilation, strict=True))
    need = tuple((o - 1) * s + k for o, s, k in zip(output, window.stride, (kh, kw), strict=True))
    top, left = (max(b, 0) for b in window.before)
    x = x[:, max(-window.before[0], 0) :, max(-window.before[1], 0) :]
    h, w = x.shape[1:3]
    padded = np.full((n, max(need[0], top + h), max(need[1], left + w), c), fill, x.dtype)
    padded[:, top : top + h, left : left + w] = x
    views = np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), axis=(1, 2))
    views = views[:, :: window.stride[0], :: window.stride[1]][:, : output[0], : output[1]]
    views = views[..., :: window.dilation[0], :: window.dilation[1]]
    return views.transpose(0, 1, 2, 4, 5, 3)


def finish(graph: Graph, operator: Layer, acc: Array) -> list[Array]:
    """Requantise sums whose last axis is the channel, add the zero point and clamp; real ones are clamped."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    if y.dtype.kind == "f":
        return [np.clip(acc, *operator.clamp)]
    results = layer_multipliers(operator, x, weights, y, acc.shape[-1])
    scale = multiply_wide if has_wide_sums(graph, operator) else multiply
    if len(set(results)) == 1:
        result = scale(acc, results[0])
    else:
        result = np.stack([scale(acc[..., c], m) for c, m in enumerate(results)], axis=-1)
    return [np.clip(result + y.zero_point, *operator.clamp)]


def _centred(value: Value, data: Array) -> Array:
    """Integers with their zero point taken off, or floats as they are."""
    if value.dtype.kind == "f":
        return data.astype(np.float32)
    return data.astype(np.int64) - value.zero_point


def _bias(inputs: list[Array]) -> Array | int:
    return inputs[2] if len(inputs) > 2 else 0


@reference(Conv2D)
def conv_2d(graph: Graph, operator: Conv2D, inputs: list[Array], _: States) -> list[Array]:
    """CONV_2D, with groups where the weights have fewer channels than the input."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    view = patches(_centred(x, inputs[0]), operator.window, (y.shape[1], y.shape[2]), 0)
    kernel = _centred(weights, inputs[1])
    groups = x.shape[3] // weights.shape[3]
    parts = []
    for view_part, kernel_part in zip(
        np.split(view, groups, axis=-1), np.split(kernel, groups, axis=0), strict=True
    ):
        flat = view_part.reshape(*view_part.shape[:3], -1)
        parts.append(_product(flat, kernel_part.reshape(kernel_part.shape[0], -1)))
    acc = np.concatenate(parts, axis=-1) + _bias(inputs)
    return finish(graph, operator, acc)


def _product(a: Array, b: Array) -> Array:
    """``a @ b.T``, exact: through doubles while the sums stay below 2**53, which 8- and 16-bit ones do."""
    if a.dtype.kind == "f":
        return a @ b.T
    return np.rint(a.astype(np.float64) @ b.T.astype(np.float64)).astype(np.int64)


@reference(DepthwiseConv2D)
def depthwise_conv_2d(graph: Graph, operator: DepthwiseConv2D, inputs: list[Array], _: States) -> list[Array]:
    """DEPTHWISE_CONV_2D."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    view = patches(_centred(x, inputs[0]), operator.window, (y.shape[1], y.shape[2]), 0)
    view = np.repeat(view, operator.multiplier, axis=-1)
    acc = np.einsum("nhwijc,ijc->nhwc", view, _centred(weights, inputs[1])[0]) + _bias(inputs)
    return finish(graph, operator, acc)


@reference(TransposeConv)
def transpose_conv(graph: Graph, operator: TransposeConv, inputs: list[Array], _: States) -> list[Array]:
    """TRANSPOSE_CONV: each input pixel adds the kernel, scaled, into the output."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    source, kernel = _centred(x, inputs[0]), _centred(weights, inputs[1])
    n, h, w, _c = source.shape
    kh, kw = operator.window.size
    sh, sw = operator.window.stride
    top, left = operator.window.before
    full = np.zeros(
        (n, (h - 1) * sh + kh + y.shape[1], (w - 1) * sw + kw + y.shape[2], y.shape[3]), source.dtype
    )
    for i in range(kh):
        for j in range(kw):
            full[:, i : i + h * sh : sh, j : j + w * sw : sw] += source @ kernel[:, i, j].T
    acc = full[:, top : top + y.shape[1], left : left + y.shape[2]] + _bias(inputs)
    return finish(graph, operator, acc)


@reference(FullyConnected)
def fully_connected(graph: Graph, operator: FullyConnected, inputs: list[Array], _: States) -> list[Array]:
    """FULLY_CONNECTED."""
    x, weights = graph.read(operator)[:2]
    rows = _centred(x, inputs[0]).reshape(-1, weights.shape[1])
    acc = _product(rows, _centred(weights, inputs[1])) + _bias(inputs)
    return finish(graph, operator, acc)


@reference(Pool2D)
def pool_2d(graph: Graph, operator: Pool2D, inputs: list[Array], _: States) -> list[Array]:
    """AVERAGE_POOL_2D and MAX_POOL_2D; the largest of real numbers passes over NaN, as TFLite does."""
    (y,) = graph.written(operator)
    size, (x,) = (y.shape[1], y.shape[2]), inputs
    real = x.dtype.kind == "f"
    inside = patches(np.ones(x.shape, np.int64), operator.window, size, 0)
    view = patches(x.astype(np.float32 if real else np.int64), operator.window, size, 0)
    if operator.function is PoolKind.MAX:
        masked = np.where(inside > 0, view, -np.inf if real else -(1 << 40))
        result = np.fmax.reduce(masked, axis=(3, 4), initial=-np.inf) if real else masked.max(axis=(3, 4))
        return [np.clip(result, *operator.clamp)]
    if operator.function is PoolKind.L2:
        squares = np.square(view.astype(np.float64)).sum(axis=(3, 4)) / inside.sum(axis=(3, 4))
        return [np.clip(np.sqrt(squares), *operator.clamp).astype(np.float32)]
    total, count = view.sum(axis=(3, 4)), inside.sum(axis=(3, 4))
    return [np.clip(total / count if real else rounded_mean(total, count), *operator.clamp)]


def rounded_mean(total: Array, count: Array | int) -> Array:
    """``total / count`` to nearest, halves away from zero."""
    half = np.asarray(count) // 2
    magnitude = (np.abs(total) + half) // count
    return np.where(total > 0, magnitude, -magnitude)


_INTEGER_BITS: Final = 5


def softmax_scaling(x: Value, beta: float) -> tuple[Multiplier, int]:
    """Multiplier of differences of stored values, and the smallest difference that counts."""
    real = min(beta * x.scale * (1 << (31 - _INTEGER_BITS)), (1 << 31) - 1.0)
    multiplier = Multiplier.of(real)
    largest = ((1 << _INTEGER_BITS) - 1) * (1 << (31 - _INTEGER_BITS)) / (1 << multiplier.shift)
    return multiplier, -math.floor(largest)


@reference(Softmax)
def softmax(graph: Graph, operator: Softmax, inputs: list[Array], _: States) -> list[Array]:
    """SOFTMAX over the last axis."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    if x.dtype.kind == "f":
        return [_softmax_of_reals(inputs[0], operator)]
    if x.dtype == np.uint8:
        return [_softmax_of_bytes(x, y, operator.beta, inputs[0])]
    if x.dtype == np.int16:
        return [_softmax_of_words(x, operator.beta, inputs[0])]
    data = inputs[0].astype(np.int64)
    multiplier, least = softmax_scaling(x, operator.beta)
    differences = data - data.max(axis=-1, keepdims=True)
    counted = differences >= least
    scaled = doubling_high_product(
        np.where(counted, differences, 0) * (1 << multiplier.shift), multiplier.value
    )
    powers = exp_of_negative(scaled, _INTEGER_BITS)
    total = np.where(counted, rounding_shift(powers, 12), 0).sum(axis=-1, keepdims=True)
    if operator.log:
        return [_log_softmax(scaled, counted, total, multiplier, least, differences)]
    bits = leading_zeros(total)
    mantissa = wrap32((total << bits) - (1 << 31))
    scale = reciprocal_of_one_plus(mantissa)
    output_bits = y.dtype.itemsize * 8
    result = rounding_shift(high_product(scale, powers), (12 - bits) + 31 - output_bits)
    low, high = np.iinfo(y.dtype).min, np.iinfo(y.dtype).max
    base = low if y.dtype.kind == "i" else 0
    return [np.where(counted, np.clip(result + base, low, high), low)]


def _softmax_of_reals(x: Array, operator: Softmax) -> Array:
    """Softmax of real numbers: 0 of minus infinity, and not a number where all are that."""
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = (x - x.max(axis=-1, keepdims=True)) * np.float32(operator.beta)
        powers = np.exp(shifted)
        total = powers.sum(axis=-1, keepdims=True)
        return shifted - np.log(total) if operator.log else powers / total


def log_limits(multiplier: Multiplier, least: int) -> tuple[Multiplier, int]:
    """Multiplier from logarithms to differences of stored values; the largest that is not counted."""
    return Multiplier.of((1 << (31 - multiplier.shift)) / multiplier.value), least - 1


def _log_softmax(
    scaled: Array, counted: Array, total: Array, multiplier: Multiplier, least: int, differences: Array
) -> Array:
    """LOG_SOFTMAX of int8 values: 1/16 a step, 127 for 0."""
    log = log_of_sum(total)
    back, limit = log_limits(multiplier, least)
    lowest = np.maximum(limit, multiply(log - (1 << 31), back))
    exact = doubling_high_product(differences * (1 << multiplier.shift), multiplier.value)
    result = rounding_shift(exact - log, 22) + 127
    return np.where(differences > lowest, np.clip(result, -128, 127), -128)


_RANGE: Final = np.float32(65535)


def word_tables() -> tuple[Array, Array]:
    """Exponentials of -10 to 0, and 1 / (1 + x) for x from 0 to 1, for 16-bit arguments."""
    unit = np.float32(2) / _RANGE
    output = (float(unit * np.float32(-32768)), float(unit * np.float32(32767)))
    step = np.float32(10) / _RANGE
    powers = interpolated_table(float(step * np.float32(-65535)), 0.0, output, np.exp)
    step = np.float32(1) / _RANGE
    inverses = interpolated_table(0.0, float(step * np.float32(65535)), output, lambda x: 1 / (1 + x))
    return powers, inverses


def word_multiplier(x: Value, beta: float) -> Multiplier:
    """Multiplier of differences of stored 16-bit values to arguments of the table of exponentials."""
    return Multiplier.of(x.scale * float(np.float32(beta)) / (10.0 / 65535.0))


def _softmax_of_words(x: Value, beta: float, data: Array) -> Array:
    """SOFTMAX of int16 values, by tables."""
    powers, inverses = word_tables()
    wide = data.astype(np.int64)
    scaled = multiply(wide - wide.max(axis=-1, keepdims=True), word_multiplier(x, beta))
    result = interpolate(powers, np.clip(scaled + 32767, -32768, 32767))
    total = result.sum(axis=-1, keepdims=True)
    headroom = leading_zeros(total)
    place = (((total << (headroom - 1)) + (1 << 13)) >> 14) - (1 << 15) - (1 << 16)
    inverse = interpolate(inverses, np.clip(place, -32768, 32767))
    right = 31 - headroom
    return np.clip((result * inverse + (np.int64(1) << (right - 1))) >> right, 0, 32767)


def powers_of_differences(x: Value, beta: float) -> Array:
    """Single-precision exponentials of 0, -1, ... -255 steps of ``x``."""
    scale = np.float32(-x.scale) * np.float32(beta)
    return np.exp((scale * np.arange(256, dtype=np.float32)).astype(np.float32)).astype(np.float32)


def _softmax_of_bytes(x: Value, y: Value, beta: float, data: Array) -> Array:
    """Softmax of uint8 values, as TFLite computes it: in single precision, through a table."""
    table = powers_of_differences(x, beta)
    wide = data.astype(np.int64)
    powers = table[wide.max(axis=-1, keepdims=True) - wide]
    total = np.add.accumulate(powers, axis=-1, dtype=np.float32)[..., -1:]
    inverse = np.float32(1) / (total * np.float32(y.scale))
    return np.clip(np.trunc(powers * inverse + np.float32(0.5)) + y.zero_point, 0, 255)
