# SPDX-License-Identifier: Apache-2.0
"""The engine on executors that lose workers, lack resources, and share boards; and on processes that are killed."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from mlf_sdk.pipeline.cell import Reference
from mlf_sdk.sweep.engine import Engine
from mlf_sdk.sweep.events import Died, Event, Executor, Finished, Lost, Started, Watcher
from mlf_sdk.sweep.job import REFERENCE, Job, JobResult, Setup, Spec, lost_result
from mlf_sdk.sweep.journal import Journal
from mlf_sdk.sweep.losses import FIRST_WAIT_S, MOST_LOSSES, Losses
from mlf_sdk.sweep.plan import Plan
from mlf_sdk.sweep.pool import PoolExecutor
from mlf_sdk.sweep.results import SweepResult, read_results
from sweep_jobs import DEADLY, deadly, empty, expansion, specs

GONE = "no labgrid coordinator answers"


class Faulty:
    """Executor in this process whose jobs end in any order, die and are lost, as a generator decides.

    Args:
        seed: of the generator.
        slots: jobs at once.
        has: resources; None: all.
    """

    def __init__(self, seed: int, slots: int = 7, has: Collection[str] | None = None) -> None:
        self._random, self._slots, self._has = random.Random(seed), slots, has
        self._jobs: dict[str, Job] = {}
        self.places: list[str] = []
        self.most_on_a_place = 0
        self.finished: Counter[str] = Counter()
        self.dead = self.lost = ""

    def has_room(self, resources: Collection[str], running: int) -> bool:
        known = self._has is None or set(resources) <= set(self._has)
        return known and len(self._jobs) < self._slots

    def lacking(self, resources: Collection[str]) -> list[str]:
        return [name for name in resources if name not in (self._has or ())]

    def submit(self, job: Job) -> None:
        assert job.spec.name not in self._jobs
        self._jobs[job.spec.name] = job
        if job.place:
            self.places.append(job.place)
            on = Counter(one.place for one in self._jobs.values() if one.place)
            self.most_on_a_place = max(self.most_on_a_place, *on.values())

    def cancel(self, name: str) -> None:
        del self._jobs[name]

    def events(self, timeout_s: float) -> list[Event]:
        found: list[Event] = []
        for name in self._random.sample(sorted(self._jobs), k=min(3, len(self._jobs))):
            job, chance = self._jobs.pop(name), self._random.random()
            if chance < 0.1:
                found.append(Lost(name=name, why="its worker died"))
                continue
            found.append(Started(name=name, worker="w"))
            if chance < 0.2:
                found.append(Died(name=name, worker="w"))
            elif job.place and job.place == self.dead:
                found.append(Finished(result=_on_a_dead_board(job)))
            elif job.place and job.place == self.lost:
                gone = dataclasses.replace(_on_a_dead_board(job), board_fault="", board_lost=GONE)
                found.append(Finished(result=gone))
            else:
                self.finished[name] += 1
                found += [Finished(result=empty(job))] * self._random.choice((1, 1, 2))
        return found


def test_a_board_whose_coordinator_is_gone_is_not_set_aside(tmp_path: Path) -> None:
    """Its cells are left for the next run, which says why; an equal board takes those that it can."""
    cells = specs(6, places=("labgrid:a", "labgrid:b")) + specs(3, start=50, places=("labgrid:a",))
    executor = Faulty(1)
    executor.lost = "labgrid:a"
    found = run(tmp_path, cells, executor)
    assert [row.verdict for row in found.rows] == ["proven"] * 6 + ["planned"] * 3
    assert found.rows[-1].why == f"labgrid:a: {GONE}"
    with Journal(tmp_path) as journal:
        assert journal.boards_aside() == {}
    executor.lost = ""
    assert [row.verdict for row in run(tmp_path, cells, executor).rows] == ["proven"] * 9


def _on_a_dead_board(job: Job) -> JobResult:
    return JobResult(
        name=job.spec.name,
        kind="cell",
        seconds=0,
        worker="w",
        log="",
        board_fault="its power can't be switched",
    )


class Saying(Watcher):
    """Watcher that keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, what: str) -> None:
        self.said.append(what)


def run(
    folder: Path,
    cells: list[Spec],
    executor: Executor,
    references: tuple[Spec, ...] = (),
    watcher: Watcher | None = None,
) -> SweepResult:
    watcher = watcher or Watcher()
    with Journal(folder, create=True) as journal:
        found = expansion(cells, references)
        number = journal.add_plan(Plan(name="test"), found)
        journal.recover()
        clock = itertools.count()
        engine = Engine(journal, executor, found.references, watcher, clock=lambda: float(next(clock)))
        return read_results(journal, number, engine.run(journal.pending(number)))


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_and_nothing_counted_twice(tmp_path: Path, seed: int) -> None:
    """Cells that wait for references, on workers of which every fifth dies or is lost."""
    references = tuple(specs(5, start=1000, kind=REFERENCE))
    cells = [
        spec for one in references for spec in specs(20, int(one.name[-3:], 16) * 50, reference=one.name)
    ]
    executor = Faulty(seed)
    found = run(tmp_path, cells, executor, references)
    verdicts = Counter(row.verdict for row in found.rows)
    assert verdicts["proven"] + verdicts["aside"] == 100
    assert verdicts["proven"] > 80
    done = {row.name for row in found.rows if row.verdict == "proven"}
    assert all(executor.finished[name] == 1 for name in done), "a finished cell is not run again"
    for row in found.rows:
        assert row.verdict == "proven" or "killed its worker 3 times" in row.why


def test_a_board_runs_one_cell_at_a_time_and_a_dead_one_is_set_aside(tmp_path: Path) -> None:
    cells = specs(12, places=("labgrid:a", "labgrid:b")) + specs(3, start=50, places=("labgrid:a",))
    executor = Faulty(1)
    executor.dead = "labgrid:a"
    found = run(tmp_path, cells, executor)
    assert executor.most_on_a_place == 1
    assert [row.verdict for row in found.rows[:12]] == ["proven"] * 12
    assert [row.verdict for row in found.rows[12:]] == ["planned"] * 3
    assert found.rows[-1].why == "its boards are set aside: labgrid:a"
    assert executor.places.count("labgrid:a") <= 4  # attempts that were lost or died before, and the last one
    assert not found.ok
    with Journal(tmp_path) as journal:
        assert journal.boards_aside() == {"labgrid:a": "its power can't be switched"}


def test_a_cell_that_no_worker_can_run(tmp_path: Path) -> None:
    cells = [*specs(3, resources=("cc=1",)), *specs(2, start=10, resources=("cc=1", "qemu=7"))]
    found = run(tmp_path, cells, Faulty(2, has=("cc=1",)))
    assert [row.verdict for row in found.rows] == ["proven"] * 3 + ["planned"] * 2
    assert found.rows[-1].why == "no worker has: qemu=7"


def test_a_cancelled_cell_is_dropped(tmp_path: Path) -> None:
    cells = specs(40)

    class Cancelling(Watcher):
        def started(self, name: str, worker: str) -> None:
            with Journal(tmp_path) as other:
                other.cancel([spec.name for spec in cells[30:]])

    with Journal(tmp_path, create=True) as journal:
        found = expansion(cells)
        number = journal.add_plan(Plan(name="test"), found)
        clock = iter(range(10_000))
        engine = Engine(journal, Faulty(3), {}, Cancelling(), clock=lambda: float(next(clock)))
        engine.run(journal.pending(number))
        assert dict(journal.counts(number)) == {"done": 30, "cancelled": 10}


def test_processes_that_die_are_replaced(tmp_path: Path) -> None:
    """One cell kills its process each time; the others are finished."""
    cells = [*specs(2), *specs(1, start=5, fields={"module": DEADLY}), *specs(3, start=10)]
    with Journal(tmp_path, create=True) as journal:
        number = journal.add_plan(Plan(name="test"), expansion(cells))
        with PoolExecutor(1, Setup(), deadly) as pool:
            Engine(journal, pool, {}, Watcher()).run(journal.pending(number))
        found = read_results(journal, number)
        deaths = [attempt.outcome for attempt in journal.attempts(cells[2].name)]
    assert [row.verdict for row in found.rows] == ["proven"] * 2 + ["aside"] + ["proven"] * 3
    assert deaths == ["died"] * 3


# ---- attempts that say nothing ----


class OneByOne:
    """Executor of one job at a time, whose events a function makes."""

    def __init__(self, make: Callable[[Job], Event]) -> None:
        self._make = make
        self._job: Job | None = None
        self.submitted: list[str] = []

    def has_room(self, resources: Collection[str], running: int) -> bool:
        return self._job is None

    def lacking(self, resources: Collection[str]) -> list[str]:
        return []

    def submit(self, job: Job) -> None:
        self._job = job
        self.submitted.append(job.spec.name)

    def cancel(self, name: str) -> None:
        self._job = None

    def events(self, timeout_s: float) -> list[Event]:
        job, self._job = self._job, None
        return [] if job is None else [self._make(job)]


def lost(job: Job) -> Event:
    return Lost(name=job.spec.name, why="its input was cancelled")


def without_input(job: Job) -> Event:
    return Finished(result=lost_result(job, "m.tflite: there is no such file"))


@pytest.mark.parametrize(("make", "why"), [(lost, "was cancelled"), (without_input, "no such file")])
def test_a_cell_that_is_lost_each_time_is_given_up_until_the_sweep_is_resumed(
    tmp_path: Path, make: Callable[[Job], Event], why: str
) -> None:
    """Attempts are bounded, and spaced; what happens is said, and nothing passes."""
    cell = specs(1)
    executor, watcher = OneByOne(make), Saying()
    found = run(tmp_path, cell, executor, watcher=watcher)
    assert executor.submitted == [cell[0].name] * MOST_LOSSES
    assert [line.partition(" in ")[2].partition(" s:")[0] for line in watcher.said] == [
        "0.5",
        "1",
        "2",
        "4",
        "8",
    ]
    assert all(why in line for line in watcher.said)
    (row,) = found.rows
    assert (row.verdict, found.ok) == ("lost", False)
    assert row.why.startswith(f"lost {MOST_LOSSES} times: ") and why in row.why
    again = run(tmp_path, cell, OneByOne(lambda job: Finished(result=empty(job))))
    assert [row.verdict for row in again.rows] == ["proven"], "the next run plans it again"


def test_lost_cells_are_planned_again_by_a_retry(tmp_path: Path) -> None:
    run(tmp_path, specs(2), OneByOne(lost))
    with Journal(tmp_path) as journal:
        assert journal.retry() == 2
        assert len(journal.pending(journal.last_plan() or 0)) == 2


def test_a_lost_attempt_waits_longer_each_time_while_others_go_on(tmp_path: Path) -> None:
    now = 0.0
    losses = Losses(lambda: now)
    first, second = specs(2)
    losses.delay([first], losses.note(first.name) or 0.0)
    losses.delay([second], losses.note(second.name) or 0.0)
    assert losses and list(losses.due()) == []
    losses.drop({second.name})
    now = FIRST_WAIT_S
    assert list(losses.due()) == [first] and not losses
    assert losses.note(first.name) == 2 * FIRST_WAIT_S
    assert losses.note(second.name) == 2 * FIRST_WAIT_S, "each job has its own count"


def test_a_scheduler_that_was_away_is_no_loss_of_the_cell(tmp_path: Path) -> None:
    away = 2 * MOST_LOSSES

    def often(job: Job) -> Event:
        nonlocal away
        away -= 1
        return Lost(name=job.spec.name, why="", is_counted=False) if away else Finished(result=empty(job))

    assert [row.verdict for row in run(tmp_path, specs(1), OneByOne(often)).rows] == ["proven"]


# ---- references ----


def with_reference(count: int) -> tuple[list[Spec], tuple[Spec, ...]]:
    reference = specs(1, start=1000, kind=REFERENCE)
    return specs(count, reference=reference[0].name), tuple(reference)


def test_a_reference_that_could_not_be_run_fails_its_cells_and_is_run_again(tmp_path: Path) -> None:
    """A full disk says nothing of the host twin: neither that there is none, nor that it faults."""
    cells, references = with_reference(3)

    def full(job: Job) -> Event:
        assert job.spec.kind == REFERENCE
        return Finished(result=dataclasses.replace(lost_result(job, ""), error="the disk is full"))

    found = run(tmp_path, cells, OneByOne(full), references)
    assert {row.verdict for row in found.rows} == {"failed"}
    assert {row.why for row in found.rows} == {"its host twin could not be run: the disk is full"}
    with Journal(tmp_path) as journal:
        assert journal.reference(references[0].name) is None
        assert journal.retry(outcomes=["failed"]) == 3
    found = run(tmp_path, cells, OneByOne(lambda job: Finished(result=empty(job))), references)
    assert {row.verdict for row in found.rows} == {"proven"}


def test_a_reference_that_is_lost_is_sent_again_and_given_up_with_its_cells(tmp_path: Path) -> None:
    cells, references = with_reference(3)
    executor = OneByOne(lost)
    found = run(tmp_path, cells, executor, references)
    assert executor.submitted == [references[0].name] * MOST_LOSSES
    assert {row.verdict for row in found.rows} == {"lost"}


def test_the_fault_of_a_host_twin_is_not_kept_for_the_next_run(tmp_path: Path) -> None:
    """A twin that was late on a busy machine would fail its cells for ever."""
    cells, references = with_reference(2)
    given: list[str] = []

    def late(job: Job) -> Event:
        if job.spec.kind == REFERENCE:
            return Finished(result=dataclasses.replace(empty(job), reference=Reference(fault="it was late")))
        given.append(job.reference.fault if job.reference else "")
        return Finished(result=empty(job))

    run(tmp_path, cells, OneByOne(late), references)
    assert given == ["it was late"] * 2
    with Journal(tmp_path) as journal:
        assert journal.reference(references[0].name) is None
