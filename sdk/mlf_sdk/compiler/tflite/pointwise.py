# SPDX-License-Identifier: Apache-2.0
"""Builders of elementwise operators and changes of type."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler import tables
from mlf_sdk.compiler.builder import refuse
from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.operators import Arithmetic, Binary, Convert, Elementwise, Table
from mlf_sdk.compiler.reference import pointwise as reference
from mlf_sdk.compiler.tflite import reals
from mlf_sdk.compiler.tflite.context import (
    Context,
    broadcast_shape,
    clamp,
    common,
    expect_shape,
    expect_symmetric_words,
)
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
    expect_shape(y, broadcast_shape(a, b))
    quantised = y.quantisation is not None
    if quantised and function is Arithmetic.DIV and y.dtype != np.int8:
        refuse(f"division of stored values of type {y.dtype}; int8 and float32 are supported")
    if quantised and (a.quantisation is None or b.quantisation is None):
        refuse("an operand has no quantisation")
    if quantised and function is Arithmetic.DIV and a.scale >= b.scale * y.scale * (1 << 20):
        refuse(f"a quotient of scales {a.scale} and {b.scale} with the scale {y.scale}")
    if y.dtype.name in ("int64", "uint32", "uint64") and (a.data is None or b.data is None):
        refuse(
            f"values of type {y.dtype}; int8, int16, int32 and float32 are supported",
            "cast them to int32 in the model",
        )
    if y.dtype.itemsize < 4 and not quantised and y.dtype.kind != "f":
        refuse(f"values of type {y.dtype} without quantisation")
    if function is Arithmetic.MUL:
        expect_symmetric_words(a, b, y)
    activation = options.FusedActivationFunction() if options else 0
    if y.dtype == np.int32 and not quantised and function is Arithmetic.ADD and activation:
        refuse("a fused activation function of whole numbers, which TFLM leaves out")
    if quantised and function in (Arithmetic.MAXIMUM, Arithmetic.MINIMUM):
        context.copy_stored(operator, a, b, y)
    context.emit(Binary(**common(operator, [a, b], y), function=function, clamp=clamp(activation, y)))


def pair(context: Context, operator: RawOperator) -> None:
    """PRELU, SQUARED_DIFFERENCE and comparisons."""
    a, b = context.inputs(operator, 2)
    y = context.output(operator)
    expect_shape(y, broadcast_shape(a, b))
    compared = operator.kind in reals.COMPARISONS
    if y.dtype != (np.bool_ if compared else a.dtype):
        refuse(f"is not supported from {a.dtype} to {y.dtype}")
    plain = compared and a.dtype == b.dtype and a.quantisation is None and b.quantisation is None
    if plain or a.dtype == b.dtype == np.float32:
        reals.emit(context, operator, operator.kind.lower(), [a, b], y)
        return
    small = operator.kind == "PRELU" and a.dtype == np.int16 and b.dtype == np.int8
    if (
        a.dtype not in (np.int8, np.int16)
        or not (a.dtype == b.dtype or small)
        or (compared and a.dtype != np.int8)
    ):
        refuse(f"operands of types {a.dtype} and {b.dtype}")
    values = (a, b) if compared else (a, b, y)
    if any(v.quantisation is None or v.quantisation.axis is not None for v in values):
        refuse("a tensor that has not one scale")
    if operator.kind == "SQUARED_DIFFERENCE":
        expect_symmetric_words(a, b, y)
    if compared and max(a.scale, b.scale) >= 1:
        refuse("a comparison of values with a scale of 1 or more")
    context.emit(
        Binary(
            **common(operator, [a, b], y),
            function=Arithmetic(operator.kind.lower()),
            clamp=clamp(0, y) if not compared else (0, 1),
        )
    )


def unary(context: Context, operator: RawOperator) -> None:
    """LOGISTIC, TANH, RELU and other functions of one value."""
    (x,) = context.inputs(operator, 1)
    y = context.output(operator)
    expect_shape(y, x.shape)
    function, alpha = operator.kind.lower(), 0.0
    if function == "hard_swish" and is_byte(x) and is_byte(y) and tables.hard_swish_exponent(x, y) > 0:
        refuse(f"from the scale {x.scale} to {y.scale}")
    if function == "elu" and x.dtype == y.dtype == np.float32:
        reals.emit(context, operator, function, [x], y, (1.0,))
        return
    if function == "rsqrt" and is_byte(x) and x.dtype != np.int8:
        refuse(f"is not supported from {x.dtype} to {y.dtype}")
    if function == "leaky_relu":
        options = operator.options("LeakyReluOptions")
        alpha = float(options.Alpha()) if options else 0.0
    _function(context, operator, function, x, y, alpha)


def _function(
    context: Context, operator: RawOperator, function: str, x: Value, y: Value, alpha: float
) -> None:
    fields = common(operator, [x], y)
    if is_byte(x) and is_byte(y) and function in tables.FUNCTIONS:
        context.emit(Table(**fields, table=tables.table_of(function, x, y, alpha)))
    elif function in ("logistic", "tanh", "relu", "abs") and _is_wide(x) and _is_wide(y):
        expect_symmetric_words(x, y)
        if function in reference.WIDE and y.scale != 2.0**-15:
            refuse(f"an output with the scale {y.scale}; {2.0**-15} is needed")
        context.emit(Elementwise(**fields, function=function))
    elif (x.dtype.kind == "f" and y.dtype.kind == "f" and function in reference.FUNCTIONS) or (
        function == "leaky_relu" and x.quantisation and y.quantisation
    ):
        context.emit(Elementwise(**fields, function=function, alpha=alpha))
    else:
        refuse(f"is not supported from {x.dtype} to {y.dtype}")


def _is_wide(x: Value) -> bool:
    """True for 16-bit values with one scale."""
    return x.dtype == np.int16 and x.quantisation is not None and x.quantisation.axis is None


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
    if operator.kind == "CAST" and x.dtype == np.float32 and y.dtype == np.int32:
        reals.emit(context, operator, "cast", [x], y)
        return
    if operator.kind == "CAST" and x.dtype.kind == "f" and y.dtype.kind != "f":
        refuse(f"from {x.dtype} to {y.dtype}")
    context.emit(Convert(**common(operator, [x], y)))
