# SPDX-License-Identifier: Apache-2.0
"""Jobs that cost nothing, in place of builds and runs; workers import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from mlf_sdk.judge.check import PROVEN
from mlf_sdk.pipeline.cell import Cell, Reference
from mlf_sdk.sweep.expand import Expansion, PlannedCell
from mlf_sdk.sweep.job import REFERENCE, Job, JobResult, Spec, worker_name

LOG = "MLF_TEST_JOBS"  # folder in which `slow` notes its runs
DEADLY = "deadly"


def done(job: Job, **figures: object) -> JobResult:
    """A proven cell, or an empty reference."""
    cell = Cell(archive="a.tar", module=None, model="a", board="host", outcome=PROVEN, **figures)
    is_reference = job.spec.kind == REFERENCE
    return JobResult(
        name=job.spec.name,
        kind=job.spec.kind,
        seconds=0.0,
        worker=worker_name(),
        log="",
        cell=None if is_reference else cell,
        reference=Reference() if is_reference else None,
    )


def empty(job: Job, files: object = None) -> JobResult:
    """Nothing."""
    return done(job, flash_bytes=int(job.spec.name[:4], 16))


def slow(job: Job, files: object = None) -> JobResult:
    """A short sleep; the run is noted in the folder of the environment."""
    time.sleep(0.15)
    if folder := os.environ.get(LOG):
        with (Path(folder) / f"{os.getpid()}.txt").open("a") as log:
            log.write(f"{job.spec.name}\n")
    return empty(job)


def deadly(job: Job, files: object = None) -> JobResult:
    """The death of the worker, where the cell's options ask for it."""
    if job.spec.fields.get("module") == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return empty(job)


def specs(count: int, start: int = 0, **more: object) -> list[Spec]:
    """Cells without options."""
    return [
        Spec(name=f"{number * 2654435761 % 2**80:020x}", **more) for number in range(start, start + count)
    ]


def expansion(cells: list[Spec], references: tuple[Spec, ...] = ()) -> Expansion:
    """A plan of these cells, one axis."""
    planned = tuple(PlannedCell(spec=spec, labels={"model": str(at)}) for at, spec in enumerate(cells))
    axes = {"model": tuple(map(str, range(len(cells))))}
    return Expansion(axes=axes, cells=planned, references={one.name: one for one in references})
