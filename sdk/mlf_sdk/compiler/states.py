# SPDX-License-Identifier: Apache-2.0
"""Operators that keep values from one run to the next."""

from __future__ import annotations

from mlf_sdk.compiler.operators import Lstm, Operator, ReadState, Svdf, WriteState
from mlf_sdk.compiler.signals import SignalOverlapAdd, SignalSpectralSubtraction


def states_of(operator: Operator) -> tuple[int, ...]:
    """Numbers of the states that an operator reads or writes, in the order of its kernel's parameters."""
    match operator:
        case ReadState() | WriteState() | Svdf() | SignalSpectralSubtraction() | SignalOverlapAdd():
            return (operator.state,)
        case Lstm():
            return operator.hidden, operator.cell
    return ()
