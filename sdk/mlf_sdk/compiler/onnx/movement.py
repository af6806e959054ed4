# SPDX-License-Identifier: Apache-2.0
"""Builders of operators that move elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor, axis_of
from mlf_sdk.compiler.operators import Move
from mlf_sdk.compiler.reals import Lookup
from mlf_sdk.compiler.regions import Region


def moved(
    context: Context,
    node: Node,
    x: Tensor,
    shape: Shape,
    part: Region,
    *,
    fill: float | None = None,
    name: str | None = None,
) -> Tensor:
    """A tensor of a region of another one.

    Args:
        name: of the tensor; by default the node's first output.
    """
    name = node.name if name is None else name
    result, y = context.output(name, x.dtype, shape, quantisation=x.quantisation)
    context.move(context.value(x), y, (part,), node.kind, fill)
    return result


def identity(context: Context, node: Node) -> None:
    """Identity, and Dropout of inference."""
    if node.wants(1):
        refuse("its mask is not supported")
    if node.kind == "Dropout" and node.has(2) and bool(node.data(2, "training mode").reshape(-1)[0]):
        refuse("it drops elements as in training; export the model in inference mode")
    context.bind(node.name, node.input())


def reshape(context: Context, node: Node) -> None:
    """Reshape."""
    x = node.input()
    wanted = list(node.integers("shape", position=1))
    for axis, extent in enumerate(wanted):
        if extent == 0 and not node.attribute("allowzero", 0):
            wanted[axis] = x.shape[axis] if axis < x.rank else 0
    if wanted.count(-1) == 1:
        rest = math.prod(e for e in wanted if e != -1)
        wanted[wanted.index(-1)] = x.elements // rest if rest else 0
    context.reshaped(node.name, x, tuple(wanted))


def flatten(context: Context, node: Node) -> None:
    """Flatten."""
    x = node.input()
    axis = int(node.attribute("axis", 1))
    axis = axis + x.rank if axis < 0 else axis
    context.reshaped(node.name, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def squeeze(context: Context, node: Node) -> None:
    """Squeeze."""
    x = node.input()
    axes = [axis_of(a, x.rank) for a in node.integers("axes", (), position=1)]
    axes = axes or [a for a, e in enumerate(x.shape) if e == 1]
    context.reshaped(node.name, x, tuple(e for a, e in enumerate(x.shape) if a not in axes))


def unsqueeze(context: Context, node: Node) -> None:
    """Unsqueeze."""
    x = node.input()
    axes = node.integers("axes", position=1)
    rank = x.rank + len(axes)
    places = {axis_of(a, rank) for a in axes}
    if len(places) < len(axes):
        refuse(f"its axes {axes} name one twice")
    rest = iter(x.shape)
    context.reshaped(node.name, x, tuple(1 if a in places else next(rest) for a in range(rank)))


def transpose(context: Context, node: Node) -> None:
    """Transpose."""
    x = node.input()
    order = node.integers("perm", tuple(reversed(range(x.rank))))
    if sorted(order) != list(range(x.rank)):
        refuse(f"the order {order} of {x.rank} axes")
    shape = tuple(x.shape[i] for i in order)
    moved(context, node, x, shape, regions.transpose(x.shape, order))


def slice_(context: Context, node: Node) -> None:
    """Slice."""
    x = node.input()
    starts, ends = node.integers("starts", position=1), node.integers("ends", position=2)
    axes = node.integers("axes", tuple(range(len(starts))), position=3)
    steps = node.integers("steps", (1,) * len(starts), position=4)
    begin, stride, shape = [0] * x.rank, [1] * x.rank, list(x.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = axis_of(axis, x.rank)
        if step == 0:
            refuse("a step of 0")
        chosen = range(x.shape[place])[start:end:step]
        begin[place], stride[place], shape[place] = (chosen.start if len(chosen) else 0), step, len(chosen)
    part = regions.strided_slice(x.shape, begin, stride, tuple(shape))
    moved(context, node, x, tuple(shape), part)


def pad(context: Context, node: Node) -> None:
    """Pad: with a constant, or with elements of the input."""
    x = node.input()
    mode = node.attribute("mode", "constant")
    pads = (
        node.integers("pads", position=1)
        if node.has(1) or node.attribute("pads") is not None
        else node.integers("paddings")
    )
    axes = node.integers("axes", tuple(range(x.rank)), position=3)
    before, after = [0] * x.rank, [0] * x.rank
    for position, axis in enumerate(axes):
        before[axis_of(axis, x.rank)] = pads[position]
        after[axis_of(axis, x.rank)] = pads[position + len(axes)]
    shape = tuple(b + e + a for b, e, a in zip(before, x.shape, after, strict=True))
    if min(shape, default=1) < 1:
        refuse(f"its output would have the shape {shape}")
    if mode == "constant":
        value = node.data(2, "value").reshape(-1)[0] if node.has(2) else node.attribute("value", 0.0)
        fill = float(value) if x.dtype.kind == "f" else int(value)
        moved(context, node, x, shape, _inside(x.shape, before, shape), fill=fill)
    else:
        places = [_places(e, b, n, mode) for e, b, n in zip(x.shape, before, shape, strict=True)]
        moved(context, node, x, shape, regions.pick(x.shape, places))


def _inside(x: Shape, before: list[int], y: Shape) -> Region:
    """The input inside of the output; negative padding cuts."""
    first = [max(-b, 0) for b in before]
    counts = tuple(max(min(e - f, n - max(b, 0)), 0) for e, f, n, b in zip(x, first, y, before, strict=True))
    sx, sy = regions.strides(x), regions.strides(y)
    return regions.box(
        counts, sx, sy,
        source_offset=sum(f * s for f, s in zip(first, sx, strict=True)),
        target_offset=sum(max(b, 0) * s for b, s in zip(before, sy, strict=True)),
    )  # fmt: skip


def _places(extent: int, before: int, count: int, mode: str) -> list[int]:
    """Element of the input at each place of the output, along one axis."""
    places = np.arange(count) - before
    if mode == "edge":
        return [int(p) for p in np.clip(places, 0, extent - 1)]
    if mode == "wrap":
        return [int(p) for p in places % extent]
    if mode == "reflect":
        period = max(2 * (extent - 1), 1)
        folded = places % period
        return [int(p) for p in np.where(folded >= extent, period - folded, folded)]
    return refuse(f"the mode {mode!r} is not supported")


def expand(context: Context, node: Node) -> None:
    """Expand."""
    x = node.input()
    shape = tuple(np.broadcast_shapes(x.shape, node.integers("shape", position=1)))
    if shape == x.shape:
        context.bind(node.name, x)
        return
    own = (1,) * (len(shape) - x.rank) + x.shape
    steps = tuple(0 if e == 1 else s for e, s in zip(own, regions.strides(own), strict=True))
    moved(context, node, x, shape, regions.box(shape, steps, regions.strides(shape)))


def tile(context: Context, node: Node) -> None:
    """Tile."""
    x = node.input()
    times = node.integers("repeats", position=1)
    if len(times) != x.rank:
        refuse(f"{len(times)} repeats of {x.rank} axes")
    shape = tuple(e * t for e, t in zip(x.shape, times, strict=True))
    moved(context, node, x, shape, regions.tile(x.shape, times, shape))


def gather(context: Context, node: Node) -> None:
    """Gather: moves for constant indices, a lookup for those of a run."""
    x, indices = node.input(0), node.input(1)
    axis = axis_of(int(node.attribute("axis", 0)), x.rank)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if indices.data is None:
        if x.stored is not None and x.stored.data is not None and x.nchw is None:
            x = context.constant("", node.data(0, "table"))
        node.emit(Lookup, [x, indices], x.dtype, shape, axis=axis)
        return
    extent = x.shape[axis]
    chosen = [int(i) + extent if i < 0 else int(i) for i in indices.data.reshape(-1)]
    if any(not 0 <= i < extent for i in chosen):
        refuse(f"an index outside of the {extent} elements of axis {axis}")
    part = regions.gather(x.shape, axis, chosen)
    moved(context, node, x, shape, part)


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
    parts = regions.concatenate([v.shape for v in values], axis, tuple(shape))
    node.emit(Move, values, tensors[0].dtype, tuple(shape), regions=parts)


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


def depth_to_space(context: Context, node: Node) -> None:
    """DepthToSpace and SpaceToDepth: blocks of height and width from or to channels."""
    x, b = node.input(), int(node.attribute("blocksize", 0))
    if x.rank != 4 or b < 1:
        refuse(f"blocks of {b} in a tensor {x.shape}")
    (n, c, h, w), by_columns = x.shape, node.attribute("mode", "DCR") == "CRD"
    if node.kind == "SpaceToDepth":
        shape, extents = (n, c * b * b, h // b, w // b), (n, c, h // b, b, w // b, b)
        order = (0, 1, 3, 5, 2, 4) if by_columns else (0, 3, 5, 1, 2, 4)
    else:
        shape, depth = (n, c // (b * b), h * b, w * b), c // (b * b)
        extents = (n, depth, b, b, h, w) if by_columns else (n, b, b, depth, h, w)
        order = (0, 1, 4, 2, 5, 3) if by_columns else (0, 3, 4, 1, 5, 2)
    if math.prod(extents) != x.elements:
        refuse(f"a tensor {x.shape} in blocks of {b} x {b}")
    moved(context, node, x, shape, regions.transpose(extents, order))


BUILDERS: Final[dict[str, Callable[[Context, Node], None]]] = {
    "Identity": identity, "Dropout": identity, "Reshape": reshape, "Flatten": flatten, "Squeeze": squeeze,
    "Unsqueeze": unsqueeze, "Transpose": transpose, "Slice": slice_,
    "Pad": pad, "Expand": expand, "Tile": tile, "Gather": gather,
    "Concat": concat, "Split": split, "DepthToSpace": depth_to_space, "SpaceToDepth": depth_to_space,
}  # fmt: skip
