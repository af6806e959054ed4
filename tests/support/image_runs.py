# SPDX-License-Identifier: Apache-2.0
"""Runs every model of a built project in one session, and compares what happens with what must."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from measuring import measure
from mlf_sdk.codegen.lock import Lock, LockModel, read_lock
from mlf_sdk.judge.data import match_inputs
from mlf_sdk.judge.execute import Execution, find_model
from mlf_sdk.pipeline.api import build, check
from mlf_sdk.targets.registry import project_target
from mlf_sdk.targets.target import TargetChoice

Values = np.ndarray[Any, Any]


def run_all(folder: Path, inputs: Sequence[Sequence[Values]]) -> list[Execution]:
    """Build the project and run each of its models on its inputs."""
    lock = read_lock(folder)
    elf = build(folder).elf
    done = []
    with project_target(folder, lock, TargetChoice()).open(elf, timeout_s=60.0) as session:
        session.hello()  # once: it asks for every tensor of every model
        for model, values in zip(lock.models, inputs, strict=True):
            batch = match_inputs(model, named(values), "test")
            measured = measure(session, find_model(session, model), batch.inputs(0))
            done.append(
                Execution(
                    outputs=tuple(array[np.newaxis] for array in measured.outputs),
                    ticks=measured.run.ticks,
                    ticks_hz=session.info.ticks_hz,
                    count=1,
                    stats=measured.stats,
                    console=session.console_text,
                )
            )
    return done


def named(values: Sequence[Values]) -> dict[str, Values]:
    """Arrays by the number of their input."""
    return {str(index): value for index, value in enumerate(values)}


def assert_promises(folder: Path, lock: Lock, done: Sequence[Execution]) -> None:
    """The image has what was planned, and what was measured is what was promised."""
    report = check(folder)
    assert not report.unproven and report.ok, [row for row in report.rows if row.state != "proven"]
    for model, execution in zip(lock.models, done, strict=True):
        assert_memory(model, execution)


def assert_memory(model: LockModel, execution: Execution) -> None:
    assert execution.arena_high_water_bytes == model.arena_bytes, model.name
    assert model.arena_bytes == model.lower_bound_bytes, model.name
