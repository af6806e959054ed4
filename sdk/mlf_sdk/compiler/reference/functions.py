# SPDX-License-Identifier: Apache-2.0
"""Functions of `Pointwise` in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.operators import Array

Function = Callable[..., Array]
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x.astype(np.float64)))


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _divide(a: Array, b: Array) -> Array:
    """Quotient; of integers, towards zero."""
    if a.dtype.kind == "f":
        return a / b
    quotient = np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64))
    return np.where((a < 0) ^ (b < 0), -quotient, quotient)


def _modulo(a: Array, b: Array) -> Array:
    """Remainder with the sign of the divisor; of an infinite one, as C has it."""
    if a.dtype.kind != "f":
        return np.mod(a, b)
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def _floor_of_quotient(a: Array, b: Array) -> Array:
    """Floor of the single-precision quotient."""
    return np.floor(a.astype(np.float32) / b.astype(np.float32))


def _quantised(zero: Array, x: Array, scale: Array, low: float, high: float) -> Array:
    """Quotients in single precision, rounded to even."""
    scaled = np.rint(x.astype(np.float32) / scale.astype(np.float32)).astype(np.float64)
    return np.clip(scaled + zero, low, high)


def _power(a: Array, b: Array) -> Array:
    return np.power(a.astype(np.float64), b)


FUNCTIONS: Final[dict[str, Function]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "add": np.add,
    "and": np.logical_and,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "bit_and": np.bitwise_and,
    "bit_not": np.invert,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "cast": lambda x: np.trunc(x) if x.dtype.kind == "f" else x,
    "ceil": np.ceil,
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "cos": np.cos,
    "cosh": np.cosh,
    "dequantise": lambda x, zero, scale: (x.astype(np.int64) - zero) * scale,
    "div": _divide,
    "elu": _elu,
    "equal": np.equal,
    "erf": _erf,
    "exp": np.exp,
    "floor": np.floor,
    "floor_div": _floor_of_quotient,
    "fmod": np.fmod,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "hard_sigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "is_inf": lambda x, over, under: (np.isposinf(x) & (over > 0)) | (np.isneginf(x) & (under > 0)),
    "is_nan": np.isnan,
    "leaky_relu": lambda x, alpha: np.where(x >= 0, x, alpha * x),
    "less": np.less,
    "less_equal": np.less_equal,
    "log": np.log,
    "max": np.maximum,
    "min": np.minimum,
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "mod": _modulo,
    "mul": np.multiply,
    "neg": np.negative,
    "not": np.logical_not,
    "not_equal": np.not_equal,
    "or": np.logical_or,
    "pow": _power,
    "prelu": lambda x, slope: np.where(x >= 0, x, slope * x),
    "quantise": _quantised,
    "real_cast": lambda x: x,
    "reciprocal": lambda x: 1 / x,
    "round": np.round,
    "selu": lambda x, alpha, gamma: gamma * _elu(x, alpha),
    "shift_left": lambda a, b: np.where(b > 63, 0, np.left_shift(a.astype(np.uint64), np.minimum(b, 63))),
    "shift_right": lambda a, b: np.where(b > 63, 0, np.right_shift(a.astype(np.uint64), np.minimum(b, 63))),
    "shrink": lambda x, bias, limit: np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0)),
    "sigmoid": _sigmoid,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "softplus": lambda x: np.logaddexp(0, x),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sqrt": np.sqrt,
    "squared_difference": lambda a, b: np.square(a - b),
    "sub": np.subtract,
    "scaled_swish": lambda x, alpha: x * _sigmoid(alpha * x),
    "swish": lambda x: x * _sigmoid(x),
    "tan": np.tan,
    "tanh": np.tanh,
    "thresholded_relu": lambda x, alpha: np.where(x > alpha, x, 0),
    "truth": lambda x: x != 0,
    "where": np.where,
    "xor": np.logical_xor,
}


def apply(function: str, inputs: list[Array], parameters: tuple[float, ...], dtype: np.dtype[Any]) -> Array:
    """Result in the type of the output; real functions are computed in double precision."""
    arguments = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    with np.errstate(all="ignore"):
        return np.asarray(FUNCTIONS[function](*arguments, *parameters)).astype(dtype)
