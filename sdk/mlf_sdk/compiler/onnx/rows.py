# SPDX-License-Identifier: Apache-2.0
"""Builders of what goes along axes: softmax, reductions, lengths, running sums, places of extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.computed import ArgExtreme
from mlf_sdk.compiler.graph import FLOAT32, INT64, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.pointwise import BOOL, elementwise
from mlf_sdk.compiler.onnx.tensor import Tensor, axis_of
from mlf_sdk.compiler.operators import Softmax
from mlf_sdk.compiler.reals import Accumulate, Reduce, Reduction

REDUCTIONS: Final = {
    "ReduceSum": Reduction.SUM, "ReduceMean": Reduction.MEAN, "ReduceMax": Reduction.MAX,
    "ReduceMin": Reduction.MIN, "ReduceProd": Reduction.PROD, "ReduceL1": Reduction.L1,
    "ReduceL2": Reduction.L2,
    "ReduceSumSquare": Reduction.SUM_SQUARE, "ReduceLogSum": Reduction.LOG_SUM,
    "ReduceLogSumExp": Reduction.LOG_SUM_EXP,
}  # fmt: skip


def softmax(context: Context, node: Node) -> None:
    """Softmax and LogSoftmax; over an axis in the middle between two transpositions."""
    x = node.input()
    log = node.kind == "LogSoftmax"
    old = context.opset < 13
    axis = axis_of(int(node.attribute("axis", 1 if old else -1)), x.rank)
    if x.rank == 0:
        refuse("needs an axis")
    if old:
        x_flat = context.reshaped("", x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
        inner = node.emit(Softmax, [x_flat], FLOAT32, x_flat.shape, "", beta=1.0, log=log)
        context.reshaped(node.name, inner, x.shape)
        return
    if axis == x.rank - 1:
        node.emit(Softmax, [x], FLOAT32, x.shape, beta=1.0, log=log)
        return
    order = (*(a for a in range(x.rank) if a != axis), axis)
    back = tuple(int(i) for i in np.argsort(order))
    turned = context.transposed(x, order, "")
    inner = node.emit(Softmax, [turned], FLOAT32, turned.shape, "", beta=1.0, log=log)
    context.transposed(inner, back, node.name)


def reduction(context: Context, node: Node) -> None:
    """Reductions."""
    x = node.input()
    if x.dtype.kind not in "fiu":
        refuse(f"a reduction of {x.dtype}")
    function = REDUCTIONS[node.kind]
    if x.dtype.kind == "u" and function is Reduction.L1:
        function = Reduction.SUM
    if x.dtype.kind != "f" and function in (Reduction.L2, Reduction.LOG_SUM, Reduction.LOG_SUM_EXP):
        refuse(f"a reduction of {x.dtype}; real numbers are supported")
    axes = sorted({axis_of(a, x.rank) for a in node.integers("axes", (), position=1)})
    keep = bool(node.attribute("keepdims", 1))
    if not axes and node.attribute("noop_with_empty_axes", 0):  # functions of one element each
        x, axes, keep = context.reshaped("", x, (*x.shape, 1)), [x.rank], False
    axes = axes or list(range(x.rank))
    shape = tuple(1 if a in axes else e for a, e in enumerate(x.shape) if keep or a not in axes)
    node.emit(Reduce, [x], x.dtype, shape, function=function, axes=tuple(axes))


def lp_normalization(context: Context, node: Node) -> None:
    """LpNormalization: divided by the length along an axis, where that is not 0."""
    x = node.input()
    axis, power = axis_of(int(node.attribute("axis", -1)), x.rank), int(node.attribute("p", 2))
    if x.dtype.kind != "f" or power not in (1, 2):
        refuse(f"the length of power {power} of {x.dtype}")
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    function = Reduction.L1 if power == 1 else Reduction.L2
    length = node.emit(Reduce, [x], x.dtype, shape, "", function=function, axes=(axis,))
    zero, one = (context.constant("", np.array(v, np.float32)) for v in (0, 1))
    empty = elementwise(context, node, "equal", [length, zero], dtype=BOOL, name="")
    length = elementwise(context, node, "where", [empty, one, length], name="")
    elementwise(context, node, "div", [x, length])


def arg_extreme(context: Context, node: Node) -> None:
    """ArgMax and ArgMin."""
    axis = axis_of(int(node.attribute("axis", 0)), node.input().rank)
    last = bool(node.attribute("select_last_index", 0))
    place_of_extreme(node, axis, keep=bool(node.attribute("keepdims", 1)), name=node.name, last=last)


def place_of_extreme(node: Node, axis: int, *, keep: bool, name: str, last: bool = False) -> Tensor:
    """Place of the largest element (of the smallest, for ArgMin) of the input along an axis.

    Args:
        last: of equal elements the last one's, not the first one's.
    """
    x, smallest = node.input(), node.kind == "ArgMin"
    shape = (*x.shape[:axis], *((1,) if keep else ()), *x.shape[axis + 1 :])
    return node.emit(ArgExtreme, [x], INT64, shape, name, axis=axis, smallest=smallest, last=last)


def cum_sum(context: Context, node: Node) -> None:
    """CumSum."""
    x = node.input()
    axis = axis_of(int(node.data(1, "axis").reshape(-1)[0]), x.rank)
    fields: dict[str, Any] = {name: bool(node.attribute(name, 0)) for name in ("exclusive", "reverse")}
    node.emit(Accumulate, [x], x.dtype, x.shape, axis=axis, **fields)


BUILDERS: Final[dict[str, Callable[[Context, Node], None]]] = {
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(("ArgMax", "ArgMin"), arg_extreme),
    "CumSum": cum_sum,
    "LpNormalization": lp_normalization,
    **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
}
