# SPDX-License-Identifier: Apache-2.0
"""Builders of matrix products."""

from __future__ import annotations

import math

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import FLOAT32, INT8, Value
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.stored import Target, bias_value, is_stored, layer_output, stored_weights, target
from mlf_sdk.compiler.onnx.tensor import Tensor, dequantised, refuse, to_last
from mlf_sdk.compiler.operators import Arithmetic, Array, Binary, FullyConnected
from mlf_sdk.compiler.reals import MatMul
from mlf_sdk.ir.tensor import Quantisation

UNLIMITED = (-math.inf, math.inf)


def gemm(context: Context, node: Node) -> None:
    """Gemm: a layer where its second operand is constant, a product of matrices otherwise."""
    a, b = node.input(0), node.input(1)
    alpha, beta = float(node.attribute("alpha", 1.0)), float(node.attribute("beta", 1.0))
    if a.rank != 2 or b.rank != 2:
        refuse(f"operands of {a.rank} and {b.rank} axes; both need two")
    if node.attribute("transA", 0):
        a = _turned(context, a)
    rows, inner = a.shape
    columns = b.shape[0] if node.attribute("transB", 0) else b.shape[1]
    shape = (rows, columns)
    if (b.shape[1] if node.attribute("transB", 0) else b.shape[0]) != inner:
        refuse(f"operands {a.shape} and {b.shape} don't fit")
    found = target(context, node)
    plain = alpha == 1.0 and beta == 1.0
    simple_bias = not node.has(2) or (
        node.input(2).elements in (1, columns) and node.input(2).shape[-1:] == (columns,)
    )
    turned = not node.attribute("transB", 0)
    kernel = stored_weights(b, 1 if turned else 0)
    if found is not None and plain and simple_bias and is_stored(a) and kernel is not None:
        _stored_dense(context, node, a, kernel, shape, found, turned=turned)
        return
    data = _known(b)
    if data is None:
        if node.attribute("transB", 0):
            b = _turned(context, b)
        y = _product(context, node, a, b, shape, "" if (node.has(2) or alpha != 1.0) else node.name)
        if alpha != 1.0:
            y = _scaled(context, node, y, alpha, "" if node.has(2) else node.name)
        if node.has(2):
            c = node.input(2)
            _sum(context, node, y, _scaled(context, node, c, beta, "") if beta != 1.0 else c, shape)
        return
    weights = (data if node.attribute("transB", 0) else data.T).astype(np.float32) * np.float32(alpha)
    bias = None
    rest = None
    if node.has(2):
        given = node.input(2)
        if given.data is not None and (given.elements == 1 or given.shape in ((columns,), (1, columns))):
            bias = np.broadcast_to(given.data.reshape(-1), (columns,)).astype(np.float32) * np.float32(beta)
        else:
            rest = _scaled(context, node, given, beta, "") if beta != 1.0 else given
    y = _dense(context, node, a, weights, bias, shape, node.name if rest is None else "")
    if rest is not None:
        _sum(context, node, y, rest, shape)


def _known(tensor: Tensor) -> Array | None:
    """Data of a constant, dequantised where it is stored."""
    if tensor.data is None and tensor.stored is not None and tensor.stored.data is not None:
        return dequantised(tensor.stored)
    return tensor.data


def _turned(context: Context, x: Tensor) -> Tensor:
    """A matrix with its axes swapped."""
    if x.data is not None:
        return context.constant("", x.data.T)
    source = context.value(x)
    found, y = context.output("", x.dtype, x.shape[::-1])
    context.move(source, y, (regions.transpose(x.shape, (1, 0)),), "Transpose")
    return found


def _dense(
    context: Context,
    node: Node,
    x: Tensor,
    weights: Array,
    bias: Array | None,
    shape: tuple[int, ...],
    name: str,
) -> Tensor:
    """Rows of x times constant weights (output, input)."""
    source, weights = _flat_input(context, x, weights)
    arranged = np.ascontiguousarray(weights.astype(np.float32))
    inputs = [source.id, context.add(node.name + "_weights", FLOAT32, arranged.shape, None, arranged).id]
    if bias is not None:
        inputs.append(
            context.add(node.name + "_bias", FLOAT32, bias.shape, None, np.ascontiguousarray(bias)).id
        )
    tensor, y = context.output(name, FLOAT32, shape)
    context.emit(FullyConnected(**node.common, inputs=tuple(inputs), outputs=(y.id,), clamp=UNLIMITED))
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
    shape: tuple[int, ...],
    found: Target,
    *,
    turned: bool,
) -> None:
    source, (data, q) = x.stored, kernel
    if source is None:
        raise AssertionError("a layer that is not stored")
    value, data = _flat_input(context, source, data.T if turned else data)
    if q.axis is not None:
        q = Quantisation(scale=q.scale, zero_point=q.zero_point, axis=0)
    arranged = np.ascontiguousarray(data)
    inputs = [value.id, context.add(node.name + "_weights", INT8, arranged.shape, q, arranged).id]
    bias = bias_value(context, node, 2, source, q, shape[-1])
    if bias is not None:
        inputs.append(bias.id)
    y, clamp = layer_output(context, node, shape, found, last=False)
    context.emit(FullyConnected(**node.common, inputs=tuple(inputs), outputs=(y.id,), clamp=clamp))


def _product(context: Context, node: Node, a: Tensor, b: Tensor, shape: tuple[int, ...], name: str) -> Tensor:
    inputs = (context.value(a).id, context.value(b).id)
    tensor, y = context.output(name, a.dtype, shape)
    context.emit(MatMul(**node.common, inputs=inputs, outputs=(y.id,)))
    return tensor


def _scaled(context: Context, node: Node, x: Tensor, by: float, name: str) -> Tensor:
    if x.data is not None:
        return context.constant(name, x.data * np.float32(by))
    factor = context.constant("", np.array([by], np.float32))
    tensor, y = context.output(name, x.dtype, x.shape)
    inputs = (context.value(x).id, context.value(factor).id)
    context.emit(
        Binary(**node.common, inputs=inputs, outputs=(y.id,), function=Arithmetic.MUL, clamp=UNLIMITED)
    )
    return tensor


def _sum(context: Context, node: Node, a: Tensor, b: Tensor, shape: tuple[int, ...]) -> None:
    inputs = (context.value(a).id, context.value(b).id)
    _, y = context.output(node.name, a.dtype, shape)
    context.emit(
        Binary(**node.common, inputs=inputs, outputs=(y.id,), function=Arithmetic.ADD, clamp=UNLIMITED)
    )


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
    data = _known(b)
    if data is not None and b.rank == 2 and data.dtype.kind == "f":
        _dense(context, node, a, data.T, None, shape, node.name)
        return
    left_tensor = context.reshaped("", a, left)
    y = _product(context, node, left_tensor, context.reshaped("", b, right), full, "")
    context.reshaped(node.name, y, shape)
