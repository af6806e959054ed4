# SPDX-License-Identifier: Apache-2.0
"""References of layers that keep a state of their own."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Array, Svdf
from mlf_sdk.compiler.reference import States, reference
from mlf_sdk.compiler.requantise import Multiplier, multiply, saturated, wrap32


@reference(Svdf)
def svdf(graph: Graph, operator: Svdf, inputs: list[Array], states: States) -> list[Array]:
    """SVDF: x times the feature weights enters a delay line, which the time weights sum up."""
    x, features, times = graph.read(operator)[:3]
    (y,) = graph.written(operator)
    state = graph.states[operator.state]
    line = states[operator.state].reshape(-1, features.shape[0], times.shape[1])
    scale = state.scale
    fed = (inputs[0].astype(np.int64) - x.zero_point) @ inputs[1].astype(np.int64).T
    entry = multiply(fed, Multiplier.of(x.scale * features.scale / scale)) + state.zero_point
    line[:, :, :-1] = line[:, :, 1:]
    line[:, :, -1] = saturated(entry, state.dtype)
    summed = (line.astype(np.int64) * inputs[2].astype(np.int64)).sum(axis=2)
    summed = summed.reshape(line.shape[0], -1, operator.rank).sum(axis=2)
    summed = summed + (inputs[3] if len(inputs) > 3 else 0)
    scaled = multiply(wrap32(summed), Multiplier.of(scale * times.scale / y.scale)) + y.zero_point
    return [np.clip(scaled, *operator.clamp)]
