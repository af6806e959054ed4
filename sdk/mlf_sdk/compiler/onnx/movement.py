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
from mlf_sdk.compiler.reals import Lookup
from mlf_sdk.compiler.regions import Region
from mlf_sdk.ir.tensor import Quantisation

Build = Callable[[Tensor, str], Tensor]


def move_through_dequantise(context: Context, node: Node, x: Tensor, build: Build) -> None:
    """Move the integers of a dequantised tensor instead of its real numbers."""
    if x.signed is not None and x.nchw is None:
        signed = build(x.signed, "")
        context.bind(node.name, Tensor(name=node.name, dtype=x.dtype, shape=signed.shape, signed=signed))
        return
    if x.stored is None:
        build(x, node.name)
        return
    result = build(x.stored, "")
    tensor = Tensor(name=node.name, dtype=x.dtype, shape=result.shape, stored=result)
    context.bind(node.name, tensor)


def _fill(x: Tensor, source: Tensor, value: float) -> float:
    """A value of ``x`` as the tensor holds it that is moved in its place."""
    if x.dtype.kind != "f":
        return int(value) - 128 if x.dtype == np.uint8 and source.dtype == np.int8 else int(value)
    return value if source.quantisation is None else float(_stored_value(source.quantisation, value))


def _stored_value(quantisation: Quantisation, real: float) -> int:
    return int(np.clip(np.rint(real / quantisation.scale[0]) + quantisation.zero_point[0], -128, 127))


def _keeps_value(x: Tensor, real: float) -> bool:
    """True where a value of a dequantised tensor can be stored as its integers are, without any loss."""
    q = x.stored.quantisation if x.stored is not None else None
    if q is None or q.axis is not None:
        return False
    stored = np.float32(_stored_value(q, real) - q.zero_point[0]) * np.float32(q.scale[0])
    return bool(stored == np.float32(real))


def moved(
    context: Context,
    node: Node,
    x: Tensor,
    name: str,
    shape: Shape,
    parts: tuple[Region, ...],
    fill: float | None = None,
) -> Tensor:
    """A tensor of regions of another one."""
    result, y = context.output(name, x.dtype, shape, quantisation=x.quantisation)
    context.move(context.value(x), y, parts, node.kind, fill)
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
    rest = iter(x.shape)
    context.reshaped(node.name, x, tuple(1 if a in places else next(rest) for a in range(rank)))


def transpose(context: Context, node: Node) -> None:
    """Transpose; one that only brings the channels last costs nothing where they are there already."""
    x = node.input()
    order = node.integers("perm", tuple(reversed(range(x.rank))))
    if sorted(order) != list(range(x.rank)):
        refuse(f"the order {order} of {x.rank} axes")
    shape = tuple(x.shape[i] for i in order)

    def build(source: Tensor, name: str) -> Tensor:
        if source.is_nhwc and source.nhwc is not None and order in ((0, 2, 3, 1), (0, 2, 1)):
            base = Tensor(
                name=name, dtype=source.dtype, shape=source.nhwc.shape, nchw=source.nhwc,
                quantisation=source.quantisation,
            )  # fmt: skip
            return context.reshaped(name, base, shape)
        if order in ((0, 3, 1, 2), (0, 2, 1)) and source.data is None:
            value = context.value(source)
            tensor = Tensor(name=name, dtype=source.dtype, shape=shape, quantisation=source.quantisation)
            four = (shape[0], *(1,) * (4 - len(shape)), *shape[2:], shape[1])
            base = Tensor(
                name=name, dtype=source.dtype, shape=source.shape, nchw=value,
                quantisation=source.quantisation,
            )  # fmt: skip
            tensor.nhwc = context.value(context.reshaped("", base, four))
            return context.bind(name, tensor)
        return moved(context, node, source, name, shape, (regions.transpose(source.shape, order),))

    move_through_dequantise(context, node, x, build)


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
        chosen = (
            range(*slice(start, end, step).indices(x.shape[place]))
            if end > -(1 << 62) or step > 0
            else range(*slice(start, None, step).indices(x.shape[place]))
        )
        begin[place], stride[place], shape[place] = (chosen.start if len(chosen) else 0), step, len(chosen)
    if 0 in shape:
        refuse(f"an output without elements: {tuple(shape)}")

    def build(source: Tensor, name: str) -> Tensor:
        part = regions.strided_slice(source.shape, begin, stride, tuple(shape))
        return moved(context, node, source, name, tuple(shape), (part,))

    move_through_dequantise(context, node, x, build)


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
    real = float(node.data(2, "value").reshape(-1)[0]) if node.has(2) else float(node.attribute("value", 0.0))

    def build(source: Tensor, name: str) -> Tensor:
        if mode == "constant":
            value = _fill(x, source, real)
            return moved(context, node, source, name, shape, (_inside(source.shape, before, shape),), value)
        places = [_places(e, b, n, mode) for e, b, n in zip(source.shape, before, shape, strict=True)]
        return moved(context, node, source, name, shape, (regions.pick(source.shape, places),))

    if mode == "constant" and x.stored is not None and not _keeps_value(x, real):
        build(x, node.name)
    else:
        move_through_dequantise(context, node, x, build)


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

    def build(source: Tensor, name: str) -> Tensor:
        return moved(context, node, source, name, shape, (regions.box(shape, steps, regions.strides(shape)),))

    move_through_dequantise(context, node, x, build)


def tile(context: Context, node: Node) -> None:
    """Tile."""
    x = node.input()
    times = node.integers("repeats", position=1)
    if len(times) != x.rank:
        refuse(f"{len(times)} repeats of {x.rank} axes")
    shape = tuple(e * t for e, t in zip(x.shape, times, strict=True))

    def build(source: Tensor, name: str) -> Tensor:
        return moved(context, node, source, name, shape, (regions.tile(source.shape, times, shape),))

    move_through_dequantise(context, node, x, build)


def gather(context: Context, node: Node) -> None:
    """Gather: moves for constant indices, a lookup for those of a run."""
    x, indices = node.input(0), node.input(1)
    axis = axis_of(int(node.attribute("axis", 0)), x.rank)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if indices.data is None:
        if x.stored is not None and x.stored.data is not None and x.nchw is None:
            x = context.constant("", node.data(0, "table"))
        inputs = (context.value(x), context.value(indices))
        _, y = context.output(node.name, x.dtype, shape)
        context.emit(Lookup(**node.common(inputs, y), axis=axis))
        return
    extent = x.shape[axis]
    chosen = [int(i) + extent if i < 0 else int(i) for i in indices.data.reshape(-1)]
    if any(not 0 <= i < extent for i in chosen):
        refuse(f"an index outside of the {extent} elements of axis {axis}")

    def build(source: Tensor, name: str) -> Tensor:
        part = regions.gather(source.shape, axis, chosen)
        return moved(context, node, source, name, shape, (part,))

    move_through_dequantise(context, node, x, build)


BUILDERS: Final[dict[str, Callable[[Context, Node], None]]] = {
    "Identity": identity, "Dropout": identity, "Reshape": reshape, "Flatten": flatten, "Squeeze": squeeze,
    "Unsqueeze": unsqueeze, "Transpose": transpose, "Slice": slice_,
    "Pad": pad, "Expand": expand, "Tile": tile, "Gather": gather,
}  # fmt: skip
