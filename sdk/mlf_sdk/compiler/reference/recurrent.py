# SPDX-License-Identifier: Apache-2.0
"""References of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlf_sdk.compiler.functions import FUNCTIONS
from mlf_sdk.compiler.graph import Graph, State, Value
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.recurrences import AppendRows, Cell, Lstm, Recurrent, Svdf
from mlf_sdk.compiler.reference import States, reference
from mlf_sdk.compiler.reference.stored import logistic, tanh
from mlf_sdk.compiler.requantise import Multiplier, multiply, multiply_wide, saturated, wrap32


@reference(AppendRows)
def append_rows(graph: Graph, operator: AppendRows, inputs: list[Array], states: States) -> list[Array]:
    """The newest rows, which the state keeps."""
    rows = np.concatenate([states[operator.state], inputs[0]], axis=1)
    states[operator.state] = rows[:, inputs[0].shape[1] :].copy()
    return [states[operator.state].copy()]


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


GATES = ("input", "forget", "cell", "output")
GATE_SCALE = 2.0**-12
UNIT_SCALE = 2.0**-15


@dataclass(frozen=True, slots=True, kw_only=True)
class LstmNumbers:
    """Multipliers of a quantised LSTM.

    Attributes:
        inputs, recurrent: of the products of each gate, in the order of `GATES`.
        kept: of forget gate times cell value.
        added: of input gate times candidate.
        shown: of output gate times activated cell value.
        clip: limit of stored cell values; 0 for none.
        tanh: multiplier and shift of the argument of the cell value's activation.
    """

    inputs: tuple[Multiplier, ...]
    recurrent: tuple[Multiplier, ...]
    kept: Multiplier
    added: Multiplier
    shown: Multiplier
    clip: int
    tanh: tuple[int, int]


def lstm_numbers(x: Value, weights: list[Value], hidden: State, cell: State, clip: float) -> LstmNumbers:
    """Multipliers from the scales of an LSTM's tensors; ``weights`` of the input, then recurrent ones."""

    def product(scale: float, weight: Value) -> Multiplier:
        return Multiplier.of(float(np.float32(scale) * np.float32(weight.scale)) / GATE_SCALE)

    power = round(np.log2(cell.scale))
    shift = 15 + power - 3
    limit = min(max(float(np.float32(clip)) / cell.scale, -32768.0), 32767.0)
    return LstmNumbers(
        inputs=tuple(product(x.scale, w) for w in weights[:4]),
        recurrent=tuple(product(hidden.scale, w) for w in weights[4:]),
        kept=Multiplier.of(UNIT_SCALE * cell.scale / cell.scale),
        added=Multiplier.of(UNIT_SCALE * UNIT_SCALE / cell.scale),
        shown=Multiplier.of(UNIT_SCALE * UNIT_SCALE / hidden.scale),
        clip=int(limit) if clip > 0 else 0,
        tanh=(0, shift) if shift >= 0 else (3, -shift),
    )


@reference(Lstm)
def lstm(graph: Graph, operator: Lstm, inputs: list[Array], states: States) -> list[Array]:
    """LSTM of stored values."""
    sequence = inputs[0] if operator.time_major else inputs[0].swapaxes(0, 1)
    batch = sequence.shape[1]
    hidden, cell = (states[number].reshape(batch, -1) for number in (operator.hidden, operator.cell))
    results = []
    for given in sequence:
        hidden, cell = _step(graph, operator, given, inputs[1:], hidden, cell)
        results.append(hidden)
    for number, value in ((operator.hidden, hidden), (operator.cell, cell)):
        state = graph.states[number]
        states[number] = value.astype(state.dtype).reshape(state.shape)
    result = np.stack(results)
    return [result if operator.time_major else result.swapaxes(0, 1)]


def _step(
    graph: Graph, operator: Lstm, given: Array, constants: list[Array], hidden: Array, cell: Array
) -> tuple[Array, Array]:
    x, *weights = graph.read(operator)[:9]
    state, memory = graph.states[operator.hidden], graph.states[operator.cell]
    numbers = lstm_numbers(x, weights, state, memory, operator.cell_clip)
    scale = multiply_wide if x.dtype == np.int16 else multiply
    entering = given.astype(np.int64) - x.zero_point
    before = hidden.astype(np.int64) - state.zero_point
    gates = []
    for g in range(4):
        fed = entering @ constants[g].astype(np.int64).T + constants[8 + g]
        back = before @ constants[4 + g].astype(np.int64).T
        total = _sixteen(scale(fed, numbers.inputs[g])) + _sixteen(scale(back, numbers.recurrent[g]))
        gates.append((tanh if g == 2 else logistic)(_sixteen(total), 0, 0))
    entered, forgotten, candidate, shown = gates
    kept = _sixteen(multiply(forgotten * cell.astype(np.int64), numbers.kept))
    cell = _sixteen(kept + _sixteen(multiply(entered * candidate, numbers.added)))
    if numbers.clip:
        cell = np.clip(cell, -numbers.clip, numbers.clip)
    visible = multiply(shown * tanh(cell, *numbers.tanh), numbers.shown) + state.zero_point
    return saturated(visible, state.dtype), cell


def _sixteen(x: Array) -> Array:
    return np.clip(x, -(1 << 15), (1 << 15) - 1)


@reference(Recurrent)
def recurrent(graph: Graph, operator: Recurrent, inputs: list[Array], _: States) -> list[Array]:
    """LSTM, GRU and RNN."""
    gates, weights, bias, hidden, *cells = (x.astype(np.float64) for x in inputs)
    arrays: list[Array] = []
    steps = range(gates.shape[0])
    functions = [FUNCTIONS[name].numpy for name in operator.activations]
    for step in reversed(steps) if operator.reverse else steps:
        given = gates[step]
        if operator.cell is Cell.LSTM:
            i, o, f, c = np.split(given + hidden @ weights.T + bias, 4, axis=1)
            kept = functions[0](f) * cells[0] + functions[0](i) * functions[1](c)
            if operator.cell_clip:
                kept = np.clip(kept, -operator.cell_clip, operator.cell_clip)
            cells = [kept]
            hidden = functions[0](o) * functions[2](kept)
        elif operator.cell is Cell.GRU:
            hidden = _gru(operator, given, weights, bias, hidden, functions)
        else:
            hidden = functions[0](given + hidden @ weights.T + bias)
        arrays.append(hidden)
    return [np.stack(arrays[::-1] if operator.reverse else arrays), hidden, *cells]


def _gru(
    operator: Recurrent,
    given: Array,
    weights: Array,
    bias: Array,
    hidden: Array,
    functions: list[Callable[..., Array]],
) -> Array:
    gz, gr, gh = np.split(given, 3, axis=1)
    wz, wr, wh = np.split(weights, 3)
    bz, br, bh = np.split(bias, 3)
    z = functions[0](gz + hidden @ wz.T + bz)
    r = functions[0](gr + hidden @ wr.T + br)
    if operator.reset_after:
        candidate = functions[1](gh + r * (hidden @ wh.T + bh))
    else:
        candidate = functions[1](gh + (r * hidden) @ wh.T + bh)
    return (1 - z) * candidate + z * hidden
