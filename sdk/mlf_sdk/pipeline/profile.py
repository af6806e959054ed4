# SPDX-License-Identifier: Apache-2.0
"""Profile of an inference: instructions or time of each step."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_low
from typing import Any, Literal

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import NotPossibleError
from mlf_sdk.judge.counting import build_plugin, missing_plugin_support
from mlf_sdk.judge.data import Batch
from mlf_sdk.judge.frames import newest_frame
from mlf_sdk.judge.profile import (
    Costs,
    Profile,
    Unit,
    Work,
    step_rows,
    with_layers,
    works_of,
)
from mlf_sdk.judge.stepcosts import count_steps, inner_kernels, scaled, time_steps, windows_of
from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.arguments import Sources, make_request
from mlf_sdk.pipeline.cache import plugin_folder
from mlf_sdk.pipeline.cycles import estimate_of, estimator_for, with_waits
from mlf_sdk.pipeline.options import ProfileOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.targets.boards.load import counter_hz
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.qemu import tick_instructions
from mlf_sdk.targets.target import Target
from mlf_sdk.wire.steps import can_step

_NS_PER_S = 1_000_000_000
_RUNS_BY_CLOCK = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    costs: Costs
    rows: Literal["steps", "kernels"]
    unit: Unit
    hz: int
    resolution: int
    method: str
    notes: tuple[str, ...]


def profile(
    source: Sources,
    request: Request | None = None,
    *,
    runs: int | None = None,
    wait_states: int = 0,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> Profile:
    """Measure the cost of each step: instructions on an emulated board, cycles or ticks on another.

    Args:
        source: an archive, or the folder of a project.
        request: prepared options; the first inference of its inputs is measured.
        runs: inferences to measure; default: 1 where the count is exact, else 10.
        wait_states: of the flash, for the estimate of cycles on an emulated board.
        progress: called with each stage and its state.
        options: fields of `Request`.

    Raises:
        InputError: bad arguments, archive, or arrays; the image can't run steps one at a time.
        ToolError: a tool is missing or failed.
        TargetError: the target did not answer in time, or faulted.
    """
    own = ProfileOptions(runs=runs, wait_states=wait_states)
    return profile_request(make_request(source, request, options), own, Pipeline(progress))


def profile_request(request: Request, own: ProfileOptions, pipeline: Pipeline) -> Profile:
    """Profile on a pipeline; errors as in `profile`."""
    if request.trace is None and not stages.is_project(request):
        request = request.replace(trace=False)  # an allocator that records costs more than one in production
    project = pipeline.project(request)
    stages.check_app(project)
    profiler = _Profiler(request, project, pipeline.batch(request), own, pipeline)
    measured = profiler.measure()
    board = project.lock.board if profiler.is_known else project.target.name
    return _profile(project, measured, own.wait_states, board)


@dataclass(frozen=True, slots=True)
class _Profiler:
    request: Request
    project: TargetProject
    batch: Batch
    own: ProfileOptions
    pipeline: Pipeline

    @property
    def is_known(self) -> bool:
        """True unless any image of the model may answer on a port."""
        return not self.project.target.attached or self.project.is_given or self.request.image is not None

    def measure(self) -> _Measured:
        """Count where an emulator that is started here can count exactly, else read the clock."""
        target, model = self.project.target, self.project.model
        if not target.counts_instructions:
            return self.by_clock()
        why = missing_plugin_support(target.board)
        if why:
            return self.by_clock(f"to the clock's resolution only: {why}")
        image = read_image(self.pipeline.build(self.request).elf)
        try:
            windows_of(model, image)
        except LookupError as error:
            return self.by_clock(f"to the clock's resolution only: {error}")
        self.pipeline.progress.say(f"counting instructions on {target.name}")
        costs = count_steps(
            target,
            image,
            model,
            newest_frame(model, self.batch.inputs(0)),
            runs=self.own.runs or 1,
            plugin=build_plugin(plugin_folder()),
            timeout_s=self.request.timeout_s,
            estimator=estimator_for(target.board, image, self.own.wait_states),
        )
        return _Measured(
            costs=costs,
            rows="kernels" if inner_kernels(model, image) else "steps",
            unit="instructions",
            hz=_NS_PER_S,
            resolution=0,
            method="counted by QEMU, exactly",
            notes=(*_missing_kernels(model, image), *_interrupts(target.board)),
        )

    def by_clock(self, *notes: str) -> _Measured:
        """Measure by the clock of the board, or of this machine."""
        target, model = self.project.target, self.project.model
        with self.pipeline.open(self.request) as opened:
            if not can_step(opened.session):
                raise NotPossibleError(
                    "the firmware can't run steps one at a time",
                    where=f"board {target.board.name}",
                    hint="Generate it again with this SDK (MLF_OBSERVE is on in the rpc application), "
                    "build and flash it.",
                )
            hz = opened.session.info.ticks_hz
            self.pipeline.progress.say(f"measuring on {target.name}")
            inputs = newest_frame(model, self.batch.inputs(0))
            costs = time_steps(
                opened.session,
                opened.info,
                model,
                inputs,
                runs=self.own.runs or (1 if target.counts_cycles else _RUNS_BY_CLOCK),
            )
        if len(model.steps) == 1 and len(model.kernel_symbols) > 1:
            notes = (*notes, "compiled ahead of time: a clock cannot separate the kernels inside; QEMU can")
        known = counter_hz(target.board) if target.counts_instructions else None
        if known:
            step = tick_instructions(known)
            return _Measured(
                costs=scaled(costs, _NS_PER_S, known),
                rows="steps",
                unit="instructions",
                hz=_NS_PER_S,
                resolution=step,
                method=f"the board's clock: a tick is {step} instructions",
                notes=notes,
            )
        is_board = not target.counts_instructions and self.is_known
        if not self.is_known:
            notes = (*notes, f"which board and image answer on {target.name} is not known")
        return _Measured(
            costs=costs,
            rows="steps",
            unit="cycles" if is_board and hz == target.board.clock_hz else "ticks",
            hz=hz,
            resolution=1,
            method=_clock_text(target, hz),
            notes=notes,
        )


def _clock_text(target: Target, hz: int) -> str:
    if target.is_host:
        return "this machine's clock, with sanitizers in the code: only shares mean something"
    if target.counts_instructions:
        return "the emulated board's clock, whose rate is not known: only shares mean something"
    if target.counts_cycles:
        return "cycles of the simulated core"
    return f"the board's clock at {hz / 1e6:g} MHz" if hz else "the board's counter"


def _missing_kernels(model: LockModel, image: Image) -> list[str]:
    if len(model.steps) != 1:
        return []
    lost = [s for s in model.kernel_symbols if image.find(s) is None]
    names = ", ".join(model.label(symbol) for symbol in lost)
    return [f"part of its caller, and so of the overhead: {names}"] if lost else []


def _interrupts(board: Board) -> list[str]:
    return ["interrupts of Zephyr's clock count where they strike"] if board.platform == "zephyr" else []


def _profile(project: TargetProject, measured: _Measured, wait_states: int, board: str) -> Profile:
    costs = measured.costs
    works = works_of(project.model) if measured.rows == "steps" else (Work(),) * len(costs.names)
    steps = with_waits(step_rows(costs, works), wait_states)
    if measured.rows == "steps":
        steps = with_layers(steps, project.model, costs)
    total = median_low(costs.totals)
    return Profile(
        model=project.model.name,
        archive_sha256=project.model.archive_sha256,
        board=board,
        rows=measured.rows,
        unit=measured.unit,
        hz=measured.hz,
        runs=len(costs.totals),
        steps=steps,
        overhead=total - sum(step.cost for step in steps),
        total=total,
        resolution=measured.resolution,
        method=measured.method,
        notes=measured.notes,
        symbol_prefix=project.model.symbol_prefix,
        cycles=estimate_of(costs, works, project.target.board, wait_states),
    )
