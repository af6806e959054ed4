# SPDX-License-Identifier: Apache-2.0
"""Builders of operators that move, resize or choose elements."""

from __future__ import annotations

import math

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.computed import UpdateSlice
from mlf_sdk.compiler.graph import Value, refuse
from mlf_sdk.compiler.operators import Convert, Move, Reshape, Rounding
from mlf_sdk.compiler.reals import Lookup
from mlf_sdk.compiler.regions import Region
from mlf_sdk.compiler.tflite.context import (
    Context,
    axis_of,
    constant,
    expect_elements,
    expect_shape,
    expect_symmetric_words,
    whole_numbers,
)
from mlf_sdk.compiler.tflite.file import RawOperator


def move(
    context: Context,
    operator: RawOperator,
    inputs: list[Value],
    outputs: list[Value],
    moved: tuple[Region, ...],
    fill: float | None = None,
) -> None:
    """Add copies of regions between tensors of one type."""
    for x in (*inputs, *outputs):
        if x.dtype != outputs[0].dtype:
            refuse(f"tensors of types {x.dtype} and {outputs[0].dtype}")
    context.copy_stored(operator, *inputs, *outputs)
    context.add_operator(Move, operator, inputs, *outputs, regions=moved, fill=fill)


def reshape(context: Context, operator: RawOperator) -> None:
    """RESHAPE, SQUEEZE and EXPAND_DIMS, of the output's shape; DENSIFY of a constant, which is read dense."""
    x = context.input(operator.inputs[0])
    y = context.output(operator)
    if operator.kind == "RESHAPE" and x.elements != y.elements and len(operator.inputs) > 1:
        wanted = context.input(operator.inputs[1]).data  # where the file leaves the output's shape open
        if wanted is not None and np.count_nonzero(wanted < 0) == 1:
            wanted = np.where(wanted < 0, x.elements // max(1, int(np.prod(wanted[wanted > 0]))), wanted)
        if wanted is not None and math.prod(wanted.tolist()) == x.elements:
            expect_shape(y, tuple(int(e) for e in wanted.reshape(-1)))
    expect_elements(y, x.elements)
    if x.dtype != y.dtype:
        refuse(f"from {x.dtype} to {y.dtype}")
    context.copy_stored(operator, x, y)
    context.add_operator(Reshape, operator, [x], y)


def pad(context: Context, operator: RawOperator) -> None:
    """PAD and PADV2."""
    (x, amounts, *value), y = context.inputs_and_output(operator, 2, 3)
    pairs = _pairs(amounts, x)
    expect_shape(y, tuple(a + e + b for e, (a, b) in zip(x.shape, pairs, strict=True)))
    zero = y.zero_point if y.dtype.itemsize == 1 else 0  # TFLM fills int16 with stored zeros
    fill = float(constant(value[0], "value").reshape(-1)[0]) if value else float(zero)
    move(context, operator, [x], [y], (regions.pad(x.shape, [a for a, _ in pairs], y.shape),), fill)


def mirror_pad(context: Context, operator: RawOperator) -> None:
    """MIRROR_PAD."""
    options = operator.options("MirrorPadOptions") or refuse("has no options")
    (x, amounts), y = context.inputs_and_output(operator, 2)
    pairs = _pairs(amounts, x)
    reflect = options.Mode() == 0
    if any(max(pair) > extent - reflect for extent, pair in zip(x.shape, pairs, strict=True)):
        refuse("more padding than the input has elements")
    expect_shape(y, tuple(a + e + b for e, (a, b) in zip(x.shape, pairs, strict=True)))
    mirrored = regions.mirror(x.shape, [a for a, _ in pairs], y.shape, reflect=reflect)
    move(context, operator, [x], [y], (mirrored,))


def _pairs(amounts: Value, x: Value) -> list[tuple[int, int]]:
    numbers = whole_numbers(amounts, "padding")
    if len(numbers) != 2 * len(x.shape) or min(numbers, default=0) < 0:
        refuse(f"padding {numbers} for an input of shape {x.shape}")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def concatenation(context: Context, operator: RawOperator) -> None:
    """CONCATENATION."""
    options = operator.options("ConcatenationOptions") or refuse("has no options")
    inputs, y = context.inputs_and_output(operator, 1, 1024)
    axis = axis_of(options.Axis(), len(y.shape))
    for x in inputs:
        if len(x.shape) != len(y.shape):
            refuse(f"'{x.name}' has {len(x.shape)} dimensions")
    together = sum(x.shape[axis] for x in inputs)
    for x in inputs:
        expect_shape(y, (*x.shape[:axis], together, *x.shape[axis + 1 :]))
    expect_symmetric_words(*inputs, y)
    if options.FusedActivationFunction():
        refuse("a fused activation function")
    if y.dtype.itemsize == 1:
        inputs = [_rescaled(context, operator, x, y) for x in inputs]
    move(context, operator, inputs, [y], regions.concatenate([x.shape for x in inputs], axis, y.shape))


def _rescaled(context: Context, operator: RawOperator, x: Value, y: Value) -> Value:
    """A value as another is quantised; TensorFlow Lite rescales uint8 inputs of CONCATENATION."""
    if (x.scale, x.zero_point) == (y.scale, y.zero_point):
        return x
    if x.dtype != np.uint8 or y.dtype != np.uint8 or not (x.scale and y.scale):
        refuse(f"'{x.name}' and '{y.name}' differ in their quantisation")
    rescaled = context.add(f"{x.name}_rescaled", y.dtype, x.shape, y.quantisation)
    context.add_operator(Convert, operator, [x], rescaled, rounding=Rounding.CONCATENATION)
    return context.values[rescaled.id]


def pack(context: Context, operator: RawOperator) -> None:
    """PACK: a new axis."""
    options = operator.options("PackOptions") or refuse("has no options")
    inputs, y = context.inputs_and_output(operator, 1, 1024)
    axis = axis_of(options.Axis(), len(y.shape))
    shape = (*inputs[0].shape[:axis], 1, *inputs[0].shape[axis:])
    if any(x.shape != inputs[0].shape for x in inputs):
        refuse("its inputs differ in shape")
    expect_shape(y, (*shape[:axis], len(inputs), *shape[axis + 1 :]))
    move(context, operator, inputs, [y], regions.concatenate([shape] * len(inputs), axis, y.shape))


def unpack(context: Context, operator: RawOperator) -> None:
    """UNPACK: an axis into outputs."""
    options = operator.options("UnpackOptions") or refuse("has no options")
    (x,) = context.inputs(operator, 1)
    axis = axis_of(options.Axis(), len(x.shape))
    outputs = [context.output(operator, i) for i in range(len(operator.outputs))]
    if x.shape[axis] != len(outputs):
        refuse(f"{len(outputs)} outputs of an axis with {x.shape[axis]} elements")
    for y in outputs:
        expect_shape(y, (*x.shape[:axis], *x.shape[axis + 1 :]))
    part = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    move(context, operator, [x], outputs, regions.split(x.shape, axis, [part] * len(outputs)))


def split(context: Context, operator: RawOperator) -> None:
    """SPLIT (axis, x) and SPLIT_V (x, sizes, axis)."""
    if operator.kind == "SPLIT":
        where, x = context.inputs(operator, 2)
    else:
        x, _, where = context.inputs(operator, 3)
    axis = axis_of(whole_numbers(where, "axis")[0], len(x.shape))
    outputs = [context.output(operator, i) for i in range(len(operator.outputs))]
    for y in outputs:
        if len(y.shape) != len(x.shape):
            refuse(f"'{y.name}' has {len(y.shape)} dimensions")
        expect_shape(y, (*x.shape[:axis], y.shape[axis], *x.shape[axis + 1 :]))
    if sum(y.shape[axis] for y in outputs) != x.shape[axis]:
        refuse("its outputs do not make up its input")
    move(context, operator, [x], outputs, regions.split(x.shape, axis, [y.shape for y in outputs]))


def strided_slice(context: Context, operator: RawOperator) -> None:
    """STRIDED_SLICE."""
    options = operator.options("StridedSliceOptions") or refuse("has no options")
    (x, *bounds), y = context.inputs_and_output(operator, 4)
    if options.EllipsisMask() or options.NewAxisMask():
        refuse("ellipsis and new axes are not supported")
    begins, ends, steps = (
        whole_numbers(b, n) for b, n in zip(bounds, ("begin", "end", "strides"), strict=True)
    )
    if not len(begins) == len(ends) == len(steps) <= len(x.shape) or 0 in steps:
        refuse(f"begin {begins}, end {ends}, strides {steps} for an input of shape {x.shape}")
    first, step, extents = [], [], []
    for i, extent in enumerate(x.shape):
        if i >= len(begins):
            cut = slice(None)
        elif options.ShrinkAxisMask() >> i & 1:
            at = begins[i] + (extent if begins[i] < 0 else 0)
            cut = slice(at, at + 1)
        else:
            begin = None if options.BeginMask() >> i & 1 else begins[i]
            end = None if options.EndMask() >> i & 1 else ends[i]
            cut = slice(begin, end, steps[i])
        places = range(extent)[cut]
        first.append(places.start)
        step.append(places.step)
        extents.append(len(places))
    expect_elements(y, math.prod(extents))
    if not y.elements:
        refuse("an empty result")
    move(context, operator, [x], [y], (regions.strided_slice(x.shape, first, step, tuple(extents)),))


def slice_(context: Context, operator: RawOperator) -> None:
    """SLICE."""
    (x, begin, size), y = context.inputs_and_output(operator, 3)
    first = whole_numbers(begin, "begin")
    sizes = tuple(
        e - b if s == -1 else s for e, b, s in zip(x.shape, first, whole_numbers(size, "size"), strict=True)
    )
    if any(b < 0 or s < 1 or b + s > e for e, b, s in zip(x.shape, first, sizes, strict=True)):
        refuse(f"begin {first} and size {sizes} of an input of shape {x.shape}")
    expect_shape(y, sizes)
    move(context, operator, [x], [y], (regions.strided_slice(x.shape, first, (1,) * len(sizes), sizes),))


def transpose(context: Context, operator: RawOperator) -> None:
    """TRANSPOSE."""
    (x, order), y = context.inputs_and_output(operator, 2)
    axes = tuple(axis_of(a, len(x.shape)) for a in whole_numbers(order, "permutation"))
    if sorted(axes) != list(range(len(x.shape))):
        refuse(f"{axes} is no permutation of {len(x.shape)} axes")
    expect_shape(y, tuple(x.shape[a] for a in axes))
    move(context, operator, [x], [y], (regions.transpose(x.shape, axes),))


def gather(context: Context, operator: RawOperator) -> None:
    """GATHER: a rearrangement where the indices are known, else a look-up."""
    options = operator.options("GatherOptions") or refuse("has no options")
    (x, where), y = context.inputs_and_output(operator, 2)
    axis = axis_of(options.Axis(), len(x.shape))
    if options.BatchDims():
        refuse(
            "batch dimensions",
            "gather from the flattened batches, with indices that count through all of them",
        )
    expect_elements(y, x.elements // x.shape[axis] * where.elements)
    if where.data is None:
        if x.dtype != y.dtype:
            refuse(f"'{x.name}' and '{y.name}' differ in type")
        context.copy_stored(operator, x, y)
        lookup(context, operator, x, where, y, axis)
        return
    indices = whole_numbers(where, "indices")
    if any(not 0 <= i < x.shape[axis] for i in indices):
        refuse(f"an index outside of the {x.shape[axis]} elements of axis {axis}")
    move(context, operator, [x], [y], (regions.gather(x.shape, axis, indices),))


def lookup(context: Context, operator: RawOperator, x: Value, where: Value, y: Value, axis: int) -> None:
    """Slices along an axis by indices of a run."""
    if where.dtype.kind != "i":
        refuse(f"indices of type {where.dtype}")
    context.add_operator(Lookup, operator, [x, where], y, axis=axis)


def update_slice(context: Context, operator: RawOperator) -> None:
    """DYNAMIC_UPDATE_SLICE."""
    (x, part, place), y = context.inputs_and_output(operator, 3)
    expect_shape(y, x.shape)
    if len({v.dtype for v in (x, part, y)}) > 1:
        refuse("operand, update and result differ in type")
    context.copy_stored(operator, x, part, y)
    if len(part.shape) != len(x.shape) or any(p > e for p, e in zip(part.shape, x.shape, strict=True)):
        refuse(f"an update of shape {part.shape} for an operand of shape {x.shape}")
    if place.dtype.name not in ("int32", "int64") or place.elements != len(x.shape):
        refuse(f"a place of type {place.dtype} and shape {place.shape} in {len(x.shape)} dimensions")
    context.add_operator(UpdateSlice, operator, [x, part, place], y)


def tile(context: Context, operator: RawOperator) -> None:
    """TILE."""
    (x, times), y = context.inputs_and_output(operator, 2)
    counts = whole_numbers(times, "multiples")
    expect_shape(y, tuple(e * n for e, n in zip(x.shape, counts, strict=True)))
    move(context, operator, [x], [y], (regions.tile(x.shape, counts, y.shape),))
