# SPDX-License-Identifier: Apache-2.0
"""Regions of operators that only move elements: one builder an operator of the field, all `simplified`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, Literal

import numpy as np

from mlf_sdk.compiler.operators import Array, Move

Shape = tuple[int, ...]
TO_LAST: Final = (0, 2, 3, 1)
TO_FIRST: Final = (0, 3, 1, 2)
_MOST: Final = 1 << 22  # elements of a region that is looked at one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One loop of a `Region`.

    Attributes:
        extent: iterations.
        source: distance in elements of the input between iterations, or the offset of each.
        target: distance in elements of the output between iterations.
    """

    extent: int
    source: int | tuple[int, ...]
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Elements of one input that go to places of one output; offsets in elements."""

    input: int
    output: int
    source: int
    target: int
    axes: tuple[Axis, ...]

    def indices(self) -> tuple[Array, Array]:
        """Flat positions in the input and in the output, element by element."""
        source = np.array([self.source], np.int64)
        target = np.array([self.target], np.int64)
        for axis in self.axes:
            steps = np.arange(axis.extent, dtype=np.int64)
            offsets = steps * axis.source if isinstance(axis.source, int) else np.array(axis.source)
            source = (source[:, None] + offsets).reshape(-1)
            target = (target[:, None] + steps * axis.target).reshape(-1)
        return source, target


def strides(shape: Shape) -> tuple[int, ...]:
    """Row-major distances between neighbours, in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def box(
    extents: Shape,
    source: Sequence[int],
    target: Sequence[int],
    *,
    source_offset: int = 0,
    target_offset: int = 0,
    input: int = 0,
    output: int = 0,
) -> Region:
    """A region with one axis for each extent."""
    axes = tuple(Axis(extent=e, source=s, target=t) for e, s, t in zip(extents, source, target, strict=True))
    return simplified(
        Region(input=input, output=output, source=source_offset, target=target_offset, axes=axes)
    )


def pad(x: Shape, before: Sequence[int], y: Shape) -> Region:
    """The whole of x inside of y."""
    offset = sum(b * s for b, s in zip(before, strides(y), strict=True))
    return box(x, strides(x), strides(y), target_offset=offset)


def mirror(x: Shape, before: Sequence[int], y: Shape, *, reflect: bool) -> Region:
    """MIRROR_PAD: every element of y from its mirror image in x."""
    mode: Literal["reflect", "symmetric"] = "reflect" if reflect else "symmetric"
    ends = zip(x, before, y, strict=True)
    return pick(x, [np.pad(np.arange(e), (b, n - e - b), mode).tolist() for e, b, n in ends])


def concatenate(shapes: Sequence[Shape], axis: int, y: Shape) -> tuple[Region, ...]:
    """Each input at its place along ``axis``."""
    places, to = _places(shapes, axis), strides(y)
    return tuple(
        box(shape, strides(shape), to, target_offset=at * to[axis], input=number)
        for number, (shape, at) in enumerate(zip(shapes, places, strict=True))
    )


def split(x: Shape, axis: int, shapes: Sequence[Shape]) -> tuple[Region, ...]:
    """Each output from its place along ``axis``."""
    places, source = _places(shapes, axis), strides(x)
    return tuple(
        box(shape, source, strides(shape), source_offset=at * source[axis], output=number)
        for number, (shape, at) in enumerate(zip(shapes, places, strict=True))
    )


def _places(shapes: Sequence[Shape], axis: int) -> Iterator[int]:
    """Place of each of some tensors that lie behind each other along an axis."""
    return accumulate((shape[axis] for shape in shapes[:-1]), initial=0)


def strided_slice(x: Shape, begin: Sequence[int], step: Sequence[int], extents: Shape) -> Region:
    """Every ``step``-th element from ``begin``; the output is row-major over ``extents``."""
    offset = sum(b * s for b, s in zip(begin, strides(x), strict=True))
    source = tuple(s * d for s, d in zip(step, strides(x), strict=True))
    return box(extents, source, strides(extents), source_offset=offset)


def transpose(x: Shape, order: Sequence[int]) -> Region:
    """Axes of x in another order."""
    extents = tuple(x[i] for i in order)
    return box(extents, tuple(strides(x)[i] for i in order), strides(extents))


def pick(x: Shape, places: Sequence[Sequence[int]]) -> Region:
    """Elements of x at the given places of each axis; the output is row-major over their numbers."""
    target = strides(tuple(len(chosen) for chosen in places))
    axes = tuple(
        Axis(extent=len(chosen), source=tuple(place * step for place in chosen), target=to)
        for chosen, step, to in zip(places, strides(x), target, strict=True)
    )
    return simplified(Region(input=0, output=0, source=0, target=0, axes=axes))


def stacked_slices(
    x: Shape, y: Shape, groups: int, step: int, dilation: int, before: int
) -> tuple[Region, ...]:
    """Slices under a window along the second axis of x (N, D, pixels, C), side by side in the channels of y.

    Args:
        y: (N, places of the window, pixels, slices * C).
        groups: of channels, each of which has its slices side by side.
        before: slices of padding in front of x.
    """
    (n, depth, pixels, channels), places, size = x, y[1], y[3] // x[3]
    inner, (sn, sd, sp, _), (tn, td, tp, _) = channels // groups, strides(x), strides(y)
    parts = []
    for tap in range(size):
        offset = tap * dilation - before
        first, end = max(-(offset // step), 0), min(-((offset - depth) // step), places)
        if first < end:
            extents = (n, end - first, pixels, groups, inner)
            part = box(
                extents, (sn, step * sd, sp, inner, 1), (tn, td, tp, size * inner, 1),
                source_offset=(first * step + offset) * sd, target_offset=first * td + tap * inner,
            )  # fmt: skip
            parts.append(part)
    return tuple(parts)


def gather(x: Shape, axis: int, indices: Sequence[int]) -> Region:
    """Slices of x along ``axis``, chosen by ``indices``."""
    return pick(x, [indices if number == axis else range(extent) for number, extent in enumerate(x)])


def tile(x: Shape, times: Sequence[int], y: Shape) -> Region:
    """x repeated along each axis."""
    axes: list[Axis] = []
    for extent, count, source, target in zip(x, times, strides(x), strides(y), strict=True):
        axes += [
            Axis(extent=count, source=0, target=extent * target),
            Axis(extent=extent, source=source, target=target),
        ]
    return simplified(Region(input=0, output=0, source=0, target=0, axes=tuple(axes)))


def simplified(region: Region) -> Region:
    """The same region without axes of one iteration, neighbours merged where they are one run."""
    axes: list[Axis] = []
    source = region.source
    for given in region.axes:
        first, axis = _stepped(given)
        source += first
        if axis.extent == 1:
            continue
        last = axes[-1] if axes else None
        if (
            last is not None
            and isinstance(last.source, int)
            and isinstance(axis.source, int)
            and last.source == axis.source * axis.extent
            and last.target == axis.target * axis.extent
        ):
            axes[-1] = Axis(extent=last.extent * axis.extent, source=axis.source, target=axis.target)
        else:
            axes.append(axis)
    return Region(
        input=region.input, output=region.output, source=source, target=region.target, axes=tuple(axes)
    )


def _stepped(axis: Axis) -> tuple[int, Axis]:
    """Place of the first element, and the axis from there on: listed places at one distance become that."""
    if isinstance(axis.source, int):
        return 0, axis
    places = axis.source
    step = places[1] - places[0] if len(places) > 1 else 0
    if step < 0 or any(b - a != step for a, b in pairwise(places)):
        return 0, axis
    return (places[0] if places else 0), Axis(extent=axis.extent, source=step, target=axis.target)


# Orders of axes: channels after the batch, and channels last


def keeps_order(shape: Shape, order: Shape) -> bool:
    """Return whether the axes with more than one element stay in their order."""
    wide = [i for i in order if shape[i] > 1]
    return wide == sorted(wide)


def shape_with_channels_last(shape: Shape) -> Shape:
    """Shape of four axes with channels last, of a tensor with one to three axes behind its channels.

    One axis is the width of a height of 1; of depth, height and width, the last two are one.
    """
    n, c, *space = shape
    plane = (math.prod(space[1:]),) if len(space) > 1 else ()
    return (n, *(1,) * (2 - len(space)), *space[:1], *plane, c)


def axis_with_channels_last(axis: int, rank: int) -> int:
    """Place with channels last of an axis of a tensor with three to five, of which the last two are one."""
    return (0, 3, *range(1 + 4 - min(rank, 4), 3), 2)[axis]


def with_channels_last(data: Array) -> Array:
    """An array of three to five axes with its channels last, as `shape_with_channels_last` says."""
    n, *space, c = shape_with_channels_last(data.shape)
    return np.ascontiguousarray(data.reshape(n, c, *space).transpose(TO_LAST))


def order_of(move: Move, x: Shape, y: Shape) -> Shape | None:
    """Order of axes of a move that is a transposition of a tensor with its channels."""
    if len(move.regions) != 1 or move.fill is not None:
        return None
    for order in (TO_LAST, TO_FIRST, (0, 2, 1)):
        same = len(x) == len(order) and tuple(x[i] for i in order) == y
        if same and move.regions[0] == transpose(x, order):
            return order
    return None


def region_with_channels_last(region: Region, x: Shape, y: Shape) -> Region | None:
    """A region of tensors with their channels last; None where it does not go along single axes."""
    source, target = region.indices()
    if source.size > _MOST or not source.size:
        return None
    from_, to = np.unravel_index(source, x), np.unravel_index(target, y)
    shape_x, shape_y = shape_with_channels_last(x), shape_with_channels_last(y)
    axes: dict[int, Axis] = {}
    count, first_target = 1, 0
    for axis in range(len(y)):
        places, first = np.unique(to[axis], return_index=True)
        chosen = from_[axis][first]
        if (chosen[np.searchsorted(places, to[axis])] != from_[axis]).any():
            return None
        step = int(places[1] - places[0]) if places.size > 1 else 1
        if (np.diff(places) != step).any():
            return None
        at = axis_with_channels_last(axis, len(y))
        source_step, target_step = strides(shape_x)[at], strides(shape_y)[at]
        axes[at] = Axis(
            extent=places.size, source=tuple(int(p) * source_step for p in chosen), target=step * target_step
        )
        first_target += int(places[0]) * target_step
        count *= places.size
    if count != source.size:
        return None
    turned = Region(
        input=region.input, output=region.output, source=0, target=first_target,
        axes=tuple(axes[at] for at in sorted(axes)),
    )  # fmt: skip
    return simplified(turned)
