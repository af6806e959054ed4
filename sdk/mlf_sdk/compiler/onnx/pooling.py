# SPDX-License-Identifier: Apache-2.0
"""Builders of pooling."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.builder import refuse
from mlf_sdk.compiler.computed import PoolIndices
from mlf_sdk.compiler.graph import INT64, Value
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.layers import space_of, two, window_of
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.stored import Target, is_stored, layer_output, target
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.operators import UNLIMITED, Mean, Pool2D, PoolKind, Window
from mlf_sdk.compiler.reals import Reduce, Reduction


def pool(context: Context, node: Node) -> None:
    """MaxPool and AveragePool."""
    x = node.input()
    if node.wants(1):
        _indices(context, node, x)
    if x.signed is not None and x.plain is None:
        signed = _pool(context, node, x.signed)
        context.bind(node.name, Tensor(name=node.name, dtype=x.dtype, shape=signed.shape, signed=signed))
    else:
        _pool(context, node, x)


def _pool(context: Context, node: Node, x: Tensor) -> Tensor:
    space = space_of(x)
    largest = node.kind == "MaxPool"
    window, output = window_of(node, space, node.integers("kernel_shape"))
    shape = (*x.shape[:2], *output)
    function = PoolKind.MAX if largest else PoolKind.AVERAGE
    stored = x.stored
    clamp: tuple[float, float] = UNLIMITED
    counted = not largest and node.attribute("count_include_pad", 0)
    if (
        is_stored(x)
        and stored is not None
        and stored.quantisation is not None
        and not counted
        and window.dilation == (1, 1)
    ):
        found = Target(quantisation=stored.quantisation, clamp=UNLIMITED)
        source = context.last(stored)
        y, limits = layer_output(context, node, shape, found, last=True)
        clamp = limits
    else:
        source = context.last(x)
        if x.dtype.kind != "f":
            clamp = (int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max))
        if counted and (any(window.before) or _reaches(window, space, output)):
            source, window = _with_padding(context, node, source, window, space)
        _, y = context.output(node.name, x.dtype, shape, last=True, quantisation=x.quantisation)
    context.emit(Pool2D(**node.common([source], y), function=function, window=window, clamp=clamp))
    return context.tensors[node.name]


def _indices(context: Context, node: Node, x: Tensor) -> None:
    """Places of the largest elements, the second output of MaxPool."""
    window, output = window_of(node, space_of(x), node.integers("kernel_shape"))
    source = context.last(x)
    _, y = context.output(node.raw.outputs[1], INT64, (*x.shape[:2], *output), last=True)
    order = bool(node.attribute("storage_order", 0))
    context.emit(PoolIndices(**node.common([source], y), window=window, columns_first=order))


def _reaches(window: Window, space: tuple[int, ...], output: tuple[int, ...]) -> bool:
    """True where a window covers padding behind the input."""
    extents, out = two(space, 1), two(output, 1)
    return any(
        (o - 1) * s + (k - 1) * d + 1 > e
        for o, s, k, d, e in zip(out, window.stride, window.size, window.dilation, extents, strict=True)
    )


def _with_padding(
    context: Context, node: Node, x: Value, window: Window, space: tuple[int, ...]
) -> tuple[Value, Window]:
    """The input with its padding as zeros, which count."""
    rank = len(space)
    pads = node.integers("pads", (0,) * 2 * rank)
    if node.attribute("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        refuse("auto_pad together with count_include_pad is not supported; state the padding")
    behind = two(pads[rank:], 0)
    n, h, w, c = x.shape
    wide = (n, h + window.before[0] + behind[0], w + window.before[1] + behind[1], c)
    padded = context.add(node.name + "_padded", x.dtype, wide)
    context.move(x, padded, (regions.pad(x.shape, (0, *window.before, 0), wide),), "AveragePool", 0.0)
    return padded, Window(size=window.size, stride=window.stride, dilation=window.dilation)


def global_pool(context: Context, node: Node) -> None:
    """GlobalAveragePool and GlobalMaxPool."""
    x = node.input()
    space_of(x)
    shape = (*x.shape[:2], *(1,) * (x.rank - 2))
    average = node.kind == "GlobalAveragePool"
    found = target(context, node, reshaped=True)
    if average and found is not None and is_stored(x) and x.stored is not None:
        source = context.last(x.stored)
        y, _ = layer_output(
            context, node, shape, Target(quantisation=found.quantisation, clamp=UNLIMITED), last=True
        )
        context.emit(Mean(**node.common([source], y), axes=(1, 2)))
        return
    source = context.last(x)
    _, y = context.output(node.name, x.dtype, shape, last=True)
    function = Reduction.MEAN if average else Reduction.MAX
    context.emit(Reduce(**node.common([source], y), function=function, axes=(1, 2)))
