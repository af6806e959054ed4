# SPDX-License-Identifier: Apache-2.0
"""Builders of QuantizeLinear and DequantizeLinear.

One constant scale of int8 or uint8 makes a tensor that layers compute with as integers. Other scales are
computed with as they are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, INT8, INT32, UINT8, refuse
from mlf_sdk.compiler.onnx import stored
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.functions import type_of
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.pointwise import elementwise
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor, axis_of
from mlf_sdk.compiler.operators import Array

_TYPES: Final = ("int8", "uint8", "int16", "uint16")


def quantize_linear(context: Context, node: Node) -> None:
    """QuantizeLinear."""
    x = node.input()
    if stored.has_one_scale(node):
        stored.quantize_linear(context, node)
        return
    dtype = node.input(2).dtype if node.has(2) else UINT8
    if not node.has(2) and node.attribute("output_dtype", 0):
        dtype = type_of(node.attribute("output_dtype"))
    if dtype.name not in _TYPES:
        refuse(f"quantisation to another type than {', '.join(_TYPES)} is not supported")
    info = np.iinfo(dtype)
    limits = (float(info.min), float(info.max))
    elementwise(
        context, node, "quantise", [_zero(context, node, x, dtype), x, _scale(context, node, x)],
        parameters=limits, dtype=dtype,
    )  # fmt: skip


def dequantize_linear(context: Context, node: Node) -> None:
    """DequantizeLinear."""
    x = node.input()
    whole = x.dtype in (INT8, UINT8, INT32) and not node.attribute("block_size", 0)
    known = all(node.input(i).known is not None for i in (1, 2) if node.has(i))
    if whole and known and (x.data is not None or (x.dtype != INT32 and stored.has_one_scale(node))):
        stored.dequantize_linear(context, node)
        return
    if x.data is not None and known:  # of any type: those of four or eight bits have become real numbers
        context.constant(node.name, _real(context, node, x))
        return
    if x.dtype.kind not in "iu":
        refuse(f"reads {x.dtype}; integers are supported")
    parts = [x, _zero(context, node, x, x.dtype), _scale(context, node, x)]
    elementwise(context, node, "dequantise", parts, dtype=FLOAT32)


def _along(node: Node, tensor: Tensor, x: Tensor) -> Shape:
    """Shape of scales or zero points in which they are broadcast to the elements."""
    if tensor.elements == 1:
        return ()
    axis = axis_of(int(node.attribute("axis", 1)), x.rank)
    if tensor.shape != (x.shape[axis],):
        refuse(f"scales or zero points {tensor.shape} of a tensor {x.shape}")
    return (x.shape[axis], *(1,) * (x.rank - 1 - axis))


def _scale(context: Context, node: Node, x: Tensor) -> Tensor:
    if node.attribute("block_size", 0):
        refuse("quantisation in blocks of what is computed at run time is not supported")
    return context.reshaped("", node.input(1), _along(node, node.input(1), x))


def _zero(context: Context, node: Node, x: Tensor, dtype: np.dtype[np.generic]) -> Tensor:
    if not node.has(2):
        return context.constant("", np.zeros((), dtype))
    return context.reshaped("", node.input(2), _along(node, node.input(2), x))


def _real(context: Context, node: Node, x: Tensor) -> Array:
    """Real numbers of constant integers, which may be quantised in blocks along an axis."""
    block = int(node.attribute("block_size", 0))
    zero = node.input(2) if node.has(2) else context.constant("", np.zeros(node.input(1).shape, x.dtype))
    parts = []
    for tensor in (node.input(1), zero):
        data = tensor.known if tensor.known is not None else np.zeros(())
        if block:
            axis = axis_of(int(node.attribute("axis", 1)), x.rank)
            data = np.repeat(data, block, axis=axis)[tuple(slice(e) for e in x.shape)]
        else:
            data = data.reshape(_along(node, tensor, x))
        parts.append(data)
    given = x.data if x.data is not None else np.zeros(())
    centred = given.astype(np.float64) - parts[1].astype(np.float64)
    return centred.astype(np.float32) * parts[0].astype(np.float32)


BUILDERS: Final = {"QuantizeLinear": quantize_linear, "DequantizeLinear": dequantize_linear}
