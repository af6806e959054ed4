# SPDX-License-Identifier: Apache-2.0
"""Builders of elementwise operators and changes of type."""

from __future__ import annotations

import dataclasses
import math
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Value, refuse
from mlf_sdk.compiler.operators import UNLIMITED, Call, Convert, Map, Rounding
from mlf_sdk.compiler.reference.stored import BYTE_FUNCTIONS, WIDE, hard_swish_exponent, stored
from mlf_sdk.compiler.tflite.context import (
    Context,
    broadcast_shape,
    clamp,
    expect_shape,
    expect_symmetric_words,
)
from mlf_sdk.compiler.tflite.file import RawOperator

_LARGEST = {"MAXIMUM": "max", "MINIMUM": "min"}
_OPTIONS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}

_MOST_OF_RATIO: Final = 2.0**100  # of scales; single precision ends at 2**128
_COMPARISONS: Final = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")


def emit(
    context: Context, operator: RawOperator, function: str, inputs: list[Value], y: Value,
    parameters: tuple[float, ...] = (), clamp: tuple[float, float] = UNLIMITED,
) -> None:  # fmt: skip
    """Add a function of the elements at one place, and its limits."""
    call = Call.of(function, len(inputs), parameters).limited(clamp)
    context.add_operator(Map, operator, inputs, y, expression=call)


def binary(context: Context, operator: RawOperator) -> None:
    """ADD, SUB, MUL, DIV, MAXIMUM and MINIMUM."""
    (a, b), y = context.inputs_and_output(operator, 2)
    function = _LARGEST.get(operator.kind, operator.kind.lower())
    options = operator.options(_OPTIONS[operator.kind]) if operator.kind in _OPTIONS else None
    if not a.dtype == b.dtype == y.dtype:
        refuse(f"operands of types {a.dtype} and {b.dtype}, a result of type {y.dtype}")
    expect_shape(y, broadcast_shape(a, b))
    whole = y.dtype == np.int32  # whose scales TFLM does not read
    quantised = y.quantisation is not None and not whole
    if quantised and function == "div" and y.dtype != np.int8:
        refuse(f"division of stored values of type {y.dtype}; int8 and float32 are supported")
    if quantised and (a.quantisation is None or b.quantisation is None):
        refuse("an operand has no quantisation")
    if quantised and function == "div" and a.scale >= b.scale * y.scale * (1 << 20):
        refuse(f"a quotient of scales {a.scale} and {b.scale} with the scale {y.scale}")
    chosen = operator.kind in _LARGEST and y.dtype.kind == "i"
    if y.dtype.name in ("int64", "uint32", "uint64") and not chosen and (a.data is None or b.data is None):
        refuse(
            f"values of type {y.dtype}; int8, int16, int32 and float32 are supported",
            "cast them to int32 in the model",
        )
    if y.dtype.itemsize < 4 and not quantised and not chosen and y.dtype.kind != "f":
        refuse(f"values of type {y.dtype} without quantisation")
    if function == "mul":
        expect_symmetric_words(a, b, y)
    activation = options.FusedActivationFunction() if options else 0
    if whole and function in ("add", "sub") and len({v.scales for v in (a, b, y)}) > 1:
        refuse("32-bit values of scales that differ")
    if whole and function == "add" and activation:
        refuse("a fused activation function of whole numbers, which TFLM leaves out")
    limits = clamp(activation, dataclasses.replace(y, quantisation=None) if whole else y)
    if quantised and operator.kind not in _LARGEST:
        _emit_stored(context, operator, Call.of(function, 2), [a, b], y, limits)
        return
    if quantised:
        context.copy_stored(operator, a, b, y)
    emit(context, operator, function, [a, b], y, clamp=limits if activation else UNLIMITED)


def _emit_stored(
    context: Context, operator: RawOperator, call: Call, inputs: list[Value], y: Value,
    limits: tuple[float, float] = UNLIMITED,
) -> None:  # fmt: skip
    """Add a function of what stored values stand for, rounded as TFLM rounds it."""
    rounding = Rounding.TFLM
    context.add_operator(Map, operator, inputs, y, expression=call, rounding=rounding, clamp=limits)


def pair(context: Context, operator: RawOperator) -> None:
    """PRELU, SQUARED_DIFFERENCE and comparisons."""
    (a, b), y = context.inputs_and_output(operator, 2)
    expect_shape(y, broadcast_shape(a, b))
    compared = operator.kind in _COMPARISONS
    if y.dtype != (np.bool_ if compared else a.dtype):
        refuse(f"is not supported from {a.dtype} to {y.dtype}")
    whole = a.dtype == b.dtype == np.int32  # whose scales TFLM does not read
    plain = compared and a.dtype == b.dtype and a.quantisation is None and b.quantisation is None
    if plain or (whole and operator.kind != "PRELU") or a.dtype == b.dtype == np.float32:
        emit(context, operator, operator.kind.lower(), [a, b], y)
        return
    small = operator.kind == "PRELU" and a.dtype == np.int16 and b.dtype == np.int8
    if compared and a.dtype == b.dtype == np.int16:
        refuse("a comparison of 16-bit values, whose scales TFLM does not read", "compare float32 values")
    if a.dtype not in (np.int8, np.int16) or not (a.dtype == b.dtype or small):
        refuse(f"operands of types {a.dtype} and {b.dtype}")
    values = (a, b) if compared else (a, b, y)
    if any(v.quantisation is None or v.quantisation.axis is not None for v in values):
        refuse("a tensor that has not one scale")
    if operator.kind == "SQUARED_DIFFERENCE":
        expect_symmetric_words(a, b, y)
    if compared and max(a.scale, b.scale) >= 1:
        refuse("a comparison of values with a scale of 1 or more")
    call = Call.of(operator.kind.lower(), 2)
    _emit_stored(context, operator, call, [a, b], y, (0, 1) if compared else clamp(0, y))


_UNARY: Final = {
    "ABS": Call.of("abs"), "ELU": Call.of("elu", 1, (1.0,)), "EXP": Call.of("exp"),
    "HARD_SWISH": Call.of("hard_swish"), "LOG": Call.of("log"), "LOGISTIC": Call.of("sigmoid"),
    "NEG": Call.of("neg"), "RELU": Call.of("clip", 1, (0.0, math.inf)),
    "RELU6": Call.of("clip", 1, (0.0, 6.0)), "RELU_N1_TO_1": Call.of("clip", 1, (-1.0, 1.0)),
    "RSQRT": Call.of("rsqrt"), "SQRT": Call.of("sqrt"), "SQUARE": Call.of("square"), "TANH": Call.of("tanh"),
}  # fmt: skip
_OF_WORDS: Final = ("LOGISTIC", "TANH", "RELU", "ABS")


def unary(context: Context, operator: RawOperator) -> None:
    """LOGISTIC, TANH, RELU and other functions of one value."""
    (x,), y = context.inputs_and_output(operator, 1)
    expect_shape(y, x.shape)
    bytes_ = is_byte(x) and is_byte(y)
    if operator.kind == "LEAKY_RELU":
        options = operator.options("LeakyReluOptions")
        call = Call.of("leaky_relu", 1, (float(options.Alpha()) if options else 0.0,))
    else:
        call = _UNARY[operator.kind]
    if x.dtype == y.dtype == np.float32:
        context.add_operator(Map, operator, [x], y, expression=call)
        return
    if operator.kind == "HARD_SWISH" and bytes_ and hard_swish_exponent(x, y) > 0:
        refuse(f"from the scale {x.scale} to {y.scale}")
    if operator.kind == "RELU6" and _is_wide(x) and _is_wide(y):
        context.copy_stored(operator, x, y)
        emit(context, operator, "clip", [x], y, (float(x.zero_point), float(stored(6.0, x))))
        return
    words = operator.kind in _OF_WORDS and _is_wide(x) and _is_wide(y)
    if words:
        expect_symmetric_words(x, y)
        if call.function in WIDE and y.scale != 2.0**-15:
            refuse(f"an output with the scale {y.scale}; {2.0**-15} is needed")
    if x.quantisation and y.quantisation and x.scale / y.scale > _MOST_OF_RATIO:
        refuse(f"the scale {y.scale} of its output is too small for the scale {x.scale} of its input")
    leaky = operator.kind == "LEAKY_RELU" and x.quantisation and y.quantisation
    table = bytes_ and call.function in BYTE_FUNCTIONS
    if (operator.kind == "RSQRT" and x.dtype != np.int8) or not (table or words or leaky):
        refuse(
            f"is not supported from {x.dtype} to {y.dtype}",
            "compute it in float32, or in int8 with a scale on both sides",
        )
    _emit_stored(context, operator, call, [x], y)


def _is_wide(x: Value) -> bool:
    """True for 16-bit values with one scale."""
    return x.dtype == np.int16 and x.quantisation is not None and x.quantisation.axis is None


def is_byte(x: Value) -> bool:
    """True for quantised 8-bit values."""
    return x.dtype.itemsize == 1 and x.quantisation is not None


def convert(context: Context, operator: RawOperator) -> None:
    """QUANTIZE and DEQUANTIZE."""
    (x,), y = context.inputs_and_output(operator, 1)
    expect_shape(y, x.shape)
    if x.dtype.kind in "iu" and x.quantisation is None:
        refuse("its input has no quantisation")
    if operator.kind == "QUANTIZE" and y.quantisation is None:
        refuse("its output has no quantisation")
    if operator.kind == "DEQUANTIZE" and y.dtype.kind != "f":
        refuse(f"its output has the type {y.dtype}; it is of real numbers")
    if x.quantisation and y.quantisation and not len(x.scales) == len(y.scales) == 1:
        refuse("from whole numbers to whole numbers with one scale a channel")
    context.add_operator(Convert, operator, [x], y)


def cast(context: Context, operator: RawOperator) -> None:
    """CAST: stored values are cast as they are, whatever they stand for."""
    (x,), y = context.inputs_and_output(operator, 1)
    expect_shape(y, x.shape)
    if x.quantisation or y.quantisation or (x.dtype.kind == "f" and y.dtype.kind != "f"):
        emit(context, operator, {"b": "truth", "f": "real_cast"}.get(y.dtype.kind, "cast"), [x], y)
    else:
        context.add_operator(Convert, operator, [x], y)
