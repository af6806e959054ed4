# SPDX-License-Identifier: Apache-2.0
"""Measured memory of one inference, over a session that a test opened."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire.device import PATTERNS, Inputs, RunResult, Stats, largest
from mlf_sdk.wire.session import ModelKey, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Memory and outputs of one inference.

    Attributes:
        outputs: of the inference.
        run: its ticks.
        stats: the largest of each figure over both inferences.
    """

    outputs: list[Array]
    run: RunResult
    stats: Stats


def measure(session: Session, model: ModelKey, inputs: Inputs) -> Measurement:
    """Run one inference for each of the two patterns; returns the larger high-water marks."""
    measured: list[Stats] = []
    for pattern in PATTERNS:
        session.prepare(model, pattern)
        session.write_inputs(model, inputs)
        run = session.run(model)
        outputs = session.read_outputs(model)
        measured.append(session.stats(model))
    return Measurement(outputs=outputs, run=run, stats=largest(*measured))
