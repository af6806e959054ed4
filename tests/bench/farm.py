# SPDX-License-Identifier: Apache-2.0
"""A farm that is simulated in one process, in its own time: how busy it would be, and its bottleneck.

Engine and journal are the real ones; only the jobs are drawn: run times, deaths of workers, slow boards.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from mlf_sdk.judge.check import PROVEN
from mlf_sdk.pipeline.cell import Cell, Reference
from mlf_sdk.sweep.events import Died, Event, Finished, Started
from mlf_sdk.sweep.job import REFERENCE, Job, JobResult

WORKERS = "workers"


@dataclass(slots=True, eq=False)
class FarmWorker:
    """A worker of the farm.

    Attributes:
        resources: that it announces; a place is one of them.
        slowness: factor of its run times.
    """

    resources: frozenset[str]
    slowness: float = 1.0
    busy_s: float = 0.0
    job: Job | None = None
    up_at_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmReport:
    """Result of a simulation, in the farm's own time.

    Attributes:
        duration_s: until the last cell was finished.
        utilisation: share of the time in which workers ran a job that was finished or killed them.
        bottleneck: the resource that was busy for the largest share of the time; ``workers``: all of them.
        bottleneck_share: that share.
        deaths: of workers.
    """

    duration_s: float
    utilisation: float
    bottleneck: str
    bottleneck_share: float
    deaths: int


@dataclass(slots=True)
class Farm:
    """Executor whose workers are simulated.

    Args:
        workers: of the farm.
        seed: of the draws.
        mean_s: mean run time of a cell, drawn from a gamma distribution.
        death_rate: share of attempts that kill their worker.
        repair_s: until a dead worker is back.
    """

    workers: list[FarmWorker]
    seed: int = 0
    mean_s: float = 60.0
    death_rate: float = 0.0
    repair_s: float = 30.0
    now_s: float = 0.0
    deaths: int = 0
    _random: random.Random = field(init=False)
    _queue: list[tuple[float, int, FarmWorker, bool]] = field(default_factory=list)
    _busy: Counter[str] = field(default_factory=Counter)
    _begun: list[Event] = field(default_factory=list)
    _count: int = 0
    _last_s: float = 0.0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    # ---- Executor ----

    def has_room(self, resources: Collection[str], running: int) -> bool:
        """See Executor."""
        return self._idle(resources) is not None

    def lacking(self, resources: Collection[str]) -> list[str]:
        """See Executor."""
        return [name for name in resources if not any(name in worker.resources for worker in self.workers)]

    def submit(self, job: Job) -> None:
        """See Executor."""
        needed = self._needed(job)
        worker = self._idle(needed)
        if worker is None:
            raise LookupError(f"no idle worker has {needed}")
        seconds = self._random.gammavariate(4, self.mean_s / 4) * worker.slowness
        dies = self._random.random() < self.death_rate
        worker.job, worker.busy_s = job, worker.busy_s + seconds
        for name in needed:
            self._busy[name] += round(seconds * 1000)
        self._count += 1
        heapq.heappush(self._queue, (self.now_s + seconds, self._count, worker, dies))
        self._begun.append(Started(name=job.spec.name, worker="worker"))

    def events(self, timeout_s: float) -> list[Event]:
        """See Executor; the farm's time moves on to the next end of a job, or of a repair."""
        found, self._begun = self._begun, []
        if not self._queue:
            self.now_s += timeout_s
        while self._queue:
            self.now_s, _, worker, dies = heapq.heappop(self._queue)
            job, worker.job = worker.job, None
            if job is None:  # repaired
                worker.up_at_s = 0.0
                break
            self._last_s = self.now_s
            if dies:
                found.append(Died(name=job.spec.name, worker="worker"))
                self._repair(worker)
            else:
                found.append(Finished(result=_result(job)))
            break
        return found

    def cancel(self, name: str) -> None:
        """See Executor: what runs is left to end."""

    # ---- the farm ----

    def report(self) -> FarmReport:
        """Utilisation and bottleneck so far."""
        total_s = self._last_s or 1.0
        busy = sum(worker.busy_s for worker in self.workers) / (len(self.workers) * total_s)
        shares = {
            name: milliseconds / 1000 / (total_s * sum(name in worker.resources for worker in self.workers))
            for name, milliseconds in self._busy.items()
        }
        name, share = max(shares.items(), key=lambda one: one[1], default=(WORKERS, busy))
        if share <= busy * 1.02:  # no resource is scarcer than the workers are
            name, share = WORKERS, busy
        return FarmReport(
            duration_s=self._last_s,
            utilisation=busy,
            bottleneck=name,
            bottleneck_share=share,
            deaths=self.deaths,
        )

    def _repair(self, worker: FarmWorker) -> None:
        self.deaths += 1
        self._count += 1
        worker.up_at_s = self.now_s + self.repair_s
        heapq.heappush(self._queue, (worker.up_at_s, self._count, worker, False))

    def _idle(self, resources: Iterable[str]) -> FarmWorker | None:
        """An idle worker with all resources; one with few others, so that rare ones stay free."""
        needed = set(resources)
        free = [w for w in self.workers if w.job is None and not w.up_at_s and needed <= w.resources]
        return min(free, key=lambda worker: len(worker.resources), default=None)

    @staticmethod
    def _needed(job: Job) -> list[str]:
        return [*job.spec.resources, *([f"board {job.place}"] if job.place else [])]


def _result(job: Job) -> JobResult:
    cell = Cell(archive="", module=None, model="", board=job.place, outcome=PROVEN)
    is_cell = job.spec.kind != REFERENCE
    return JobResult(
        name=job.spec.name,
        kind=job.spec.kind,
        seconds=0.0,
        worker="worker",
        log="",
        cell=cell if is_cell else None,
        reference=None if is_cell else Reference(),
    )
