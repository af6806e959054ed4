# SPDX-License-Identifier: Apache-2.0
"""Builders of DepthToSpace and SpaceToDepth, and of ArgMax and ArgMin."""

from __future__ import annotations

from typing import Final

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.computed import ArgExtreme
from mlf_sdk.compiler.graph import INT64, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.movement import moved
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor, axis_of


def _blocks(context: Context, node: Node, first: Shape, order: Shape, shape: Shape) -> None:
    """Reshape, transpose, reshape."""
    moved(context, node, node.input(), shape, regions.transpose(first, order))


def depth_to_space(context: Context, node: Node) -> None:
    """DepthToSpace."""
    (n, c, h, w), b = node.input().shape, int(node.attribute("blocksize"))
    if c % (b * b):
        refuse(f"{c} channels in blocks of {b} x {b}")
    shape = (n, c // (b * b), h * b, w * b)
    if node.attribute("mode", "DCR") == "CRD":
        _blocks(context, node, (n, c // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3), shape)
    else:
        _blocks(context, node, (n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2), shape)


def space_to_depth(context: Context, node: Node) -> None:
    """SpaceToDepth."""
    (n, c, h, w), b = node.input().shape, int(node.attribute("blocksize"))
    if h % b or w % b:
        refuse(f"{h} x {w} in blocks of {b} x {b}")
    order = (0, 1, 3, 5, 2, 4) if node.attribute("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    _blocks(context, node, (n, c, h // b, b, w // b, b), order, (n, c * b * b, h // b, w // b))


def arg_extreme(context: Context, node: Node) -> None:
    """ArgMax and ArgMin."""
    axis = axis_of(int(node.attribute("axis", 0)), node.input().rank)
    last = bool(node.attribute("select_last_index", 0))
    place_of_extreme(node, axis, keep=bool(node.attribute("keepdims", 1)), name=node.name, last=last)


def place_of_extreme(node: Node, axis: int, *, keep: bool, name: str, last: bool = False) -> Tensor:
    """Place of the largest element (of the smallest, for ArgMin) of the input along an axis.

    Args:
        last: of equal elements the last one's, not the first one's.
    """
    x, smallest = node.input(), node.kind == "ArgMin"
    shape = (*x.shape[:axis], *((1,) if keep else ()), *x.shape[axis + 1 :])
    return node.emit(ArgExtreme, [x], INT64, shape, name, axis=axis, smallest=smallest, last=last)


BUILDERS: Final = {
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "ArgMax": arg_extreme,
    "ArgMin": arg_extreme,
}
