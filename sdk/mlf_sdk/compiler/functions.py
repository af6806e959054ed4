# SPDX-License-Identifier: Apache-2.0
"""Scalar functions: one row states what a function means in numpy and how C computes it.

What else is needed of a function follows from its row: the reference of a `Map`, its C text, the table of 256
entries of a function of one byte, and expressions of several functions in one loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.operators import Array, Expression


class Function(msgspec.Struct, frozen=True):
    """A function of the elements at one place.

    Attributes:
        numpy: of arrays, and of the parameters.
        real: C expression of single-precision operands ``a``, ``b``, ``c`` and parameters ``{0}``, ``{1}``;
            empty: there is none.
        whole: C expression of integers; sums and products wrap, and what is divided by zero is zero.
    """

    numpy: Callable[..., Array]
    real: str = ""
    whole: str = ""


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
    sizes = [(x if x.dtype == np.uint64 else np.abs(x.astype(np.int64))).astype(np.uint64) for x in (a, b)]
    quotient = sizes[0] // sizes[1]
    with np.errstate(over="ignore"):  # modulo 2**64
        return np.where((a < 0) ^ (b < 0), -quotient, quotient).astype(a.dtype)


def _modulo(a: Array, b: Array) -> Array:
    """Remainder with the sign of the divisor; of an infinite one, as C has it."""
    if a.dtype.kind != "f":
        return np.mod(a, b)
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def _larger(a: Array, b: Array) -> Array:
    """The larger value; the second one where they can't be ordered, as TFLite's MAXIMUM."""
    return np.where(a > b, a, b)


def _smaller(a: Array, b: Array) -> Array:
    """The smaller value; the second one where they can't be ordered, as TFLite's MINIMUM."""
    return np.where(a < b, a, b)


def _floor_of_quotient(a: Array, b: Array) -> Array:
    """Floor of the single-precision quotient."""
    return np.floor(a.astype(np.float32) / b.astype(np.float32))


def _quantised(zero: Array, x: Array, scale: Array, low: float, high: float) -> Array:
    """Quotients in single precision, rounded to even; NaN becomes the lowest number."""
    scaled = np.rint(x.astype(np.float32) / scale.astype(np.float32)).astype(np.float64)
    return np.where(np.isnan(scaled), low, np.clip(scaled + zero, low, high))


def _power(a: Array, b: Array) -> Array:
    return np.power(a.astype(np.float64), b)


# fmt: off
FUNCTIONS: Final[dict[str, Function]] = {
    "abs": Function(np.abs, "fabsf(a)", "a < 0 ? -a : a"),
    "acos": Function(np.arccos, "acosf(a)"),
    "acosh": Function(np.arccosh, "acoshf(a)"),
    "add": Function(np.add, "a + b", "(uint64_t)a + (uint64_t)b"),
    "and": Function(np.logical_and, whole="a && b"),
    "asin": Function(np.arcsin, "asinf(a)"),
    "asinh": Function(np.arcsinh, "asinhf(a)"),
    "atan": Function(np.arctan, "atanf(a)"),
    "atanh": Function(np.arctanh, "atanhf(a)"),
    "bit_and": Function(np.bitwise_and, whole="a & b"),
    "bit_not": Function(np.invert, whole="~a"),
    "bit_or": Function(np.bitwise_or, whole="a | b"),
    "bit_xor": Function(np.bitwise_xor, whole="a ^ b"),
    "cast": Function(lambda x: np.trunc(x) if x.dtype.kind == "f" else x, "a", "a"),
    "ceil": Function(np.ceil, "ceilf(a)"),
    "clip": Function(lambda x, low, high: np.minimum(np.maximum(x, low), high), "real_limit(a, {0}, {1})", "whole_limit(a, {0}, {1})"),
    "cos": Function(np.cos, "cosf(a)"),
    "cosh": Function(np.cosh, "coshf(a)"),
    "dequantise": Function(lambda x, zero, scale: (x.astype(np.int64) - zero) * scale, "(float)((int32_t)a - (int32_t)b) * c"),
    "div": Function(_divide, "a / b", "b != 0 ? a / b : 0"),
    "elu": Function(_elu, "a > 0.0f ? a : {0} * real_elu(a)"),
    "equal": Function(np.equal, "a == b", "a == b"),
    "erf": Function(_erf, "real_erf(a)"),
    "exp": Function(np.exp, "real_exp(a)"),
    "flip_sign": Function(lambda x: x.view(np.uint8) ^ 128, whole="(uint8_t)a ^ 128"),
    "floor": Function(np.floor, "floorf(a)"),
    "floor_div": Function(_floor_of_quotient, "floorf(a / b)"),
    "fmod": Function(np.fmod, "fmodf(a, b)", "b != 0 ? a % b : 0"),
    "gelu": Function(_gelu, "0.5f * a * (1.0f + real_erf(a * 0.707106781f))"),
    "gelu_tanh": Function(_gelu_tanh, "0.5f * a * (1.0f + real_tanh(0.797884561f * (a + 0.044715f * a * a * a)))"),
    "greater": Function(np.greater, "a > b", "a > b"),
    "greater_equal": Function(np.greater_equal, "a >= b", "a >= b"),
    "hard_sigmoid": Function(lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), "real_limit({0} * a + {1}, 0.0f, 1.0f)"),
    "hard_swish": Function(lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "a * real_limit(a * 0.166666667f + 0.5f, 0.0f, 1.0f)"),
    "is_inf": Function(lambda x, over, under: (np.isposinf(x) & (over > 0)) | (np.isneginf(x) & (under > 0)), "(a == INFINITY && {0} > 0.0f) || (a == -INFINITY && {1} > 0.0f)"),
    "is_nan": Function(np.isnan, "a != a"),
    "leaky_relu": Function(lambda x, alpha: np.where(x >= 0, x, alpha * x), "a >= 0.0f ? a : {0} * a"),
    "less": Function(np.less, "a < b", "a < b"),
    "less_equal": Function(np.less_equal, "a <= b", "a <= b"),
    "log": Function(np.log, "real_log(a)"),
    "max": Function(_larger, "a > b ? a : b", "a > b ? a : b"),
    "max_nan": Function(np.maximum, "a > b || a != a ? a : b", "a > b ? a : b"),
    "min": Function(_smaller, "a < b ? a : b", "a < b ? a : b"),
    "min_nan": Function(np.minimum, "a < b || a != a ? a : b", "a < b ? a : b"),
    "mish": Function(lambda x: x * np.tanh(np.logaddexp(0, x)), "a * real_tanh(real_softplus(a))"),
    "mod": Function(_modulo, "real_modulo(a, b)", "b == 0 ? 0 : a % b != 0 && (a < 0) != (b < 0) ? a % b + b : a % b"),
    "mul": Function(np.multiply, "a * b", "(uint64_t)a * (uint64_t)b"),
    "neg": Function(np.negative, "-a", "-a"),
    "not": Function(np.logical_not, whole="!a"),
    "not_equal": Function(np.not_equal, "a != b", "a != b"),
    "or": Function(np.logical_or, whole="a || b"),
    "pow": Function(_power, "powf(a, b)"),
    "prelu": Function(lambda x, slope: np.where(x >= 0, x, slope * x), "a >= 0.0f ? a : b * a"),
    "quantise": Function(_quantised, "b != b ? {0} : real_limit(real_round(b / c) + (float)a, {0}, {1})"),
    "real_cast": Function(lambda x: x, "a", "a"),
    "relu": Function(lambda x: np.maximum(x, 0), "real_limit(a, 0.0f, INFINITY)"),
    "reciprocal": Function(lambda x: 1 / x, "1.0f / a"),
    "round": Function(np.round, "real_round(a)"),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x), "1.0f / sqrtf(a)"),
    "scaled_swish": Function(lambda x, alpha: x * _sigmoid(alpha * x), "a * real_sigmoid({0} * a)"),
    "selu": Function(lambda x, alpha, gamma: gamma * _elu(x, alpha), "{1} * (a > 0.0f ? a : {0} * real_elu(a))"),
    "shift_left": Function(lambda a, b: np.where(b > 63, 0, np.left_shift(a.astype(np.uint64), np.minimum(b, 63))), whole="b > 63 ? 0 : (uint64_t)a << b"),
    "shift_right": Function(lambda a, b: np.where(b > 63, 0, np.right_shift(a.astype(np.uint64), np.minimum(b, 63))), whole="b > 63 ? 0 : (uint64_t)a >> b"),
    "shrink": Function(lambda x, bias, limit: np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0)), "a < -{1} ? a + {0} : a > {1} ? a - {0} : 0.0f"),
    "sigmoid": Function(_sigmoid, "real_sigmoid(a)"),
    "sign": Function(np.sign, "a != a ? a : (float)((a > 0.0f) - (a < 0.0f))", "(a > 0) - (a < 0)"),
    "sin": Function(np.sin, "sinf(a)"),
    "sinh": Function(np.sinh, "sinhf(a)"),
    "softplus": Function(lambda x: np.logaddexp(0, x), "real_softplus(a)"),
    "softsign": Function(lambda x: x / (1 + np.abs(x)), "a / (1.0f + fabsf(a))"),
    "sqrt": Function(np.sqrt, "sqrtf(a)"),
    "square": Function(np.square, "a * a"),
    "squared_difference": Function(lambda a, b: np.square(a - b), "(a - b) * (a - b)", "((uint64_t)a - (uint64_t)b) * ((uint64_t)a - (uint64_t)b)"),
    "sub": Function(np.subtract, "a - b", "(uint64_t)a - (uint64_t)b"),
    "swish": Function(lambda x: x * _sigmoid(x), "a * real_sigmoid(a)"),
    "tan": Function(np.tan, "tanf(a)"),
    "tanh": Function(np.tanh, "real_tanh(a)"),
    "thresholded_relu": Function(lambda x, alpha: np.where(x > alpha, x, 0), "a > {0} ? a : 0.0f"),
    "truth": Function(lambda x: x != 0, "a != 0.0f", "a != 0"),
    "where": Function(np.where, "a ? b : c", "a ? b : c"),
    "xor": Function(np.logical_xor, whole="!a != !b"),
}
# fmt: on


def evaluate(expression: Expression, inputs: list[Array]) -> Array:
    """Value of an expression; real functions are computed in double precision, each rounded to single."""
    if isinstance(expression, int):
        return inputs[expression]
    given = [evaluate(argument, inputs) for argument in expression.arguments]
    arguments = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in given]
    with np.errstate(all="ignore"):
        result = np.asarray(FUNCTIONS[expression.function].numpy(*arguments, *expression.parameters))
        return result.astype(np.float32) if result.dtype.kind == "f" else result
