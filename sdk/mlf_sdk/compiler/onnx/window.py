# SPDX-License-Identifier: Apache-2.0
"""Windows of ONNX's layers, and their padding; builders of pooling."""

from __future__ import annotations

import dataclasses

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.computed import PoolIndices
from mlf_sdk.compiler.graph import INT64, Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.operators import UNLIMITED, Pool2D, PoolKind, Window
from mlf_sdk.compiler.reals import Reduce, Reduction


def two(values: tuple[int, ...], first: int) -> tuple[int, int]:
    """Values of height and width; a layer over one axis has the height 1."""
    return (first, values[0]) if len(values) == 1 else (values[0], values[1])


def window_of(node: Node, space: tuple[int, ...], size: tuple[int, ...]) -> tuple[Window, tuple[int, ...]]:
    """Window of a layer and the extents of its output.

    Args:
        space: height and width of the input, or its one axis.
        size: of the window.
    """
    rank = len(space)
    strides = node.integers("strides", (1,) * rank)
    dilations = node.integers("dilations", (1,) * rank)
    pads = node.integers("pads", (0,) * 2 * rank)
    if (len(size), len(strides), len(dilations), len(pads)) != (rank, rank, rank, 2 * rank):
        refuse(f"its window doesn't have {rank} axes, which its input has")
    if min((*size, *strides, *dilations)) < 1 or min(pads) < 0:
        refuse("its window has an extent, a stride or a padding that is not possible")
    output = []
    before, after = padding_of(node, space, size)
    for axis in range(rank):
        reach = (size[axis] - 1) * dilations[axis] + 1
        spare = space[axis] + before[axis] + after[axis] - reach
        if spare < 0:
            refuse(f"its window of {reach} is larger than the input of {space[axis]} with its padding")
        count = spare // strides[axis] + 1
        if node.attribute("ceil_mode", 0):
            count = -(-spare // strides[axis]) + 1
            if (count - 1) * strides[axis] >= space[axis] + before[axis]:
                count -= 1
        output.append(count)
    window = Window(
        size=two(size, 1),
        stride=two(strides, 1),
        dilation=two(dilations, 1),
        before=two(before, 0),
    )
    return window, tuple(output)


def padding_of(
    node: Node, space: tuple[int, ...], size: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and behind each axis of ``space``.

    That of SAME_UPPER and SAME_LOWER is ONNX Runtime's. Where windows leave elements between them out, it is
    below zero, and the first window may begin behind the first element. Pooling is padded as if its windows
    were not dilated.

    Raises:
        UnsupportedError: the windows of a convolution begin behind the first element.
    """
    rank, mode = len(space), node.attribute("auto_pad", "NOTSET")
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        pads = (0,) * 2 * rank if mode == "VALID" else node.integers("pads", (0,) * 2 * rank)
        return pads[:rank], pads[rank:]
    pools = node.kind in ("AveragePool", "MaxPool")
    strides, dilations = (node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    before, after = [], []
    for extent, k, s, d in zip(space, size, strides, dilations, strict=True):
        total = (-(-extent // s) - 1) * s + (k if pools else (k - 1) * d + 1) - extent
        before.append(int((total + (mode == "SAME_LOWER") + (total < 0 and not pools)) / 2))  # towards zero
        if before[-1] < 0 and not pools:
            refuse(f"its padding {mode} leaves {-before[-1]} elements in front of its first window out")
        after.append(total - before[-1])
    return tuple(before), tuple(after)


def space_of(x: Tensor) -> tuple[int, ...]:
    """Height and width of a tensor, or its one axis behind the channels."""
    if x.rank not in (3, 4):
        refuse(f"its input has {x.rank} axes; layers over one or two axes are supported")
    return x.shape[2:]


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
