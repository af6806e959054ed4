# SPDX-License-Identifier: Apache-2.0
"""A proof that was stopped goes on where it was; a whole one tries again what it could not prove."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from mlf_sdk.judge.check import PROVEN
from mlf_sdk.pipeline.cell import NOT_HERE
from mlf_sdk.pipeline.options import ProofOptions
from mlf_sdk.pipeline.request import Request
from mlf_sdk.sweep import proof
from mlf_sdk.sweep.events import Event, Finished
from mlf_sdk.sweep.expand import Expansion
from mlf_sdk.sweep.job import Job, JobResult
from mlf_sdk.sweep.plan import BOARD
from mlf_sdk.sweep.proof import Proof, proof_request
from sweep_jobs import empty, expansion, specs

CELLS = specs(6)
REFUSED = CELLS[1].name


class InOrder:
    """Executor that runs one job after another, and is interrupted after some."""

    def __init__(self, interrupted_after: int | None = None) -> None:
        self.runs: Counter[str] = Counter()
        self.left = interrupted_after
        self._job: Job | None = None

    def has_room(self, resources: Collection[str], running: int) -> bool:
        return self._job is None

    def lacking(self, resources: Collection[str]) -> list[str]:
        return []

    def submit(self, job: Job) -> None:
        self._job = job

    def cancel(self, name: str) -> None:
        raise AssertionError("nothing is cancelled")

    def events(self, timeout_s: float) -> list[Event]:
        if self._job is None:
            return []
        if self.left == sum(self.runs.values()):
            raise KeyboardInterrupt
        job, self._job = self._job, None
        self.runs[job.spec.name] += 1
        return [Finished(result=result_of(job))]


def planned() -> Expansion:
    found = expansion(CELLS)
    cells = [replace(cell, labels=cell.labels | {BOARD: "microbit"}) for cell in found.cells]
    return replace(found, cells=tuple(cells))


def result_of(job: Job) -> JobResult:
    result = empty(job)
    outcome = NOT_HERE if job.spec.name == REFUSED else PROVEN
    return replace(result, cell=msgspec.structs.replace(result.cell, outcome=outcome))


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(proof, "expand", lambda plan, request: planned())
    monkeypatch.setattr(proof.Pipeline, "models", lambda self, request: ())
    return str(tmp_path / "a.tar")


def prove(archive: str, executor: InOrder, monkeypatch: pytest.MonkeyPatch, *, again: bool = False) -> Proof:
    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[InOrder]:
        yield executor

    monkeypatch.setattr(proof, "open_executor", opened)
    return proof_request(Request(source=(archive,)), ProofOptions(boards=("microbit",), again=again))


def test_a_proof_that_was_stopped_goes_on(archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = InOrder(interrupted_after=3)
    with pytest.raises(KeyboardInterrupt):
        prove(archive, first, monkeypatch)
    second = InOrder()
    found = prove(archive, second, monkeypatch)
    assert first.runs + second.runs == Counter(cell.name for cell in CELLS), "each cell is run once"
    assert found.count(NOT_HERE) == 1 and found.count(PROVEN) == 5


def test_a_whole_proof_repeats_what_it_could_not_prove(archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prove(archive, InOrder(), monkeypatch)
    for again, expected in ((False, [REFUSED]), (True, [cell.name for cell in CELLS])):
        executor = InOrder()
        prove(archive, executor, monkeypatch, again=again)
        assert executor.runs == Counter(expected)
