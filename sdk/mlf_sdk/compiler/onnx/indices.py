# SPDX-License-Identifier: Apache-2.0
"""Builders of operators that choose or put elements by indices, and of what is made from places."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.computed import (
    REDUCTIONS,
    GatherElements,
    GatherSlices,
    ScatterElements,
    ScatterSlices,
    TopK,
)
from mlf_sdk.compiler.graph import INT64, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.movement import moved
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.pointwise import BOOL, elementwise, type_of
from mlf_sdk.compiler.onnx.rows import place_of_extreme
from mlf_sdk.compiler.onnx.tensor import Tensor, axis_of
from mlf_sdk.compiler.operators import Array


def gather_nd(context: Context, node: Node) -> None:
    """GatherND."""
    x, indices = node.input(0), node.input(1)
    batch = int(node.attribute("batch_dims", 0))
    depth = indices.shape[-1] if indices.rank else 0
    if (
        not 0 <= batch < indices.rank
        or not 1 <= depth <= x.rank - batch
        or x.shape[:batch] != indices.shape[:batch]
    ):
        refuse(f"indices {indices.shape} of a tensor {x.shape}")
    shape = (*indices.shape[:-1], *x.shape[batch + depth :])
    if indices.data is not None:
        whole = np.arange(x.elements).reshape(x.shape)
        at = tuple(_checked(indices.data[..., a], x.shape[batch + a]) for a in range(depth))
        around = np.ix_(*(np.arange(e) for e in indices.shape[:-1]))[:batch]
        _picked(context, node, x, whole[(*around, *at)].reshape(shape))
        return
    node.emit(GatherSlices, [x, indices], x.dtype, shape, batch=batch)


def gather_elements(context: Context, node: Node) -> None:
    """GatherElements."""
    x, indices = node.input(0), node.input(1)
    axis = _along(node, x, indices)
    if indices.data is not None:
        whole = np.arange(x.elements).reshape(x.shape)
        around = np.ix_(*(np.arange(e) for e in indices.shape))
        at = _checked(indices.data, x.shape[axis])
        _picked(context, node, x, whole[tuple(at if a == axis else i for a, i in enumerate(around))])
        return
    node.emit(GatherElements, [x, indices], x.dtype, indices.shape, axis=axis)


def _along(node: Node, x: Tensor, indices: Tensor) -> int:
    """Axis of the indices of GatherElements and ScatterElements."""
    axis = axis_of(int(node.attribute("axis", 0)), x.rank)
    fits = x.rank == indices.rank and all(
        i <= e or a == axis for a, (i, e) in enumerate(zip(indices.shape, x.shape, strict=True))
    )
    if not fits:
        refuse(f"indices {indices.shape} of a tensor {x.shape}")
    return axis


def _checked(indices: Array, extent: int) -> Array:
    """Constant indices from the front."""
    result = np.where(indices < 0, indices + extent, indices)
    if ((result < 0) | (result >= extent)).any():
        refuse(f"an index outside of the {extent} elements of its axis")
    return result


def _picked(context: Context, node: Node, x: Tensor, places: Array) -> None:
    """Elements at constant places, in the shape of those."""
    moved(context, node, x, places.shape, regions.pick((x.elements,), [places.reshape(-1).tolist()]))


def scatter_nd(context: Context, node: Node) -> None:
    """ScatterND."""
    x, indices, updates = (node.input(i) for i in range(3))
    depth = indices.shape[-1] if indices.rank else 0
    if not 1 <= depth <= x.rank or updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        refuse(f"indices {indices.shape} and updates {updates.shape} of a tensor {x.shape}")
    if indices.data is not None:  # one index a slice, instead of one an axis
        steps = np.array([math.prod(x.shape[a + 1 : depth]) for a in range(depth)])
        at = [_checked(indices.data[..., a], x.shape[a]) * steps[a] for a in range(depth)]
        indices = context.constant("", np.sum(at, axis=0)[..., None].astype(np.int32))
        rows = (math.prod(x.shape[:depth]), *x.shape[depth:])
        result = _scattered(node, context.reshaped("", x, rows), indices, updates, "")
        context.reshaped(node.name, result, x.shape)
    else:
        _scattered(node, x, indices, updates, node.name)


def _reduction(node: Node) -> str:
    result = str(node.attribute("reduction", "none"))
    if result not in REDUCTIONS:
        refuse(f"the reduction {result!r} is not supported")
    return result


def _scattered(node: Node, x: Tensor, indices: Tensor, updates: Tensor, name: str) -> Tensor:
    inputs = (x, indices, updates)
    return node.emit(ScatterSlices, inputs, x.dtype, x.shape, name, reduction=_reduction(node))


def scatter_elements(context: Context, node: Node) -> None:
    """ScatterElements, and Scatter as it was called before."""
    x, indices, updates = (node.input(i) for i in range(3))
    axis = _along(node, x, indices)
    if updates.shape != indices.shape:
        refuse(f"indices {indices.shape} and updates {updates.shape}")
    if indices.data is not None:
        indices = context.constant("", _checked(indices.data, x.shape[axis]).astype(np.int32))
    inputs = (x, indices, updates)
    node.emit(ScatterElements, inputs, x.dtype, x.shape, axis=axis, reduction=_reduction(node))


def one_hot(context: Context, node: Node) -> None:
    """OneHot: indices compared with all places."""
    indices, values = node.input(0), node.input(2)
    depth = int(node.data(1, "depth").reshape(-1)[0])
    axis = axis_of(int(node.attribute("axis", -1)), indices.rank + 1)
    if depth < 1 or values.elements != 2:
        refuse(f"depth {depth}, {values.elements} values")
    if indices.dtype.kind == "f":
        indices = elementwise(context, node, "cast", [indices], dtype=INT64, name="")
    zero, around = (context.constant("", np.array(n, indices.dtype)) for n in (0, depth))
    if indices.dtype.kind == "i":  # those from the end
        negative = elementwise(context, node, "less", [indices, zero], dtype=BOOL, name="")
        wrapped = elementwise(context, node, "add", [indices, around], name="")
        indices = elementwise(context, node, "where", [negative, wrapped, indices], name="")
    off, on = (_element(context, node, values, i) for i in range(2))
    _chosen(context, node, indices, axis, depth, (on, off))


def _element(context: Context, node: Node, values: Tensor, place: int) -> Tensor:
    if values.data is not None:
        return context.constant("", values.data.reshape(-1)[place])
    return moved(context, node, values, (), regions.pick((values.elements,), [[place]]), name="")


def _chosen(
    context: Context, node: Node, indices: Tensor, axis: int, depth: int, values: tuple[Tensor, Tensor]
) -> None:
    """The first value where the place along a new axis is the index, the second elsewhere."""
    wide = context.reshaped("", indices, (*indices.shape[:axis], 1, *indices.shape[axis:]))
    places = np.arange(depth).astype(indices.dtype).reshape(-1, *(1,) * (indices.rank - axis))
    here = elementwise(context, node, "equal", [wide, context.constant("", places)], dtype=BOOL, name="")
    elementwise(context, node, "where", [here, *values])


def hardmax(context: Context, node: Node) -> None:
    """Hardmax: 1 at the first largest element, 0 elsewhere."""
    x = node.input()
    axis = axis_of(int(node.attribute("axis", -1)), x.rank)
    if context.opset < 13:
        refuse("the form of Hardmax before version 13 is not supported")
    most = place_of_extreme(node, axis, keep=False, name="")
    one, zero = (context.constant("", np.array(v, np.float32)) for v in (1, 0))
    _chosen(context, node, most, axis, x.shape[axis], (one, zero))


def trilu(context: Context, node: Node) -> None:
    """Trilu: the other triangle is 0."""
    x = node.input()
    if x.rank < 2:
        refuse(f"a tensor {x.shape}")
    first = int(node.data(1, "diagonal").reshape(-1)[0]) if node.has(1) else 0
    rows, columns = x.shape[-2:]
    kept = np.tri(rows, columns, k=first - 1 if node.attribute("upper", 1) else first, dtype=np.bool_)
    mask = context.constant("", ~kept if node.attribute("upper", 1) else kept)
    elementwise(context, node, "where", [mask, x, context.constant("", np.zeros((), x.dtype))])


def eye_like(context: Context, node: Node) -> None:
    """EyeLike: a constant, for the shape is known."""
    x = node.input()
    if x.rank != 2:
        refuse(f"a tensor {x.shape}")
    dtype = x.dtype if node.attribute("dtype") is None else type_of(node.attribute("dtype"))
    rows, columns = x.shape
    context.constant(node.name, np.eye(rows, columns, k=int(node.attribute("k", 0)), dtype=dtype))


def top_k(context: Context, node: Node) -> None:
    """TopK; k is constant."""
    x = node.input()
    axis = axis_of(int(node.attribute("axis", -1)), x.rank)
    count = node.integers("k", position=1)[0]
    if node.attribute("largest", 1) not in (0, 1):
        refuse(f"its attribute largest is {node.attribute('largest')}; 0 and 1 are supported")
    if not 1 <= count <= x.shape[axis]:
        refuse(f"{count} of {x.shape[axis]} elements")
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    names = (*node.raw.outputs, "")[:2]
    source = context.value(x)
    _, y = context.output(names[0], x.dtype, shape)
    _, places = context.output(names[1], INT64, shape)
    context.emit(
        TopK(**node.common([source], y, places), axis=axis, smallest=not node.attribute("largest", 1))
    )


BUILDERS: Final = {
    "EyeLike": eye_like,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Hardmax": hardmax,
    "OneHot": one_hot,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TopK": top_k,
    "Trilu": trilu,
}
