# SPDX-License-Identifier: Apache-2.0
"""Builders of operators that rearrange blocks, repeat, reverse or look up elements."""

from __future__ import annotations

import math

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import Value, refuse
from mlf_sdk.compiler.operators import Convert
from mlf_sdk.compiler.regions import Region, strides
from mlf_sdk.compiler.tflite.context import (
    Context,
    axis_of,
    constant,
    expect_elements,
    expect_shape,
    whole_numbers,
)
from mlf_sdk.compiler.tflite.file import RawOperator
from mlf_sdk.compiler.tflite.movement import lookup, move


def space_to_depth(context: Context, operator: RawOperator) -> None:
    """SPACE_TO_DEPTH and DEPTH_TO_SPACE."""
    inward = operator.kind == "SPACE_TO_DEPTH"
    options = operator.options("SpaceToDepthOptions" if inward else "DepthToSpaceOptions") or refuse(
        "has no options"
    )
    (x,), y = context.inputs_and_output(operator, 1)
    size = options.BlockSize()
    wide, deep = (x, y) if inward else (y, x)
    if len(x.shape) != 4 or len(y.shape) != 4 or size < 1:
        refuse(f"blocks of {size} in an input of shape {x.shape}")
    n, h, w, c = deep.shape
    if c % (size * size):
        refuse(f"{c} channels in blocks of {size}")
    part = c // (size * size)
    expect_shape(wide, (n, h * size, w * size, part))
    s, t = strides(wide.shape), strides(deep.shape)
    wide_steps = (s[0], size * s[1], size * s[2], s[1], s[2], 1)
    deep_steps = (t[0], t[1], t[2], size * part, part, 1)
    source, target = (wide_steps, deep_steps) if inward else (deep_steps, wide_steps)
    move(context, operator, [x], [y], (regions.box((n, h, w, size, size, part), source, target),))


def space_to_batch(context: Context, operator: RawOperator) -> None:
    """SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND over one or two axes of space."""
    inward = operator.kind == "SPACE_TO_BATCH_ND"
    (x, block, edges), y = context.inputs_and_output(operator, 3)
    sizes, amounts = whole_numbers(block, "block shape"), whole_numbers(edges, "padding")
    rank = len(x.shape)
    if rank not in (3, 4) or len(sizes) != rank - 2 or len(amounts) != 2 * len(sizes):
        refuse(f"blocks {sizes} with edges {amounts} for an input of shape {x.shape}")
    if min(sizes) < 1 or min(amounts) < 0 or len(y.shape) != rank:
        refuse(f"blocks {sizes} with edges {amounts}")
    space, batched = (x, y) if inward else (y, x)
    count = math.prod(sizes)
    whole = [e + sum(amounts[2 * i : 2 * i + 2]) for i, e in enumerate(space.shape[1:-1])]
    if any(e % b for e, b in zip(whole, sizes, strict=True)):
        refuse(f"extents {tuple(whole)} in blocks of {sizes}")
    extents = tuple(e // b for e, b in zip(whole, sizes, strict=True))
    expect_shape(batched, (space.shape[0] * count, *extents, space.shape[-1]))
    result = []
    for number in range(count):
        place = np.unravel_index(number, sizes)
        region = _block(space, batched, sizes, amounts[::2], [int(p) for p in place], number, inward=inward)
        result += [] if region is None else [region]
    move(context, operator, [x], [y], tuple(result), float(y.zero_point) if inward else None)


def _block(
    space: Value, batched: Value, sizes: tuple[int, ...], before: tuple[int, ...], place: list[int],
    number: int, *, inward: bool,
) -> Region | None:  # fmt: skip
    """Elements at one place of every block; None where all of them lie outside."""
    s, t = strides(space.shape), strides(batched.shape)
    batches, channels = space.shape[0], space.shape[-1]
    axes, at_space, at_batched = [(batches, s[0], t[0])], 0, number * batches * t[0]
    for i, (size, lead, first) in enumerate(zip(sizes, before, place, strict=True), start=1):
        inside = [k for k in range(batched.shape[i]) if 0 <= k * size + first - lead < space.shape[i]]
        if not inside:
            return None
        axes.append((len(inside), size * s[i], t[i]))
        at_space += (inside[0] * size + first - lead) * s[i]
        at_batched += inside[0] * t[i]
    axes.append((channels, 1, 1))
    extents = tuple(e for e, _, _ in axes)
    steps = [[d for _, d, _ in axes], [d for _, _, d in axes]]
    offsets = [at_space, at_batched]
    if not inward:
        steps.reverse()
        offsets.reverse()
    return regions.box(extents, *steps, source_offset=offsets[0], target_offset=offsets[1])


def gather_nd(context: Context, operator: RawOperator) -> None:
    """GATHER_ND with indices known at compile time."""
    (x, where), y = context.inputs_and_output(operator, 2)
    indices = constant(where, "indices")
    depth = where.shape[-1] if where.shape else 0
    if not 1 <= depth <= len(x.shape):
        refuse(f"indices of shape {where.shape} for an input of shape {x.shape}")
    rows = indices.reshape(-1, depth).astype(np.int64)
    if (rows < 0).any() or (rows >= np.array(x.shape[:depth])).any():
        refuse(f"an index outside of an input of shape {x.shape}")
    inner = math.prod(x.shape[depth:])
    expect_shape(y, (*where.shape[:-1], *x.shape[depth:]))
    places = (rows @ np.array(strides(x.shape[:depth]), np.int64)).tolist()
    move(context, operator, [x], [y], (regions.pick((x.elements // inner, inner), (places, range(inner))),))


def reverse(context: Context, operator: RawOperator) -> None:
    """REVERSE_V2."""
    (x, where), y = context.inputs_and_output(operator, 2)
    axes = {axis_of(a, len(x.shape)) for a in whole_numbers(where, "axes")}
    expect_shape(y, x.shape)
    steps = strides(x.shape)
    source = [-s if i in axes else s for i, s in enumerate(steps)]
    offset = sum((x.shape[i] - 1) * steps[i] for i in axes)
    move(context, operator, [x], [y], (regions.box(x.shape, source, steps, source_offset=offset),))


def broadcast_to(context: Context, operator: RawOperator) -> None:
    """BROADCAST_TO."""
    (x, _), y = context.inputs_and_output(operator, 2)
    padded = (1,) * (len(y.shape) - len(x.shape)) + x.shape
    if len(padded) != len(y.shape) or any(a not in (1, b) for a, b in zip(padded, y.shape, strict=True)):
        refuse(f"an input of shape {x.shape} does not become one of shape {y.shape}")
    source = [0 if e == 1 else s for e, s in zip(padded, strides(padded), strict=True)]
    move(context, operator, [x], [y], (regions.box(y.shape, source, strides(y.shape)),))


def fill(context: Context, operator: RawOperator) -> None:
    """FILL and ZEROS_LIKE of values that are known at compile time: constants."""
    y = context.output(operator)
    if operator.kind == "ZEROS_LIKE":
        x = context.input(operator.inputs[0])
        expect_shape(y, x.shape)
        if y.quantisation is not None and y.zero_point:
            context.note(
                operator,
                f"'{y.name}' is of quantised values with the zero point {y.zero_point}",
                "the stored values are 0, as TFLM writes them",
            )
        context.fold(y.id, np.zeros(y.shape, y.dtype))
        return
    extents, value = context.inputs(operator, 2)
    expect_shape(y, whole_numbers(extents, "shape"))
    expect_elements(value, 1)
    if (value.dtype, value.scale, value.zero_point) != (y.dtype, y.scale, y.zero_point):
        refuse("value and result differ in type or quantisation")
    context.fold(y.id, np.full(y.shape, constant(value, "value").reshape(-1)[0], y.dtype))


def embedding_lookup(context: Context, operator: RawOperator) -> None:
    """EMBEDDING_LOOKUP: rows of a table; those of int8 become real."""
    (rows, table), y = context.inputs_and_output(operator, 2)
    if len(table.shape) < 2 or len(rows.shape) != 1 or rows.dtype != np.int32:
        refuse(f"rows of shape {rows.shape} of a table of shape {table.shape}")
    expect_shape(y, (*rows.shape, *table.shape[1:]))
    if table.dtype == y.dtype and (table.scale, table.zero_point) == (y.scale, y.zero_point):
        lookup(context, operator, table, rows, y, 0)
        return
    quantisation = table.quantisation
    if (
        table.dtype != np.int8
        or y.dtype != np.float32
        or quantisation is None
        or quantisation.axis is not None
        or any(quantisation.zero_point)
    ):
        refuse(f"a table of type {table.dtype} to values of type {y.dtype}")
    chosen = context.add(f"{y.name}_rows", table.dtype, y.shape, quantisation)
    lookup(context, operator, table, rows, chosen, 0)
    context.add_operator(Convert, operator, [chosen], y)
