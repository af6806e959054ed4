# SPDX-License-Identifier: Apache-2.0
"""References of layers with weights and of pooling."""

from __future__ import annotations

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
    TransposeConv,
    Window,
)
from mlf_sdk.compiler.reference import States, reference
from mlf_sdk.compiler.requantise import has_wide_sums, layer_multipliers, multiply, multiply_wide


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
    """AVERAGE_POOL_2D and MAX_POOL_2D."""
    (y,) = graph.written(operator)
    size, (x,) = (y.shape[1], y.shape[2]), inputs
    real = x.dtype.kind == "f"
    inside = patches(np.ones(x.shape, np.int64), operator.window, size, 0)
    view = patches(x.astype(np.float32 if real else np.int64), operator.window, size, 0)
    if operator.function is PoolKind.MAX:
        result = np.where(inside > 0, view, -np.inf if real else -(1 << 40)).max(axis=(3, 4))
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
