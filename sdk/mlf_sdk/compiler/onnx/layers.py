# SPDX-License-Identifier: Apache-2.0
"""Builders of layers with weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import FLOAT32, INT32, Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor, check_vector
from mlf_sdk.compiler.onnx.window import Part, extents_of, parts_of, space_of, steps_of, two
from mlf_sdk.compiler.operators import UNLIMITED, Array, Call, Conv2D, Convolve, DepthwiseConv2D, Map, Window
from mlf_sdk.compiler.regions import Region, shape_with_channels_last, with_channels_last


def conv_shape(node: Node, x: Tensor, weights: Shape, most: int = 3) -> tuple[tuple[Part, ...], Shape]:
    """Windows and shape of the output of a convolution over up to ``most`` axes."""
    space, groups = space_of(x, most), int(node.attribute("group", 1))
    if len(weights) != x.rank or groups < 1 or x.shape[1] != weights[1] * groups or weights[0] % groups:
        refuse(f"weights {weights} don't fit an input {x.shape} in {groups} groups")
    size = node.integers("kernel_shape", weights[2:])
    if size != weights[2:]:
        refuse(f"the attribute kernel_shape {size} is not that of the weights {weights}")
    parts = parts_of(node, space, size)
    return parts, (x.shape[0], weights[0], *extents_of(parts, len(space)))


def computed_convolution(
    context: Context,
    node: Node,
    x: Value,
    weights: Tensor,
    window: Window,
    shape: Shape,
    *,
    bias: Tensor | None = None,
    zero: Sequence[Value] = (),
) -> None:
    """Convolution with weights or biases that are computed at run time, or of integers.

    Args:
        x, weights: weights in the order OIHW; x with its channels last.
        zero: what is taken off x, if anything.
    """
    inputs = [x, context.nhwc(weights), *zero]
    dtype = FLOAT32 if weights.dtype.kind == "f" else INT32
    y = node.emit(Convolve, inputs, dtype, shape, nhwc=True, window=window)
    if bias is not None:
        node.emit(Map, [context.nhwc(y), bias], dtype, shape, nhwc=True, expression=Call.of("add", 2))


def conv(context: Context, node: Node) -> None:
    """Conv; over three axes, one of pictures whose channels are those of all slices under the window."""
    x, weights = node.input(0), node.input(1)
    parts, shape = conv_shape(node, x, weights.shape)
    groups = x.shape[1] // weights.shape[1]
    if node.has(2):
        check_vector(node.input(2), shape[1])
    source, window, flat = context.nhwc(x), parts[-1].window, shape
    if len(parts) > 1:
        source = _slices_side_by_side(context, node, source, parts, groups)
        flat = (source.shape[0], shape[1], *shape[3:])
    if weights.known is None or (node.has(2) and node.input(2).known is None):
        bias = node.input(2) if node.has(2) else None
        if len(parts) > 1:
            turned = context.transposed(weights, (0, 2, 1, 3, 4), "")
            weights = context.reshaped("", turned, _without_depth(weights.shape))
        computed_convolution(context, node, source, weights, window, flat, bias=bias)
    else:
        arranged = Weights(weights, _depth_in_channels if len(parts) > 1 else lambda data: data, (0, 0))
        _conv(context, node, source, arranged, window, flat, groups)
    if len(parts) > 1:
        y = context.nhwc(context.tensors[node.name])
        value = context.reshaped_value(node.name, y, shape_with_channels_last(shape))
        context.bind(node.name, Tensor.of_value(value, shape, nhwc=True))


def _without_depth(weights: Shape) -> Shape:
    """Shape of weights OIDHW whose depth lies in the channels."""
    return (weights[0], weights[2] * weights[1], *weights[3:])


def _depth_in_channels(data: Array) -> Array:
    """Weights OIDHW as OIHW: the channels of each slice one after the other."""
    return data.swapaxes(1, 2).reshape(_without_depth(data.shape))


def _slices_side_by_side(
    context: Context, node: Node, x: Value, parts: tuple[Part, ...], groups: int
) -> Value:
    """Pictures, one for each place of the window along the depth of ``x`` (N, D, H * W, C).

    The channels of a group are those of the slices under the window, one slice after the other.
    """
    (deep, plane), (n, depth, pixels, channels) = parts, x.shape
    w, places = deep.window, deep.output[0]
    y = context.add(f"{node.name}_slices", x.dtype, (n, places, pixels, w.size[0] * channels), x.quantisation)
    if x.shape == y.shape and w.before[0] == 0:
        y = x
    else:
        moved = regions.stacked_slices(x.shape, y.shape, groups, w.stride[0], w.dilation[0], w.before[0])
        inside = w.before[0] <= 0 and (places - 1) * w.stride[0] + (w.size[0] - 1) * w.dilation[0] < depth
        context.move(x, y, moved, node.kind, None if inside else 0.0)
    return context.reshaped_value(f"{node.name}_pictures", y, (n * places, *plane.space, y.shape[3]))


@dataclass(frozen=True, slots=True)
class Weights:
    """Constant weights of a convolution.

    Attributes:
        arrange: the weights' order to OIHW.
        axes: where the scales of the output's channels lie in the tensor, and in OIHW.
    """

    tensor: Tensor
    arrange: Callable[[Array], Array]
    axes: tuple[int, int]


def _conv(
    context: Context, node: Node, x: Value, weights: Weights, window: Window, shape: Shape, groups: int
) -> None:
    """Convolution with constant weights: OHWI in the graph, or 1HWC of a depthwise layer."""
    depthwise = 1 < groups == x.shape[3] == shape[1]

    def arrange(data: Array) -> Array:
        nhwc = with_channels_last(weights.arrange(data))
        return nhwc.transpose(3, 1, 2, 0) if depthwise else nhwc

    axes = (weights.axes[0], 3 if depthwise else 0)
    inputs = [x, context.arranged(weights.tensor, node.name + "_weights", arrange, axes)]
    if node.has(2):
        inputs.append(context.arranged(node.input(2), node.name + "_bias", lambda data: data))
    kind = partial(DepthwiseConv2D, multiplier=1) if depthwise else Conv2D
    node.emit(kind, inputs, FLOAT32, shape, nhwc=True, window=window, clamp=UNLIMITED)


def conv_transpose(context: Context, node: Node) -> None:
    """ConvTranspose: a convolution of the input with zeros in between, the weights turned round."""
    x, weights = node.input(0), node.input(1)
    space, groups = space_of(x, most=2), int(node.attribute("group", 1))
    rank, size = len(space), weights.shape[2:]
    if groups < 1 or weights.rank != x.rank or x.shape[1] != weights.shape[0] or x.shape[1] % groups:
        refuse(f"weights {weights.shape} don't fit an input {x.shape} in {groups} groups")
    strides, dilations, stated_pads = steps_of(node, rank, size)
    extra = node.integers("output_padding", (0,) * rank)
    if len(extra) != rank or min(extra) < 0:
        refuse(f"its attribute output_padding is {extra}; {rank} numbers from 0 on are needed")
    reach = [(k - 1) * d + 1 for k, d in zip(size, dilations, strict=True)]
    pads = list(stated_pads)
    stated = node.attribute("output_shape")
    mode = node.attribute("auto_pad", "NOTSET")
    full = [(space[a] - 1) * strides[a] + reach[a] + extra[a] for a in range(rank)]
    if stated is not None or mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = (
            [int(v) for v in stated][-rank:]
            if stated is not None
            else [s * t for s, t in zip(space, strides, strict=True)]
        )
        for a in range(rank):
            total = max(full[a] - wanted[a], 0)  # what is wanted beyond the full output lies behind it
            pads[a] = total - total // 2 if mode != "SAME_UPPER" else total // 2
            pads[a + rank] = full[a] - wanted[a] - pads[a] if stated is not None else total - pads[a]
    output = tuple(full[a] - pads[a] - pads[a + rank] for a in range(rank))
    if min(output) < 1:
        refuse(f"its output would have the extents {output}")
    n, c = x.shape[:2]
    # Zeros between the elements and around them; a margin below zero cuts elements off.
    margins = [reach[a] - 1 - pads[a] for a in range(rank)]
    wide = tuple(output[a] + reach[a] - 1 for a in range(rank))
    source = context.nhwc(x)
    spread_shape = shape_with_channels_last((n, c, *wide))
    spread = context.add(node.name + "_spread", FLOAT32, spread_shape)
    context.move(
        source, spread, (_spread(source.shape, spread_shape, strides, margins),), "ConvTranspose", 0.0
    )
    window = Window(size=two(size, 1), stride=(1, 1), dilation=two(dilations, 1))
    shape = (n, groups * weights.shape[1], *output)
    if node.has(2):
        check_vector(node.input(2), shape[1])
    if weights.known is None or (node.has(2) and node.input(2).known is None):
        bias = node.input(2) if node.has(2) else None
        turned = _turned_at_run_time(context, node, weights, groups)
        computed_convolution(context, node, spread, turned, window, shape, bias=bias)
        return

    def arrange(data: Array) -> Array:
        inward = data.reshape(groups, c // groups, weights.shape[1], *size)
        outward = inward.swapaxes(1, 2).reshape(shape[1], c // groups, *size)
        return np.flip(outward, axis=tuple(range(2, outward.ndim)))

    axes = (1 if groups == 1 else -1, 0)
    _conv(context, node, spread, Weights(weights, arrange, axes), window, shape, groups)


def _turned_at_run_time(context: Context, node: Node, weights: Tensor, groups: int) -> Tensor:
    """Weights (inputs, outputs of a group, window) as those of a convolution, turned round."""
    inputs, outputs, *size = weights.shape
    taps, inner = math.prod(size), inputs // groups
    extents = (groups, outputs, inner, taps)
    part = regions.box(
        extents, (inner * outputs * taps, taps, outputs * taps, -1), regions.strides(extents),
        source_offset=taps - 1,
    )  # fmt: skip
    source = context.value(weights)
    result, y = context.output("", weights.dtype, (groups * outputs, inner, *size))
    context.move(source, y, (part,), node.kind)
    return result


def _spread(x: tuple[int, ...], y: tuple[int, ...], strides: tuple[int, ...], margins: list[int]) -> Region:
    """Elements of x at multiples of the strides in y, behind a margin; what falls outside is left out."""
    step = two(strides, 1)
    margin = two(tuple(margins), 0)
    first = [-(-max(-m, 0) // s) for m, s in zip(margin, step, strict=True)]
    last = [
        min(e, -(-(extent - m) // s)) for e, extent, m, s in zip(x[1:3], y[1:3], margin, step, strict=True)
    ]
    counts = tuple(max(b - a, 0) for a, b in zip(first, last, strict=True))
    sx, sy = regions.strides(x), regions.strides(y)
    return regions.box(
        (x[0], *counts, x[3]),
        sx,
        (sy[0], sy[1] * step[0], sy[2] * step[1], sy[3]),
        source_offset=first[0] * sx[1] + first[1] * sx[2],
        target_offset=(margin[0] + first[0] * step[0]) * sy[1] + (margin[1] + first[1] * step[1]) * sy[2],
    )
