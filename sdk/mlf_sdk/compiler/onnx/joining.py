# SPDX-License-Identifier: Apache-2.0
"""Builders of Concat and Split."""

from __future__ import annotations

from typing import Final

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import INT8, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor, axis_of, nhwc_axis
from mlf_sdk.compiler.operators import Move
from mlf_sdk.ir.tensor import Quantisation


def concat(context: Context, node: Node) -> None:
    """Concat; over channels, height or width without changing the order of axes."""
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
    quantisation = _common(tensors)
    if quantisation is None:
        _joined(context, node, tensors, axis, tuple(shape), node.name, None)
        return
    parts = [t.stored for t in tensors if t.stored is not None]
    stored = _joined(context, node, parts, axis, tuple(shape), "", quantisation)
    context.bind(node.name, Tensor(name=node.name, dtype=tensors[0].dtype, shape=tuple(shape), stored=stored))


def _common(tensors: list[Tensor]) -> Quantisation | None:
    """Quantisation that all tensors are stored in; None for real ones."""
    first = tensors[0].stored.quantisation if tensors[0].stored else None
    stored = [t.stored for t in tensors]
    same = all(s is not None and s.dtype == INT8 and s.quantisation == first for s in stored)
    return first if same and first is not None and first.axis is None else None


def _joined(
    context: Context,
    node: Node,
    tensors: list[Tensor],
    axis: int,
    shape: Shape,
    name: str,
    quantisation: Quantisation | None,
) -> Tensor:
    rank = len(shape)
    nhwc = rank in (3, 4) and any(t.is_nhwc for t in tensors)
    values = [context.nhwc(t) if nhwc else context.value(t) for t in tensors]
    result, y = context.output(name, tensors[0].dtype, shape, nhwc=nhwc, quantisation=quantisation)
    place = nhwc_axis(axis, rank) if nhwc else axis
    parts = regions.concatenate([v.shape for v in values], place, y.shape)
    context.emit(Move(**node.common(values, y), regions=tuple(regions.simplified(p) for p in parts)))
    return result


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
            _cut(context, node, x, name, axis, first, size)
        first += size


def _cut(context: Context, node: Node, x: Tensor, name: str, axis: int, first: int, size: int) -> None:
    """One part of a tensor along an axis."""

    def build(source: Tensor, name: str) -> Tensor:
        nhwc = source.is_nhwc and source.rank in (3, 4)
        value = context.nhwc(source) if nhwc else context.value(source)
        shape = (*source.shape[:axis], size, *source.shape[axis + 1 :])
        result, y = context.output(name, source.dtype, shape, nhwc=nhwc, quantisation=source.quantisation)
        place = nhwc_axis(axis, source.rank) if nhwc else axis
        begin = tuple(first if a == place else 0 for a in range(len(value.shape)))
        context.move(
            value, y, (regions.strided_slice(value.shape, begin, (1,) * len(begin), y.shape),), node.kind
        )
        return result

    if x.stored is None:
        build(x, name)
        return
    moved = build(x.stored, "")
    context.bind(name, Tensor(name=name, dtype=x.dtype, shape=moved.shape, stored=moved))


BUILDERS: Final = {"Concat": concat, "Split": split}
