# SPDX-License-Identifier: Apache-2.0
"""Engine of sweeps: gives jobs to an executor in the plan's order, and journals all that happens."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mlf_sdk.pipeline.cell import Reference
from mlf_sdk.sweep.job import CELL, REFERENCE, Job, JobResult, Spec
from mlf_sdk.sweep.journal import MOST_DEATHS, Journal

_POLL_S = 0.5
_LOOK_S = 1.0  # between two looks for cells that another process cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A worker began a job."""

    name: str
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A job has a result."""

    result: JobResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """A worker died while it ran a job."""

    name: str
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A job ended without a result and without its fault, such as one that waited on a worker that died."""

    name: str


Event = Started | Finished | Died | Lost


class Executor(Protocol):
    """Processes that run jobs; events come in order for each job."""

    def has_room(self, resources: Collection[str], running: int) -> bool:
        """Return whether a job can be taken, where ``running`` jobs with these resources are under way."""

    def lacking(self, resources: Collection[str]) -> list[str]:
        """Resources that no worker has; none where each is somewhere but no worker has all: all of them."""

    def submit(self, job: Job) -> None:
        """Take a job."""

    def events(self, timeout_s: float) -> list[Event]:
        """Events since the last call; waits for the first one."""

    def cancel(self, name: str) -> None:
        """Drop a job; no event of it follows that must be heeded."""


class Watcher:
    """Receiver of what a sweep does; this one shows nothing."""

    def begin(self, total: int, done: int, titles: Mapping[str, str] | None = None) -> None:
        """State how many cells there are, and how many are finished; what people call the others, by name."""

    def started(self, name: str, worker: str) -> None:
        """Name a cell that a worker began."""

    def ended(self, name: str, result: JobResult | None, why: str = "") -> None:
        """Pass on a finished cell, or the reason why it has no result."""

    def say(self, what: str) -> None:
        """State an event that concerns no single cell."""


@dataclass(slots=True)
class _Lane:
    """Cells that need the same resources, in order."""

    waiting: deque[Spec] = field(default_factory=deque)
    running: int = 0


class Engine:
    """Runs the cells of a plan until all are finished, set aside, or can't be run.

    Args:
        journal: for everything that happens.
        executor: runs the jobs.
        references: jobs that give expected outputs, by name.
        watcher: called on progress.
        wait_s: for workers with a resource that none has yet.
    """

    def __init__(
        self,
        journal: Journal,
        executor: Executor,
        references: Mapping[str, Spec],
        watcher: Watcher,
        wait_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._journal, self._executor, self._watcher = journal, executor, watcher
        self._specs, self._wait_s, self._clock = references, wait_s, clock
        self._lanes: dict[tuple[str, ...], _Lane] = {}
        self._running: dict[str, tuple[Job, _Lane]] = {}
        self._busy_boards: set[str] = set()
        self._dead_boards = journal.boards_aside()
        self._lost_boards: dict[str, str] = {}  # whose coordinator is gone: for this run alone
        self._parked: dict[str, list[Spec]] = {}  # by the reference that they wait for
        self._found: dict[str, Reference] = {}
        self._deaths: Counter[str] = Counter()
        self._looked = self._moved = clock()

    def run(self, cells: Iterable[Spec]) -> dict[str, str]:
        """Run cells.

        Returns:
            Reasons, by name, why some of them were not run.
        """
        for spec in cells:
            self._lane(spec).waiting.append(spec)
        self._moved = self._clock()
        while True:
            for lane in list(self._lanes.values()):
                while lane.waiting and self._submit_next(lane):
                    pass
            waits = any(lane.waiting for lane in self._lanes.values())
            is_stuck = self._clock() - self._moved >= self._wait_s
            if not self._running and (not waits or is_stuck):
                return self._left()
            for event in self._executor.events(_POLL_S):
                self._moved = self._clock()
                self._handle(event)
            self._drop_cancelled()

    # ---- submission ----

    def _lane(self, spec: Spec) -> _Lane:
        return self._lanes.setdefault((*spec.resources, "|", *spec.places), _Lane())

    def _submit_next(self, lane: _Lane) -> bool:
        """Submit the first cell of a lane, or the reference that it waits for; False: it is not its turn."""
        spec = lane.waiting[0]
        place = self._free_board(spec)
        if spec.places and not place:
            return False
        reference = None
        if spec.reference:
            reference = self._reference(spec.reference)
            if reference is None:
                return self._park(lane, spec)
        resources = (*spec.resources, *([f"board {place}"] if place else []))
        if not self._executor.has_room(resources, lane.running):
            return False
        lane.waiting.popleft()
        self._submit(Job(spec=spec, place=place, reference=reference), lane)
        return True

    def _submit(self, job: Job, lane: _Lane) -> None:
        lane.running += 1
        self._running[job.spec.name] = job, lane
        if job.place:
            self._busy_boards.add(job.place)
        self._executor.submit(job)

    def _free_board(self, spec: Spec) -> str:
        taken = self._busy_boards | self._dead_boards.keys() | self._lost_boards.keys()
        return next((place for place in spec.places if place not in taken), "")

    def _reference(self, name: str) -> Reference | None:
        if name not in self._found:
            kept = self._journal.reference(name)
            if kept is None:
                return None
            self._found[name] = kept
        return self._found[name]

    def _park(self, lane: _Lane, spec: Spec) -> bool:
        """Take a cell out of its lane until its reference is there; False: that can't be run now."""
        if spec.reference not in self._parked:
            wanted = self._specs[spec.reference]
            own = self._lane(wanted)
            if not self._executor.has_room(wanted.resources, own.running):
                return False
            self._parked[spec.reference] = []
            self._submit(Job(spec=wanted), own)
        self._parked[spec.reference].append(lane.waiting.popleft())
        return True

    # ---- events ----

    def _handle(self, event: Event) -> None:
        name = event.result.name if isinstance(event, Finished) else event.name
        if name not in self._running:
            return
        if isinstance(event, Started):
            self._note_start(name, event.worker)
            return
        job, lane = self._running.pop(name)
        lane.running -= 1
        self._busy_boards.discard(job.place)
        if isinstance(event, Finished):
            self._finish(job, lane, event.result)
        elif isinstance(event, Died):
            self._die(job, lane, event.worker)
        else:
            self._again(job, lane, "lost", "")

    def _note_start(self, name: str, worker: str) -> None:
        job, _ = self._running[name]
        if job.spec.kind == CELL:
            self._journal.start(name, worker, job.place)
            self._watcher.started(name, worker)

    def _finish(self, job: Job, lane: _Lane, result: JobResult) -> None:
        if result.board_fault:
            self._journal.set_board_aside(job.place, result.board_fault)
            self._dead_boards[job.place] = result.board_fault
            self._watcher.say(f"{job.place} is set aside: {result.board_fault}")
            self._again(job, lane, "board", result.board_fault)
        elif result.lost:
            self._lost_boards[job.place] = result.lost
            self._watcher.say(f"{job.place} is not used until the sweep is resumed: {result.lost}")
            self._again(job, lane, "lost", result.lost)
        elif job.spec.kind == REFERENCE:
            found = result.reference or Reference()
            self._journal.put_reference(job.spec.name, found)
            self._found[job.spec.name] = found
            self._unpark(job.spec.name)
        elif self._journal.finish(result):
            self._watcher.ended(job.spec.name, result)

    def _unpark(self, name: str) -> None:
        for spec in reversed(self._parked.pop(name, [])):
            self._lane(spec).waiting.appendleft(spec)

    def _die(self, job: Job, lane: _Lane, worker: str) -> None:
        name = job.spec.name
        if job.spec.kind == CELL:
            if self._journal.died(name, worker):
                self._watcher.ended(name, None, f"set aside: it killed its worker {MOST_DEATHS} times")
            else:
                self._watcher.say(f"the worker {worker} died in {name}")
                lane.waiting.appendleft(job.spec)
            return
        self._deaths[name] += 1
        if self._deaths[name] < MOST_DEATHS:
            self._again(job, lane, "died", "")
            return
        why = f"its host twin killed its worker {MOST_DEATHS} times"
        parked = self._parked.pop(name, [])
        self._journal.set_aside([spec.name for spec in parked], why)
        for spec in parked:
            self._watcher.ended(spec.name, None, f"set aside: {why}")

    def _again(self, job: Job, lane: _Lane, outcome: str, note: str) -> None:
        if job.spec.kind == CELL:
            self._journal.give_back(job.spec.name, outcome, note)
            lane.waiting.appendleft(job.spec)
        else:  # the cells that wait for it ask for it again
            self._unpark(job.spec.name)

    def _drop_cancelled(self) -> None:
        if self._clock() - self._looked < _LOOK_S:
            return
        self._looked = self._clock()
        gone = self._journal.cancelled()
        if not gone:
            return
        for lane in self._lanes.values():
            lane.waiting = deque(spec for spec in lane.waiting if spec.name not in gone)
        for specs in self._parked.values():
            specs[:] = [spec for spec in specs if spec.name not in gone]
        for name in gone & self._running.keys():
            job, lane = self._running.pop(name)
            lane.running -= 1
            self._busy_boards.discard(job.place)
            self._executor.cancel(name)
            self._journal.end_attempt(name, "cancelled")
            self._watcher.ended(name, None, "cancelled")

    def _left(self) -> dict[str, str]:
        """Reasons why cells are still waiting."""
        reasons = {}
        for lane in self._lanes.values():
            for spec in lane.waiting:
                dead = [place for place in spec.places if place in self._dead_boards]
                lost = {
                    place: self._lost_boards[place] for place in spec.places if place in self._lost_boards
                }
                if lost and len(lost) + len(dead) == len(spec.places):
                    reasons[spec.name] = "; ".join(f"{place}: {why}" for place, why in lost.items())
                elif spec.places and len(dead) == len(spec.places):
                    reasons[spec.name] = f"its boards are set aside: {', '.join(dead)}"
                else:
                    wanted = self._specs[spec.reference].resources if spec.reference else ()
                    boards = (f"board {place}" for place in spec.places)
                    missing = self._executor.lacking(list(dict.fromkeys((*spec.resources, *wanted, *boards))))
                    reasons[spec.name] = f"no worker has: {', '.join(missing)}"
        return reasons
