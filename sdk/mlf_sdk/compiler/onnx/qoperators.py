# SPDX-License-Identifier: Apache-2.0
"""Quantised operators of ONNX and ONNX Runtime as layers between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.onnx.file import RawModel, RawNode
from mlf_sdk.compiler.operators import Array

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

    def dequantised(self, position: int, axis: int = 1) -> tuple[str, RawNode]:
        """An input with its scale and zero point, which follow it."""
        name = f"{self.node.outputs[0]}.real{position}"
        inputs = tuple(self.node.inputs[position : position + 3])
        return name, self.raw("DequantizeLinear", inputs, name, {"axis": axis})

    def quantised(self, source: str, position: int) -> RawNode:
        """The output with the scale and zero point at a position."""
        inputs = (source, *self.node.inputs[position : position + 2])
        return self.raw("QuantizeLinear", inputs, self.node.outputs[0], {})


def spelt_out(model: RawModel) -> RawModel:
    """The model without quantised operators, where what they read is constant as it must be."""
    constants = dict(model.constants)
    nodes: list[RawNode] = []
    for node in model.nodes:
        kind = node.kind.removeprefix(MICROSOFT)
        expansion = _Expansion(node, constants)
        if kind in ("QuantizeLinear", "DequantizeLinear"):
            nodes.append(_renamed(node, kind))
        elif kind == "QLinearConv" and len(node.inputs) >= 8:
            nodes += _conv(expansion)
        elif kind == "QLinearMatMul" and len(node.inputs) >= 8:
            nodes += _layer(expansion, "MatMul", (0, 3), 6)
        elif kind == "QGemm" and len(node.inputs) >= 8:
            nodes += _gemm(expansion)
        elif kind in _BINARY and len(node.inputs) >= 7:
            nodes += _layer(expansion, _BINARY[kind], (0, 3), 6)
        elif kind in _UNARY and len(node.inputs) >= 4:
            nodes += _layer(expansion, _UNARY[kind], (0,), 3)
        elif kind == "QLinearConcat" and len(node.inputs) >= 5:
            nodes += _concat(expansion)
        else:
            nodes.append(node)
    return RawModel(
        opset=model.opset, nodes=tuple(nodes), inputs=model.inputs, outputs=model.outputs,
        constants=constants, producer=model.producer,
    )  # fmt: skip


def _renamed(node: RawNode, kind: str) -> RawNode:
    return RawNode(
        number=node.number, kind=kind, name=node.name, inputs=node.inputs, outputs=node.outputs,
        attributes=node.attributes, proto=node.proto,
    )  # fmt: skip


def _layer(
    expansion: _Expansion, kind: str, operands: tuple[int, ...], output: int, extra: tuple[str, ...] = ()
) -> Iterator[RawNode]:
    node = expansion.node
    names = []
    for position in operands:
        weights = position == 3 and kind in ("MatMul", "Gemm")
        name, found = expansion.dequantised(
            position, axis=1 if weights and kind == "MatMul" else 0 if weights else 1
        )
        names.append(name)
        yield found
    real = f"{node.outputs[0]}.real"
    attributes = {k: v for k, v in node.attributes.items() if k != "channels_last"}
    if node.attributes.get("channels_last"):
        attributes["unsupported channels_last"] = 1
    yield expansion.raw(kind, (*names, *extra), real, attributes)
    yield expansion.quantised(real, output)


def _bias(expansion: _Expansion, position: int) -> tuple[str, ...]:
    """Biases as real numbers, from integers at the scale of the sums."""
    node, constants = expansion.node, expansion.constants
    if len(node.inputs) <= position or not node.inputs[position]:
        return ()
    known = [constants.get(node.inputs[i]) for i in (position, 1, 4)]
    if any(k is None for k in known):
        return (node.inputs[position],)
    bias, source, weights = (np.asarray(k) for k in known)
    name = f"{node.outputs[0]}.bias"
    constants[name] = (bias.astype(np.float64) * source.reshape(-1) * weights.reshape(-1)).astype(np.float32)
    return (name,)


def _conv(expansion: _Expansion) -> Iterator[RawNode]:
    x, first = expansion.dequantised(0)
    weights, second = expansion.dequantised(3, axis=0)
    yield first
    yield second
    real = f"{expansion.node.outputs[0]}.real"
    yield expansion.raw("Conv", (x, weights, *_bias(expansion, 8)), real, expansion.node.attributes)
    yield expansion.quantised(real, 6)


def _gemm(expansion: _Expansion) -> Iterator[RawNode]:
    """QGemm has its biases in front of the output's scale."""
    x, first = expansion.dequantised(0)
    turned = bool(expansion.node.attributes.get("transB", 0))
    weights, second = expansion.dequantised(3, axis=0 if turned else 1)
    yield first
    yield second
    real = f"{expansion.node.outputs[0]}.real"
    yield expansion.raw("Gemm", (x, weights, *_bias(expansion, 6)), real, expansion.node.attributes)
    yield expansion.quantised(real, 7)


def _concat(expansion: _Expansion) -> Iterator[RawNode]:
    node = expansion.node
    names = []
    for position in range(2, len(node.inputs) - 2, 3):
        name, found = expansion.dequantised(position)
        names.append(name)
        yield found
    real = f"{node.outputs[0]}.real"
    yield expansion.raw("Concat", tuple(names), real, node.attributes)
    yield expansion.quantised(real, 0)
