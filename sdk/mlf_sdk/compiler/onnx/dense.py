# SPDX-License-Identifier: Apache-2.0
"""Builders of matrix products."""

from __future__ import annotations

import dataclasses

import numpy as np

from mlf_sdk.compiler.builder import refuse
from mlf_sdk.compiler.graph import FLOAT32, Value
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.stored import Target, bias_values, is_stored, layer_output, stored_weights, target
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor, check_broadcast, to_last
from mlf_sdk.compiler.operators import UNLIMITED, Array, Call, FullyConnected, Map
from mlf_sdk.compiler.reals import MatMul
from mlf_sdk.ir.tensor import Quantisation


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
    found = target(context, node)
    plain = alpha == 1.0 and beta == 1.0
    simple_bias = c is None or (c.elements in (1, columns) and c.shape[-1:] == (columns,))
    kernel = stored_weights(b, 1 if turned else 0)
    if found is not None and plain and simple_bias and is_stored(a) and kernel is not None:
        _stored_dense(context, node, a, kernel, shape, found, turned=turned)
        return
    data = b.known
    if data is None:
        name = node.name if c is None else ""
        b = b if turned else _turned(context, b)
        y = _product(context, node, a, b, shape, name if alpha == 1.0 else "")
        y = _scaled(context, node, y, alpha, name)
        rest = c and _scaled(context, node, c, beta, "")
    else:
        bias, rest = None, c
        if (
            c is not None
            and c.data is not None
            and (c.elements == 1 or c.shape in ((columns,), (1, columns)))
        ):
            bias = np.broadcast_to(c.data.reshape(-1), (columns,)).astype(np.float32) * np.float32(beta)
            rest = None
        rest = rest and _scaled(context, node, rest, beta, "")
        weights = (data.T if turned else data).astype(np.float32) * np.float32(alpha)
        y = _dense(context, node, a, weights, bias, shape, node.name if rest is None else "")
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
    weights: Array,
    bias: Array | None,
    shape: Shape,
    name: str,
) -> Tensor:
    """Rows of x times constant weights (output, input)."""
    source, weights = _flat_input(context, x, weights)
    inputs = [source, context.add_constant(node.name + "_weights", weights.astype(np.float32))]
    if bias is not None:
        inputs.append(context.add_constant(node.name + "_bias", bias))
    tensor, y = context.output(name, FLOAT32, shape)
    context.emit(FullyConnected(**node.common(inputs, y), clamp=UNLIMITED))
    return tensor


def _flat_input(context: Context, x: Tensor, weights: Array) -> tuple[Value, Array]:
    """The input of a layer; one that was flattened keeps its channels last, and the weights follow it."""
    base = x.base
    flat = (
        base is not None and base.is_last and x.plain is None and x.rank == 2 and base.shape[0] == x.shape[0]
    )
    if not flat or base is None or base.last is None:
        return context.value(x), weights
    order = np.arange(weights.shape[1]).reshape(1, *base.shape[1:])
    columns = to_last(order).reshape(-1)
    return context.value(context.reshaped("", Tensor(
        name=x.name, dtype=x.dtype, shape=base.last.shape, plain=base.last, quantisation=base.quantisation
    ), x.shape)), weights[:, columns]  # fmt: skip


def _stored_dense(
    context: Context,
    node: Node,
    x: Tensor,
    kernel: tuple[Array, Quantisation],
    shape: Shape,
    found: Target,
    *,
    turned: bool,
) -> None:
    source, (data, q) = x.stored, kernel
    if source is None:
        raise AssertionError("a layer that is not stored")
    value, data = _flat_input(context, source, data.T if turned else data)
    if q.axis is not None:
        q = dataclasses.replace(q, axis=0)
    weights = context.add_constant(node.name + "_weights", data, q)
    inputs = [value, weights, *bias_values(context, node, source, q, shape[-1])]
    y, clamp = layer_output(context, node, shape, found, last=False)
    context.emit(FullyConnected(**node.common(inputs, y), clamp=clamp))


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
        return _dense(context, node, a, data.T, None, shape, name)
    return _product(context, node, a, b, shape, name)


def _scaled(context: Context, node: Node, x: Tensor, by: float, name: str) -> Tensor:
    if by == 1.0:
        return x
    if x.data is not None:
        return context.constant(name, x.data * np.float32(by))
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
    found, y = context.output(name, tensors[0].dtype, shape)
    context.emit(Map(**node.common(inputs, y), expression=Call.of(function, 2)))
    return found


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
    found = target(context, node)
    kernel = stored_weights(b, 1) if b.rank == 2 else None
    if found is not None and is_stored(a) and kernel is not None:
        _stored_dense(context, node, a, kernel, shape, found, turned=True)
        return
    if b.rank == 2 and b.known is not None and b.known.dtype.kind == "f":
        matrix_product(context, node, a, b, shape, node.name)
        return
    left_tensor = context.reshaped("", a, left)
    y = _product(context, node, left_tensor, context.reshaped("", b, right), full, "")
    context.reshaped(node.name, y, shape)
