# SPDX-License-Identifier: Apache-2.0
"""Builders of normalisation."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.computed import LocalResponse
from mlf_sdk.compiler.graph import FLOAT32, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.pointwise import elementwise
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor, axis_of, check_broadcast, check_vector
from mlf_sdk.compiler.operators import Array, Call, Map
from mlf_sdk.compiler.reals import Normalise


def batch_normalization(context: Context, node: Node) -> None:
    """BatchNormalization of inference: a factor and a term for each channel."""
    node.only(1)
    x = node.input()
    if node.attribute("training_mode", 0):
        refuse("it normalises as in training; export the model in inference mode")
    channels = x.shape[1] if x.rank > 1 else 1
    given = [node.input(i) for i in range(1, 5)]
    for tensor in given:
        check_vector(tensor, channels)
    epsilon = float(node.attribute("epsilon", 1e-5))
    known = [t.known for t in given]
    if any(data is None for data in known):
        _computed_statistics(context, node, x, given, epsilon)
        return
    scale, bias, mean, variance = (data.astype(np.float64) for data in known if data is not None)
    factor = scale / np.sqrt(variance + epsilon)
    channelwise(context, node, x, factor, bias - mean * factor)


def _computed_statistics(
    context: Context, node: Node, x: Tensor, given: list[Tensor], epsilon: float
) -> None:
    scale, bias, mean, variance = given
    wide = elementwise(context, node, "add", [variance, _number(context, epsilon)], name="")
    root = elementwise(context, node, "sqrt", [wide], name="")
    factor = elementwise(context, node, "div", [scale, root], name="")
    moved = elementwise(context, node, "mul", [mean, factor], name="")
    channelwise(context, node, x, factor, elementwise(context, node, "sub", [bias, moved], name=""))


def _number(context: Context, value: float) -> Tensor:
    return context.constant("", np.array(value, np.float32))


def channelwise(
    context: Context, node: Node, x: Tensor, factor: Array | Tensor, term: Array | Tensor
) -> None:
    """A factor and a term for each index of axis 1."""
    shape = (-1, *(1,) * (x.rank - 2))
    for function, data in (("mul", factor), ("add", term)):
        if isinstance(data, Tensor):
            operand = context.reshaped("", data, (data.elements, *shape[1:]))
        else:
            operand = context.constant("", data.astype(np.float32).reshape(shape))
        x = node.emit(Map, [x, operand], FLOAT32, x.shape, expression=Call.of(function, 2))


def layer_normalization(context: Context, node: Node) -> None:
    """LayerNormalization and RMSNormalization over the last axes."""
    node.only(1)
    x = node.input()
    axis = axis_of(int(node.attribute("axis", -1)), x.rank)
    rows = x.shape[axis:]
    fields: dict[str, Any] = {
        "size": math.prod(rows),
        "epsilon": float(node.attribute("epsilon", 1e-5)),
        "centred": node.kind != "RMSNormalization",
    }
    given = [node.input(i) for i in (1, 2) if node.has(i)]
    for tensor in given:
        check_broadcast(tensor, x.shape)
    known = [_row(tensor, rows) for tensor in given]
    if all(data is not None for data in known):
        names = [f"{node.name}_p{i}" for i in (1, 2)]
        constants = [context.add_constant(n, d) for n, d in zip(names, known, strict=False) if d is not None]
        node.emit(Normalise, [x, *constants], FLOAT32, x.shape, **fields)
        return
    result = node.emit(Normalise, [x], FLOAT32, x.shape, "", **fields)
    for function, tensor in zip(("mul", "add"), given, strict=False):
        name = node.name if tensor is given[-1] else ""
        result = elementwise(context, node, function, [result, tensor], name=name)


def _row(tensor: Tensor, rows: Shape) -> Array | None:
    """Scales or biases of one row; None for those that are computed, or differ between rows."""
    own = (1,) * (len(rows) - tensor.rank) + tensor.shape
    data = tensor.known
    if data is None or any(e != 1 for e in own[: len(own) - len(rows)]):
        return None
    data = data.reshape(own[len(own) - len(rows) :])
    return np.broadcast_to(data, rows).reshape(-1).astype(np.float32)


def group_normalization(context: Context, node: Node) -> None:
    """InstanceNormalization and GroupNormalization."""
    x = node.input()
    channels = x.shape[1]
    groups = int(node.attribute("num_groups", channels))
    if groups < 1 or channels % groups:
        refuse(f"{channels} channels in {groups} groups")
    factors = [_of_channels(context, node, node.input(i), groups, channels) for i in (1, 2)]
    size, epsilon = x.elements // x.shape[0] // groups, float(node.attribute("epsilon", 1e-5))
    result = node.emit(Normalise, [x], FLOAT32, x.shape, "", size=size, epsilon=epsilon)
    channelwise(context, node, result, *factors)


def _of_channels(context: Context, node: Node, tensor: Tensor, groups: int, channels: int) -> Array | Tensor:
    """Factors of channels, from those of groups, which versions before 21 have."""
    each = node.kind == "GroupNormalization" and context.opset < 21 and groups != channels
    check_vector(tensor, groups if each else channels)
    data = tensor.known
    if data is not None:
        return np.repeat(data, channels // groups) if each else data
    if not each:
        return tensor
    rows = context.constant("", np.ones((1, channels // groups), np.float32))
    pair = [context.reshaped("", tensor, (groups, 1)), rows]
    return context.reshaped("", elementwise(context, node, "mul", pair, name=""), (channels,))


def local_response(context: Context, node: Node) -> None:
    """LRN."""
    x = node.input()
    size = int(node.attribute("size", 0))
    if x.rank < 2 or size < 1:
        refuse(f"sums of {size} channels of a tensor {x.shape}")
    defaults = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    fields: dict[str, Any] = {n: float(node.attribute(n, default)) for n, default in defaults.items()}
    node.emit(LocalResponse, [x], FLOAT32, x.shape, axis=1, size=size, **fields)


BUILDERS: Final = {
    "BatchNormalization": batch_normalization,
    "LRN": local_response,
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), layer_normalization),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization"), group_normalization),
}
