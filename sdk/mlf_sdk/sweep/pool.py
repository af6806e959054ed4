# SPDX-License-Identifier: Apache-2.0
"""Executor of processes on this machine, without a cluster: enough for a few cells."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from mlf_sdk.sweep.events import Died, Event, Finished, Started
from mlf_sdk.sweep.job import Job, JobResult, Run, Setup, run_job


@dataclass(slots=True)
class _Slot:
    """A process, the connection to it, and the job that it runs; empty: none."""

    process: SpawnProcess
    line: Connection
    name: str = ""


class PoolExecutor:
    """Processes of one job each; one that dies is replaced, and its job is known.

    Args:
        processes: jobs at once.
        setup: what each process must know.
        run: runs a job.
    """

    def __init__(self, processes: int, setup: Setup, run: Run = run_job) -> None:
        self._setup, self._run, self._context = setup, run, get_context("spawn")
        self._begun: list[Event] = []
        self._slots = [self._start() for _ in range(processes)]

    def __enter__(self) -> PoolExecutor:
        """Use it in a with block."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes, in the middle of a job as well."""
        for slot in self._slots:
            _end(slot)

    def has_room(self, resources: Collection[str], running: int) -> bool:
        """See Executor: this machine has what the plan was made with."""
        del resources, running
        return any(not slot.name for slot in self._slots)

    def lacking(self, resources: Collection[str]) -> list[str]:
        """See Executor."""
        del resources
        return []

    def submit(self, job: Job) -> None:
        """See Executor."""
        slot = next(slot for slot in self._slots if not slot.name)
        slot.name = job.spec.name
        with suppress(OSError):  # it died while it was idle: `events` replaces it
            slot.line.send(job)
        self._begun.append(Started(name=slot.name, worker=f"process {slot.process.pid}"))

    def events(self, timeout_s: float) -> list[Event]:
        """See Executor."""
        results, self._begun = self._begun, []
        busy = {slot.line: slot for slot in self._slots if slot.name}
        for line in wait(list(busy), 0.0 if results else timeout_s):
            slot = busy[line]  # type: ignore[index]  # one of those that were given
            name, slot.name = slot.name, ""
            try:
                result: JobResult = slot.line.recv()
                results.append(Finished(result=result))
            except (EOFError, OSError):
                results.append(Died(name=name, worker=f"process {slot.process.pid}"))
                self._replace(slot)
        return results

    def cancel(self, name: str) -> None:
        """See Executor."""
        for slot in self._slots:
            if slot.name == name:
                self._replace(slot)

    def _start(self) -> _Slot:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._setup, self._run), daemon=True)
        process.start()
        theirs.close()
        return _Slot(process, ours)

    def _replace(self, slot: _Slot) -> None:
        _end(slot)
        new = self._start()
        slot.process, slot.line, slot.name = new.process, new.line, ""


def _end(slot: _Slot) -> None:
    slot.process.kill()
    slot.process.join()
    slot.line.close()


def _work(line: Connection, setup: Setup, run: Run) -> None:
    """Run jobs as they come, until the first process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    setup.adopt()
    while True:
        try:
            line.send(run(line.recv()))
        except (EOFError, OSError):
            return


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)
