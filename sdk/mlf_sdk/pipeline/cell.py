# SPDX-License-Identifier: Apache-2.0
"""Cell of a sweep or a proof: one model on one board, as a job that any process can run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mlf_sdk.errors import (
    ArchiveError,
    CodeError,
    MissingToolError,
    MlfError,
    NotPossibleError,
    TargetError,
)
from mlf_sdk.ir.model import lacks_scratch
from mlf_sdk.judge.check import FAILED, PROVEN, RUN_STACK, STACK, UNPROVEN, ProofRow
from mlf_sdk.judge.evidence import (
    BOARD_APART,
    EXPECTED,
    HOST_GUARDED,
    HOST_SANITIZED,
    NO_EVIDENCE,
    NOT_WITH_MODEL,
)
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import HOST, Request
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.pipeline.run import run_request
from mlf_sdk.pipeline.twin import Twin
from mlf_sdk.tools.arrays import Array

NOT_HERE = "not here"
_AGAINST = {HOST_SANITIZED: HOST, HOST_GUARDED: HOST, BOARD_APART: "unshared image"}
_NO_SCRATCH = (
    "it was compiled without this CPU's options: its CMSIS-NN calls carry no scratch buffers, "
    "which are needed where there are DSP instructions"
)


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model on one board; sizes in bytes, None where nothing is known.

    Attributes:
        archive: file name of the archive; ``module`` names one of several.
        outcome: ``proven``; ``failed``; ``unproven``: nothing failed, but nothing proves some row or the
            outputs either; ``not here``: known to be impossible (`NotPossibleError`): the archive is refused,
            can't be built for the board or does not fit it.
        why: what failed or is unproven, or what the board lacks.
        evidence: what its outputs were compared with (`mlf_sdk.judge.groups`).
        rows: every promise: the archive's summary, plan, image, measured.
        arena_bytes, arena_measured_bytes: planned, and the high-water mark on the target.
        arena_is_exact: False where the plan holds a bound (code from which the workspace does not follow).
        lower_bound_bytes: no plan can do with less.
        stack_bound_bytes: static bound; on Zephyr of a run alone, where its thread has none.
        stack_bound_is_run: it is of a run alone: the mark, which is the thread's, can be higher.
        stack_measured_bytes, stack_bytes: painted mark, reserved.
        allocators: functions of a heap that are linked.
        instructions, instructions_resolution: of one inference, where the emulator counts; exact to so many.
        twin_evidence: the part of ``evidence`` beside the witnesses.
        witnesses: of the model file that the outputs agree with; empty: none.
        against: where the outputs were compared with: the host, or an image that shares no memory.
        integers: all outputs are integers.
        differing: elements that differ at all (integers) or beyond the tolerance (floats).
        max_difference: over all outputs.
        accuracy: share of right classes, 0 to 1, where labels were given.
        time_s: of one inference by the clock of a real board; None where instructions are counted.
        chip, chip_ms, chip_mj: microcontroller; estimated milliseconds and millijoules of an inference.
        build_id: of the image that answered.
    """

    archive: str
    module: str | None
    model: str
    board: str
    outcome: str
    why: str = ""
    evidence: str = NO_EVIDENCE
    rows: tuple[ProofRow, ...] = ()
    arena_bytes: int | None = None
    arena_measured_bytes: int | None = None
    arena_is_exact: bool = True
    lower_bound_bytes: int | None = None
    stack_bound_bytes: int | None = None
    stack_bound_is_run: bool = False
    stack_measured_bytes: int | None = None
    stack_bytes: int | None = None
    allocators: int | None = None
    flash_bytes: int | None = None
    ram_bytes: int | None = None
    instructions: int | None = None
    instructions_resolution: int = 0
    twin_evidence: str = ""
    witnesses: str = ""
    against: str = ""
    integers: bool = False
    differing: int | None = None
    max_difference: float | None = None
    accuracy: float | None = None
    time_s: float | None = None
    chip: str = ""
    chip_ms: float | None = None
    chip_mj: float | None = None
    build_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellJob:
    """One cell to prove: survives pickle and JSON, and runs in any process.

    Attributes:
        request: the model and its board.
        twin: outputs of the host twin that ran elsewhere; None: a twin on the same board gives them.
        fault: of the host twin: the cell fails if it can be built.
    """

    request: Request
    twin: Twin | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Outputs of the host twin.

    Attributes:
        outputs: by name; None: there is no host twin.
        evidence: the name of that evidence.
        fault: the twin faulted, or wrote outside of a buffer: the model is wrong on any board.
    """

    outputs: dict[str, Array] | None = None
    evidence: str = ""
    fault: str = ""


def run_reference(request: Request) -> Reference:
    """Run the host twin of one model.

    Raises:
        InputError: a file is not there: nothing is known of the twin.
        ToolError: a tool was ended, or the disk is full: the same.
    """
    with closing(Pipeline()) as pipeline:
        return _reference(request, pipeline)


def _reference(request: Request, pipeline: Pipeline) -> Reference:
    try:
        twin, _ = pipeline.host_twin(request)
    except TargetError as error:
        return Reference(fault=error.what.splitlines()[0])
    except (NotPossibleError, CodeError, MissingToolError):  # an image on the board is the twin
        return Reference()
    if twin is None:
        return Reference()
    return Reference(outputs=dict(twin.outputs), evidence=twin.evidence)


def run_cell(job: CellJob, progress: Progress = SILENT) -> Cell:
    """Prove one cell; errors become part of the cell, and are passed to ``progress``."""
    request = job.request
    cell = Cell(
        archive=Path(request.source[0]).name,
        module=request.module,
        model="",
        board=str(request.board),
        outcome=FAILED,
    )
    try:
        with closing(Pipeline(progress)) as pipeline:
            return _run(cell, job, pipeline, progress)
    except MlfError as error:
        progress.error(error)
        return _outcome(cell, _outcome_of(error), _first_line(error))


def _run(cell: Cell, job: CellJob, pipeline: Pipeline, progress: Progress) -> Cell:
    request = job.request
    try:
        model = pipeline.models(request)[0]
    except ArchiveError as error:
        return _outcome(cell, NOT_HERE, f"refused: {error.faults[0]}")
    if not model.external_headers:
        request = request.replace(cmsis_nn=None)
    cell = msgspec.structs.replace(cell, model=model.name)
    try:
        plan = pipeline.plan(request)
    except NotPossibleError as error:
        progress.error(error)
        return _outcome(cell, NOT_HERE, _first_line(error))
    if job.fault:
        return _outcome(cell, FAILED, job.fault)
    try:
        report = run_request(request, pipeline, job.twin)
    except TargetError as error:
        if not (plan.board.dsp and lacks_scratch(model)):
            raise
        return _outcome(cell, NOT_HERE, f"{_NO_SCRATCH} ({_first_line(error)})")
    for line in report.console.splitlines():
        progress.log(line)
    if report.other_image:
        return _outcome(cell, FAILED, report.other_image)
    return _filled(cell, report)


def _first_line(error: MlfError) -> str:
    if isinstance(error, ArchiveError):
        return error.faults[0].what
    return error.what.splitlines()[0]


def _outcome_of(error: MlfError) -> str:
    return NOT_HERE if isinstance(error, NotPossibleError) else FAILED


def _outcome(cell: Cell, outcome: str, why: str) -> Cell:
    return msgspec.structs.replace(cell, outcome=outcome, why=why)


def _filled(cell: Cell, report: RunReport) -> Cell:
    """The cell of a run: proven when all of it holds."""
    memory, checked = report.memory, report.check
    bounds = [row for row in checked.rows if row.item in (STACK, RUN_STACK)]
    used = {region.name.lower(): region.used_bytes for region in checked.regions}
    wrong = [f"{row.item}: {row.note or 'differs'}" for row in checked.rows if row.state == FAILED]
    unproven = [f"{row.item}: {row.note}" for row in checked.rows if row.state == UNPROVEN]
    if checked.allocators:
        wrong.append(f"an allocator is linked: {checked.allocators[0].name}")
    twin = report.compare or report.twin
    against = EXPECTED if report.compare is not None else report.twin_evidence
    if twin is not None and not twin.ok:
        wrong.append(f"outputs differ in {twin.mismatches:,} elements from those of: {against}")
    wrong += [f"outputs differ from what the model means: {name}" for name in report.witnessed.wrong]
    if not report.ok and not wrong:
        wrong.append("the memory measured is not the memory promised")
    if report.missing == NOT_WITH_MODEL:
        unproven.append(f"its kernels were only compared with themselves: {report.witnessed.lack}")
    elif report.missing:
        unproven.append(f"nothing to compare its outputs with: {report.twin_note}")
    if report.uncovered:
        unproven.append(f"no witness covers {report.uncovered}")
    return msgspec.structs.replace(
        cell,
        outcome=FAILED if wrong else UNPROVEN if unproven else PROVEN,
        why="; ".join(wrong or unproven),
        evidence=report.evidence,
        rows=checked.rows,
        arena_bytes=memory.arena_bytes,
        arena_measured_bytes=memory.arena_high_water_bytes,
        arena_is_exact=memory.exact,
        lower_bound_bytes=memory.lower_bound_bytes,
        stack_bound_bytes=bounds[0].planned if bounds else None,
        stack_bound_is_run=bool(bounds) and bounds[0].item == RUN_STACK,
        stack_measured_bytes=memory.stack_high_water_bytes,
        stack_bytes=memory.stack_bytes,
        allocators=None if checked.allocators is None else len(checked.allocators),
        flash_bytes=used.get(report.board.flash.name.lower()) if report.board.memories else None,
        ram_bytes=used.get(report.board.ram.name.lower()) if report.board.memories else None,
        instructions=report.instructions,
        instructions_resolution=report.instructions_resolution,
        twin_evidence=against if twin is not None else "",
        witnesses=" + ".join(result.text for result in report.witnessed.compared),
        against="" if twin is None else _AGAINST.get(against, against),
        integers=all(array.dtype.kind in "iub" for array in report.outputs.values()),
        differing=None if twin is None else twin.mismatches,
        max_difference=None if twin is None else twin.max_abs,
        accuracy=report.accuracy,
        time_s=report.seconds,
        chip=report.chip.chip if report.chip is not None else "",
        chip_ms=report.chip.ms if report.chip is not None else None,
        chip_mj=report.chip.mj if report.chip is not None else None,
        build_id=report.build_id,
    )
