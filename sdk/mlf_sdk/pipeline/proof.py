# SPDX-License-Identifier: Apache-2.0
"""The proof of many models on many boards: what was promised against what each target did.

Each model runs on the host first; its outputs are the reference for every board. Results are kept beside
the builds under the hash of the generated project, so that a stopped proof goes on where it was.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.errors import ArchiveError, DoesNotFitError, InputError, MlfError, ModuleChoiceError, TargetError
from mlf_sdk.frontends.mlf.codefindings import lacks_scratch
from mlf_sdk.ir.model import Model
from mlf_sdk.judge.check import ProofRow
from mlf_sdk.pipeline.cache import cache_folder, cached_project
from mlf_sdk.pipeline.project import load, plan_project
from mlf_sdk.pipeline.results import Array, RunReport
from mlf_sdk.pipeline.run import HOST, run
from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.version import __version__

Say = Callable[[str], None]
PROVEN, FAILED, NOT_HERE = "proven", "failed", "not here"

_NO_SCRATCH = (
    "it was compiled without this CPU's options: its CMSIS-NN calls carry no scratch buffers, "
    "which are needed where there are DSP instructions"
)


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model on one board; sizes in bytes, None where nothing is known.

    Attributes:
        archive: file name of the archive; ``module`` names one of several.
        outcome: ``proven``; ``failed``; ``not here``: it can't be built for the board or does not fit it.
        why: what failed, or what the board lacks.
        rows: every promise: the archive's summary, plan, image, measured.
        arena_bytes, arena_measured_bytes: planned, and the high-water mark on the target.
        arena_is_exact: False where the plan holds a bound (code that does not tell its workspace).
        lower_bound_bytes: no plan can do with less.
        stack_bound_bytes, stack_measured_bytes, stack_bytes: static bound, painted mark, reserved.
        allocators: functions of a heap that are linked.
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
    against: str = ""
    integers: bool = False
    differing: int | None = None
    max_difference: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRequest:
    """What is to be proven, and how.

    Attributes:
        boards: names; empty: every board that can be emulated.
        cmsis_nn: folder of CMSIS-NN, for the archives that need it.
        jobs: archives that are worked on at the same time.
        again: do not take earlier results.
    """

    boards: tuple[str, ...] = ()
    board_file: Path | None = None
    cmsis_nn: Path | None = None
    jobs: int = 2
    timeout_s: float = 600.0
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """All cells, by archive and board in the order that was asked for."""

    boards: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed, and at least one cell is proven."""
        outcomes = {cell.outcome for cell in self.cells}
        return FAILED not in outcomes and PROVEN in outcomes

    def count(self, outcome: str) -> int:
        """Cells of this outcome."""
        return sum(cell.outcome == outcome for cell in self.cells)


def prove(archives: Sequence[Path], request: ProofRequest, say: Say = lambda _: None) -> Proof:
    """Run every model of ``archives`` on every board.

    Raises:
        InputError: an archive that can't be read, an unknown board.
        ToolError: a program is missing that every cell needs.
    """
    boards = request.boards or emulated_boards(request.board_file)
    known = load_boards(request.board_file)
    for name in boards:
        if name not in known:
            raise InputError(f"no board called '{name}'", hint=f"Choose from: {', '.join(known)}")
    models = [(path, module) for path in archives for module in modules_of(path)]
    done = _Progress(len(models) * len(boards), say)
    with ThreadPoolExecutor(request.jobs) as pool:
        rows = list(pool.map(lambda of: _Row(of[0], of[1], boards, request, done).cells(), models))
    return Proof(boards=tuple(boards), cells=tuple(cell for row in rows for cell in row))


def emulated_boards(board_file: Path | None = None) -> tuple[str, ...]:
    """Boards that QEMU has."""
    return tuple(name for name, board in load_boards(board_file).items() if board.qemu is not None)


def modules_of(path: Path) -> list[str | None]:
    """Names of the modules of an archive with several (in operator style: of the functions); else [None]."""
    try:
        load(path)
    except ModuleChoiceError as error:
        return [*error.names]
    return [None]


class _Progress:
    """Counts cells, from several threads."""

    def __init__(self, total: int, say: Say) -> None:
        self.total, self.done, self.say = total, 0, say
        self.lock = threading.Lock()

    def next(self, cell: Cell) -> None:
        with self.lock:
            self.done += 1
            self.say(f"{self.done:,} of {self.total:,}: {cell.archive} on {cell.board}: {cell.outcome}")


class _Row:
    """One model on all boards."""

    def __init__(
        self,
        path: Path,
        module: str | None,
        boards: Sequence[str],
        request: ProofRequest,
        progress: _Progress,
    ) -> None:
        self.path, self.module, self.boards, self.request = path, module, boards, request
        self.progress = progress
        self.reference: Mapping[str, Array] | None = None
        self.against = ""

    def cells(self) -> list[Cell]:
        model = load(self.path, module=self.module)
        options = ProjectOptions(cmsis_nn=self.request.cmsis_nn if model.external_headers else None)
        try:
            self._refer(HOST, self._run(HOST, options))
        except MlfError:
            self.against = ""  # no host twin: machine code, or CMSIS-NN
        found = []
        for board in self.boards:
            found.append(self._cell(model, board, options))
            self.progress.next(found[-1])
        return found

    def _refer(self, board: str, report: RunReport) -> None:
        self.reference, self.against = report.outputs, board

    def _run(self, board: str, options: ProjectOptions) -> RunReport:
        return run(
            self.path,
            board=board,
            board_file=self.request.board_file if board != HOST else None,
            module=self.module,
            expect=self.reference,
            twin=False,
            timeout_s=self.request.timeout_s,
            options=options,
        )

    def _cell(self, model: Model, board: str, options: ProjectOptions) -> Cell:
        cell = Cell(archive=self.path.name, module=self.module, model=model.name, board=board, outcome=FAILED)
        try:
            plan = plan_project([model], board=board, board_file=self.request.board_file, options=options)
        except ArchiveError as error:
            return msgspec.structs.replace(cell, outcome=NOT_HERE, why=error.faults[0].what)
        except InputError as error:
            return msgspec.structs.replace(cell, outcome=NOT_HERE, why=error.what)
        try:
            kept = _kept_result(cached_project(plan), self.reference)
            if kept.is_file() and not self.request.again:
                return msgspec.json.decode(kept.read_bytes(), type=Cell)
            report = self._run(board, options)
        except MlfError as error:
            why = error.what.splitlines()[0]
            if isinstance(error, TargetError) and plan.board.dsp and lacks_scratch(model):
                return msgspec.structs.replace(cell, outcome=NOT_HERE, why=f"{_NO_SCRATCH} ({why})")
            outcome = NOT_HERE if isinstance(error, DoesNotFitError) else FAILED
            return msgspec.structs.replace(cell, outcome=outcome, why=why)
        cell = _filled(cell, report, self.against)
        if self.reference is None:
            self._refer(board, report)
        elif cell.outcome == PROVEN:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(msgspec.json.encode(cell))
        return cell


def _kept_result(folder: Path, reference: Mapping[str, Array] | None) -> Path:
    """Where the result of a project with these reference outputs is kept."""
    digest = hashlib.sha256(f"{__version__} {folder.name}".encode())
    for name, array in sorted((reference or {}).items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return cache_folder().parent / "proofs" / f"{folder.name}-{digest.hexdigest()[:16]}.json"


def _filled(cell: Cell, report: RunReport, against: str) -> Cell:
    """The cell of a run: proven when all of it holds."""
    memory, checked = report.memory, report.check
    bound = checked.stack
    used = {region.name: region.used_bytes for region in checked.regions}
    wrong = [f"{row.item}: {row.note or 'differs'}" for row in checked.rows if not row.ok]
    if checked.allocators:
        wrong.append(f"an allocator is linked: {checked.allocators[0].name}")
    found = report.compare
    if found is not None and not found.ok:
        wrong.append(f"outputs differ in {found.mismatches:,} elements from those of {against}")
    return msgspec.structs.replace(
        cell,
        outcome=PROVEN if report.ok and not wrong else FAILED,
        why="; ".join(wrong) or ("" if report.ok else "the memory measured is not the memory promised"),
        rows=checked.rows,
        arena_bytes=memory.arena_bytes,
        arena_measured_bytes=memory.arena_high_water_bytes,
        arena_is_exact=memory.exact,
        lower_bound_bytes=memory.lower_bound_bytes,
        stack_bound_bytes=bound.bytes if bound is not None and bound.is_complete else None,
        stack_measured_bytes=memory.stack_high_water_bytes,
        stack_bytes=memory.stack_bytes,
        allocators=None if checked.allocators is None else len(checked.allocators),
        flash_bytes=used.get(report.board.flash.name) if report.board.memories else None,
        ram_bytes=used.get(report.board.ram.name) if report.board.memories else None,
        instructions=report.instructions,
        against=against if found is not None else "",
        integers=all(array.dtype.kind in "iub" for array in report.outputs.values()),
        differing=None if found is None else found.mismatches,
        max_difference=None if found is None else found.max_abs,
    )


def proof_values(proof: Proof) -> dict[str, object]:
    """The proof as plain values."""
    return {
        "ok": proof.ok,
        "boards": list(proof.boards),
        "counts": {outcome: proof.count(outcome) for outcome in (PROVEN, FAILED, NOT_HERE)},
        "cells": [msgspec.to_builtins(cell) for cell in proof.cells],
    }
