# SPDX-License-Identifier: Apache-2.0
"""Executor on dask.distributed: a cluster on this machine, or the workers of a scheduler."""

from __future__ import annotations

import itertools
import logging
import queue
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, Nanny, Scheduler, SpecCluster
from distributed.comm import CommClosedError

from mlf_sdk.errors import ToolError
from mlf_sdk.sweep.describe import describe_machine
from mlf_sdk.sweep.events import Died, Event, Finished, Lost, Started, Waiting
from mlf_sdk.sweep.job import Job, Run, Setup, run_job
from mlf_sdk.sweep.travel import TOPIC, pack, run_remote, store_digest
from mlf_sdk.tools.files import scratch_folder

_CONNECT_S = 30.0
_RECONNECT_S = 120.0
_RESTART_S = 60.0
_SAY_S = 10.0  # between two words about a scheduler that is gone
_SPARE = 1  # jobs that wait at the workers, so that none is idle between two
_LOOK_S = 0.5
_CONFIG = {
    "distributed.admin.large-graph-warning-threshold": "4GB",  # inputs are meant to travel
    "distributed.comm.timeouts.connect": f"{_CONNECT_S:.0f}s",
    "distributed.scheduler.allowed-failures": 0,  # deaths are counted in the journal
    "distributed.scheduler.worker-saturation": 1.0,
}


class ClusterExecutor:
    """Jobs on the workers of a scheduler.

    Args:
        client: connected to the scheduler.
        setup: what each worker must know.
        run: runs a job.
        clock: in seconds.
        workers: that are started again when they die; 0: not known.
    """

    def __init__(
        self,
        client: Client,
        setup: Setup,
        run: Run = run_job,
        clock: Callable[[], float] = time.monotonic,
        workers: int = 0,
    ) -> None:
        self._expected, self._complete = workers, clock()
        self._client, self._setup, self._run, self._clock = client, setup, run, clock
        self._events: queue.Queue[Event] = queue.Queue()
        self._dead: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._numbers = itertools.count()
        self._tasks: dict[str, tuple[str, Future]] = {}  # key and future by the job's name
        self._at: dict[str, str] = {}  # worker by the job's name
        self._inputs: dict[str, Future] = {}
        self._workers: dict[str, tuple[int, Mapping[str, float]]] = {}
        self._looked = -_LOOK_S
        self._line = client.scheduler_comm  # another one: the connection was lost, with all tasks
        self._gone_since: float | None = None
        self._said_left_s: float | None = None
        self._subscribe()

    # ---- Executor ----

    def has_room(self, resources: Collection[str], running: int) -> bool:
        """See Executor."""
        if not self._is_connected():
            return False
        slots = 0
        for threads, has in self._known_workers().values():
            slots += int(min([threads, *(has.get(name, 0) for name in resources)]))
        return slots > 0 and running < slots + (
            0 if any(r.startswith("board ") for r in resources) else _SPARE
        )

    def lacking(self, resources: Collection[str]) -> list[str]:
        """See Executor."""
        known = [has for _, has in self._known_workers().values()]
        return [name for name in resources if not any(has.get(name) for has in known)] or list(resources)

    def submit(self, job: Job) -> None:
        """See Executor."""
        name = job.spec.name
        key = f"mlf-{job.spec.kind}-{name}-{next(self._numbers)}"
        inputs = {path: self._input(path, digest) for path, digest in job.spec.files.items()}
        needed = (*job.spec.resources, *([f"board {job.place}"] if job.place else []))
        future = self._client.submit(
            run_remote,
            job,
            self._setup,
            inputs,
            self._run,
            key=key,
            resources=dict.fromkeys(needed, 1),
            pure=False,
            retries=0,
        )
        self._tasks[name] = key, future
        future.add_done_callback(lambda done: self._done(name, key, done))

    def events(self, timeout_s: float) -> list[Event]:
        """See Executor."""
        result: list[Event] = []
        try:
            result.append(self._events.get(timeout=timeout_s))
            while True:
                result.append(self._events.get_nowait())
        except queue.Empty:
            pass
        while not self._dead.empty():
            self._dead.get().cancel()
        self._check_scheduler()
        if not result and self._is_restarting():
            result.append(Waiting(what="waiting for a worker that is started again"))
        return result

    def cancel(self, name: str) -> None:
        """See Executor."""
        _, future = self._tasks.pop(name, ("", None))
        self._at.pop(name, None)
        if future is not None:
            future.cancel()

    def close(self) -> None:
        """Hear of nothing any more."""
        with suppress(Exception):
            for topic in (TOPIC, "all"):
                self._client.unsubscribe_topic(topic)

    # ---- inputs ----

    def _input(self, path: str, digest: str) -> Future:
        """The content of an input at the workers: it travels once, and is sent again where it was lost."""
        result = self._inputs.get(digest)
        if result is None or result.status not in ("pending", "finished"):
            key = f"mlf-input-{digest}-{next(self._numbers)}"  # the client never sends a key twice
            result = self._inputs[digest] = self._client.submit(
                store_digest, digest, pack(path), key=key, pure=False
            )
        return result

    # ---- what the cluster says ----

    def _subscribe(self) -> None:
        self._client.subscribe_topic(TOPIC, self._on_start)
        self._client.subscribe_topic("all", self._on_change)

    def _on_start(self, event: tuple[float, Mapping[str, Any]]) -> None:
        _, said = event
        name, worker = said.get("name", ""), said.get("worker", "")
        if name in self._tasks and said.get("key", self._tasks[name][0]) == self._tasks[name][0]:
            self._at[name] = worker
            self._events.put(Started(name=name, worker=said.get("process", worker)))

    def _on_change(self, event: tuple[float, Mapping[str, Any]]) -> None:
        _, said = event
        if said.get("action") != "remove-worker" or said.get("expected"):
            return
        worker = said.get("worker", "")
        for name in [name for name, at in self._at.items() if at == worker]:
            self._at.pop(name, None)
            task = self._tasks.pop(name, None)
            if task is not None:
                self._events.put(Died(name=name, worker=worker))
                self._dead.put(task[1])  # this is dask's own thread, which can't cancel it

    def _done(self, name: str, key: str, future: Future) -> None:
        if self._tasks.get(name, ("",))[0] != key:
            return  # it was cancelled, or its worker's death was reported already
        if future.status == "cancelled" and not self._is_connected():
            return  # `_check_scheduler` reports it
        self._tasks.pop(name, None)
        worker = self._at.pop(name, "")
        if future.status == "finished":
            self._events.put(_finished(name, future))
            return
        error = future.exception() if future.status == "error" else None
        if isinstance(error, KilledWorker) and worker:
            self._events.put(Died(name=name, worker=worker))
        elif isinstance(error, KilledWorker):
            self._events.put(Lost(name=name, why="the worker died where it waited"))
        else:
            why = "its task, or an input of it, was cancelled"
            self._events.put(
                Lost(name=name, why=why if error is None else f"{type(error).__name__}: {error}")
            )

    def _known_workers(self) -> Mapping[str, tuple[int, Mapping[str, float]]]:
        now = self._clock()
        if now - self._looked >= _LOOK_S:
            self._looked = now
            if self._client.status == "running":
                workers = self._client.scheduler_info(n_workers=-1)["workers"]
                self._workers = {
                    address: (one["nthreads"], one.get("resources", {})) for address, one in workers.items()
                }
        return self._workers

    def _is_restarting(self) -> bool:
        """Return whether a worker is missing that is started again, and not for too long."""
        now = self._clock()
        if len(self._known_workers()) >= self._expected:
            self._complete = now
        return self._complete < now < self._complete + _RESTART_S

    def _is_connected(self) -> bool:
        """Return whether the scheduler is the one that has the tasks."""
        return self._client.status == "running" and self._client.scheduler_comm is self._line

    def _check_scheduler(self) -> None:
        """Say that a scheduler is gone; once it is back, report the jobs that it had as lost.

        Raises:
            ToolError: it does not come back.
        """
        if self._is_connected():
            return
        now = self._clock()
        if self._client.status != "running":
            since = self._gone_since = now if self._gone_since is None else self._gone_since
            if self._client.status != "connecting" or now - since > _RECONNECT_S:
                raise ToolError(
                    "the scheduler is gone",
                    where=str(self._client.scheduler and self._client.scheduler.address),
                    hint="Start it again, then go on with: mlf-sdk sweep --resume -o FOLDER.",
                )
            left_s = _RECONNECT_S - (now - since) // _SAY_S * _SAY_S
            if left_s != self._said_left_s:
                self._said_left_s = left_s
                self._events.put(Waiting(what=f"the scheduler is gone: waiting {left_s:.0f} s for it"))
            return
        self._gone_since, self._said_left_s, self._line = None, None, self._client.scheduler_comm
        self._inputs.clear()
        self._at.clear()
        for name in list(self._tasks):
            self._tasks.pop(name)
            self._events.put(Lost(name=name, why="the scheduler that had it was lost", is_counted=False))
        self._subscribe()


def _finished(name: str, future: Future) -> Finished | Lost:
    try:
        return Finished(result=future.result())
    except Exception as error:
        return Lost(name=name, why=f"its result was lost with its worker: {error}")


@contextmanager
def open_cluster(
    jobs: int, scheduler: str | None, boards: tuple[str, ...], run: Run = run_job
) -> Iterator[ClusterExecutor]:
    """Connect to a scheduler, or start a cluster on this machine that ends with the block.

    Args:
        jobs: processes of the cluster on this machine.
        scheduler: address; None: a cluster on this machine, on the loopback interface alone.
        boards: places that workers of this machine hold.
        run: runs a job.

    Raises:
        ToolError: the scheduler does not answer.
    """
    setup = Setup.of_this_process()
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)  # what matters is reported as events
    with dask.config.set(_CONFIG):
        if scheduler is None:
            with (
                scratch_folder("mlf-sweep-") as scratch,
                local_cluster(jobs, boards, str(scratch)) as cluster,
                Client(cluster, timeout=_CONNECT_S, set_as_default=False) as client,
            ):
                client.wait_for_workers(1, timeout=_RECONNECT_S)
                with closing(ClusterExecutor(client, setup, run, workers=jobs)) as executor:
                    yield executor
            return
        try:
            client = _connect(scheduler)
        except (OSError, ValueError) as error:
            raise ToolError(
                f"no scheduler answers: {error}", where=scheduler, hint="Start one: dask scheduler."
            ) from error
        client._timeout = _RECONNECT_S
        with client, closing(ClusterExecutor(client, setup, run)) as executor:
            yield executor


def _connect(scheduler: str) -> Client:
    """A client of a scheduler; one that ends while it answers may have a successor at its address."""
    end = time.monotonic() + _CONNECT_S
    while True:
        try:
            return Client(scheduler, timeout=_CONNECT_S, set_as_default=False)
        except CommClosedError:
            if time.monotonic() > end:
                raise
            time.sleep(_LOOK_S)


@contextmanager
def local_cluster(jobs: int, boards: tuple[str, ...], scratch: str) -> Iterator[SpecCluster]:
    """Run a cluster of processes on this machine; each board belongs to one of them."""
    workers = {}
    for number in range(jobs):
        resources = describe_machine(boards[number::jobs])
        options = {
            "nthreads": 1,
            "resources": resources,
            "local_directory": scratch,
            "memory_limit": 0,
            "dashboard": False,
            "host": "127.0.0.1",
            "silence_logs": "ERROR",
            "env": {"TMPDIR": scratch},
        }
        workers[number] = {"cls": Nanny, "options": options}
    scheduler = {
        "cls": Scheduler,
        "options": {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": ":0"},
    }
    with SpecCluster(
        workers=workers, scheduler=scheduler, silence_logs="CRITICAL", name="mlf-sweep"
    ) as result:
        yield result
