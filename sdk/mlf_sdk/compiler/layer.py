# SPDX-License-Identifier: Apache-2.0
"""Facts about operators for people: multiply-accumulates, and a text that distinguishes two of a kind."""

from __future__ import annotations

import math

from mlf_sdk.compiler.computed import Convolve
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import (
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Lstm,
    Operator,
    Pool2D,
    Svdf,
    TransposeConv,
    Window,
)


def macs_of(graph: Graph, operator: Operator) -> int:
    """Multiplications with weights in one inference, padding included; 0 for operators without weights."""
    match operator:
        case Conv2D() | DepthwiseConv2D() | FullyConnected():
            weights, y = graph.read(operator)[1], graph.written(operator)[0]
            each = weights.shape[1:3] if isinstance(operator, DepthwiseConv2D) else weights.shape[1:]
            return y.elements * math.prod(each)
        case Convolve():
            weights, y = graph.read(operator)[1], graph.written(operator)[0]
            return y.elements * math.prod(weights.shape[1:])
        case TransposeConv():
            x, weights = graph.read(operator)[:2]
            return x.elements // x.shape[3] * weights.elements
        case Svdf():
            x, features, times = graph.read(operator)[:3]
            return x.shape[0] * (features.elements + times.elements)
        case Lstm():
            steps = graph.read(operator)[0].shape[:2]
            return math.prod(steps) * sum(w.elements for w in graph.read(operator)[1:9])
    return 0


def detail_of(operator: Operator) -> str:
    """Window of a layer: ``3x3, stride 2``; empty for operators without one."""
    match operator:
        case Conv2D() | DepthwiseConv2D() | TransposeConv() | Pool2D() | Convolve():
            return _window_text(operator.window)
    return ""


def _window_text(window: Window) -> str:
    parts = [f"{window.size[0]}x{window.size[1]}"]
    for name, pair in (("stride", window.stride), ("dilation", window.dilation)):
        if pair != (1, 1):
            parts.append(f"{name} {pair[0] if pair[0] == pair[1] else f'{pair[0]}x{pair[1]}'}")
    return ", ".join(parts)
