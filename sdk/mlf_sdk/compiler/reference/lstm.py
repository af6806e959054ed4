# SPDX-License-Identifier: Apache-2.0
"""Reference of the LSTM over a sequence, whose hidden and cell values live from one run to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlf_sdk.compiler.graph import Graph, State, Value
from mlf_sdk.compiler.operators import Array, Lstm
from mlf_sdk.compiler.reference import States, reference
from mlf_sdk.compiler.reference.wide import logistic, tanh
from mlf_sdk.compiler.requantise import Multiplier, multiply, multiply_wide, saturated

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
    """UNIDIRECTIONAL_SEQUENCE_LSTM."""
    x = graph.read(operator)[0]
    sequence = inputs[0] if operator.time_major else inputs[0].swapaxes(0, 1)
    step = _real_step if x.dtype.kind == "f" else _integer_step
    batch = sequence.shape[1]
    hidden, cell = (states[number].reshape(batch, -1) for number in (operator.hidden, operator.cell))
    found = []
    for given in sequence:
        hidden, cell = step(graph, operator, given, inputs[1:], hidden, cell)
        found.append(hidden)
    for number, value in ((operator.hidden, hidden), (operator.cell, cell)):
        state = graph.states[number]
        states[number] = value.astype(state.dtype).reshape(state.shape)
    result = np.stack(found)
    return [result if operator.time_major else result.swapaxes(0, 1)]


def _real_step(
    graph: Graph, operator: Lstm, given: Array, constants: list[Array], hidden: Array, cell: Array
) -> tuple[Array, Array]:
    gates = [given @ constants[g].T + constants[8 + g] + hidden @ constants[4 + g].T for g in range(4)]
    entered, kept, shown = (1 / (1 + np.exp(-gates[g].astype(np.float64))) for g in (0, 1, 3))
    cell = kept * cell + entered * np.tanh(gates[2])
    if operator.cell_clip > 0:
        cell = np.clip(cell, -operator.cell_clip, operator.cell_clip)
    return (shown * np.tanh(cell)).astype(np.float32), cell.astype(np.float32)


def _integer_step(
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
