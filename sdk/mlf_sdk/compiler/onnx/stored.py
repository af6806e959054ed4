# SPDX-License-Identifier: Apache-2.0
"""Quantised tensors: QuantizeLinear and DequantizeLinear with one constant scale of bytes.

What layers between them compute with is decided afterwards (`mlf_sdk.compiler.passes.integer_layers`).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, INT8, UINT8, Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.operators import Convert, Rounding
from mlf_sdk.compiler.reference.maps import nearest_even
from mlf_sdk.ir.tensor import Quantisation


def quantisation_of(node: Node, tensor: Tensor, *, axis: int) -> Quantisation:
    """Scale and zero point of inputs 1 and 2, of the int8 form."""
    scale = node.data(1, "scale").astype(np.float32).reshape(-1)
    zero = (
        node.data(2, "zero point").reshape(-1).astype(np.int64)
        if node.has(2)
        else np.zeros(scale.size, np.int64)
    )
    unsigned = (
        node.input(2).dtype == np.uint8
        if node.has(2)
        else tensor.dtype == np.uint8 or tensor.dtype.kind == "f"
    )
    if not (np.isfinite(scale) & (scale > 0)).all():
        refuse("its scale is not a positive number")
    if zero.size != scale.size:
        refuse(f"{scale.size} scales and {zero.size} zero points")
    zero = zero - 128 if unsigned else zero
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
    """DequantizeLinear: a real tensor that remembers its integers."""
    x = node.input()
    axis = int(node.attribute("axis", 1))
    quantisation = quantisation_of(node, x, axis=axis + x.rank if axis < 0 else axis)
    stored = dataclasses.replace(context.as_int8(x), quantisation=quantisation, stored=None, signed=None)
    for value in (stored.nchw, stored.nhwc):
        if value is not None:
            retag(context, value, quantisation)
    stored.nchw = context.values[stored.nchw.id] if stored.nchw else None
    stored.nhwc = context.values[stored.nhwc.id] if stored.nhwc else None
    context.bind(node.name, Tensor(name=node.name, dtype=FLOAT32, shape=x.shape, stored=stored))


def retag(context: Context, value: Value, quantisation: Quantisation) -> None:
    """State the quantisation of a value that has none yet."""
    if value.quantisation is None and value.data is None:
        context.values[value.id] = dataclasses.replace(value, quantisation=quantisation)


def quantize_linear(context: Context, node: Node) -> None:
    """QuantizeLinear: a division; `compose_tables` makes one table of what lies behind a DequantizeLinear."""
    x = node.input()
    axis = int(node.attribute("axis", 1))
    quantisation = quantisation_of(node, x, axis=axis + x.rank if axis < 0 else axis)
    unsigned = node.input(2).dtype == np.uint8 if node.has(2) else True
    nhwc = x.is_nhwc and x.known is None
    given = context.nhwc(x) if nhwc else context.value(x)
    value = context.add(node.name, INT8, given.shape, quantisation)
    stored = Tensor.of_value(value, x.shape, nhwc=nhwc)
    if x.known is None:
        context.emit(Convert(**node.common([given], value), rounding=Rounding.NEAREST_EVEN))
    else:
        stored.data, stored.nchw = nearest_even(value, x.known), None
    if unsigned:
        stored = Tensor(name=node.name, dtype=np.dtype(np.uint8), shape=x.shape, signed=stored)
    context.bind(node.name, stored)
