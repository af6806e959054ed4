# SPDX-License-Identifier: Apache-2.0
"""Quantised tensors: QuantizeLinear and DequantizeLinear with one constant scale of bytes.

What layers between them compute with is decided afterwards (`mlf_sdk.compiler.passes.integer_layers`).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, INT8, UINT8, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.operators import Convert, Reshape, Rounding
from mlf_sdk.compiler.reference.maps import nearest_even
from mlf_sdk.ir.tensor import Quantisation


def quantisation_of(node: Node, tensor: Tensor, *, axis: int) -> Quantisation:
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


def has_one_scale(node: Node) -> bool:
    """Return whether the scale and zero point of a node are one constant for int8 or uint8."""
    tensors = node.context.tensors
    given = [tensors.get(name) for name in node.raw.inputs[1:] if name]
    one = all(t is not None and t.known is not None and t.elements == 1 for t in given)
    zero = given[1] if len(given) > 1 else None
    byte = zero.dtype in (INT8, UINT8) if zero is not None else not node.attribute("output_dtype", 0)
    return one and byte


def dequantize_linear(context: Context, node: Node) -> None:
    """DequantizeLinear; of a constant the integers are kept."""
    x = node.input()
    axis = int(node.attribute("axis", 1))
    quantisation = quantisation_of(node, x, axis=axis + x.rank if axis < 0 else axis)
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


def quantize_linear(context: Context, node: Node) -> None:
    """QuantizeLinear: a division; `compose_tables` makes one table of what lies behind a DequantizeLinear."""
    x = node.input()
    axis = int(node.attribute("axis", 1))
    quantisation = quantisation_of(node, x, axis=axis + x.rank if axis < 0 else axis)
    given = context.value(x)
    dtype = node.input(2).dtype if node.has(2) else UINT8
    stored, value = context.output(node.name, dtype, x.shape, quantisation=quantisation)
    if x.known is None:
        context.emit(Convert(**node.common([given], value), rounding=Rounding.NEAREST_EVEN))
    else:
        stored.data, stored.nchw = nearest_even(value, x.known), None
