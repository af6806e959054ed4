# SPDX-License-Identifier: Apache-2.0
"""Builders of what dynamic quantisation is made of: integers whose scale and zero point a run decides."""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.computed import DynamicQuantise
from mlf_sdk.compiler.graph import FLOAT32, INT8, INT32, UINT8, Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.layers import computed_convolution, conv_shape
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.pointwise import elementwise
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.reals import MatMul

_INT16: Final = np.dtype(np.int16)


def dynamic_quantize_linear(context: Context, node: Node) -> None:
    """DynamicQuantizeLinear."""
    x = node.input()
    names = (*node.raw.outputs, "", "")[:3]
    source = context.value(x)
    _, y = context.output(names[0], UINT8, x.shape)
    _, scale = context.output(names[1], FLOAT32, ())
    _, zero = context.output(names[2], UINT8, ())
    context.emit(DynamicQuantise(**node.common([source], y, scale, zero)))


def mat_mul_integer(context: Context, node: Node) -> None:
    """MatMulInteger: products of integers less their zero points."""
    a, b = node.input(0), node.input(1)
    if a.rank < 1 or b.rank < 1:
        refuse("operands need at least one axis")
    left = a.shape if a.rank > 1 else (1, *a.shape)
    right = b.shape if b.rank > 1 else (*b.shape, 1)
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        refuse(f"operands {a.shape} and {b.shape} don't fit")
    if left[-1] != right[-2]:
        refuse(f"operands {a.shape} and {b.shape} don't fit")
    shape = (*batch, *((left[-2],) if a.rank > 1 else ()), *((right[-1],) if b.rank > 1 else ()))
    weights = context.reshaped("", _centred(context, node, b, 3), right)
    inputs = [context.value(context.reshaped("", a, left)), context.value(weights), *_zero(context, node, 2)]
    product, y = context.output("", INT32, (*batch, left[-2], right[-1]))
    context.emit(MatMul(**node.common(inputs, y)))
    context.reshaped(node.name, product, shape)


def conv_integer(context: Context, node: Node) -> None:
    """ConvInteger: padding counts as the zero point."""
    x, weights = node.input(0), node.input(1)
    window, shape = conv_shape(node, x, weights.shape)
    zero = _zero(context, node, 2)
    computed_convolution(
        context, node, context.nhwc(x), _centred(context, node, weights, 3), window, shape, zero=zero
    )


def _zero(context: Context, node: Node, position: int) -> list[Value]:
    """Zero point of an activation, of one element; none where it is 0."""
    if not node.has(position) or _is_zero(node.input(position)):
        return []
    if node.input(position).elements != 1:
        refuse("one zero point for all of the first operand is supported")
    return [context.value(node.input(position))]


def _is_zero(tensor: Tensor) -> bool:
    return tensor.data is not None and not np.any(tensor.data)


def _centred(context: Context, node: Node, tensor: Tensor, position: int) -> Tensor:
    """A second operand less its zero points: one, or one a channel of a layer or column of a matrix."""
    if not node.has(position) or _is_zero(node.input(position)):
        return tensor
    zero = node.input(position)
    if zero.elements == 1:
        zero = context.reshaped("", zero, ())
    elif node.kind == "ConvInteger":
        zero = context.reshaped("", zero, (zero.elements, *(1,) * (tensor.rank - 1)))
    if tensor.data is not None and zero.data is not None:
        return context.constant("", _narrow(tensor.data.astype(np.int32) - zero.data.astype(np.int32)))
    wide = [elementwise(context, node, "cast", [t], dtype=INT32, name="") for t in (tensor, zero)]
    return elementwise(context, node, "sub", wide, name="")


def _narrow(data: Array) -> Array:
    """Differences of bytes in the narrowest type that holds them."""
    small = data.size == 0 or (data.min() >= -128 and data.max() <= 127)
    return data.astype(INT8 if small else _INT16)


BUILDERS: Final = {
    "ConvInteger": conv_integer,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "MatMulInteger": mat_mul_integer,
}
