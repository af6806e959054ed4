# SPDX-License-Identifier: Apache-2.0
"""Windows of ONNX's layers, and their padding; builders of pooling."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.computed import PoolIndices
from mlf_sdk.compiler.graph import INT64, Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.file import MAX_ELEMENTS
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.operators import UNLIMITED, Pool2D, PoolKind, Window
from mlf_sdk.compiler.reals import Reduce, Reduction
from mlf_sdk.compiler.regions import shape_with_channels_last


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Two axes of a tensor with its channels last, and the window that moves over them.

    Attributes:
        space: extents of the input.
        output: extents of the output.
        after: padding behind the input; below zero, elements there are left out.
    """

    window: Window
    space: tuple[int, int]
    output: tuple[int, int]
    after: tuple[int, int]


def two(values: tuple[int, ...], first: int) -> tuple[int, int]:
    """Values of height and width, the last axes; a layer over one axis has the height 1."""
    return (first, values[0]) if len(values) == 1 else (values[-2], values[-1])


def parts_of(node: Node, space: tuple[int, ...], size: tuple[int, ...]) -> tuple[Part, ...]:
    """Part of height and width; of a layer over three axes, one of depth is before it, on (D, H * W).

    Args:
        space: height and width of the input, its one axis, or three.
        size: of the window.
    """
    rank, (strides, dilations, _) = len(space), steps_of(node, len(space), size)
    output: tuple[int, ...] = ()
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
        output = (*output, count)
    window = Window(
        size=two(size, 1), stride=two(strides, 1), dilation=two(dilations, 1), before=two(before, 0)
    )
    plane = Part(window=window, space=two(space, 1), output=two(output, 1), after=two(after, 0))
    if rank < 3:
        return (plane,)
    deep = Window(
        size=(size[0], 1), stride=(strides[0], 1), dilation=(dilations[0], 1), before=(before[0], 0)
    )
    pixels = space[1] * space[2]
    return (
        Part(window=deep, space=(space[0], pixels), output=(output[0], pixels), after=(after[0], 0)),
        plane,
    )


def steps_of(node: Node, rank: int, size: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Strides and dilations of a window over ``rank`` axes, and its stated padding.

    Raises:
        UnsupportedError: they contradict each other, or are not possible.
    """
    strides, dilations = (node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    pads = node.integers("pads", (0,) * 2 * rank)
    if (len(size), len(strides), len(dilations), len(pads)) != (rank, rank, rank, 2 * rank):
        refuse(f"its window doesn't have {rank} axes, which its input has")
    steps = (*size, *strides, *dilations)
    if min(steps) < 1 or min(pads) < 0 or max(*steps, *pads) > MAX_ELEMENTS:
        refuse("its window has an extent, a stride or a padding that is not possible")
    return strides, dilations, pads


def extents_of(parts: tuple[Part, ...], rank: int) -> tuple[int, ...]:
    """Extents of the output of a layer, whose input has ``rank`` axes behind the channels."""
    return (*(part.output[0] for part in parts[:-1]), *parts[-1].output[max(2 - rank, 0) :])


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


def space_of(x: Tensor, most: int = 3) -> tuple[int, ...]:
    """Extents of the axes of a tensor behind its channels, height and width the last."""
    if not 3 <= x.rank <= most + 2:
        refuse(f"its input has {x.rank} axes; at most {most} axes behind the channels are supported")
    return x.shape[2:]


def pool(context: Context, node: Node) -> None:
    """MaxPool and AveragePool; over three axes, depth is pooled before the planes."""
    x = node.input()
    if node.wants(1):
        _indices(context, node, x)
    space = space_of(x)
    parts = parts_of(node, space, node.integers("kernel_shape"))
    shape = (*x.shape[:2], *extents_of(parts, len(space)))
    value = context.nhwc(x)
    for part in parts:
        if node.kind == "AveragePool":
            _refuse_cut_windows(part)
        if len(parts) == 1 or part.space != part.output or part.window.size != (1, 1):
            value = _pooled(
                context, node, value, part, node.name if part is parts[-1] else f"{node.name}_depth"
            )
    value = context.reshaped_value(node.name, value, shape_with_channels_last(shape))
    context.bind(node.name, Tensor.of_value(value, shape, nhwc=True))


def _pooled(context: Context, node: Node, x: Value, part: Part, name: str) -> Value:
    """Maxima or means of a window over two axes of ``x``, whose last axis is the channels."""
    largest, channels, window = node.kind == "MaxPool", x.shape[-1], part.window
    source = context.reshaped_value(
        name, x, (x.elements // math.prod((*part.space, channels)), *part.space, channels)
    )
    shape = (source.shape[0], *part.output, channels)
    counted = not largest and bool(node.attribute("count_include_pad", 0))
    y = context.add(name, x.dtype, shape, x.quantisation)
    if counted and (max(window.before) > 0 or _reaches(part, (0, 0))):
        source, window = _with_padding(context, node, source, part)
    clamp: tuple[float, float] = UNLIMITED
    if x.dtype.kind != "f":
        clamp = (int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max))
    function = PoolKind.MAX if largest else PoolKind.AVERAGE
    context.emit(Pool2D(**node.common([source], y), function=function, window=window, clamp=clamp))
    return y


def _refuse_cut_windows(part: Part) -> None:
    """Refuse dilated windows that reach what a padding below zero leaves out: ONNX Runtime cuts them."""
    down, across = (min(a, 0) if d > 1 else 0 for a, d in zip(part.after, part.window.dilation, strict=True))
    if min(down, across) < 0 and _reaches(part, (down, across)):
        refuse("its dilated windows reach elements that its padding leaves out; give its padding as pads")


def _indices(context: Context, node: Node, x: Tensor) -> None:
    """Places of the largest elements, the second output of MaxPool."""
    space = space_of(x, most=2)
    (part,) = parts_of(node, space, node.integers("kernel_shape"))
    shape = (*x.shape[:2], *extents_of((part,), len(space)))
    fields = {"window": part.window, "columns_first": bool(node.attribute("storage_order", 0))}
    node.emit(PoolIndices, [context.nhwc(x)], INT64, shape, node.raw.outputs[1], nhwc=True, **fields)


def _reaches(part: Part, after: tuple[int, int]) -> bool:
    """True where a window covers places behind the input and so much padding."""
    w = part.window
    axes = zip(part.output, w.stride, w.size, w.dilation, w.before, part.space, after, strict=True)
    return any(
        (o - 1) * s + (k - 1) * d + 1 - before > extent + more for o, s, k, d, before, extent, more in axes
    )


def _with_padding(context: Context, node: Node, x: Value, part: Part) -> tuple[Value, Window]:
    """The input with its padding as zeros, which count."""
    n, h, w, c = x.shape
    window, after = part.window, tuple(max(a, 0) for a in part.after)
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
    function = Reduction.MEAN if node.kind == "GlobalAveragePool" else Reduction.MAX
    node.emit(Reduce, [context.nhwc(x)], x.dtype, shape, nhwc=True, function=function, axes=(1, 2))
