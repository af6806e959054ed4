# SPDX-License-Identifier: Apache-2.0
"""Quantised operators of ONNX and ONNX Runtime as layers between DequantizeLinear and QuantizeLinear.

Also those that dynamic quantisation is made of: integers whose scale and zero point a run decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from mlf_sdk.compiler.computed import DynamicQuantise
from mlf_sdk.compiler.graph import FLOAT32, INT8, INT32, UINT8, Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.dense import product_shapes
from mlf_sdk.compiler.onnx.file import foldable
from mlf_sdk.compiler.onnx.layers import computed_convolution, conv_shape
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.pointwise import elementwise
from mlf_sdk.compiler.onnx.raw import RawGraph, RawNode
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.reals import MatMul

Graph = TypeVar("Graph", bound=RawGraph)
MICROSOFT: Final = "com.microsoft."


@dataclass(frozen=True, slots=True)
class _Layer:
    """A quantised operator.

    Attributes:
        kind: the operator on real numbers.
        operands: axis of the scales of each, by its position; scale and zero point follow it.
        output: position of the scale of the result, which its zero point follows.
        bias: position of integers at the scale of the sums; -1: there are none.
    """

    kind: str
    operands: dict[int, int]
    output: int
    bias: int = -1


LAYERS: Final = {
    "QGemm": _Layer("Gemm", {0: 1, 3: 1}, 7, bias=6),  # its biases stand in front of the output's scale
    "QLinearAdd": _Layer("Add", {0: 1, 3: 1}, 6),
    "QLinearAveragePool": _Layer("AveragePool", {0: 1}, 3),
    "QLinearConv": _Layer("Conv", {0: 1, 3: 0}, 6, bias=8),
    "QLinearGlobalAveragePool": _Layer("GlobalAveragePool", {0: 1}, 3),
    "QLinearLeakyRelu": _Layer("LeakyRelu", {0: 1}, 3),
    "QLinearMatMul": _Layer("MatMul", {0: 1, 3: 1}, 6),
    "QLinearMul": _Layer("Mul", {0: 1, 3: 1}, 6),
    "QLinearSigmoid": _Layer("Sigmoid", {0: 1}, 3),
    "QLinearSoftmax": _Layer("Softmax", {0: 1}, 3),
}


def expand_quantised(graph: Graph) -> Graph:
    """The graph without quantised operators; those in a layout of channels last are left, to be refused."""
    constants = dict(graph.constants)
    nodes: list[RawNode] = []
    for node in graph.nodes:
        kind, layer = node.kind.removeprefix(MICROSOFT), _layer_of(node)
        if kind in ("QuantizeLinear", "DequantizeLinear"):
            nodes.append(dataclasses.replace(node, kind=kind))
        elif layer is None or len(node.inputs) <= layer.output or node.attributes.get("channels_last"):
            nodes.append(node)
        else:
            nodes += _expanded(node, layer, constants)
    return dataclasses.replace(graph, nodes=tuple(nodes), constants=constants)


def _layer_of(node: RawNode) -> _Layer | None:
    """The operator of a node, with what follows from its inputs and attributes."""
    kind = node.kind.removeprefix(MICROSOFT)
    if kind == "QLinearConcat" and len(node.inputs) >= 5:
        return _Layer("Concat", dict.fromkeys(range(2, len(node.inputs) - 2, 3), 1), 0)
    if kind == "QGemm" and node.attributes.get("transB"):
        return dataclasses.replace(LAYERS[kind], operands={0: 1, 3: 0})
    return LAYERS.get(kind)


def _expanded(node: RawNode, layer: _Layer, constants: dict[str, Array]) -> Iterator[RawNode]:
    """The layer between its dequantised operands and its quantised output."""
    output = node.outputs[0]
    names = [f"{output}.real{position}" for position in layer.operands]
    for name, (position, axis) in zip(names, layer.operands.items(), strict=True):
        yield node.replaced("DequantizeLinear", node.inputs[position : position + 3], name, axis=axis)
    if layer.bias >= 0 and len(node.inputs) > layer.bias and node.inputs[layer.bias]:
        names.append(f"{output}.bias")
        yield from _bias(node, layer.bias, names[-1], constants)
    attributes = {k: v for k, v in node.attributes.items() if k != "channels_last"}
    yield node.replaced(layer.kind, names, f"{output}.real", **attributes)
    scales = node.inputs[layer.output : layer.output + 2]
    yield node.replaced("QuantizeLinear", (f"{output}.real", *scales), output)


def _bias(node: RawNode, position: int, name: str, constants: dict[str, Array]) -> Iterator[RawNode]:
    """Biases as real numbers: their scale is the product of those of the operands, and of alpha."""
    constants[f"{name}.alpha"] = np.array(float(node.attributes.get("alpha", 1.0)), np.float32)
    scale = f"{name}.scale"
    yield foldable(node.replaced("Mul", (f"{name}.alpha", node.inputs[1]), f"{scale}.input"))
    yield foldable(node.replaced("Mul", (f"{scale}.input", node.inputs[4]), scale))
    yield node.replaced("DequantizeLinear", (node.inputs[position], scale), name, axis=0)


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
    left, right, full, shape = product_shapes(a, b)
    weights = context.reshaped("", _centred(context, node, b, 3), right)
    inputs = [context.value(context.reshaped("", a, left)), context.value(weights), *_zero(context, node, 2)]
    product = node.emit(MatMul, inputs, INT32, full, "")
    context.reshaped(node.name, product, shape)


def conv_integer(context: Context, node: Node) -> None:
    """ConvInteger: padding counts as the zero point."""
    x, weights = node.input(0), node.input(1)
    (part,), shape = conv_shape(node, x, weights.shape, most=2)
    zero, centred = _zero(context, node, 2), _centred(context, node, weights, 3)
    computed_convolution(context, node, context.nhwc(x), centred, part.window, shape, zero=zero)


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
