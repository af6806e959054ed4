# SPDX-License-Identifier: Apache-2.0
"""Builders of QuantizeLinear and DequantizeLinear.

One constant scale of int8 or uint8 makes a tensor that layers may compute with as integers, which is decided
afterwards (`mlf_sdk.compiler.passes.integer_layers`). Other scales are computed with as they are.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, INT8, INT32, UINT8, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.pointwise import elementwise, type_of
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor, axis_of
from mlf_sdk.compiler.operators import Array, Convert, Reshape, Rounding
from mlf_sdk.compiler.reference.maps import nearest_even
from mlf_sdk.ir.tensor import Quantisation

_TYPES: Final = ("int8", "uint8", "int16", "uint16")


def quantize_linear(context: Context, node: Node) -> None:
    """QuantizeLinear."""
    x = node.input()
    if _has_one_scale(node):
        _quantise_to_bytes(context, node)
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
    if whole and known and (x.data is not None or (x.dtype != INT32 and _has_one_scale(node))):
        _dequantise_bytes(context, node)
        return
    if x.data is not None and known:  # of any type: those of four or eight bits have become real numbers
        context.constant(node.name, _real(context, node, x))
        return
    if x.dtype.kind not in "iu":
        refuse(f"reads {x.dtype}; integers are supported")
    parts = [x, _zero(context, node, x, x.dtype), _scale(context, node, x)]
    elementwise(context, node, "dequantise", parts, dtype=FLOAT32)


# With one constant scale of bytes


def _quantisation(node: Node, tensor: Tensor, *, axis: int) -> Quantisation:
    """Scale and zero point of inputs 1 and 2."""
    scale = node.data(1, "scale").astype(np.float32).reshape(-1)
    zero = (
        node.data(2, "zero point").reshape(-1).astype(np.int64)
        if node.has(2)
        else np.zeros(scale.size, np.int64)
    )
    if not (np.isfinite(scale) & (scale > 0)).all():
        refuse("its scale is not a positive number")
    if zero.size != scale.size:
        refuse(f"{scale.size} scales and {zero.size} zero points")
    whole = scale.size == 1
    if not whole and (tensor.rank <= axis or tensor.shape[axis] != scale.size):
        refuse(f"{scale.size} scales for an axis of another extent")
    return Quantisation(
        scale=tuple(float(s) for s in scale),
        zero_point=tuple(int(z) for z in zero),
        axis=None if whole else axis,
    )


def _has_one_scale(node: Node) -> bool:
    """Return whether the scale and zero point of a node are one constant for int8 or uint8."""
    tensors = node.context.tensors
    given = [tensors.get(name) for name in node.raw.inputs[1:] if name]
    one = all(t is not None and t.known is not None and t.elements == 1 for t in given)
    zero = given[1] if len(given) > 1 else None
    byte = zero.dtype in (INT8, UINT8) if zero is not None else not node.attribute("output_dtype", 0)
    return one and byte


def _dequantise_bytes(context: Context, node: Node) -> None:
    """DequantizeLinear; of a constant the integers are kept."""
    x = node.input()
    axis = int(node.attribute("axis", 1))
    quantisation = _quantisation(node, x, axis=axis + x.rank if axis < 0 else axis)
    if x.data is not None:
        stored = dataclasses.replace(x, quantisation=quantisation, stored=None, nchw=None, nhwc=None)
        context.bind(node.name, Tensor(name=node.name, dtype=FLOAT32, shape=x.shape, stored=stored))
        return
    value = context.values[context.value(x).id]
    if value.quantisation is None:
        x.nchw = context.values[value.id] = value = dataclasses.replace(value, quantisation=quantisation)
    elif value.quantisation != quantisation:  # the same bytes stand for other numbers here
        same = context.add(x.name, x.dtype, x.shape, quantisation)
        context.emit(Reshape(**node.common([value], same)))
        value = same
    _, y = context.output(node.name, FLOAT32, x.shape)
    context.emit(Convert(**node.common([value], y)))


def _quantise_to_bytes(context: Context, node: Node) -> None:
    """QuantizeLinear: a division; `compose_tables` makes one table of what lies behind a DequantizeLinear."""
    x = node.input()
    axis = int(node.attribute("axis", 1))
    quantisation = _quantisation(node, x, axis=axis + x.rank if axis < 0 else axis)
    given = context.value(x)
    dtype = node.input(2).dtype if node.has(2) else UINT8
    stored, value = context.output(node.name, dtype, x.shape, quantisation=quantisation)
    if x.known is None:
        context.emit(Convert(**node.common([given], value), rounding=Rounding.NEAREST_EVEN))
    else:
        stored.data, stored.nchw = nearest_even(value, x.known), None


# With any other scales


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
