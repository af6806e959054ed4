# SPDX-License-Identifier: Apache-2.0
"""Engine of sweeps: gives jobs to an executor in the plan's order, and journals all that happens."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mlf_sdk.judge.check import FAILED
from mlf_sdk.pipeline.cell import Reference
from mlf_sdk.sweep.events import Died, Event, Executor, Finished, Started, Waiting, Watcher
from mlf_sdk.sweep.identity import SDK
from mlf_sdk.sweep.job import CELL, REFERENCE, Job, JobResult, Spec, ended_cell
from mlf_sdk.sweep.journal import LOST, MOST_DEATHS, Journal
from mlf_sdk.sweep.losses import MOST_LOSSES, Losses

_POLL_S = 0.5
_OTHER_SDK = " (a plan is for the SDK that made it: start it again for another)"
_LOOK_S = 1.0  # between two looks for cells that another process cancelled


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
        self._losses = Losses(clock)
        self._lost: dict[str, str] = {}  # reasons, by the cell's name
        self._said: set[str] = set()
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
            for spec in self._losses.due():
                self._moved = self._clock()
                self._lane(spec).waiting.appendleft(spec)
            for lane in list(self._lanes.values()):
                while lane.waiting and self._submit_next(lane):
                    pass
            waits = next((lane.waiting[0] for lane in self._lanes.values() if lane.waiting), None)
            is_stuck = self._clock() - self._moved >= self._wait_s
            if not self._running and not self._losses and (not waits or is_stuck):
                return self._lost | self._left()
            if waits and not self._running and not self._losses:
                self._say_once(f"waiting up to {self._wait_s:.0f} s: {self._reason(waits)}")
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
        if isinstance(event, Waiting):
            self._say_once(event.what)
            return
        name = event.result.name if isinstance(event, Finished) else event.name
        if name not in self._running:
            return
        self._said.clear()
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
        elif event.is_counted:
            self._lose(job, event.why)
        else:
            self._again(job, lane, "lost", event.why)

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
        elif result.board_lost:
            self._lost_boards[job.place] = result.board_lost
            self._watcher.say(f"{job.place} is not used until the sweep is resumed: {result.board_lost}")
            self._again(job, lane, "lost", result.board_lost)
        elif result.lost:
            self._lose(job, result.lost)
        elif job.spec.kind == REFERENCE:
            self._finish_reference(job.spec.name, result)
        elif self._journal.finish(result):
            self._watcher.ended(job.spec.name, result)

    def _finish_reference(self, name: str, result: JobResult) -> None:
        """Keep expected outputs; a fault, which a repetition may not show, is that of this run alone."""
        if result.reference is None:
            why = f"its host twin could not be run: {result.error}"
            for spec in self._parked.pop(name, []):
                cell = ended_cell(spec, why, FAILED)
                failed = replace(result, name=spec.name, kind=CELL, cell=cell, seconds=0.0)
                if self._journal.finish(failed):
                    self._watcher.ended(spec.name, failed)
            return
        if not result.reference.fault:
            self._journal.put_reference(name, result.reference)
        self._found[name] = result.reference
        self._unpark(name)

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

    def _lose(self, job: Job, why: str) -> None:
        """Try a job again after a while, or give it up until the sweep is resumed."""
        name = job.spec.name
        if job.spec.kind == CELL:
            specs = [job.spec]
            self._journal.give_back(name, "lost", why)
        else:
            specs = self._parked.pop(name, [])
        wait_s = self._losses.note(name)
        if wait_s is not None:
            self._watcher.say(f"{name} is lost, and tried again in {wait_s:g} s: {why}")
            self._losses.delay(specs, wait_s)
            return
        why = f"lost {MOST_LOSSES} times: {why}"
        self._journal.set_aside([spec.name for spec in specs], why, LOST)
        for spec in specs:
            self._lost[spec.name] = why
            self._watcher.ended(spec.name, None, why)

    def _say_once(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._watcher.say(what)

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
        self._losses.drop(gone)
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
        return {spec.name: self._reason(spec) for lane in self._lanes.values() for spec in lane.waiting}

    def _reason(self, spec: Spec) -> str:
        dead = [place for place in spec.places if place in self._dead_boards]
        lost = {place: self._lost_boards[place] for place in spec.places if place in self._lost_boards}
        if lost and len(lost) + len(dead) == len(spec.places):
            return "; ".join(f"{place}: {why}" for place, why in lost.items())
        if spec.places and len(dead) == len(spec.places):
            return f"its boards are set aside: {', '.join(dead)}"
        wanted = self._specs[spec.reference].resources if spec.reference else ()
        boards = (f"board {place}" for place in spec.places)
        missing = self._executor.lacking(list(dict.fromkeys((*spec.resources, *wanted, *boards))))
        older = [name for name in missing if name.startswith(f"{SDK}=")]
        return f"no worker has: {', '.join(missing)}" + (_OTHER_SDK if older else "")
