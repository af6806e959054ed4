# SPDX-License-Identifier: Apache-2.0
"""Builders of elementwise operators that need a closer look at their operands."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.file import OnnxObject, require_onnx
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.pointwise import BOOL, elementwise
from mlf_sdk.compiler.onnx.tensor import axis_of, kept_type
from mlf_sdk.compiler.reals import Accumulate


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


def cum_sum(context: Context, node: Node) -> None:
    """CumSum."""
    x = node.input()
    axis = axis_of(int(node.data(1, "axis").reshape(-1)[0]), x.rank)
    fields: dict[str, Any] = {name: bool(node.attribute(name, 0)) for name in ("exclusive", "reverse")}
    node.emit(Accumulate, [x], x.dtype, x.shape, axis=axis, **fields)


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


BUILDERS: Final = {
    "BitShift": bit_shift,
    "IsInf": is_inf,
    **dict.fromkeys(("Cast", "CastLike"), cast),
    "Mod": mod,
    "Pow": power,
    "CumSum": cum_sum,
}
