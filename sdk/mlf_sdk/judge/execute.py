# SPDX-License-Identifier: Apache-2.0
"""Execution of a batch of inferences over a session, with the memory that they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import TargetError
from mlf_sdk.judge.data import Batch
from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire.codes import DeviceError, DeviceFaultError
from mlf_sdk.wire.device import PATTERNS, ModelInfo, Stats, largest
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import Deadline

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionCount:
    """Instructions of one inference.

    Attributes:
        each: the median of all inferences; by the clock their mean.
        least, most: over all inferences; by the clock that mean.
        resolution: exact to this many; 0: counted one by one.
        cycles: of the core, the median; None: they are not counted.
    """

    each: int
    least: int
    most: int
    resolution: int = 0
    cycles: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Results of a batch of inferences on a target.

    Attributes:
        outputs: an array (inferences, *shape) for each output.
        ticks: of all inferences together; 0 when the target has no counter.
        ticks_hz: frequency of the counter in Hz.
        count: inferences.
        stats: high-water marks of the first inference, and guards after all of them.
        console: text that the target printed.
    """

    outputs: tuple[Array, ...]
    ticks: int
    ticks_hz: int
    count: int
    stats: Stats
    console: str

    @property
    def arena_high_water_bytes(self) -> int | None:
        """End of the highest byte of the arena that was written or allocated as workspace; None: no arena."""
        if self.stats.arena_high_water_bytes is None:
            return None
        marks = (self.stats.arena_high_water_bytes, self.stats.workspace_high_water_bytes)
        known = [mark for mark in marks if mark is not None]
        return max(known) if known else None


def execute_batch(
    session: Session,
    model: LockModel,
    batch: Batch,
    *,
    timeout_s: float,
    progress: Progress | None = None,
) -> Execution:
    """Run all inferences of ``batch`` on the target's copy of ``model``.

    Args:
        session: with the target.
        model: of the project that the target was built from.
        batch: inputs of all inferences.
        timeout_s: for each inference, with its transfers: a long batch ends however busy the machine is.
        progress: called after each inference with the number done and the total.

    Raises:
        TargetError: the target holds another model, did not answer in time, or faulted; with the step.
    """
    try:
        return _execute(session, model, batch, timeout_s=timeout_s, progress=progress)
    except DeviceFaultError as error:
        if 0 <= error.fault.step < len(model.steps):
            error.explain(replace(error.found, step_name=model.steps[error.fault.step].name))
        raise
    except DeviceError as error:
        if error.step is not None and 0 <= error.step < len(model.steps):
            error.what += f"\n  step {error.step} is {model.steps[error.step].name}"
        raise


def _execute(
    session: Session, model: LockModel, batch: Batch, *, timeout_s: float, progress: Progress | None
) -> Execution:
    def until() -> Deadline:
        return Deadline.after(timeout_s, session.timeouts.clock)

    session.hello(until().within(min(timeout_s, 30.0)))
    info = find_model(session, model)
    # The batch comes first: a model that keeps something from one inference to the next has run for nothing
    # else before. Its first inference is measured; another one, with other paint, comes after it.
    result: list[list[Array]] = []
    ticks = 0
    session.prepare(info, PATTERNS[0], until())
    feed = None
    if model.frames is not None:
        from mlf_sdk.judge.frames import frame_feed  # few models take frames

        feed = frame_feed(model)
    for index in range(batch.count):
        given = batch.inputs(index)
        for inputs in [given] if feed is None else feed.inputs(given):
            session.write_inputs(info, inputs, deadline := until())
            last_ticks = session.run(info, deadline=deadline).ticks
            if feed is not None:
                feed.given(inputs)
        ticks += last_ticks  # of frames, those of the one that ends a window
        result.append(session.read_outputs(info, deadline))
        if index == 0:
            first = session.stats(info, until())
        if progress is not None:
            progress(index + 1, batch.count)
    last = session.stats(info, until())
    session.prepare(info, PATTERNS[1], until())
    session.infer(info, inputs, until())
    stats = largest(first, session.stats(info, until()))
    if stats.written_guard is None:
        stats = replace(stats, written_guard=last.written_guard)
    return Execution(
        outputs=tuple(
            np.stack(arrays).reshape((batch.count, *t.shape))
            for t, arrays in zip(model.outputs, zip(*result, strict=True), strict=True)
        ),
        ticks=ticks,
        ticks_hz=session.info.ticks_hz,
        count=batch.count,
        stats=stats,
        console=session.console_text,
    )


def outputs_by_name(model: LockModel, done: Execution) -> dict[str, Array]:
    """Outputs of an execution by name, each (inferences, *shape)."""
    return {t.name: array for t, array in zip(model.outputs, done.outputs, strict=True)}


def find_model(session: Session, model: LockModel) -> ModelInfo:
    """Find the model of the target that was made from the same archive.

    Raises:
        TargetError: the target has no such model: it runs another image.
    """
    for info in session.info.models:
        same_io = [t.size_bytes for t in info.inputs] == [t.size_bytes for t in model.inputs]
        if info.archive_sha256 == model.archive_sha256 and same_io and model.name.startswith(info.name):
            return info
    held = ", ".join(f"{m.name} ({m.archive_sha256[:12]})" for m in session.info.models) or "none"
    raise TargetError(
        f"the target does not hold the model {model.name} ({model.archive_sha256[:12]}); it holds: {held}",
        hint="Build and flash the project again.",
    )
