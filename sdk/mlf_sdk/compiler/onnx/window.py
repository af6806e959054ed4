# SPDX-License-Identifier: Apache-2.0
"""Windows of ONNX's layers, and their padding."""

from __future__ import annotations

from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.operators import Window


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
