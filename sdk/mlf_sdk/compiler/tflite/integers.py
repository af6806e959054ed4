# SPDX-License-Identifier: Apache-2.0
"""Builders of operators of whole numbers, of indices, and of constants that shapes give."""

from __future__ import annotations

import math

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.computed import ArgExtreme
from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.operators import Reshape
from mlf_sdk.compiler.regions import Region, strides
from mlf_sdk.compiler.tflite.context import (
    Context,
    axis_of,
    broadcast_shape,
    constant,
    expect_elements,
    expect_shape,
    whole_numbers,
)
from mlf_sdk.compiler.tflite.file import RawOperator
from mlf_sdk.compiler.tflite.movement import move
from mlf_sdk.compiler.tflite.pointwise import emit
from mlf_sdk.compiler.tflite.reals import pointwise

_MOST_SLICES = 4096


def floors(context: Context, operator: RawOperator) -> None:
    """FLOOR_DIV and FLOOR_MOD: of real numbers, and of 32-bit integers by a divisor that is known."""
    a, b = context.inputs(operator, 2)
    if a.dtype.kind == "f":
        pointwise(context, operator)
        return
    y = context.output(operator)
    if not a.dtype == b.dtype == y.dtype == np.int32:
        refuse(f"is not supported from {a.dtype} to {y.dtype}")
    if np.isin(constant(b, "divisor"), (0, -1)).any():
        refuse("a divisor of 0 or -1", "replace the division by -1 with NEG")
    expect_shape(y, broadcast_shape(a, b))
    if operator.kind == "FLOOR_MOD":
        emit(context, operator, "mod", [a, b], y)
        return
    rest, whole = (context.add(f"{y.name}_{name}", y.dtype, y.shape) for name in ("rest", "multiple"))
    emit(context, operator, "mod", [a, b], rest)
    emit(context, operator, "sub", [a, context.values[rest.id]], whole)
    emit(context, operator, "div", [context.values[whole.id], b], y)


def bitwise_xor(context: Context, operator: RawOperator) -> None:
    """BITWISE_XOR."""
    (a, b), y = context.inputs_and_output(operator, 2)
    if not a.dtype == b.dtype == y.dtype or y.dtype.kind not in "iu":
        refuse(f"operands of types {a.dtype} and {b.dtype}, a result of type {y.dtype}")
    expect_shape(y, broadcast_shape(a, b))
    emit(context, operator, "bit_xor", [a, b], y)


def rank(context: Context, operator: RawOperator) -> None:
    """RANK: a constant."""
    x = context.input(operator.inputs[0])
    y = context.output(operator)
    expect_elements(y, 1)
    context.fold(y.id, np.array(len(x.shape)))


def range_(context: Context, operator: RawOperator) -> None:
    """RANGE of numbers that are known: a constant."""
    first, limit, step = (
        constant(v, n).reshape(-1)[0]
        for v, n in zip(context.inputs(operator, 3), ("start", "limit", "delta"), strict=True)
    )
    y = context.output(operator)
    if not step or y.elements > 1 << 20:
        refuse(f"a step of {step} to {y.elements} elements")
    expect_elements(y, max(0, math.ceil((limit - first) / step)))
    context.fold(y.id, first + np.arange(y.elements) * step)


def one_hot(context: Context, operator: RawOperator) -> None:
    """ONE_HOT: a comparison of indices with the places of a new axis."""
    options = operator.options("OneHotOptions")
    (where, depth, on, off), y = context.inputs_and_output(operator, 4)
    count = whole_numbers(depth, "depth")[0]
    axis = axis_of(options.Axis() if options else -1, len(where.shape) + 1)
    expect_shape(y, (*where.shape[:axis], count, *where.shape[axis:]))
    if where.dtype.name not in ("int32", "int64") or not on.dtype == off.dtype == y.dtype:
        refuse(f"indices of type {where.dtype}, values of types {on.dtype} and {off.dtype}")
    expect_elements(on, 1)
    expect_elements(off, 1)
    lined = context.add(f"{y.name}_indices", where.dtype, (*where.shape[:axis], 1, *where.shape[axis:]))
    hit = context.add(f"{y.name}_hit", np.dtype(np.bool_), y.shape)
    places = np.arange(count, dtype=where.dtype).reshape(-1, *[1] * (len(where.shape) - axis))
    context.add_operator(Reshape, operator, [where], lined)
    line = context.add_constant(f"{y.name}_places", places)
    emit(context, operator, "equal", [context.values[lined.id], line], hit)
    emit(context, operator, "where", [context.values[hit.id], on, off], y)


def scatter_nd(context: Context, operator: RawOperator) -> None:
    """SCATTER_ND to places that are known and differ: slices in a field of zeros."""
    (where, updates, size), y = context.inputs_and_output(operator, 3)
    expect_shape(y, whole_numbers(size, "shape"))
    depth = where.shape[-1] if where.shape else 0
    rows = constant(where, "indices").reshape(-1, max(depth, 1)).astype(np.int64)
    if not 1 <= depth <= len(y.shape) or len(rows) > _MOST_SLICES:
        refuse(f"indices of shape {where.shape} for a result of shape {y.shape}")
    if (rows < 0).any() or (rows >= np.array(y.shape[:depth])).any() or len({*map(tuple, rows)}) < len(rows):
        refuse(f"an index that is outside of a result of shape {y.shape}, or occurs twice")
    inner = math.prod(y.shape[depth:])
    expect_elements(updates, len(rows) * inner)
    offsets = rows @ np.array(strides(y.shape)[:depth], np.int64)
    if y.quantisation is not None and y.zero_point:
        refuse("a field of zeros of a quantised type whose zero point is another")
    slices = tuple(_slice(inner, i, int(offset)) for i, offset in enumerate(offsets))
    move(context, operator, [updates], [y], slices, 0.0)


def _slice(inner: int, number: int, target: int) -> Region:
    return regions.box((inner,), (1,), (1,), source_offset=number * inner, target_offset=target)


def broadcast_args(context: Context, operator: RawOperator) -> None:
    """BROADCAST_ARGS: the common shape of two that are known."""
    (first, second), y = context.inputs_and_output(operator, 2)
    result = np.broadcast_shapes(whole_numbers(first, "shape"), whole_numbers(second, "shape"))
    expect_elements(y, len(result))
    context.fold(y.id, np.array(result))


def arg_extreme(context: Context, operator: RawOperator) -> None:
    """ARG_MAX and ARG_MIN."""
    (x, where), y = context.inputs_and_output(operator, 2)
    axis = axis_of(whole_numbers(where, "axis")[0], len(x.shape))
    expect_elements(y, x.elements // x.shape[axis])
    context.add_operator(ArgExtreme, operator, [x], y, axis=axis, smallest=operator.kind == "ARG_MIN")


def shape(context: Context, operator: RawOperator) -> None:
    """SHAPE: a constant, since all shapes are fixed."""
    x = context.input(operator.inputs[0])
    y = context.output(operator)
    expect_elements(y, len(x.shape))
    context.fold(y.id, np.array(x.shape))
