# SPDX-License-Identifier: Apache-2.0
"""Builders of elementwise operators and changes of type."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler import tables
from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.operators import Arithmetic, Binary, Convert, Elementwise, Table
from mlf_sdk.compiler.reference import pointwise as reference
from mlf_sdk.compiler.tflite.context import Context, clamp, expect_shape, refuse
from mlf_sdk.compiler.tflite.file import RawOperator

_OPTIONS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}


def binary(context: Context, operator: RawOperator) -> None:
    """ADD, SUB, MUL, DIV, MAXIMUM and MINIMUM."""
    a, b = context.inputs(operator, 2)
    y = context.output(operator)
    function = Arithmetic(operator.kind.lower())
    options = operator.options(_OPTIONS[operator.kind]) if operator.kind in _OPTIONS else None
    if not a.dtype == b.dtype == y.dtype:
        refuse(f"operands of types {a.dtype} and {b.dtype}, a result of type {y.dtype}")
    expect_shape(y, tuple(np.broadcast_shapes(a.shape, b.shape)))
    quantised = y.quantisation is not None
    if quantised and function is Arithmetic.DIV:
        refuse("division of quantised values")
    if quantised and (a.quantisation is None or b.quantisation is None):
        refuse("an operand has no quantisation")
    if y.dtype.itemsize < 4 and not quantised and y.dtype.kind != "f":
        refuse(f"values of type {y.dtype} without quantisation")
    if quantised and function in (Arithmetic.MAXIMUM, Arithmetic.MINIMUM):
        points = {(v.scale, v.zero_point) for v in (a, b, y)}
        if len(points) > 1:
            refuse("operands and result differ in their quantisation")
    context.emit(
        Binary(
            number=operator.number, kind=operator.kind, inputs=(a.id, b.id), outputs=(y.id,),
            function=function, clamp=clamp(options.FusedActivationFunction() if options else 0, y),
        )
    )  # fmt: skip


_FUNCTIONS = {"RELU_N1_TO_1": "relu_n1_to_1", "RELU6": "relu6"}


def unary(context: Context, operator: RawOperator) -> None:
    """LOGISTIC, TANH, RELU and other functions of one value."""
    (x,) = context.inputs(operator, 1)
    y = context.output(operator)
    expect_shape(y, x.shape)
    function, alpha = operator.kind.lower(), 0.0
    if function == "leaky_relu":
        options = operator.options("LeakyReluOptions")
        alpha = float(options.Alpha()) if options else 0.0
    _function(context, operator, function, x, y, alpha)


def _function(
    context: Context, operator: RawOperator, function: str, x: Value, y: Value, alpha: float
) -> None:
    ids = {"number": operator.number, "kind": operator.kind, "inputs": (x.id,), "outputs": (y.id,)}
    if is_byte(x) and is_byte(y) and function in tables.FUNCTIONS:
        context.emit(Table(**ids, table=tables.table_of(function, x, y, alpha)))  # type: ignore[arg-type]
    elif (x.dtype.kind == "f" and y.dtype.kind == "f" and function in reference.FUNCTIONS) or (
        function == "leaky_relu" and x.quantisation and y.quantisation
    ):
        context.emit(Elementwise(**ids, function=function, alpha=alpha))  # type: ignore[arg-type]
    else:
        refuse(f"is not supported from {x.dtype} to {y.dtype}")


def is_byte(x: Value) -> bool:
    """True for quantised 8-bit values."""
    return x.dtype.itemsize == 1 and x.quantisation is not None


def convert(context: Context, operator: RawOperator) -> None:
    """QUANTIZE, DEQUANTIZE and CAST."""
    (x,) = context.inputs(operator, 1)
    y = context.output(operator)
    expect_shape(y, x.shape)
    if is_byte(x) and is_byte(y):
        _function(context, operator, "requantise", x, y, 0.0)
        return
    if operator.kind == "DEQUANTIZE" and x.dtype != np.float16 and x.quantisation is None:
        refuse("its input has no quantisation")
    if operator.kind == "QUANTIZE" and y.quantisation is None:
        refuse("its output has no quantisation")
    if operator.kind == "CAST" and x.dtype.kind == "f" and y.dtype.kind != "f":
        refuse(f"from {x.dtype} to {y.dtype}")
    context.emit(Convert(number=operator.number, kind=operator.kind, inputs=(x.id,), outputs=(y.id,)))
