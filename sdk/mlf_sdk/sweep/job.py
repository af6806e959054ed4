# SPDX-License-Identifier: Apache-2.0
"""Jobs of a sweep: picklable requests that run in any process of any machine, and their results."""

from __future__ import annotations

import dataclasses
import os
import socket
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mlf_sdk.errors import InputError, MlfError, NotPossibleError, TargetError
from mlf_sdk.frontends.registry import Frontend, register_frontend, registered_frontends
from mlf_sdk.judge.check import FAILED
from mlf_sdk.pipeline.cell import NOT_HERE, Cell, CellJob, Reference, run_cell, run_reference
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.twin import Twin
from mlf_sdk.sweep.identity import digest_of
from mlf_sdk.sweep.places import CoordinatorLostError, board_fault, held
from mlf_sdk.targets.registry import register_target, registered_targets
from mlf_sdk.targets.target import Target
from mlf_sdk.tools.locks import end_orphans, mark_children

MAX_LOG_CHARS = 200_000
COORDINATOR_S = 300.0  # for a coordinator to answer again, and its exporters to come back
_CONNECTION_S = 30.0  # more than an attempt to connect takes
_AGAIN_S = 1.0
Files = Mapping[str, str]
REFERENCE, CELL = "reference", "cell"


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the plan states it, and as the journal keeps it.

    Attributes:
        name: hash of everything that decides its result.
        kind: `CELL`, or `REFERENCE`: outputs of the host twin, which several cells compare with.
        fields: options of the request that are not at their default.
        files: digests of the request's files, by path.
        resources: of which a worker must have one each.
        places: boards of which the cell holds one alone.
        reference: name of the job that gives its expected outputs; empty: there is none.
    """

    name: str
    kind: str = CELL
    fields: dict[str, Any] = {}
    files: dict[str, str] = {}
    resources: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    reference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt at a specification.

    Attributes:
        place: board that it holds; empty: an emulated one, or none.
        reference: expected outputs; None: a twin on the board gives them, or the request names a file.
    """

    spec: Spec
    place: str = ""
    reference: Reference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """Result of an attempt.

    Attributes:
        cell: of a cell; None where the board was at fault, or the attempt is lost.
        reference: of a reference; None where it could not be run.
        seconds: wall-clock time of the attempt.
        worker: host and process that ran it.
        log: of builds, target and errors; its end where it is long.
        error: why a reference could not be run: nothing is known of it; empty: it was.
        board_fault: why the place can't be used any longer; empty: it can.
        board_lost: why nothing can be said of the place: its coordinator did not come back; empty: it did.
        lost: why the attempt says nothing of the job: its inputs are not those that were planned with, or are
            not there; empty: it says something.
    """

    name: str
    kind: str
    seconds: float
    worker: str
    log: str
    cell: Cell | None = None
    reference: Reference | None = None
    error: str = ""
    board_fault: str = ""
    board_lost: str = ""
    lost: str = ""


class Run(Protocol):
    """Function that runs a job: `run_job`, or a test's stand-in; workers import it by its name."""

    def __call__(self, job: Job, files: Files | None = None) -> JobResult:
        """Run ``job``; see `run_job`."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Formats and targets that were registered in the process that plans, for those that work."""

    formats: tuple[Frontend, ...] = ()
    targets: tuple[type[Target], ...] = ()

    @classmethod
    def of_this_process(cls) -> Setup:
        """Everything that is registered here."""
        return cls(registered_frontends(), registered_targets())

    def adopt(self) -> None:
        """Register everything here that is missing."""
        known = {frontend.name for frontend in registered_frontends()}
        for frontend in self.formats:
            if frontend.name not in known:
                register_frontend(frontend)
        for target in self.targets:
            register_target(target)


def worker_name() -> str:
    """Name of this process for journals."""
    return f"{socket.gethostname()}:{os.getpid()}"


def run_job(job: Job, files: Files | None = None) -> JobResult:
    """Run a job; every error becomes part of its result.

    Args:
        job: the job.
        files: paths on this machine by those of the specification; those left out are the same here.
    """
    mark_children()
    end_orphans()
    start, log, here = time.monotonic(), _Log(), files or {}
    result = lost_result(job, _changed(job, here))
    if not result.lost:
        result = _attempt(job, here, log)
        if lost := _changed(job, here):  # whatever it found may be of other files
            result = lost_result(job, lost)
    return dataclasses.replace(result, seconds=time.monotonic() - start, log=log.text())


def lost_result(job: Job, why: str) -> JobResult:
    """Result of an attempt that says nothing of its job."""
    name, kind = job.spec.name, job.spec.kind
    return JobResult(name=name, kind=kind, seconds=0.0, worker=worker_name(), log="", lost=why)


def _attempt(job: Job, files: Mapping[str, str], log: _Log) -> JobResult:
    """Run a job on files that are there."""
    try:
        return dataclasses.replace(lost_result(job, ""), **_findings(job, files, log))
    except CoordinatorLostError as error:
        log.error(error)
        return dataclasses.replace(lost_result(job, ""), board_lost=str(error.what))
    except MlfError as error:
        log.error(error)
        outcome = NOT_HERE if isinstance(error, NotPossibleError) else FAILED
        return _ended(job, error.what.splitlines()[0], outcome)
    except Exception as error:
        log.log(traceback.format_exc())
        return _ended(job, f"mlf-sdk itself failed: {type(error).__name__}: {error}", FAILED)


def _findings(job: Job, files: Mapping[str, str], log: _Log) -> dict[str, Any]:
    """Fields of the result."""
    here = {name: _relocated(value, files) for name, value in job.spec.fields.items()}
    request = Request.from_json(msgspec.json.encode(here))
    if job.spec.kind == REFERENCE:
        return {"reference": run_reference(request)}
    if not job.place:
        return {"cell": _cell(job, request, log)}
    cell, fault = _on_place(job, request, log)
    return {"cell": cell, "board_fault": fault}


def _ended(job: Job, why: str, outcome: str) -> JobResult:
    """Result of a job that could not be run."""
    result = lost_result(job, "")
    if job.spec.kind == CELL:
        return dataclasses.replace(result, cell=ended_cell(job.spec, why, outcome))
    if outcome == NOT_HERE:
        return dataclasses.replace(result, reference=Reference())
    return dataclasses.replace(result, error=why)


def _changed(job: Job, files: Mapping[str, str]) -> str:
    """Reason why the files on this machine are not those that were planned with; empty: they are."""
    for path, digest in job.spec.files.items():
        try:
            if digest_of(files.get(path, path)) != digest:
                return f"{path}: it was changed since the sweep was planned"
        except InputError as error:
            return f"{path}: {error.what}"
    return ""


def _relocated(value: Any, files: Mapping[str, str]) -> Any:  # noqa: ANN401
    if isinstance(value, str):
        return files.get(value, value)
    return [_relocated(one, files) for one in value] if isinstance(value, list | tuple) else value


def _cell(job: Job, request: Request, log: _Log) -> Cell:
    reference = job.reference or Reference()
    twin = None if reference.outputs is None else Twin(reference.outputs, reference.evidence)
    if request.expect is None:
        request = request.replace(twin=twin is None)
    request = request.replace(strict=False)  # what is unproven becomes the outcome of the cell
    return run_cell(CellJob(request=request, twin=twin, fault=reference.fault), log)


def _on_place(job: Job, request: Request, log: _Log) -> tuple[Cell | None, str]:
    """The cell on a board that is held as long as it runs; None and the reason if the board is dead.

    A coordinator that is gone is waited for, and the cell runs again: that says nothing of the board.

    Raises:
        CoordinatorLostError: it does not come back.
    """
    deadline = 0.0
    while True:
        began = time.monotonic()
        log.errors.clear()
        try:
            return _on_held_place(job, request, log)
        except CoordinatorLostError as error:
            now = time.monotonic()
            if not deadline or now - began > _CONNECTION_S:  # it was there, for a while at least
                deadline = now + COORDINATOR_S
            if now >= deadline:
                raise
            log.log(f"waiting for the coordinator: {error}")
        time.sleep(_AGAIN_S)


def _on_held_place(job: Job, request: Request, log: _Log) -> tuple[Cell | None, str]:
    try:
        with held(job.place):
            cell = _cell(job, request.replace(board=job.place), log)
            for error in log.errors:
                if isinstance(error, CoordinatorLostError):
                    raise error
            if any(isinstance(error, TargetError) for error in log.errors):
                fault = board_fault(job.place)
                return (None, fault) if fault else (cell, "")
    except CoordinatorLostError:
        raise
    except TargetError as error:
        log.error(error)
        return None, str(error.what)
    return cell, ""


def ended_cell(spec: Spec, why: str, outcome: str) -> Cell:
    """Cell that could not be run."""
    fields = spec.fields
    source = Path(next(iter(fields.get("source", ("",)))))
    board = str(fields.get("board", ""))
    cell = Cell(archive=source.name, module=fields.get("module"), model="", board=board, outcome=outcome)
    return msgspec.structs.replace(cell, why=why)


class _Log(Progress):
    """Record of what a job did; its end is kept."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.errors: list[MlfError] = []

    def say(self, what: str) -> None:
        """See Progress."""
        self._lines.append(f"# {what}")

    def log(self, line: str) -> None:
        """See Progress."""
        self._lines.append(line)

    def error(self, error: MlfError) -> None:
        """See Progress."""
        self.errors.append(error)
        self._lines.append(f"error: {error}")

    def text(self) -> str:
        """All lines, or the last of many."""
        return "\n".join(self._lines)[-MAX_LOG_CHARS:]
