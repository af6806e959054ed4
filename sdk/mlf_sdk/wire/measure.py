# SPDX-License-Identifier: Apache-2.0
"""Measured high-water marks: painted twice with different bytes, so that no value can hide one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire.deadline import Deadline
from mlf_sdk.wire.device import RunResult, Stats
from mlf_sdk.wire.session import ModelKey, Session
from mlf_sdk.wire.tensors import Inputs, arrays_of

PATTERNS = (0xA5, 0x5A)


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


def measure(
    session: Session, model: ModelKey, inputs: Inputs, deadline: Deadline | None = None
) -> Measurement:
    """Run one inference for each of two patterns and return the larger high-water marks.

    Memory that happens to be written with the byte it was painted with looks unused; it can't do so
    for both patterns.
    """
    info = session.model(model)
    arrays = arrays_of(info, inputs)
    measured: list[Stats] = []
    for pattern in PATTERNS:
        session.prepare(info, pattern, deadline)
        for index, array in enumerate(arrays):
            session.write_input(info, index, array, deadline)
        run = session.run(info, deadline=deadline)
        outputs = [session.read_output(info, index, deadline) for index in range(len(info.outputs))]
        measured.append(session.stats(info, deadline))
    return Measurement(outputs=outputs, run=run, stats=largest(measured))


def largest(measured: Sequence[Stats]) -> Stats:
    """The larger figures of two inferences."""

    def most(*values: int | None) -> int | None:
        known = [value for value in values if value is not None]
        return max(known) if known else None

    first, second = measured
    return Stats(
        arena_high_water_bytes=most(first.arena_high_water_bytes, second.arena_high_water_bytes),
        workspace_high_water_bytes=most(first.workspace_high_water_bytes, second.workspace_high_water_bytes),
        workspace_requests=most(first.workspace_requests, second.workspace_requests),
        refused_bytes=most(first.refused_bytes, second.refused_bytes),
        stack_bytes=most(first.stack_bytes, second.stack_bytes),
        stack_high_water_bytes=most(first.stack_high_water_bytes, second.stack_high_water_bytes),
        dropped_frames=max(first.dropped_frames, second.dropped_frames),
        guards=first.guards,
        written_guard=first.written_guard if first.written_guard is not None else second.written_guard,
    )
