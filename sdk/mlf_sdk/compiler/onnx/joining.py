# SPDX-License-Identifier: Apache-2.0
"""Builders of Concat and Split."""

from __future__ import annotations

from typing import Final

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.movement import moved
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import axis_of
from mlf_sdk.compiler.operators import Move


def concat(context: Context, node: Node) -> None:
    """Concat."""
    tensors = [t for t in node.inputs if t.elements]
    if not tensors:
        refuse("joins nothing")
    axis = axis_of(int(node.attribute("axis", 1)), tensors[0].rank)
    for tensor in tensors:
        if tensor.rank != tensors[0].rank or any(
            a != axis and e != tensors[0].shape[a] for a, e in enumerate(tensor.shape)
        ):
            refuse(f"operands {', '.join(str(t.shape) for t in tensors)} don't fit")
    shape = list(tensors[0].shape)
    shape[axis] = sum(t.shape[axis] for t in tensors)
    values = [context.value(t) for t in tensors]
    _, y = context.output(node.name, tensors[0].dtype, tuple(shape))
    parts = regions.concatenate([v.shape for v in values], axis, y.shape)
    context.emit(Move(**node.common(values, y), regions=tuple(regions.simplified(p) for p in parts)))


def split(context: Context, node: Node) -> None:
    """Split."""
    x = node.input()
    axis = axis_of(int(node.attribute("axis", 0)), x.rank)
    names = node.raw.outputs
    if node.has(1) or node.attribute("split") is not None:
        sizes = node.integers("split", position=1)
    else:
        size = -(-x.shape[axis] // len(names))
        sizes = tuple(max(min(size, x.shape[axis] - i * size), 0) for i in range(len(names)))
    if sum(sizes) != x.shape[axis] or len(sizes) != len(names):
        refuse(f"{sizes} of {x.shape[axis]} elements in {len(names)} outputs")
    first = 0
    for name, size in zip(names, sizes, strict=True):
        if name:
            extents = (*x.shape[:axis], size, *x.shape[axis + 1 :])
            begin = tuple(first if a == axis else 0 for a in range(x.rank))
            part = regions.strided_slice(x.shape, begin, (1,) * x.rank, extents)
            moved(context, node, x, extents, part, name=name)
        first += size


BUILDERS: Final = {"Concat": concat, "Split": split}
