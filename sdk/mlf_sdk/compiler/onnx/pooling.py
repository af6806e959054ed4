# SPDX-License-Identifier: Apache-2.0
"""Builders of pooling."""

from __future__ import annotations

import dataclasses

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.computed import PoolIndices
from mlf_sdk.compiler.graph import INT64, Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.onnx.window import padding_of, space_of, two, window_of
from mlf_sdk.compiler.operators import UNLIMITED, Pool2D, PoolKind, Window
from mlf_sdk.compiler.reals import Reduce, Reduction


def pool(context: Context, node: Node) -> None:
    """MaxPool and AveragePool."""
    x = node.input()
    if node.wants(1):
        _indices(context, node, x)
    space = space_of(x)
    largest = node.kind == "MaxPool"
    window, output = window_of(node, space, node.integers("kernel_shape"))
    shape = (*x.shape[:2], *output)
    function = PoolKind.MAX if largest else PoolKind.AVERAGE
    clamp: tuple[float, float] = UNLIMITED
    counted = not largest and bool(node.attribute("count_include_pad", 0))
    if not largest:
        _refuse_cut_windows(node, space, window, output)
    source = context.nhwc(x)
    if x.dtype.kind != "f":
        clamp = (int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max))
    if counted and (max(window.before) > 0 or _reaches(window, space, output, (0, 0))):
        source, window = _with_padding(context, node, source, window, _padding_after(node, space))
    _, y = context.output(node.name, x.dtype, shape, nhwc=True, quantisation=x.quantisation)
    context.emit(Pool2D(**node.common([source], y), function=function, window=window, clamp=clamp))


def _refuse_cut_windows(node: Node, space: tuple[int, ...], window: Window, output: tuple[int, ...]) -> None:
    """Refuse dilated windows that reach what a padding below zero leaves out: ONNX Runtime cuts them."""
    after = two(padding_of(node, space, node.integers("kernel_shape"))[1], 0)
    down, across = (min(a, 0) if d > 1 else 0 for a, d in zip(after, window.dilation, strict=True))
    if min(down, across) < 0 and _reaches(window, space, output, (down, across)):
        refuse("its dilated windows reach elements that its padding leaves out; give its padding as pads")


def _indices(context: Context, node: Node, x: Tensor) -> None:
    """Places of the largest elements, the second output of MaxPool."""
    window, output = window_of(node, space_of(x), node.integers("kernel_shape"))
    source = context.nhwc(x)
    _, y = context.output(node.raw.outputs[1], INT64, (*x.shape[:2], *output), nhwc=True)
    order = bool(node.attribute("storage_order", 0))
    context.emit(PoolIndices(**node.common([source], y), window=window, columns_first=order))


def _padding_after(node: Node, space: tuple[int, ...]) -> tuple[int, int]:
    """Padding behind the input, of height and width."""
    _, after = padding_of(node, space, node.integers("kernel_shape"))
    return two(tuple(max(a, 0) for a in after), 0)


def _ends(window: Window, output: tuple[int, ...]) -> tuple[int, ...]:
    """Place behind the last element that a window covers, counted from the input's first."""
    parts = zip(two(output, 1), window.stride, window.size, window.dilation, window.before, strict=True)
    return tuple((o - 1) * s + (k - 1) * d + 1 - before for o, s, k, d, before in parts)


def _reaches(window: Window, space: tuple[int, ...], output: tuple[int, ...], after: tuple[int, int]) -> bool:
    """True where a window covers places behind the input and so much padding."""
    extents = (e + b for e, b in zip(two(space, 1), after, strict=True))
    return any(end > e for end, e in zip(_ends(window, output), extents, strict=True))


def _with_padding(
    context: Context, node: Node, x: Value, window: Window, after: tuple[int, int]
) -> tuple[Value, Window]:
    """The input with its padding as zeros, which count."""
    n, h, w, c = x.shape
    top, left = (max(b, 0) for b in window.before)
    wide = (n, h + top + after[0], w + left + after[1], c)
    padded = context.add(node.name + "_padded", x.dtype, wide)
    context.move(x, padded, (regions.pad(x.shape, (0, top, left, 0), wide),), "AveragePool", 0.0)
    return padded, dataclasses.replace(window, before=(window.before[0] - top, window.before[1] - left))


def global_pool(context: Context, node: Node) -> None:
    """GlobalAveragePool and GlobalMaxPool."""
    x = node.input()
    space_of(x)
    shape = (*x.shape[:2], *(1,) * (x.rank - 2))
    average = node.kind == "GlobalAveragePool"
    source = context.nhwc(x)
    _, y = context.output(node.name, x.dtype, shape, nhwc=True)
    function = Reduction.MEAN if average else Reduction.MAX
    context.emit(Reduce(**node.common([source], y), function=function, axes=(1, 2)))
