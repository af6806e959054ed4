# SPDX-License-Identifier: Apache-2.0
"""Proof of many models on many boards: planned against measured figures.

Each model first runs on the host with memory of its own for each buffer, as a twin that knows nothing of the
plan; its outputs are the reference for every board.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from mlf_sdk.errors import ArchiveError, Fault, ModuleChoiceError
from mlf_sdk.frontends.registry import Frontend, register_frontend, registered_frontends
from mlf_sdk.judge.check import FAILED, PROVEN, UNPROVEN
from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.arguments import Sources, make_request, own_options
from mlf_sdk.pipeline.cell import NOT_HERE, Cell, CellJob, run_cell, run_reference
from mlf_sdk.pipeline.options import ProofOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.targets.registry import register_target, registered_targets, resolve_target
from mlf_sdk.targets.target import ZEPHYR, Target
from mlf_sdk.targets.zephyr.files import emulated_zephyr_boards

EMULATED = "emulated"  # in place of a board: all that QEMU has


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """All cells, by archive and board in the order that was asked for.

    Attributes:
        strict: an unproven cell counts as a failed one.
    """

    boards: tuple[str, ...]
    cells: tuple[Cell, ...]
    strict: bool = True

    @property
    def ok(self) -> bool:
        """Nothing failed or, if strict, is unproven, and at least one cell is proven."""
        outcomes = {cell.outcome for cell in self.cells}
        bad = {FAILED, UNPROVEN} if self.strict else {FAILED}
        return not outcomes & bad and PROVEN in outcomes

    def count(self, outcome: str) -> int:
        """Cells of this outcome."""
        return sum(cell.outcome == outcome for cell in self.cells)


def proof(
    source: Sources,
    request: Request | None = None,
    *,
    own: ProofOptions | None = None,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> Proof:
    """Run every model of every archive on every board.

    Args:
        source: archives; each model of each is proven.
        request: prepared options.
        own: prepared options of this function alone.
        progress: told of each cell.
        options: fields of `ProofOptions` and `Request`.

    Raises:
        ArchiveError: the only archive can't be read; one of several is said in its cells.
        InputError: an unknown board.
        ToolError: a program is missing that every cell needs.
    """
    chosen, rest = own_options(ProofOptions, own, options)
    return proof_request(make_request(source, request, rest), chosen, progress)


def proof_request(request: Request, own: ProofOptions, progress: Progress = SILENT) -> Proof:
    """Prove all sources of a request; errors as in `proof`."""
    boards = proof_boards(request, own)
    request = request.replace(platform=None)
    for name in boards:
        resolve_target(stages.target_choice(request.replace(board=name)))
    models: list[Request] = []
    refused: list[Cell] = []
    for path in request.source:
        try:
            models += [request.replace(source=(path,), module=module) for module in modules_of(path)]
        except ArchiveError as error:
            if len(request.source) == 1:
                raise
            refused += [refused_cell(path, board, error.faults[0]) for board in boards]
    told = _Progress(len(models) * len(boards) + len(refused), progress)
    for cell in refused:
        told.next(cell)
    with ProcessPoolExecutor(
        own.jobs,
        mp_context=get_context("spawn"),
        initializer=_adopt,
        initargs=(registered_frontends(), registered_targets()),
    ) as processes:
        rows = [_Row(model, boards, own, told, processes) for model in models]
        with ThreadPoolExecutor(own.jobs) as threads:
            found = list(threads.map(_Row.cells, rows))
    return Proof(
        boards=tuple(boards),
        cells=(*(cell for row in found for cell in row), *refused),
        strict=request.strict is not False,
    )


def _adopt(formats: tuple[Frontend, ...], targets: tuple[type[Target], ...]) -> None:
    """Register in a worker process what was registered in the one that started it."""
    for frontend in formats:
        register_frontend(frontend)
    for target in targets:
        register_target(target)


def proof_boards(request: Request, own: ProofOptions) -> tuple[str, ...]:
    """Boards of a proof; with the platform Zephyr, as targets such as ``zephyr:mps2-an385``."""
    if request.platform != ZEPHYR:
        named = own.boards or (EMULATED,)
        found = [emulated_boards(request.board_file) if name == EMULATED else (name,) for name in named]
        return tuple(dict.fromkeys(name for names in found for name in names))
    names = (name if ":" in name else f"{ZEPHYR}:{name}" for name in own.boards)
    return tuple(names) or emulated_zephyr_boards()


def emulated_boards(board_file: str | None = None) -> tuple[str, ...]:
    """Boards that QEMU has."""
    rows = load_boards(Path(board_file) if board_file else None)
    return tuple(name for name, board in rows.items() if board.qemu is not None)


def refused_cell(path: str, board: str, fault: Fault) -> Cell:
    """Cell of an archive that can't be read, among others that can."""
    return Cell(
        archive=Path(path).name, module=None, model="", board=board, outcome=NOT_HERE, why=f"refused: {fault}"
    )


def modules_of(path: str) -> list[str | None]:
    """Names of the modules of an archive with several (in operator style: of the functions); else [None]."""
    try:
        Pipeline().models(Request(source=(path,)))
    except ModuleChoiceError as error:
        return [*error.names]
    return [None]


class _Progress:
    """Counter of cells, shared by threads."""

    def __init__(self, total: int, progress: Progress) -> None:
        self.total, self.done, self.progress = total, 0, progress
        self.lock = threading.Lock()

    def next(self, cell: Cell) -> None:
        with self.lock:
            self.done += 1
            self.progress.log(
                f"{self.done:,} of {self.total:,}: {cell.archive} on {cell.board}: {cell.outcome}"
            )


class _Row:
    """One model on all boards: the host twin first, whose outputs are the reference.

    Where there is none (machine code, CMSIS-NN), each board runs a twin of its own.
    """

    def __init__(
        self,
        request: Request,
        boards: Sequence[str],
        own: ProofOptions,
        progress: _Progress,
        processes: Executor,
    ) -> None:
        self.request, self.boards, self.own = request, boards, own
        self.progress, self.processes = progress, processes

    def cells(self) -> list[Cell]:
        reference = self.processes.submit(run_reference, self.request).result()
        found = []
        for board in self.boards:
            request = self.request.replace(
                board=board,
                expect=reference.outputs,
                twin=reference.outputs is None,
                strict=False,  # what is unproven becomes the outcome of the cell
            )
            job = CellJob(
                request=request, against=reference.evidence, fault=reference.fault, again=self.own.again
            )
            found.append(self.processes.submit(run_cell, job).result())
            self.progress.next(found[-1])
        return found


def proof_values(proof: Proof) -> dict[str, object]:
    """The proof as plain values."""
    return {
        "ok": proof.ok,
        "boards": list(proof.boards),
        "counts": {outcome: proof.count(outcome) for outcome in (PROVEN, FAILED, UNPROVEN, NOT_HERE)},
        "cells": [msgspec.to_builtins(cell) for cell in proof.cells],
    }
