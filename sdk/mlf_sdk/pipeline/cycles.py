# SPDX-License-Identifier: Apache-2.0
"""Estimated cycles of a profile: timings of the board's core, and what the flash adds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.analysis.machine.registry import machine_code
from mlf_sdk.judge.cycles import Estimator, estimator
from mlf_sdk.judge.profile import Costs, CycleEstimate, StepProfile, Work
from mlf_sdk.judge.timings import timings_of
from mlf_sdk.targets.boards.row import Board


def estimator_for(board: Board, image: Image, wait_states: int) -> Estimator | None:
    """Estimator of cycles on a board; None for a core without timings, or an image without code."""
    timings, code = timings_of(board.cpu), machine_code(image)
    return None if timings is None or code is None else estimator(code, timings, wait_states)


def estimate_of(costs: Costs, works: Sequence[Work], board: Board, wait_states: int) -> CycleEstimate | None:
    """Estimate of one inference; None where nothing was estimated."""
    timings, result = timings_of(board.cpu), costs.estimate
    if result is None or timings is None:
        return None
    constants = wait_states * sum(map(_constant_words, works))
    return CycleEstimate(
        cycles=result.cycles + constants,
        waits=result.waits + constants,
        core=board.cpu.partition("+")[0],
        kind=timings.kind,
        source=timings.source,
        assumes=timings.assumes,
        wait_states=wait_states,
        instructions=dict(result.instructions),
        taken=result.taken,
        undecided=result.undecided,
        unknown=result.unknown,
    )


def with_waits(steps: Sequence[StepProfile], wait_states: int) -> tuple[StepProfile, ...]:
    """Add what the constants of each step wait for the flash."""
    return tuple(
        step
        if step.cycles is None
        else dataclasses.replace(step, cycles=step.cycles + wait_states * _constant_words(step.work))
        for step in steps
    )


def _constant_words(work: Work) -> int:
    return -(-(work.params_bytes or 0) // 4)
