# SPDX-License-Identifier: Apache-2.0
"""Runs every model of a built project in one session, and compares what happens with what must."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlf_sdk.api import build, check
from mlf_sdk.api.project import project_board
from mlf_sdk.project.lock import Lock, LockModel, read_lock
from mlf_sdk.rpc.targets import open_session
from mlf_sdk.verify.data import match_inputs
from mlf_sdk.verify.execute import Execution, execute

Values = np.ndarray[Any, Any]


def run_all(folder: Path, inputs: Sequence[Sequence[Values]]) -> list[Execution]:
    """Build the project and run each of its models on its inputs."""
    lock = read_lock(folder)
    elf = build(folder).elf
    with open_session(project_board(folder, lock), elf, timeout_s=60.0) as session:
        return [
            execute(session, model, match_inputs(model, named(values), "test"), timeout_s=60.0)
            for model, values in zip(lock.models, inputs, strict=True)
        ]


def named(values: Sequence[Values]) -> dict[str, Values]:
    """Arrays by the number of their input."""
    return {str(index): value for index, value in enumerate(values)}


def assert_promises(folder: Path, lock: Lock, done: Sequence[Execution]) -> None:
    """The image has what was planned, and what was measured is what was promised."""
    report = check(folder)
    assert report.ok, [row for row in report.rows if not row.ok]
    for model, execution in zip(lock.models, done, strict=True):
        assert_memory(model, execution)


def assert_memory(model: LockModel, execution: Execution) -> None:
    assert execution.arena_high_water_bytes == model.arena_bytes, model.name
    assert model.arena_bytes == model.lower_bound_bytes, model.name
