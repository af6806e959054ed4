# SPDX-License-Identifier: Apache-2.0
"""Builders of elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.file import OnnxObject, require_onnx
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor, kept_type
from mlf_sdk.compiler.operators import Call, Map

BOOL: Final = np.dtype(np.bool_)

UNARY: Final = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan",
    "Atanh": "atanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp",
    "Floor": "floor", "HardSwish": "hard_swish", "Log": "log", "Mish": "mish", "Neg": "neg",
    "Reciprocal": "reciprocal", "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin",
    "Sinh": "sinh", "Softplus": "softplus", "Softsign": "softsign", "Sqrt": "sqrt", "Tan": "tan",
    "Tanh": "tanh", "com.microsoft.Gelu": "gelu",
}  # fmt: skip
PARAMETERS: Final[dict[str, tuple[str, tuple[tuple[str, float], ...]]]] = {
    "Elu": ("elu", (("alpha", 1.0),)),
    "HardSigmoid": ("hard_sigmoid", (("alpha", 0.2), ("beta", 0.5))),
    "LeakyRelu": ("leaky_relu", (("alpha", 0.01),)),
    "Selu": ("selu", (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875))),
    "Shrink": ("shrink", (("bias", 0.0), ("lambd", 0.5))),
    "ThresholdedRelu": ("thresholded_relu", (("alpha", 1.0),)),
}
# Functions of operators without attributes, and the number of their inputs; those of TRUTH give truth values.
PLAIN: Final = {
    "BitwiseAnd": ("bit_and", 2), "BitwiseNot": ("bit_not", 1), "BitwiseOr": ("bit_or", 2),
    "BitwiseXor": ("bit_xor", 2), "Not": ("not", 1), "PRelu": ("prelu", 2), "Where": ("where", 3),
}  # fmt: skip
TRUTH: Final = {
    "And": ("and", 2), "Equal": ("equal", 2), "Greater": ("greater", 2),
    "GreaterOrEqual": ("greater_equal", 2), "IsNaN": ("is_nan", 1), "Less": ("less", 2),
    "LessOrEqual": ("less_equal", 2), "Or": ("or", 2), "Xor": ("xor", 2),
}  # fmt: skip
ARITHMETIC: Final = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}
# NaN of an input is kept by Max, Min and Clip: ONNX follows numpy.maximum; TFLite takes the second operand.
NARY: Final = {"Max": "max_nan", "Min": "min_nan", "Sum": "add", "Mean": "add"}


def broadcast_shape(tensors: list[Tensor]) -> tuple[int, ...]:
    """Shape of the result of an elementwise operator."""
    try:
        return tuple(np.broadcast_shapes(*(t.shape for t in tensors)))
    except ValueError:
        refuse(f"operands {', '.join(str(t.shape) for t in tensors)} don't fit")


def elementwise(
    context: Context,
    node: Node,
    function: str,
    tensors: list[Tensor],
    *,
    parameters: tuple[float, ...] = (),
    dtype: np.dtype[Any] | None = None,
    name: str | None = None,
) -> Tensor:
    """Add a function of the elements at one place of all tensors."""
    shape = broadcast_shape(tensors)
    call = Call.of(function, len(tensors), parameters)
    return node.emit(
        Map, tensors, tensors[-1].dtype if dtype is None else dtype, shape, name, expression=call
    )


def unary(context: Context, node: Node) -> None:
    """Functions of one element."""
    if node.kind in PARAMETERS:
        function, defaults = PARAMETERS[node.kind]
        parameters = tuple(float(node.attribute(name, default)) for name, default in defaults)
        elementwise(context, node, function, [node.input()], parameters=parameters)
        return
    x = node.input()
    if x.dtype.kind != "f" and node.kind not in ("Abs", "Neg", "Sign"):
        refuse(f"a function of {x.dtype}; real numbers are supported")
    if x.dtype.kind == "u" and node.kind == "Abs":
        context.bind(node.name, x)
    elif x.dtype.kind == "u" and node.kind == "Sign":
        elementwise(context, node, "min", [x, context.constant("", np.array(1, x.dtype))])
    else:
        elementwise(context, node, UNARY[node.kind], [x])


def relu(context: Context, node: Node) -> None:
    """Relu."""
    elementwise(context, node, "clip", [node.input()], parameters=(0.0, math.inf))


def clip(context: Context, node: Node) -> None:
    """Clip; the limits may be computed at run time."""
    x = node.input()
    if any(node.has(i) and node.input(i).data is None for i in (1, 2)):
        for position, function in ((1, "max_nan"), (2, "min_nan")):
            if node.has(position):
                x = elementwise(context, node, function, [x, node.input(position)])
        return
    limits = _clip_limits(node)
    if x.dtype.kind != "f":
        _clip_whole(context, node, x, limits)
        return
    elementwise(context, node, "clip", [x], parameters=limits)


def _clip_limits(node: Node) -> tuple[float, float]:
    """Limits of a Clip, attributes before version 11; in the wrong order, all is the upper one."""
    if any(node.has(i) and node.input(i).elements != 1 for i in (1, 2)):
        refuse("limits of several elements")
    low = node.data(1, "limit").item() if node.has(1) else node.attribute("min", -math.inf)
    high = node.data(2, "limit").item() if node.has(2) else node.attribute("max", math.inf)
    return min(low, high), high


def _clip_whole(context: Context, node: Node, x: Tensor, limits: tuple[float, float]) -> None:
    """Limits of whole numbers, as far as they lie within the type's own."""
    info = np.iinfo(x.dtype)
    for function, limit, own in (("max", limits[0], info.min), ("min", limits[1], info.max)):
        if (limit > own) if function == "max" else (limit < own):
            x = elementwise(
                context, node, function, [x, context.constant("", np.array(limit, x.dtype))], name=""
            )
    context.bind(node.name, x)


def gelu(context: Context, node: Node) -> None:
    """Gelu, exact or by tanh."""
    function = "gelu_tanh" if node.attribute("approximate", "none") == "tanh" else "gelu"
    elementwise(context, node, function, [node.input()])


def swish(context: Context, node: Node) -> None:
    """Swish, and QuickGelu of ONNX Runtime."""
    alpha = float(node.attribute("alpha", 1.0 if node.kind == "Swish" else 1.702))
    if alpha == 1.0:
        elementwise(context, node, "swish", [node.input()])
    else:
        elementwise(context, node, "scaled_swish", [node.input()], parameters=(alpha,))


def plain(context: Context, node: Node) -> None:
    """Operators that are one function without attributes: comparisons, logic and others."""
    function, count = {**PLAIN, **TRUTH}[node.kind]
    dtype = BOOL if node.kind in TRUTH else None
    elementwise(context, node, function, [node.input(i) for i in range(count)], dtype=dtype)


def arithmetic(context: Context, node: Node) -> None:
    """Add, Sub, Mul and Div."""
    a, b = node.input(0), node.input(1)
    function = ARITHMETIC[node.kind]
    if a.dtype != b.dtype:
        refuse(f"operands of {a.dtype} and {b.dtype}")
    elementwise(context, node, function, [a, b])


def nary(context: Context, node: Node) -> None:
    """Max, Min, Sum and Mean of any number of tensors."""
    tensors = node.inputs
    function = NARY[node.kind]
    if len(tensors) == 1:
        context.bind(node.name, tensors[0])
        return
    mean = node.kind == "Mean"
    result = tensors[0]
    for position, tensor in enumerate(tensors[1:], start=2):
        final = position == len(tensors) and not mean
        result = elementwise(context, node, function, [result, tensor], name=node.name if final else "")
    if mean:
        factor = context.constant("", np.array(1 / len(tensors), np.float32))
        elementwise(context, node, "mul", [result, factor])


def mod(context: Context, node: Node) -> None:
    """Mod: the sign of the divisor, or of the dividend with fmod."""
    a, b = node.input(0), node.input(1)
    unsigned = a.dtype.kind == "u"  # no sign to follow, whichever is asked for
    elementwise(context, node, "fmod" if unsigned or node.attribute("fmod", 0) else "mod", [a, b])


def power(context: Context, node: Node) -> None:
    """Pow; small constant powers as products and roots."""
    a, b = node.input(0), node.input(1)
    if a.dtype.kind != "f":
        refuse(f"powers of {a.dtype} are not supported")
    if b.dtype.kind != "f":
        if b.data is None:
            b = elementwise(context, node, "real_cast", [b], dtype=FLOAT32, name="")
        else:
            b = context.constant("", b.data.astype(np.float32))
    simple = {2.0: "mul", 0.5: "sqrt", 1.0: "real_cast", -1.0: "reciprocal"}
    if (
        b.data is not None
        and b.elements == 1
        and len(b.shape) <= len(a.shape)
        and float(b.data.reshape(-1)[0]) in simple
    ):
        function = simple[float(b.data.reshape(-1)[0])]
        elementwise(context, node, function, [a, a] if function == "mul" else [a])
        return
    elementwise(context, node, "pow", [a, b])


def type_of(code: OnnxObject) -> np.dtype[Any]:
    """Type that an attribute states, as elements are computed."""
    try:
        return kept_type(np.dtype(require_onnx().helper.tensor_dtype_to_np_dtype(int(code))))
    except (KeyError, TypeError):
        refuse(f"the type {code} is not supported")


def cast(context: Context, node: Node) -> None:
    """Cast and CastLike."""
    x = node.input()
    wanted = node.input(1).dtype if node.kind == "CastLike" else type_of(node.attribute("to"))
    if wanted == x.dtype:
        context.bind(node.name, x)
        return
    function = "truth" if wanted == BOOL else "cast" if wanted.kind in "iu" else "real_cast"
    elementwise(context, node, function, [x], dtype=wanted)


def bit_shift(context: Context, node: Node) -> None:
    """BitShift; by no less than the width, it leaves nothing."""
    if any(node.input(i).dtype.kind != "u" for i in (0, 1)):
        refuse("shifts of numbers with a sign are not supported")
    function = "shift_left" if node.attribute("direction") == "LEFT" else "shift_right"
    elementwise(context, node, function, [node.input(0), node.input(1)])


def is_inf(context: Context, node: Node) -> None:
    """IsInf: of one sign or of both."""
    signs = tuple(float(node.attribute(f"detect_{sign}", 1)) for sign in ("positive", "negative"))
    elementwise(context, node, "is_inf", [node.input()], parameters=signs, dtype=BOOL)


Builder = Callable[[Context, Node], None]
BUILDERS: Final[dict[str, Builder]] = {
    **dict.fromkeys((*UNARY, *PARAMETERS), unary),
    **dict.fromkeys((*PLAIN, *TRUTH), plain),
    **dict.fromkeys(ARITHMETIC, arithmetic),
    **dict.fromkeys(NARY, nary),
    **dict.fromkeys(("Cast", "CastLike"), cast),
    "BitShift": bit_shift, "Clip": clip, "Gelu": gelu, "IsInf": is_inf, "Mod": mod, "Pow": power,
    "Relu": relu, "Swish": swish, "com.microsoft.QuickGelu": swish,
}  # fmt: skip
