# SPDX-License-Identifier: Apache-2.0
"""Builders of matrix products."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor, check_broadcast
from mlf_sdk.compiler.operators import UNLIMITED, Call, FullyConnected, Map
from mlf_sdk.compiler.reals import MatMul


def gemm(context: Context, node: Node) -> None:
    """Gemm: a layer where its second operand is constant, a product of matrices otherwise."""
    a, b = node.input(0), node.input(1)
    alpha, beta = float(node.attribute("alpha", 1.0)), float(node.attribute("beta", 1.0))
    if a.rank != 2 or b.rank != 2:
        refuse(f"operands of {a.rank} and {b.rank} axes; both need two")
    if node.attribute("transA", 0):
        a = _turned(context, a)
    rows, inner = a.shape
    turned = not node.attribute("transB", 0)
    depth, columns = b.shape if turned else b.shape[::-1]
    shape = (rows, columns)
    if depth != inner:
        refuse(f"operands {a.shape} and {b.shape} don't fit")
    c = node.input(2) if node.has(2) else None
    if c is not None:
        check_broadcast(c, shape)
    if b.known is None:
        name = node.name if c is None else ""
        b = b if turned else _turned(context, b)
        y = _product(context, node, a, b, shape, name if alpha == 1.0 else "")
        y = _scaled(context, node, y, alpha, name)
        rest = c and _scaled(context, node, c, beta, "")
    else:
        bias, rest = None, c
        if (
            c is not None
            and c.known is not None
            and (c.elements == 1 or c.shape in ((columns,), (1, columns)))
        ):
            bias = _scaled(context, node, c, beta, "")
            rest = None
        rest = rest and _scaled(context, node, rest, beta, "")
        weights = _scaled(context, node, b, alpha, "")
        y = _dense(context, node, a, weights, bias, shape, node.name if rest is None else "", turned=turned)
    if rest is not None:
        _binary(context, node, "add", (y, rest), shape, node.name)


def _turned(context: Context, x: Tensor) -> Tensor:
    """A matrix with its axes swapped."""
    if x.data is not None:
        return context.constant("", x.data.T)
    return context.transposed(x, (1, 0), "")


def _dense(
    context: Context,
    node: Node,
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    shape: Shape,
    name: str,
    *,
    turned: bool,
) -> Tensor:
    """Rows of x times a constant matrix.

    Args:
        weights: (input, output) where they are ``turned``, otherwise (output, input).
        bias: a constant of one element, or of one an output.
    """
    axes = (1 if turned else 0, 0)
    rows = context.arranged(weights, node.name + "_weights", lambda data: data.T if turned else data, axes)
    inputs = [context.value(x), rows]
    if bias is not None:
        columns = shape[-1]
        inputs.append(
            context.arranged(
                bias, node.name + "_bias", lambda data: np.broadcast_to(data.reshape(-1), (columns,)),
                (bias.rank - 1, 0) if bias.elements == columns else (-1, 0),
            )
        )  # fmt: skip
    tensor, y = context.output(name, FLOAT32, shape)
    context.emit(FullyConnected(**node.common(inputs, y), clamp=UNLIMITED))
    return tensor


def _product(context: Context, node: Node, a: Tensor, b: Tensor, shape: Shape, name: str) -> Tensor:
    inputs = (context.value(a), context.value(b))
    tensor, y = context.output(name, a.dtype, shape)
    context.emit(MatMul(**node.common(inputs, y)))
    return tensor


def matrix_product(
    context: Context, node: Node, a: Tensor, b: Tensor, shape: Shape, name: str = ""
) -> Tensor:
    """Product of matrices: a layer where the second operand is one constant matrix of real numbers."""
    data = b.known
    if data is not None and b.rank == 2 and data.dtype.kind == "f":
        return _dense(context, node, a, b, None, shape, name, turned=True)
    return _product(context, node, a, b, shape, name)


def _scaled(context: Context, node: Node, x: Tensor, by: float, name: str) -> Tensor:
    if by == 1.0:
        return x
    if x.known is not None:
        return context.constant(name, x.known * np.float32(by))
    factor = context.constant("", np.array([by], np.float32))
    return _binary(context, node, "mul", (x, factor), x.shape, name)


def _binary(
    context: Context,
    node: Node,
    function: str,
    tensors: tuple[Tensor, Tensor],
    shape: Shape,
    name: str,
) -> Tensor:
    """Sum or product of real numbers."""
    inputs = [context.value(tensor) for tensor in tensors]
    result, y = context.output(name, tensors[0].dtype, shape)
    context.emit(Map(**node.common(inputs, y), expression=Call.of(function, 2)))
    return result


def mat_mul(context: Context, node: Node) -> None:
    """MatMul as in numpy."""
    a, b = node.input(0), node.input(1)
    if not a.rank or not b.rank:
        refuse("operands need at least one axis")
    left = a.shape if a.rank > 1 else (1, *a.shape)
    right = b.shape if b.rank > 1 else (*b.shape, 1)
    if left[-1] != right[-2]:
        refuse(f"operands {a.shape} and {b.shape} don't fit")
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        refuse(f"operands {a.shape} and {b.shape} don't fit")
    full = (*batch, left[-2], right[-1])
    shape = (*batch, *((left[-2],) if a.rank > 1 else ()), *((right[-1],) if b.rank > 1 else ()))
    if b.rank == 2 and b.known is not None and b.known.dtype.kind == "f":
        matrix_product(context, node, a, b, shape, node.name)
        return
    left_tensor = context.reshaped("", a, left)
    y = _product(context, node, left_tensor, context.reshaped("", b, right), full, "")
    context.reshaped(node.name, y, shape)
