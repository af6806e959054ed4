# SPDX-License-Identifier: Apache-2.0
"""Proof of many models on many boards, planned against measured figures: a sweep with two axes.

Each model first runs on the host with memory of its own for each buffer, as a twin that knows nothing of the
plan; its outputs are the reference for every board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from mlf_sdk.errors import ModuleChoiceError, ToolError
from mlf_sdk.judge.check import FAILED, PROVEN, UNPROVEN
from mlf_sdk.pipeline.arguments import Sources, make_request, own_options
from mlf_sdk.pipeline.cell import NOT_HERE, Cell
from mlf_sdk.pipeline.options import ProofOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.resources import cache_dir
from mlf_sdk.sweep.engine import Engine
from mlf_sdk.sweep.events import Watcher
from mlf_sdk.sweep.executors import open_executor
from mlf_sdk.sweep.expand import expand, names_of
from mlf_sdk.sweep.job import JobResult
from mlf_sdk.sweep.journal import Journal
from mlf_sdk.sweep.plan import BOARD, MODEL, Plan
from mlf_sdk.targets.boards.isa import lacks_tools
from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.targets.target import ZEPHYR
from mlf_sdk.targets.zephyr.files import emulated_zephyr_boards
from mlf_sdk.tools.locks import cache_in_use

EMULATED = "emulated"  # in place of a board: all that QEMU has


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """All cells, by archive and board in the order that was asked for.

    Attributes:
        strict: an unproven cell counts as a failed one.
        locked: the images answer only to a key (``--lock``).
    """

    boards: tuple[str, ...]
    cells: tuple[Cell, ...]
    strict: bool = True
    locked: bool = False

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
        progress: called for each cell.
        options: fields of `ProofOptions` and `Request`.

    Raises:
        ArchiveError: the only archive can't be read; one of several is said in its cells.
        InputError: an unknown board.
        ToolError: a program is missing that every cell needs.
    """
    chosen, rest = own_options(ProofOptions, own, options)
    return proof_request(make_request(source, request, rest), chosen, progress)


def proof_request(request: Request, own: ProofOptions, progress: Progress = SILENT) -> Proof:
    """Prove all sources of a request; errors as in `proof`.

    What was proven before is taken from the journal in the user's cache.
    """
    boards = proof_boards(request, own)
    left_out = [row.name for row in load_boards(request.board_file).values() if row.qemu and lacks_tools(row)]
    if left_out and EMULATED in (own.boards or (EMULATED,)) and request.platform != ZEPHYR:
        progress.say(f"left out, for their tools are not installed: {', '.join(left_out)}")
    if len(request.source) == 1:
        with suppress(ModuleChoiceError):  # one that can't be read ends the proof
            Pipeline().models(request)
    plan = Plan(name="proof", axes={MODEL: list(request.source), BOARD: list(boards)})
    result = expand(plan, request.replace(platform=None, board=None))
    names = names_of(result.cells)
    with cache_in_use(), Journal(cache_dir("proofs"), create=True) as journal:
        last = journal.last_plan()
        number = journal.add_plan(plan, result)
        journal.recover()
        pending = {spec.name for spec in journal.pending(number)}
        if again := _to_repeat(journal, names, pending, own, goes_on=number == last and bool(pending)):
            journal.retry(again)
        wanted = journal.pending(number)
        shown = _Progress(progress, {cell.spec.name: cell.labels for cell in result.cells})
        shown.begin(len(names), len(names) - len(wanted))
        with open_executor(own.jobs, own.scheduler) as executor:
            left = Engine(journal, executor, result.references, shown).run(wanted)
        if left:
            raise ToolError(
                next(iter(left.values())),
                where="proof",
                hint="Run the proof again: what it found is kept. Workers: mlf-sdk sweep worker ADDRESS.",
            )
        cells = tuple(_cell(journal, name) for name in names)
    return Proof(
        boards=tuple(boards),
        cells=cells,
        strict=request.strict is not False,
        locked=request.lock is not None,
    )


def _to_repeat(
    journal: Journal, names: Sequence[str], pending: Set[str], own: ProofOptions, *, goes_on: bool
) -> list[str]:
    """Names of cells that are proven again: what was set aside, and what a whole proof could not prove.

    Args:
        journal: with the results so far.
        names: of all cells.
        pending: of those that are to be run anyway.
        own: options of the proof.
        goes_on: the same proof was stopped before its end: what it found stands.
    """
    if own.again:
        return list(names)
    results = {name: journal.result(name) for name in names if name not in pending}
    return [
        name
        for name, result in results.items()
        if result is None or (result.outcome != PROVEN and not goes_on)
    ]


def _cell(journal: Journal, name: str) -> Cell:
    result = journal.result(name)
    if result is None:
        raise ToolError("a cell has no result", where=f"proof: {name}", hint="Run the proof again.")
    return result


def proof_boards(request: Request, own: ProofOptions) -> tuple[str, ...]:
    """Boards of a proof; with the platform Zephyr, as targets such as ``zephyr:mps2-an385``."""
    if request.platform != ZEPHYR:
        named = own.boards or (EMULATED,)
        result = [emulated_boards(request.board_file) if name == EMULATED else (name,) for name in named]
        return tuple(dict.fromkeys(name for names in result for name in names))
    names = (name if ":" in name else f"{ZEPHYR}:{name}" for name in own.boards)
    return tuple(names) or emulated_zephyr_boards()


def emulated_boards(board_file: str | None = None) -> tuple[str, ...]:
    """Boards that QEMU has, without those of optional architectures whose tools are missing."""
    rows = load_boards(board_file)
    return tuple(name for name, board in rows.items() if board.qemu is not None and not lacks_tools(board))


class _Progress(Watcher):
    """Counter of cells, for the command's output."""

    def __init__(self, progress: Progress, labels: dict[str, dict[str, str]]) -> None:
        self._progress, self._labels = progress, labels
        self._total = self._done = 0

    def begin(self, total: int, done: int, titles: Mapping[str, str] | None = None) -> None:
        """See Watcher."""
        self._total, self._done = total, done

    def ended(self, name: str, result: JobResult | None, why: str = "") -> None:
        """See Watcher."""
        self._done += 1
        labels = self._labels[name]
        outcome = result.cell.outcome if result is not None and result.cell is not None else why
        self._progress.log(
            f"{self._done:,} of {self._total:,}: {labels[MODEL]} on {labels[BOARD]}: {outcome}"
        )


def proof_values(proof: Proof) -> dict[str, object]:
    """The proof as plain values."""
    return {
        "ok": proof.ok,
        "boards": list(proof.boards),
        "counts": {outcome: proof.count(outcome) for outcome in (PROVEN, FAILED, UNPROVEN, NOT_HERE)},
        "cells": [msgspec.to_builtins(cell) for cell in proof.cells],
    }
