# SPDX-License-Identifier: Apache-2.0
"""Layers of dequantised values whose result is quantised compute with the stored integers.

Sums are requantised as TensorFlow Lite does, which is at most one step off what the real numbers give. So
the pass is a part of how a format is understood, unlike those of `PASSES`, which keep every integer: the
reader of a format that describes quantised layers by real ones (ONNX) applies it to the graph that it read.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, INT8, INT32, Graph, Value
from mlf_sdk.compiler.operators import (
    UNLIMITED,
    Array,
    Conv2D,
    Convert,
    DepthwiseConv2D,
    FullyConnected,
    Map,
    Move,
    Operator,
    Pool2D,
    PoolKind,
    Reshape,
    Rounding,
)
from mlf_sdk.compiler.passes.layout import sink_transpositions
from mlf_sdk.compiler.passes.moves import move_stored
from mlf_sdk.compiler.passes.rewrite import Rewrite, has_effect
from mlf_sdk.compiler.passes.signed import sign_values
from mlf_sdk.compiler.reals import Reduce, Reduction
from mlf_sdk.compiler.reference import evaluate_one
from mlf_sdk.ir.tensor import Quantisation

_SHARE: Final = 64
"""Weight of each element of an average: sums are rounded to a fraction of a step that falls with it."""
_Layer = Conv2D | DepthwiseConv2D | FullyConnected
_CHANNEL_AXIS: Final = {Conv2D: 0, DepthwiseConv2D: 3, FullyConnected: 0}  # of the weights


@dataclass(frozen=True, slots=True)
class _Result:
    """Form in which a layer's result is stored: quantisation, and limits of the real numbers."""

    quantisation: Quantisation
    limits: tuple[float, float]

    def clamp(self) -> tuple[int, int]:
        """Limits as stored values."""
        scale, zero_point = np.float32(self.quantisation.scale[0]), self.quantisation.zero_point[0]
        steps = np.rint(np.array(self.limits, np.float32) / scale) + zero_point
        low, high = np.clip(steps, -128, 127)
        return int(low), int(high)


def compute_in_integers(graph: Graph) -> Graph:
    """Let layers between conversions of int8 values compute with integers; their results are dequantised."""
    rewrite = Rewrite(graph)
    for position, operator in enumerate(graph.operators):
        result = _result(rewrite, operator)
        layer = _in_integers(rewrite, operator, position, result) if result is not None else None
        if layer is None or result is None:
            continue
        (y,) = rewrite.written(operator)
        stored = rewrite.value(y, dtype=INT8, quantisation=result.quantisation)
        rewrite.insert(dataclasses.replace(layer, outputs=(stored.id,)), position)
        rewrite.put(position, _conversion(operator, stored.id, y.id))
    return rewrite.finish()


def settled(graph: Graph) -> Graph:
    """Decide how the layers of a graph compute that was read from real operators between conversions.

    Results may be a step of their quantisation off those of the real operators.
    """
    for change in SETTLING:
        graph = change(graph)
    return graph


def fold_constants(graph: Graph) -> Graph:
    """Compute what is made of constants alone, where it is no larger than they are in elements."""
    rewrite = Rewrite(graph)
    for position, operator in enumerate(graph.operators):
        reads, written = rewrite.read(operator), rewrite.written(operator)
        data = [v.data for v in reads if v.data is not None]
        grows = sum(v.elements for v in written) > sum(a.size for a in data)
        edge = any(v.id in graph.outputs for v in written)
        if len(data) < len(reads) or not data or grows or edge or has_effect(operator):
            continue
        if not operator.has_meaning:
            continue
        for value, array in zip(written, evaluate_one(rewrite.values, operator, data), strict=True):
            known = np.ascontiguousarray(array.astype(value.dtype).reshape(value.shape))
            rewrite.values[value.id] = dataclasses.replace(value, data=known)
        rewrite.put(position, None)
    return rewrite.finish()


SETTLING: Final = (sign_values, move_stored, sink_transpositions, compute_in_integers, fold_constants)
"""Passes of `settled`; all but `compute_in_integers` keep every number."""


def _conversion(operator: Operator, x: int, y: int) -> Convert:
    return Convert(number=operator.number, kind="DequantizeLinear", inputs=(x,), outputs=(y,))


def _result(rewrite: Rewrite, operator: Operator) -> _Result | None:
    """Form in which a quantisation stores the result of a layer; only limits and reshapes may be between."""
    low, high = UNLIMITED
    if not isinstance(operator, _Layer | Map | Pool2D | Reduce):
        return None
    following: Operator | None = operator
    while following is not None and len(following.outputs) == 1:
        (y,) = rewrite.written(following)
        place = rewrite.only_reader(y.id) if y.dtype == FLOAT32 else None
        following = rewrite.operators[place] if place is not None else None
        if isinstance(following, Convert):
            (stored,) = rewrite.written(following)
            q = stored.quantisation
            nearest = following.rounding is Rounding.NEAREST_EVEN and stored.dtype == INT8
            return _Result(q, (low, high)) if nearest and q is not None and q.axis is None else None
        if isinstance(following, Map):
            call = following.expression
            if call.function != "clip" or call.arguments != (0,):
                return None
            low, high = max(low, call.parameters[0]), min(high, call.parameters[1])
        elif not isinstance(following, Reshape):
            return None
    return None


def _in_integers(rewrite: Rewrite, operator: Operator, position: int, result: _Result) -> Operator | None:
    """The layer on stored values; None where something of it is not stored."""
    if isinstance(operator, _Layer):
        return _layer(rewrite, operator, result)
    if isinstance(operator, Map):
        operands = [_stored(rewrite, number) for number in operator.inputs]
        call, inputs = operator.expression, tuple(x.id for x in operands if x is not None)
        sums = call.function in ("add", "sub", "mul") and call.arguments == (0, 1)
        if operator.rounding is not None or not sums or len(inputs) < 2:
            return None
        return dataclasses.replace(operator, inputs=inputs, rounding=Rounding.TFLM, clamp=result.clamp())
    if isinstance(operator, Reduce):
        x, mean = _stored(rewrite, operator.inputs[0]), operator.function is Reduction.MEAN
        kept = len(rewrite.written(operator)[0].shape) == 4 and operator.axes == (1, 2)
        if x is None or not mean or not kept:
            return None
        return dataclasses.replace(operator, inputs=(x.id,), rounding=Rounding.TFLM)
    return _average(rewrite, operator, position, result) if isinstance(operator, Pool2D) else None


def _stored(rewrite: Rewrite, value: int, axis: int | None = None) -> Value | None:
    """The integers that a value is made of by dequantisation; None where it is not.

    Args:
        axis: that scales of channels may have; None: there has to be one scale.
    """
    maker = rewrite.maker(value)
    if not isinstance(maker, Convert):
        return None
    (x,) = rewrite.read(maker)
    stored = x.quantisation is not None and x.quantisation.axis in (None, axis)
    return x if stored and x.dtype == INT8 else None


def _layer(rewrite: Rewrite, operator: _Layer, result: _Result) -> Operator | None:
    """Convolution or matrix product with weights around zero and biases at the scale of the sums."""
    x = _stored(rewrite, operator.inputs[0])
    weights = _stored(rewrite, operator.inputs[1], _CHANNEL_AXIS[type(operator)])
    if x is None or weights is None or weights.data is None or operator.clamp != UNLIMITED:
        return None
    q = weights.quantisation
    if q is None or x.quantisation is None:
        return None
    shape = [1] * len(weights.shape)
    if q.axis is not None:
        shape[q.axis] = -1
    centred = weights.data.astype(np.int64) - np.array(q.zero_point, np.int64).reshape(shape)
    if centred.size and (centred.min() < -128 or centred.max() > 127):
        return None
    symmetric = dataclasses.replace(q, zero_point=(0,) * len(q.zero_point))
    inputs = [x.id, rewrite.constant(weights, centred, symmetric)]
    if len(operator.inputs) > 2:
        scale = np.array(x.quantisation.scale, np.float64) * np.array(q.scale, np.float64)
        inputs.append(_bias(rewrite, operator.inputs[2], scale))
    return dataclasses.replace(operator, inputs=tuple(inputs), clamp=result.clamp())


def _bias(rewrite: Rewrite, value: int, scale: Array) -> int:
    """Constant of biases at the scale of the sums: integers as they are stored, or nearest to real ones."""
    maker, real = rewrite.maker(value), rewrite.values[value]
    numbers = real.data
    if maker is not None and numbers is None:
        (stored,) = rewrite.read(maker)
        if _is_at(stored, scale):
            flat = stored.constant.reshape(-1)
            return rewrite.constant(dataclasses.replace(stored, name=real.name), flat, None)
        (numbers,) = evaluate_one(rewrite.values, maker, [stored.constant])
    whole = np.rint(np.asarray(numbers).reshape(-1).astype(np.float64) / scale)
    limited = np.clip(whole, -(1 << 31), (1 << 31) - 1)
    return rewrite.constant(dataclasses.replace(real, dtype=INT32), limited, None)


def _is_at(stored: Value, scale: Array) -> bool:
    """True for integers of 32 bits at a scale."""
    q = stored.quantisation
    near = q is not None and not any(q.zero_point) and np.allclose(np.array(q.scale), scale, rtol=1e-5)
    return stored.dtype == INT32 and bool(near)


def _average(rewrite: Rewrite, operator: Pool2D, position: int, result: _Result) -> Operator | None:
    """Average at the scale of the input; at others, where all windows are full, a layer of equal weights."""
    window, source = operator.window, operator.inputs[0]
    if operator.function is not PoolKind.AVERAGE or operator.clamp != UNLIMITED:
        return None
    x, padded = _stored(rewrite, source), rewrite.maker(source)
    if x is not None and result.quantisation == x.quantisation and window.dilation == (1, 1):
        return dataclasses.replace(operator, inputs=(x.id,), clamp=result.clamp())
    if isinstance(padded, Move) and padded.fill == 0 and len(padded.inputs) == 1:
        x = _stored(rewrite, padded.inputs[0])
    (y,), (_, *space, channels) = rewrite.written(operator), rewrite.values[source].shape
    ends = zip(y.shape[1:3], window.stride, window.size, window.dilation, space, strict=True)
    full = all((n - 1) * step + (size - 1) * dilation < e for n, step, size, dilation, e in ends)
    if x is None or not full or window.before != (0, 0):
        return None
    if isinstance(padded, Move):
        wide = rewrite.value(x, shape=rewrite.values[source].shape)
        fill = float(x.zero_point)
        rewrite.insert(dataclasses.replace(padded, inputs=(x.id,), outputs=(wide.id,), fill=fill), position)
        x = wide
    share = Quantisation(scale=(1 / (_SHARE * math.prod(window.size)),), zero_point=(0,), axis=None)
    like = dataclasses.replace(x, name=f"{y.name}_weights")
    weights = rewrite.constant(like, np.full((1, *window.size, channels), _SHARE), share)
    return DepthwiseConv2D(
        number=operator.number, kind=operator.kind, inputs=(x.id, weights), outputs=(),
        window=window, multiplier=1, clamp=result.clamp(),
    )  # fmt: skip
