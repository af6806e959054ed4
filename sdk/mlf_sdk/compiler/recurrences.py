# SPDX-License-Identifier: Apache-2.0
"""Operators that keep values: LSTM, GRU and RNN of real numbers; LSTM and SVDF of stored ones; rows of time.

Readers make an LSTM or SVDF of real numbers that keeps states of the first kind, with operators that read and
write those: ONNX and TensorFlow Lite files of one network have the same kernels.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mlf_sdk.compiler.operators import Operator, Stateful


class Cell(enum.Enum):
    """Kind of a recurrent layer."""

    LSTM = "lstm"
    GRU = "gru"
    RNN = "rnn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent(Operator):
    """One direction of a recurrent layer of real numbers over a whole sequence.

    Inputs: the contribution of the sequence to the gates (steps, batch, gates * hidden), recurrent weights
    (gates * hidden, hidden) and biases (gates * hidden) as constants, the initial hidden value and, for an
    LSTM, the initial cell value (batch, hidden). Gates in ONNX's order. Outputs: hidden values of all
    steps (steps, batch, hidden), the last one, and for an LSTM the last cell value.

    Attributes:
        reverse: from the last step to the first.
        activations: functions of the gates, of the candidate and (LSTM) of the cell.
        reset_after: of a GRU: the reset gate multiplies the product with the recurrent weights.
        cell_clip: limit of an LSTM's cell values; 0 for none.
    """

    cell: Cell
    reverse: bool
    activations: tuple[str, ...]
    reset_after: bool = False
    cell_clip: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Svdf(Stateful):
    """Rank-decomposed recurrent layer: inputs x, feature and time weights, bias; activations in a state."""

    rank: int
    clamp: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lstm(Operator):
    """Unidirectional LSTM of stored values over a sequence; hidden and cell value in states.

    Inputs: x, four weights of the input and four of the hidden value, four biases; gates in the order input,
    forget, cell, output. It is rounded as TFLM does: the products of each gate are requantised alone.
    """

    time_major: bool
    hidden: int
    cell: int
    cell_clip: float

    @property
    def states(self) -> tuple[int, ...]:
        """See Operator."""
        return self.hidden, self.cell


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRows(Stateful):
    """The newest rows of a time series: what was there moves up, and the input follows behind it.

    The output is the state itself, which later operators read where it lies.
    """
