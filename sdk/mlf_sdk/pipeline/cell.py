# SPDX-License-Identifier: Apache-2.0
"""Cell of a proof: one model on one board, as a job that any process can run.

Results are kept beside the builds under the hash of the generated project, so that a stopped proof goes on
where it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from mlf_sdk.errors import ArchiveError, DoesNotFitError, InputError, MlfError, TargetError
from mlf_sdk.frontends.codechecks import lacks_scratch
from mlf_sdk.judge.check import FAILED, PROVEN, RUN_STACK, STACK, UNPROVEN, ProofRow
from mlf_sdk.judge.data import Array
from mlf_sdk.pipeline.cache import cache_folder
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.pipeline.run import run_request
from mlf_sdk.tools.files import write_whole
from mlf_sdk.version import __version__

NOT_HERE = "not here"
_NO_SCRATCH = (
    "it was compiled without this CPU's options: its CMSIS-NN calls carry no scratch buffers, "
    "which are needed where there are DSP instructions"
)


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model on one board; sizes in bytes, None where nothing is known.

    Attributes:
        archive: file name of the archive; ``module`` names one of several.
        outcome: ``proven``; ``failed``; ``unproven``: nothing failed, but nothing proves some row either;
            ``not here``: it can't be built for the board or does not fit it.
        why: what failed or is unproven, or what the board lacks.
        rows: every promise: the archive's summary, plan, image, measured.
        arena_bytes, arena_measured_bytes: planned, and the high-water mark on the target.
        arena_is_exact: False where the plan holds a bound (code that does not tell its workspace).
        lower_bound_bytes: no plan can do with less.
        stack_bound_bytes: static bound; on Zephyr of a run alone, where its thread has none.
        stack_measured_bytes, stack_bytes: painted mark, reserved.
        allocators: functions of a heap that are linked.
        instructions, instructions_resolution: of one inference, where the emulator counts; exact to so many.
        against: where the outputs were compared with: the host, or the first board that ran it.
        integers: all outputs are integers.
        differing: elements that differ at all (integers) or beyond the tolerance (floats).
        max_difference: over all outputs.
    """

    archive: str
    module: str | None
    model: str
    board: str
    outcome: str
    why: str = ""
    rows: tuple[ProofRow, ...] = ()
    arena_bytes: int | None = None
    arena_measured_bytes: int | None = None
    arena_is_exact: bool = True
    lower_bound_bytes: int | None = None
    stack_bound_bytes: int | None = None
    stack_measured_bytes: int | None = None
    stack_bytes: int | None = None
    allocators: int | None = None
    flash_bytes: int | None = None
    ram_bytes: int | None = None
    instructions: int | None = None
    instructions_resolution: int = 0
    against: str = ""
    integers: bool = False
    differing: int | None = None
    max_difference: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellJob:
    """One cell to prove: survives pickle and JSON, and runs in any process.

    Attributes:
        request: the model, its board, and the expected outputs (None: its outputs become the reference).
        against: where the expected outputs came from; empty: nowhere.
        again: do not take an earlier result.
    """

    request: Request
    against: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """A cell, and the outputs of its run (None: it did not run, or an earlier result was kept)."""

    cell: Cell
    outputs: dict[str, Array] | None = None


def run_cell(job: CellJob) -> CellResult:
    """Prove one cell; errors become part of the cell."""
    request, pipeline = job.request, Pipeline()
    model = pipeline.models(request)[0]
    if not model.external_headers:
        request = request.replace(cmsis_nn=None)
    cell = Cell(
        archive=Path(request.source[0]).name,
        module=request.module,
        model=model.name,
        board=str(request.board),
        outcome=FAILED,
    )
    try:
        plan = pipeline.plan(request)
    except ArchiveError as error:
        return _outcome(cell, NOT_HERE, error.faults[0].what)
    except InputError as error:
        return _outcome(cell, NOT_HERE, error.what)
    try:
        kept = _kept_result(pipeline.project(request).folder, request.expect)
        if kept.is_file() and not job.again and request.expect is not None:
            return CellResult(cell=msgspec.json.decode(kept.read_bytes(), type=Cell))
        report = run_request(request, pipeline)
    except MlfError as error:
        why = error.what.splitlines()[0]
        if isinstance(error, TargetError) and plan.board.dsp and lacks_scratch(model):
            return _outcome(cell, NOT_HERE, f"{_NO_SCRATCH} ({why})")
        return _outcome(cell, NOT_HERE if isinstance(error, DoesNotFitError) else FAILED, why)
    cell = _filled(cell, report, job.against)
    if request.expect is not None and cell.outcome == PROVEN:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, msgspec.json.encode(cell))
    return CellResult(cell=cell, outputs=dict(report.outputs))


def _outcome(cell: Cell, outcome: str, why: str) -> CellResult:
    return CellResult(cell=msgspec.structs.replace(cell, outcome=outcome, why=why))


def _kept_result(folder: Path, reference: str | Mapping[str, Array] | None) -> Path:
    """File that keeps the result of a project with these reference outputs."""
    digest = hashlib.sha256(f"{__version__} {folder.name}".encode())
    arrays = reference if isinstance(reference, Mapping) else {}
    for name, array in sorted(arrays.items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return cache_folder().parent / "proofs" / f"{folder.name}-{digest.hexdigest()[:16]}.json"


def _filled(cell: Cell, report: RunReport, against: str) -> Cell:
    """The cell of a run: proven when all of it holds."""
    memory, checked = report.memory, report.check
    bound = next((row.planned for row in checked.rows if row.item in (STACK, RUN_STACK)), None)
    used = {region.name.lower(): region.used_bytes for region in checked.regions}
    wrong = [f"{row.item}: {row.note or 'differs'}" for row in checked.rows if row.state == FAILED]
    unproven = [f"{row.item}: {row.note}" for row in checked.rows if row.state == UNPROVEN]
    if checked.allocators:
        wrong.append(f"an allocator is linked: {checked.allocators[0].name}")
    found = report.compare
    if found is not None and not found.ok:
        wrong.append(f"outputs differ in {found.mismatches:,} elements from those of {against}")
    if not report.ok and not wrong:
        wrong.append("the memory measured is not the memory promised")
    return msgspec.structs.replace(
        cell,
        outcome=FAILED if wrong else UNPROVEN if unproven else PROVEN,
        why="; ".join(wrong or unproven),
        rows=checked.rows,
        arena_bytes=memory.arena_bytes,
        arena_measured_bytes=memory.arena_high_water_bytes,
        arena_is_exact=memory.exact,
        lower_bound_bytes=memory.lower_bound_bytes,
        stack_bound_bytes=bound,
        stack_measured_bytes=memory.stack_high_water_bytes,
        stack_bytes=memory.stack_bytes,
        allocators=None if checked.allocators is None else len(checked.allocators),
        flash_bytes=used.get(report.board.flash.name.lower()) if report.board.memories else None,
        ram_bytes=used.get(report.board.ram.name.lower()) if report.board.memories else None,
        instructions=report.instructions,
        instructions_resolution=report.instructions_resolution,
        against=against if found is not None else "",
        integers=all(array.dtype.kind in "iub" for array in report.outputs.values()),
        differing=None if found is None else found.mismatches,
        max_difference=None if found is None else found.max_abs,
    )
