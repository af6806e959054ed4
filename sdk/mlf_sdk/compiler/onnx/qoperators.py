# SPDX-License-Identifier: Apache-2.0
"""Quantised operators of ONNX and ONNX Runtime as layers between DequantizeLinear and QuantizeLinear.

Also those that dynamic quantisation is made of: integers whose scale and zero point a run decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from mlf_sdk.compiler.computed import DynamicQuantise
from mlf_sdk.compiler.graph import FLOAT32, INT8, INT32, UINT8, Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.dense import product_shapes
from mlf_sdk.compiler.onnx.file import require_onnx
from mlf_sdk.compiler.onnx.layers import computed_convolution, conv_shape
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.pointwise import elementwise
from mlf_sdk.compiler.onnx.raw import RawGraph, RawNode
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.reals import MatMul

Graph = TypeVar("Graph", bound=RawGraph)
MICROSOFT: Final = "com.microsoft."
_UNARY: Final = {
    "QLinearSigmoid": "Sigmoid",
    "QLinearLeakyRelu": "LeakyRelu",
    "QLinearSoftmax": "Softmax",
    "QLinearAveragePool": "AveragePool",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
}
_BINARY: Final = {"QLinearAdd": "Add", "QLinearMul": "Mul"}


@dataclass(slots=True)
class _Expansion:
    """Nodes that stand for one quantised operator."""

    node: RawNode
    constants: dict[str, Array]
    count: int = 0

    def raw(self, kind: str, inputs: tuple[str, ...], output: str, attributes: dict[str, Any]) -> RawNode:
        self.count += 1
        return RawNode(
            number=self.node.number, kind=kind, name=self.node.name, inputs=inputs, outputs=(output,),
            attributes=attributes, proto=None,
        )  # fmt: skip

    def dequantised(self, position: int, axis: int) -> tuple[str, RawNode]:
        """An input with its scale and zero point, which follow it."""
        name = f"{self.node.outputs[0]}.real{position}"
        inputs = tuple(self.node.inputs[position : position + 3])
        return name, self.raw("DequantizeLinear", inputs, name, {"axis": axis})

    def product(self, inputs: tuple[str, str], output: str) -> RawNode:
        """A product of scales, computed when the model is read where they are constant."""
        proto = require_onnx().helper.make_node("Mul", inputs, [output])
        return dataclasses.replace(self.raw("Mul", inputs, output, {}), proto=proto)

    def quantised(self, source: str, position: int) -> RawNode:
        """The output with the scale and zero point at a position."""
        inputs = (source, *self.node.inputs[position : position + 2])
        return self.raw("QuantizeLinear", inputs, self.node.outputs[0], {})


def expand_quantised(graph: Graph) -> Graph:
    """The graph without quantised operators; those in a layout of channels last are left, to be refused."""
    constants = dict(graph.constants)
    nodes: list[RawNode] = []
    for node in graph.nodes:
        kind = node.kind.removeprefix(MICROSOFT)
        expansion = _Expansion(node, constants)
        if kind in ("QuantizeLinear", "DequantizeLinear"):
            nodes.append(dataclasses.replace(node, kind=kind))
        elif node.attributes.get("channels_last"):
            nodes.append(node)
        elif kind == "QLinearConv" and len(node.inputs) >= 8:
            nodes += _layer(expansion, "Conv", {0: 1, 3: 0}, 6, bias=8)
        elif kind == "QLinearMatMul" and len(node.inputs) >= 8:
            nodes += _layer(expansion, "MatMul", {0: 1, 3: 1}, 6)
        elif kind == "QGemm" and len(node.inputs) >= 8:  # its biases stand in front of the output's scale
            axis = 0 if node.attributes.get("transB", 0) else 1
            nodes += _layer(expansion, "Gemm", {0: 1, 3: axis}, 7, bias=6)
        elif kind in _BINARY and len(node.inputs) >= 7:
            nodes += _layer(expansion, _BINARY[kind], {0: 1, 3: 1}, 6)
        elif kind in _UNARY and len(node.inputs) >= 4:
            nodes += _layer(expansion, _UNARY[kind], {0: 1}, 3)
        elif kind == "QLinearConcat" and len(node.inputs) >= 5:
            nodes += _layer(expansion, "Concat", dict.fromkeys(range(2, len(node.inputs) - 2, 3), 1), 0)
        else:
            nodes.append(node)
    return dataclasses.replace(graph, nodes=tuple(nodes), constants=constants)


def _layer(
    expansion: _Expansion, kind: str, operands: dict[int, int], output: int, bias: int | None = None
) -> Iterator[RawNode]:
    """The layer between its dequantised operands and its quantised output.

    Args:
        operands: axis of the scales of each, by the position of the operand.
        output: position of its scale.
        bias: position of integers at the scale of the sums, if there are any.
    """
    node = expansion.node
    names = []
    for position, axis in operands.items():
        name, result = expansion.dequantised(position, axis)
        names.append(name)
        yield result
    if bias is not None and len(node.inputs) > bias and node.inputs[bias]:
        names.append(f"{node.outputs[0]}.bias")
        yield from _bias(expansion, bias, names[-1])
    real = f"{node.outputs[0]}.real"
    attributes = {k: v for k, v in node.attributes.items() if k != "channels_last"}
    yield expansion.raw(kind, tuple(names), real, attributes)
    yield expansion.quantised(real, output)


def _bias(expansion: _Expansion, position: int, name: str) -> Iterator[RawNode]:
    """Biases as real numbers: their scale is the product of those of the operands, and of alpha."""
    node, scale = expansion.node, f"{name}.scale"
    alpha = float(node.attributes.get("alpha", 1.0))
    expansion.constants[f"{name}.alpha"] = np.array(alpha, np.float32)
    yield expansion.product((f"{name}.alpha", node.inputs[1]), f"{scale}.input")
    yield expansion.product((f"{scale}.input", node.inputs[4]), scale)
    yield expansion.raw("DequantizeLinear", (node.inputs[position], scale), name, {"axis": 0})


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
