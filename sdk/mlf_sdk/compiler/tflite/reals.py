# SPDX-License-Identifier: Apache-2.0
"""Builders of functions, comparisons, choices, reductions and products, most of them of real numbers."""

from __future__ import annotations

import math

import numpy as np

from mlf_sdk.compiler.graph import Value, refuse
from mlf_sdk.compiler.operators import (
    AddN,
    FullyConnected,
    L2Normalise,
    Reshape,
    Rounding,
    Softmax,
)
from mlf_sdk.compiler.reals import Accumulate, MatMul, Reduce, Reduction
from mlf_sdk.compiler.tflite.context import (
    Context,
    axis_of,
    broadcast_shape,
    expect_elements,
    expect_shape,
    expect_symmetric_words,
    whole_numbers,
)
from mlf_sdk.compiler.tflite.file import RawOperator
from mlf_sdk.compiler.tflite.hybrid import real_weights
from mlf_sdk.compiler.tflite.pointwise import emit

UNARY = {
    "FLOOR": "floor", "CEIL": "ceil", "ROUND": "round", "SIN": "sin", "COS": "cos", "LOGICAL_NOT": "not",
    "SIGN": "sign", "RELU_0_TO_1": "clip",
}  # fmt: skip
BINARY = {
    "FLOOR_DIV": "floor_div", "FLOOR_MOD": "mod", "POW": "pow", "LOGICAL_AND": "and", "LOGICAL_OR": "or",
}  # fmt: skip
_FUNCTIONS = {**UNARY, **BINARY}
_REDUCTIONS = {
    "SUM": Reduction.SUM, "REDUCE_MAX": Reduction.MAX, "REDUCE_MIN": Reduction.MIN,
    "REDUCE_ALL": Reduction.MIN, "REDUCE_ANY": Reduction.MAX, "REDUCE_PROD": Reduction.PROD,
}  # fmt: skip


def pointwise(context: Context, operator: RawOperator) -> None:
    """Functions of one or two values of one type."""
    inputs, y = context.inputs_and_output(operator, 1 if operator.kind in UNARY else 2)
    if operator.kind == "RELU_0_TO_1" and y.dtype == inputs[0].dtype == np.float32:
        expect_shape(y, inputs[0].shape)
        emit(context, operator, "clip", inputs, y, (0.0, 1.0))
        return
    wanted = "b" if operator.kind.startswith("LOGICAL") else "f"
    if any(x.dtype.kind != wanted for x in (*inputs, y)):
        refuse(f"is not supported from {inputs[0].dtype} to {y.dtype}")
    expect_shape(y, broadcast_shape(*inputs))
    emit(context, operator, _FUNCTIONS[operator.kind], inputs, y)


def gelu(context: Context, operator: RawOperator) -> None:
    """GELU of real numbers."""
    options = operator.options("GeluOptions")
    (x,), y = context.inputs_and_output(operator, 1)
    expect_shape(y, x.shape)
    if not x.dtype == y.dtype == np.float32:
        refuse(f"is not supported from {x.dtype} to {y.dtype}")
    emit(context, operator, "gelu_tanh" if options and options.Approximate() else "gelu", [x], y)


def add_n(context: Context, operator: RawOperator) -> None:
    """ADD_N."""
    inputs, y = context.inputs_and_output(operator, 2, 64)
    for x in inputs:
        expect_shape(x, y.shape)
    if stored_as(y, *inputs, types=(np.int8,)):
        if len({(x.scale, x.zero_point) for x in inputs}) > 1:
            refuse("its inputs differ in their quantisation")
        context.add_operator(AddN, operator, inputs, y)
        return
    total = inputs[0]
    for position, x in enumerate(inputs[1:], start=2):
        last = position == len(inputs)
        into = y if last else context.add(f"{y.name}_{position}", y.dtype, y.shape)
        emit(context, operator, "add", [total, x], into)
        total = into


def stored_as(y: Value, *inputs: Value, types: tuple[type, ...]) -> bool:
    """True where all values are stored ones of one of the types, False where all are float32.

    Raises:
        UnsupportedError: they are something else.
    """
    values = (y, *inputs)
    if all(v.dtype == np.float32 for v in values):
        return False
    if any(v.dtype != y.dtype for v in inputs) or y.dtype not in types:
        names = " and ".join(np.dtype(t).name for t in (*types, np.float32))
        refuse(f"from {inputs[0].dtype} to {y.dtype}; {names} are supported")
    if any(v.quantisation is None or v.quantisation.axis is not None for v in values):
        refuse("a tensor that has not one scale")
    expect_symmetric_words(*values)
    return True


def select(context: Context, operator: RawOperator) -> None:
    """SELECT and SELECT_V2."""
    inputs, y = context.inputs_and_output(operator, 3)
    condition, a, b = inputs
    if condition.dtype.kind != "b" or not a.dtype == b.dtype == y.dtype:
        refuse(f"a choice by {condition.dtype} between {a.dtype} and {b.dtype} as {y.dtype}")
    context.copy_stored(operator, a, b, y)
    if operator.kind == "SELECT" and condition.shape not in ((), a.shape):
        refuse(f"a condition of shape {condition.shape} for operands of shape {a.shape}")
    expect_shape(y, broadcast_shape(*inputs))
    emit(context, operator, "where", inputs, y)


def reduce(context: Context, operator: RawOperator) -> None:
    """SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_ALL and REDUCE_ANY."""
    x, y, axes = _reduced(context, operator)
    if x.dtype != y.dtype or (x.dtype.kind == "b") != (operator.kind in ("REDUCE_ALL", "REDUCE_ANY")):
        refuse(f"from {x.dtype} to {y.dtype}")
    quantised = x.quantisation is not None and y.quantisation is not None
    if operator.kind == "SUM" and quantised:
        fields = {"function": Reduction.SUM, "rounding": Rounding.TFLM}
        context.add_operator(Reduce, operator, [x], y, axes=axes, **fields)
        return
    adds = operator.kind in ("SUM", "REDUCE_PROD")
    if (x.scale, x.zero_point) != (y.scale, y.zero_point) or (adds and x.dtype.kind != "f"):
        refuse("input and output differ in their quantisation, or integers without one")
    context.add_operator(Reduce, operator, [x], y, axes=axes, function=_REDUCTIONS[operator.kind])


def mean(context: Context, operator: RawOperator) -> None:
    """MEAN."""
    x, y, axes = _reduced(context, operator)
    rounding = None if y.dtype.kind == "f" else Rounding.TFLM
    if rounding and (x.quantisation is None or y.quantisation is None):
        refuse("a mean of whole numbers without a scale", "cast them to float32 in the model")
    context.add_operator(Reduce, operator, [x], y, function=Reduction.MEAN, axes=axes, rounding=rounding)


def _reduced(context: Context, operator: RawOperator) -> tuple[Value, Value, tuple[int, ...]]:
    """Input and output of a reduction, and its axes."""
    (x, where), y = context.inputs_and_output(operator, 2)
    axes = tuple(sorted({axis_of(a, len(x.shape)) for a in whole_numbers(where, "axes")}))
    expect_elements(y, math.prod(e for i, e in enumerate(x.shape) if i not in axes))
    return x, y, axes


def cumsum(context: Context, operator: RawOperator) -> None:
    """CUMSUM."""
    options = operator.options("CumsumOptions") or refuse("has no options")
    (x, where), y = context.inputs_and_output(operator, 2)
    expect_shape(y, x.shape)
    stored_as(y, x, types=(np.int8,))
    context.add_operator(
        Accumulate,
        operator,
        [x],
        y,
        axis=axis_of(whole_numbers(where, "axis")[0], len(x.shape)),
        exclusive=bool(options.Exclusive()),
        reverse=bool(options.Reverse()),
    )


def batch_matmul(context: Context, operator: RawOperator) -> None:
    """BATCH_MATMUL; with one constant matrix as a fully connected layer."""
    options = operator.options("BatchMatMulOptions") or refuse("has no options")
    inputs, y = context.inputs_and_output(operator, 2)
    inputs[1:] = real_weights(context, operator, inputs[0], inputs[1])
    quantised = stored_as(y, *inputs, types=(np.int8, np.int16))
    if min(len(x.shape) for x in inputs) < 2:
        refuse("an operand with fewer than two dimensions")
    turned = (options.AdjX(), options.AdjY())
    a, b = (turn(context, operator, x) if turned_ else x for x, turned_ in zip(inputs, turned, strict=True))
    if a.shape[-1] != b.shape[-2]:
        refuse(f"the product of shapes {a.shape} and {b.shape}")
    batches = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    expect_shape(y, (*batches, a.shape[-2], b.shape[-1]))
    one_matrix = b.data is not None and b.elements == b.shape[-2] * b.shape[-1]
    if quantised and y.dtype == np.int8 and one_matrix and not b.zero_point:
        rows = b.constant.reshape(b.shape[-2:]).T
        weights = context.add_constant(f"{b.name}_rows", rows, b.quantisation)
        context.add_operator(FullyConnected, operator, [a, weights], y, clamp=(-128, 127))
        return
    context.add_operator(MatMul, operator, [a, b], y)


def dense_of_two(context: Context, operator: RawOperator, x: Value, weights: Value, y: Value) -> None:
    """FULLY_CONNECTED with weights that are computed: a matrix product."""
    stored_as(y, x, weights, types=(np.int8,))
    rows = x.elements // weights.shape[1]
    flat = context.add(f"{x.name}_rows", x.dtype, (rows, weights.shape[1]), x.quantisation)
    result = context.add(f"{y.name}_rows", y.dtype, (rows, weights.shape[0]), y.quantisation)
    context.add_operator(Reshape, operator, [x], flat)
    context.add_operator(MatMul, operator, [flat, turn(context, operator, weights)], result)
    context.add_operator(Reshape, operator, [result], y)


def turn(context: Context, operator: RawOperator, x: Value) -> Value:
    """The value with its last two axes exchanged."""
    rank = len(x.shape)
    return context.transposed(operator, x, (*range(rank - 2), rank - 1, rank - 2))


def log_softmax(context: Context, operator: RawOperator) -> None:
    """LOG_SOFTMAX."""
    (x,), y = context.inputs_and_output(operator, 1)
    expect_shape(y, x.shape)
    if not x.shape:
        refuse("an input without dimensions")
    if stored_as(y, x, types=(np.int8,)):
        if (y.scale, y.zero_point) != (16 / 256, 127):
            refuse(f"an output with scale {y.scale} and zero point {y.zero_point}")
        if not 2 < x.scale * (1 << 26) < (1 << 31) - 1:
            refuse(f"an input of scale {x.scale}")
    context.add_operator(Softmax, operator, [x], y, beta=1.0, log=True)


def l2_normalization(context: Context, operator: RawOperator) -> None:
    """L2_NORMALIZATION over the last axis."""
    (x,), y = context.inputs_and_output(operator, 1)
    expect_shape(y, x.shape)
    options = operator.options("L2NormOptions")
    if not x.shape or x.shape[-1] > 1 << 15:
        refuse(f"an input of shape {x.shape}")
    if options is not None and options.FusedActivationFunction():
        refuse("a fused activation function")
    if stored_as(y, x, types=(np.int8,)):
        if (y.scale, y.zero_point) != (1 / 128, 0):
            refuse(f"an output with scale {y.scale} and zero point {y.zero_point}")
        context.add_operator(L2Normalise, operator, [x], y)
        return
    shape = (*x.shape[:-1], 1)
    length, least = (context.add(f"{y.name}_{n}", y.dtype, shape) for n in ("length", "divisor"))
    epsilon = context.add_constant(f"{y.name}_epsilon", np.array(1e-6, np.float32))
    context.add_operator(Reduce, operator, [x], length, axes=(len(x.shape) - 1,), function=Reduction.L2)
    emit(context, operator, "max_nan", [context.values[length.id], epsilon], least)
    emit(context, operator, "div", [x, context.values[least.id]], y)
