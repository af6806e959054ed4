# SPDX-License-Identifier: Apache-2.0
"""Builders of normalisation."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlf_sdk.compiler.builder import refuse
from mlf_sdk.compiler.graph import FLOAT32
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor, axis_of
from mlf_sdk.compiler.operators import UNLIMITED, Arithmetic, Array, Binary
from mlf_sdk.compiler.reals import Normalise


def batch_normalization(context: Context, node: Node) -> None:
    """BatchNormalization of inference: a factor and a term for each channel."""
    node.only(1)
    x = node.input()
    scale, bias, mean, variance = (node.data(i, "statistics").astype(np.float64) for i in range(1, 5))
    if node.attribute("training_mode", 0):
        refuse("it normalises as in training; export the model in inference mode")
    factor = scale / np.sqrt(variance + float(node.attribute("epsilon", 1e-5)))
    channelwise(context, node, x, factor, bias - mean * factor)


def channelwise(context: Context, node: Node, x: Tensor, factor: Array, term: Array) -> None:
    """A factor and a term for each index of axis 1."""
    last = x.rank in (3, 4)
    shape = (-1,) if last else (-1, *(1,) * (x.rank - 2))
    source = context.last(x) if last else context.value(x)
    for kind, data, name in ((Arithmetic.MUL, factor, ""), (Arithmetic.ADD, term, node.name)):
        constant = context.add_constant(node.name + "_" + kind.value, data.astype(np.float32).reshape(shape))
        _, y = context.output(name or node.name, FLOAT32, x.shape, last=last)
        context.emit(Binary(**node.common([source, constant], y), function=kind, clamp=UNLIMITED))
        source = y


def layer_normalization(context: Context, node: Node) -> None:
    """LayerNormalization and RMSNormalization over the last axes."""
    node.only(1)
    x = node.input()
    axis = axis_of(int(node.attribute("axis", -1)), x.rank)
    size = math.prod(x.shape[axis:])
    inputs = [context.value(x)]
    for position, start in ((1, np.ones(size)), (2, np.zeros(size))):
        data = node.data(position, "scale") if node.has(position) else start.reshape(x.shape[axis:])
        data = np.broadcast_to(data, x.shape[axis:]).reshape(-1).astype(np.float32)
        inputs.append(context.add_constant(node.name + f"_p{position}", data))
    if node.kind == "RMSNormalization":
        inputs.pop()
    _, y = context.output(node.name, FLOAT32, x.shape)
    context.emit(
        Normalise(
            **node.common(inputs, y), size=size,
            epsilon=float(node.attribute("epsilon", 1e-5)), centred=node.kind != "RMSNormalization",
        )
    )  # fmt: skip


def group_normalization(context: Context, node: Node) -> None:
    """InstanceNormalization and GroupNormalization."""
    x = node.input()
    channels = x.shape[1]
    groups = int(node.attribute("num_groups", channels))
    if groups < 1 or channels % groups:
        refuse(f"{channels} channels in {groups} groups")
    scale, bias = node.data(1, "scale").reshape(-1), node.data(2, "biases").reshape(-1)
    if scale.size == groups != channels:
        scale, bias = (np.repeat(v, channels // groups) for v in (scale, bias))
    source = context.value(x)
    found, y = context.output("", FLOAT32, x.shape)
    size = x.elements // x.shape[0] // groups
    context.emit(
        Normalise(**node.common([source], y), size=size, epsilon=float(node.attribute("epsilon", 1e-5)))
    )
    channelwise(context, node, found, scale, bias)


BUILDERS: Final = {
    "BatchNormalization": batch_normalization,
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), layer_normalization),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization"), group_normalization),
}
