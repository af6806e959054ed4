# SPDX-License-Identifier: Apache-2.0
"""Results of a run: memory figures, comparisons and checks against the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.chiptime import ChipTime
from mlf_sdk.judge.compare import Comparison, StepDifference
from mlf_sdk.judge.evidence import NO_EVIDENCE, NOT_COMPARED, NOT_WITH_MODEL
from mlf_sdk.judge.witnessed import Witnessed
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.arrays import Array

OTHER_IMAGE = "RAN ON AN IMAGE NOT KNOWN HERE"


def is_exact(model: LockModel) -> bool:
    """Return whether every workspace of the plan is exact: a replay of the code's own requests."""
    return all(step.exact for step in model.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFigures:
    """Planned and measured memory, in bytes; None if the target can't measure it.

    ``exact`` is false when the plan holds a bound: a workspace whose size does not follow from the code.
    """

    exact: bool
    arena_bytes: int
    lower_bound_bytes: int
    arena_high_water_bytes: int | None
    params_bytes: int
    stack_bytes: int | None
    stack_high_water_bytes: int | None

    @property
    def ok(self) -> bool:
        """Return whether the measured memory agrees with the planned memory."""
        stack_fits = (
            self.stack_bytes is None
            or self.stack_high_water_bytes is None
            or self.stack_high_water_bytes < self.stack_bytes
        )
        return as_promised(self.arena_high_water_bytes, self.arena_bytes, exact=self.exact) and stack_fits


def as_promised(measured: int | None, planned: int, *, exact: bool) -> bool:
    """Return whether a high-water mark equals the planned size, or is below it if the plan is a bound."""
    return measured is None or measured == planned or (not exact and measured < planned)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Everything that a run showed.

    Attributes:
        build_id: of the image that answered, in hex; empty: not reported.
        outputs: by name, each (inferences, *shape).
        compare: against the reference that was given; None without one.
        twin: against the same model with memory of its own for each buffer; None when that was not asked for.
        twin_note: why there is no twin although it was asked for.
        evidence: what the outputs were compared with (`mlf_sdk.judge.groups`).
        twin_evidence: the part of it that the twin is.
        witnessed: against what the model file means, by each witness.
        chip: estimated time of an inference on the chip that was named, or is on the board; None: neither.
        first: first step whose outputs are not those of the reference, where the outputs are not.
        accuracy: share of right classes, where labels were given.
        instructions: of one inference (the median), where an emulator counts them; None elsewhere.
        instructions_resolution: the count is exact to this many; 0: each instruction was counted.
        instructions_range: least and most of all inferences; None where nothing counts.
        cycles: of one inference (the median), where a simulator counts them; None elsewhere.
        build_seconds: 0 when nothing had to be built.
        toolchain: what compiled the image; empty: it was not chosen by the SDK (Zephyr, this machine).
        emulator: what ran it; empty: it ran on no emulated board that was started here.
        port: where the board answered; None: it was started here.
        other_image: why the image that answered is not the one that was built: then the figures of an image
            (flash, RAM, symbols, plan) are left out, and the verdict says so; empty: it is that one.
        edited: generated files that were edited, or are missing: the proof is of what they are now.
    """

    model: LockModel
    board: Board
    folder: Path
    build_id: str
    outputs: Mapping[str, Array]
    inferences: int
    compare: Comparison | None
    twin: Comparison | None
    twin_note: str
    accuracy: float | None
    memory: MemoryFigures
    check: CheckReport
    instructions: int | None
    instructions_resolution: int
    ticks: int
    ticks_hz: int
    build_seconds: float
    console: str
    evidence: str = NO_EVIDENCE
    instructions_range: tuple[int, int] | None = None
    port: str | None = None
    other_image: str = ""
    edited: tuple[str, ...] = ()
    twin_evidence: str = ""
    witnessed: Witnessed = field(default_factory=Witnessed)
    first: StepDifference | None = None
    chip: ChipTime | None = None
    toolchain: str = ""
    emulator: str = ""
    cycles: int | None = None

    @property
    def seconds(self) -> float | None:
        """Time of one inference by the clock of a board or of this machine; None: by an emulator's."""
        if not self.ticks or not self.ticks_hz or (self.port is None and self.board.is_emulated):
            return None
        return self.ticks / self.ticks_hz / self.inferences

    @property
    def missing(self) -> str:
        """Verdict in place of PASS where a comparison, or knowledge of the image, is missing; else empty."""
        if self.compare is None and not self.witnessed.compared:
            if self.twin is None:
                return NOT_COMPARED
            if self.witnessed.is_lacking:
                return NOT_WITH_MODEL
        return OTHER_IMAGE if self.other_image else ""

    @property
    def uncovered(self) -> str:
        """Steps of a compiled model that neither expected outputs nor a witness covers; empty: none."""
        complete = self.compare is not None and len(self.compare.outputs) == len(self.outputs)
        return "" if complete else self.witnessed.uncovered_text

    @property
    def verdict(self) -> str:
        """``FAIL``, ``PASS``, or what is `missing` where nothing failed."""
        return "FAIL" if not self.ok else self.missing or "PASS"

    @property
    def agrees(self) -> bool:
        """Return whether no comparison of outputs found a difference."""
        return all(c is None or c.ok for c in (self.compare, self.twin)) and not self.witnessed.wrong

    @property
    def ok(self) -> bool:
        """Return whether nothing failed and, if strict, outputs were compared and all steps covered."""
        left_out = self.check.strict and bool(self.missing or self.uncovered)
        return self.agrees and self.memory.ok and self.check.ok and not left_out
