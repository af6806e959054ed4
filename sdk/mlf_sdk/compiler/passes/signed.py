# SPDX-License-Identifier: Apache-2.0
"""Quantised uint8 values become int8 ones: the stored values and the zero points less 128, the same numbers.

Between such values nothing converts. Where anything else makes or reads them, a conversion stands between.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, INT8, UINT8, Graph, Value
from mlf_sdk.compiler.operators import (
    Call,
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
from mlf_sdk.compiler.passes.rewrite import Rewrite

_HALF: Final = 128
_Layer = Conv2D | DepthwiseConv2D | FullyConnected


def sign_values(graph: Graph) -> Graph:
    """Let quantised uint8 values be int8 that layers, quantisation and dequantisation read and write.

    In between their elements may be moved, and the largest ones be taken.
    """
    rewrite, signed = Rewrite(graph), dict[int, int]()
    for position, operator in enumerate(graph.operators):
        inputs, written = rewrite.read(operator), rewrite.written(operator)
        if isinstance(operator, Convert) and _is_unsigned(written[0]):
            if operator.rounding is Rounding.NEAREST_EVEN:
                _put_signed(rewrite, signed, position, operator)
        elif isinstance(operator, Convert) and written[0].dtype == FLOAT32 and _is_unsigned(inputs[0]):
            x = _as_int8(rewrite, signed, position, operator, inputs[0])
            rewrite.put(position, dataclasses.replace(operator, inputs=(x,)))
        elif isinstance(operator, _Layer) and _fits(inputs, written[0]):
            x = _as_int8(rewrite, signed, position, operator, inputs[0])
            _put_signed(rewrite, signed, position, _with_int8(rewrite, operator, x))
        elif isinstance(operator, Move | Reshape | Pool2D) and any(x.id in signed for x in inputs):
            known = all(x.id in signed or (x.dtype == UINT8 and x.data is not None) for x in inputs)
            average = isinstance(operator, Pool2D) and operator.function is not PoolKind.MAX
            if known and not average and len(written) == 1:
                sources = tuple(_as_int8(rewrite, signed, position, operator, x) for x in inputs)
                _put_signed(
                    rewrite, signed, position, _of_int8(dataclasses.replace(operator, inputs=sources))
                )
    return rewrite.finish()


def _fits(inputs: list[Value], y: Value) -> bool:
    """True for a layer of uint8 values with constant weights."""
    x, weights = inputs[:2]
    return x.dtype == y.dtype == weights.dtype == UINT8 and x.data is None and weights.data is not None


def _is_unsigned(x: Value) -> bool:
    return x.dtype == UINT8 and x.quantisation is not None


def _of_int8(operator: Operator) -> Operator:
    """An operator that moves bytes, of the same less 128."""
    if isinstance(operator, Move) and operator.fill is not None:
        return dataclasses.replace(operator, fill=operator.fill - _HALF)
    if isinstance(operator, Pool2D):
        low, high = operator.clamp
        return dataclasses.replace(operator, clamp=(low - _HALF, high - _HALF))
    return operator


def _put_signed(rewrite: Rewrite, signed: dict[int, int], position: int, operator: Operator) -> None:
    """Put an operator in its place that writes int8, and the bytes without sign behind it."""
    (y,) = rewrite.written(operator)
    target = rewrite.value(_signed(y)).id
    rewrite.insert(dataclasses.replace(operator, outputs=(target,)), position)
    rewrite.put(position, _flipped(operator, target, y.id))
    signed[y.id] = target


def _as_int8(rewrite: Rewrite, signed: dict[int, int], position: int, operator: Operator, x: Value) -> int:
    """The int8 form of a value: the one that exists, or one that is made in front of a position."""
    if x.id not in signed:
        if x.data is not None:
            like = _signed(x)
            signed[x.id] = rewrite.constant(like, x.data.astype(np.int16) - _HALF, like.quantisation)
        else:
            signed[x.id] = rewrite.value(_signed(x)).id
            rewrite.insert(_flipped(operator, x.id, signed[x.id]), position)
    return signed[x.id]


def _flipped(operator: Operator, x: int, y: int) -> Map:
    """The same bytes with their highest bits flipped."""
    flip = Call.of("flip_sign")
    return Map(number=operator.number, kind="Cast", inputs=(x,), outputs=(y,), expression=flip)


def _signed(value: Value) -> Value:
    """The same real values, stored as int8."""
    quantisation = value.quantisation
    if quantisation is not None:
        quantisation = dataclasses.replace(
            quantisation, zero_point=tuple(z - _HALF for z in quantisation.zero_point)
        )
    return dataclasses.replace(value, dtype=INT8, quantisation=quantisation)


def _with_int8(rewrite: Rewrite, operator: _Layer, x: int) -> Operator:
    """The layer between int8 values; its weights are int8 without a zero point where all of them fit."""
    weights, chosen = rewrite.values[operator.inputs[1]], operator.inputs[1]
    centred = weights.constant.astype(np.int16) - weights.zero_point
    if weights.quantisation is not None and centred.min(initial=0) >= -127 and centred.max(initial=0) <= 127:
        symmetric = dataclasses.replace(
            weights.quantisation, zero_point=(0,) * len(weights.quantisation.zero_point)
        )
        chosen = rewrite.constant(dataclasses.replace(weights, dtype=INT8), centred, symmetric)
    return dataclasses.replace(
        operator,
        inputs=(x, chosen, *operator.inputs[2:]),
        clamp=(operator.clamp[0] - _HALF, operator.clamp[1] - _HALF),
    )
