# SPDX-License-Identifier: Apache-2.0
"""Layers of uint8 values compute int8 ones: the stored values and the zero points less 128, the same sums.

Between such layers values are int8. Where anything else makes or reads them, a conversion stands between.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import INT8, UINT8, Graph, Value
from mlf_sdk.compiler.operators import Conv2D, Convert, DepthwiseConv2D, FullyConnected, Operator
from mlf_sdk.compiler.passes.rewrite import Rewrite

_HALF: Final = 128
_Layer = Conv2D | DepthwiseConv2D | FullyConnected


def sign_layers(graph: Graph) -> Graph:
    """Let layers with weights read and write int8 values where they read and write uint8 ones."""
    chosen = [o for o in graph.operators if isinstance(o, _Layer) and _fits(graph, o)]
    if not chosen:
        return graph
    made = {o.outputs[0] for o in chosen}
    others = [o for o in graph.operators if o not in chosen]
    kept = {i for o in others for i in (*o.inputs, *o.outputs)} | {*graph.inputs, *graph.outputs}
    signed = made | {o.inputs[0] for o in chosen}
    rewrite, place = Rewrite(graph), dict[int, int]()
    for number in sorted(signed):
        value = _signed(graph.values[number])
        if number in kept:
            place[number] = len(rewrite.values)
            rewrite.values.append(dataclasses.replace(value, id=place[number], name=f"{value.name}_signed"))
        else:
            place[number] = number
            rewrite.values[number] = value
    ready = {number for number in signed if place[number] == number} | made
    for position, operator in enumerate(graph.operators):
        if not isinstance(operator, _Layer) or operator not in chosen:
            continue
        x, y = operator.inputs[0], operator.outputs[0]
        if x not in ready:
            ready.add(x)
            rewrite.insert(_conversion(operator, x, place[x]), position)
        layer = _moved(rewrite, operator, place)
        if y in kept:
            rewrite.insert(layer, position)
            layer = _conversion(operator, place[y], y)
        rewrite.put(position, layer)
    return rewrite.finish()


def _fits(graph: Graph, operator: _Layer) -> bool:
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    return x.dtype == y.dtype == weights.dtype == UINT8 and x.data is None and weights.data is not None


def _signed(value: Value) -> Value:
    """The same real values, stored as int8."""
    quantisation = value.quantisation
    if quantisation is not None:
        quantisation = dataclasses.replace(
            quantisation, zero_point=tuple(z - _HALF for z in quantisation.zero_point)
        )
    return dataclasses.replace(value, dtype=INT8, quantisation=quantisation)


def _conversion(operator: Operator, source: int, target: int) -> Operator:
    return Convert(number=operator.number, kind="QUANTIZE", inputs=(source,), outputs=(target,))


def _moved(rewrite: Rewrite, operator: _Layer, place: dict[int, int]) -> Operator:
    """The layer between int8 values; its weights are int8 without a zero point where all of them fit."""
    weights = rewrite.graph.values[operator.inputs[1]]
    chosen = operator.inputs[1]
    centred = weights.constant.astype(np.int16) - weights.zero_point
    if weights.quantisation is not None and centred.min(initial=0) >= -127 and centred.max(initial=0) <= 127:
        symmetric = dataclasses.replace(
            weights.quantisation, zero_point=(0,) * len(weights.quantisation.zero_point)
        )
        chosen = rewrite.constant(dataclasses.replace(weights, dtype=INT8), centred, symmetric)
    return dataclasses.replace(
        operator,
        inputs=(place[operator.inputs[0]], chosen, *operator.inputs[2:]),
        outputs=(place[operator.outputs[0]],),
        clamp=(operator.clamp[0] - _HALF, operator.clamp[1] - _HALF),
    )
