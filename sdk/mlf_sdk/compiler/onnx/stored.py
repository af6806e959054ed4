# SPDX-License-Identifier: Apache-2.0
"""Quantised tensors: QuantizeLinear and DequantizeLinear, and integer layers between them.

Between a DequantizeLinear and a QuantizeLinear a layer computes with the stored integers. Functions of one
number become tables, exactly what ONNX computes; layers with sums are requantised as TensorFlow Lite does,
which is at most one step off ONNX's single-precision scales.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlf_sdk.compiler.builder import refuse
from mlf_sdk.compiler.graph import FLOAT32, INT8, INT32, UINT8, Value
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor, last_shape
from mlf_sdk.compiler.operators import Array, Convert, Rounding
from mlf_sdk.compiler.reference.maps import nearest_even
from mlf_sdk.ir.tensor import Quantisation

_LIMITING: Final = ("Relu", "Clip")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The form in which a layer's result is stored: quantisation, and limits that follow the layer."""

    quantisation: Quantisation
    clamp: tuple[float, float]


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
    for value in (stored.plain, stored.last):
        if value is not None:
            retag(context, value, quantisation)
    stored.plain = context.values[stored.plain.id] if stored.plain else None
    stored.last = context.values[stored.last.id] if stored.last else None
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
    last = x.is_last and x.known is None
    given = context.last(x) if last else context.value(x)
    value = context.add(node.name, INT8, given.shape, quantisation)
    stored = Tensor.of_value(value, x.shape, last=last)
    if x.known is None:
        context.emit(Convert(**node.common([given], value), rounding=Rounding.NEAREST_EVEN))
    else:
        stored.data, stored.plain = nearest_even(value, x.known), None
    if unsigned:
        stored = Tensor(name=node.name, dtype=np.dtype(np.uint8), shape=x.shape, signed=stored)
    context.bind(node.name, stored)


def target(context: Context, node: Node, *, reshaped: bool = False) -> Target | None:
    """Quantisation that the only reader of a layer's result gives it; None where the result stays real.

    Args:
        reshaped: the result may get another shape before.
    """
    clamp = (-np.inf, np.inf)
    name = node.name
    for _ in range(3):
        readers = context.readers.get(name, [])
        if len(readers) != 1 or name in context.results:
            return None
        reader = Node(context, readers[0])
        if reader.kind == "QuantizeLinear" and readers[0].inputs[0] == name:
            return _stated(context, reader, clamp)
        if reshaped and reader.kind in ("Reshape", "Flatten", "Squeeze") and readers[0].inputs[0] == name:
            name = reader.name
            continue
        limits = _limits(reader)
        if limits is None:
            return None
        clamp = (max(clamp[0], limits[0]), min(clamp[1], limits[1]))
        name = reader.name
    return None


def _stated(context: Context, node: Node, clamp: tuple[float, float]) -> Target | None:
    if not has_one_scale(node):
        return None
    like = Tensor(name="", dtype=FLOAT32, shape=())
    quantisation = quantisation_of(node, like, axis=0)
    return Target(quantisation=quantisation, clamp=clamp)


def clip_limits(node: Node) -> tuple[float, float]:
    """Limits of a Clip: attributes at first, inputs since version 11."""
    if any(node.has(i) and node.input(i).elements != 1 for i in (1, 2)):
        refuse("limits of several elements")
    low = node.data(1, "limit").reshape(-1)[0] if node.has(1) else node.attribute("min", -math.inf)
    high = node.data(2, "limit").reshape(-1)[0] if node.has(2) else node.attribute("max", math.inf)
    return float(low), float(high)


def _limits(node: Node) -> tuple[float, float] | None:
    if node.kind == "Relu":
        return 0.0, np.inf
    if node.kind == "Clip" and _operands_known(node):
        return clip_limits(node)
    return None


def _operands_known(node: Node) -> bool:
    """True where all inputs behind the first are constants."""
    tensors = node.context.tensors
    return all(n in tensors and tensors[n].data is not None for n in node.raw.inputs[1:] if n)


def stored_clamp(found: Target) -> tuple[int, int]:
    """Limits as stored values."""
    scale, zero = found.quantisation.scale[0], found.quantisation.zero_point[0]
    low, high = (
        int(np.clip(np.rint(np.float32(limit) / np.float32(scale)) + zero, -128, 127))
        for limit in found.clamp
    )
    return low, high


def layer_output(
    context: Context, node: Node, shape: tuple[int, ...], found: Target, *, last: bool
) -> tuple[Value, tuple[int, int]]:
    """Stored result of a layer, its value and the limits of it."""
    limits = stored_clamp(found)
    value = context.add(node.name, INT8, last_shape(shape) if last else shape, found.quantisation)
    stored = Tensor.of_value(value, shape, last=last)
    context.bind(node.name, Tensor(name=node.name, dtype=FLOAT32, shape=shape, stored=stored))
    return value, limits


def is_stored(*tensors: Tensor) -> bool:
    """True where all tensors are dequantised ones with nothing applied to them since."""
    return all(t.stored is not None and t.is_pending and t.stored.dtype == INT8 for t in tensors)


def stored_weights(tensor: Tensor, axis: int) -> tuple[Array, Quantisation] | None:
    """Weights as int8 around zero, and their scales; None where they don't fit, or are not constant.

    Args:
        axis: of the output channels.
    """
    stored = tensor.stored
    if not is_stored(tensor) or stored is None or stored.data is None or stored.quantisation is None:
        return None
    q = stored.quantisation
    if q.axis not in (None, axis):
        return None
    shape = [1] * stored.rank
    if q.axis is not None:
        shape[q.axis] = -1
    centred = stored.data.astype(np.int64) - np.array(q.zero_point, np.int64).reshape(shape)
    if centred.size and (centred.min() < -128 or centred.max() > 127):
        return None
    zeros = (0,) * len(q.zero_point)
    return centred.astype(np.int8), Quantisation(scale=q.scale, zero_point=zeros, axis=q.axis)


def bias_values(context: Context, node: Node, x: Tensor, weights: Quantisation, channels: int) -> list[Value]:
    """Biases, input 2, as integers at the scale of the sums; empty without them."""
    if not node.has(2):
        return []
    tensor = node.input(2)
    if x.quantisation is None:
        raise AssertionError("a layer without quantisation")
    scale = np.array(x.quantisation.scale, np.float64) * np.array(weights.scale, np.float64)
    stored = tensor.stored
    if (
        stored is not None
        and stored.data is not None
        and stored.dtype == INT32
        and stored.quantisation is not None
        and np.allclose(np.array(stored.quantisation.scale), scale, rtol=1e-5)
        and not any(stored.quantisation.zero_point)
    ):
        return [context.add(tensor.name, INT32, (channels,), None, stored.data.reshape(-1))]
    real = node.data(2, "biases").astype(np.float64).reshape(-1)
    whole = np.clip(np.rint(real / scale), -(1 << 31), (1 << 31) - 1)
    data = np.broadcast_to(whole, (channels,)).astype(np.int32)
    return [context.add_constant(tensor.name, data)]
