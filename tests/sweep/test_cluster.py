# SPDX-License-Identifier: Apache-2.0
"""The connection to a scheduler of its own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="dask.distributed is not installed (pip install 'mlf-sdk[sweep]')")

from distributed import Client, Future

from mlf_sdk.errors import ToolError
from mlf_sdk.sweep.cluster import ClusterExecutor, local_cluster, open_cluster
from mlf_sdk.sweep.engine import Engine
from mlf_sdk.sweep.events import Died, Lost, Started, Waiting, Watcher
from mlf_sdk.sweep.identity import digest_of
from mlf_sdk.sweep.job import Job, JobResult, Setup
from mlf_sdk.sweep.journal import Journal
from mlf_sdk.sweep.plan import Plan
from sweep_jobs import empty, expansion, specs


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _forward(line: socket.socket, scheduler: tuple[str, int]) -> None:
    with line, socket.create_connection(scheduler) as onward:
        back = threading.Thread(target=_copy, args=(onward, line))
        back.start()
        _copy(line, onward)
        back.join()


def _serve(
    listener: socket.socket, scheduler: tuple[str, int], refusals: int, ended: threading.Event
) -> None:
    """Close the first connections as a process does that is killed; forward all others to the scheduler."""
    listener.settimeout(0.1)
    lines = []
    while not ended.is_set():
        with suppress(TimeoutError):
            line, _ = listener.accept()
            line.settimeout(None)
            if refusals:
                refusals -= 1
                line.close()
                continue
            lines.append(threading.Thread(target=_forward, args=(line, scheduler)))
            lines[-1].start()
    for thread in lines:
        thread.join()


def test_a_scheduler_that_dies_while_it_is_connected_to_has_a_successor(tmp_path: Path) -> None:
    with (
        local_cluster(1, (), str(tmp_path)) as cluster,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        host, _, port = cluster.scheduler_address.removeprefix("tcp://").rpartition(":")
        ended = threading.Event()
        serving = threading.Thread(target=_serve, args=(listener, (host, int(port)), 2, ended))
        serving.start()
        try:
            with open_cluster(1, f"tcp://127.0.0.1:{listener.getsockname()[1]}", ()) as executor:
                assert executor.has_room((), 0)
        finally:
            ended.set()
            serving.join()


class Cancelling(Watcher):
    """Cancels the inputs at the scheduler, as another client may, when the first cell has ended.

    Args:
        address: of the scheduler.
        executor: whose inputs they are.
    """

    def __init__(self, address: str, executor: ClusterExecutor) -> None:
        self._address, self._executor = address, executor
        self.cancelled: list[Future] = []

    def ended(self, name: str, result: JobResult | None, why: str = "") -> None:
        if not self.cancelled:
            self.cancelled = list(self._executor._inputs.values())
            with Client(self._address, set_as_default=False) as other:
                other.cancel([Future(future.key, other) for future in self.cancelled], force=True)
            while self.cancelled[0].status != "cancelled":
                time.sleep(0.01)


def test_inputs_that_another_client_cancels_are_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each later cell was lost at once for a dead future, and tried again without end."""
    monkeypatch.setattr("mlf_sdk.sweep.losses.FIRST_WAIT_S", 0.01)
    source = tmp_path / "model.npz"
    source.write_bytes(bytes(64))
    cells = specs(4, files={str(source): digest_of(source)})
    with local_cluster(1, (), str(tmp_path)) as cluster, Journal(tmp_path / "s", create=True) as journal:
        number = journal.add_plan(Plan(name="test"), expansion(cells))
        with open_cluster(1, cluster.scheduler_address, (), empty) as executor:
            watcher = Cancelling(cluster.scheduler_address, executor)
            left = Engine(journal, executor, {}, watcher, wait_s=20.0).run(journal.pending(number))
            (found,) = executor._inputs.values()
        assert (left, dict(journal.counts(number))) == ({}, {"done": 4})
    assert [future.status for future in watcher.cancelled] == ["cancelled"]
    assert found.key != watcher.cancelled[0].key


class Connection:
    """A client of dask, whose connection the test breaks."""

    scheduler = None

    def __init__(self) -> None:
        self.status = "running"
        self.scheduler_comm = object()
        self.topics: list[str] = []
        self.workers: dict[str, dict[str, int]] = {}

    def scheduler_info(self, *, n_workers: int) -> dict[str, object]:
        return {"workers": self.workers}

    def subscribe_topic(self, topic: str, _: object) -> None:
        self.topics.append(topic)

    def submit(self, *_: object, **__: object) -> Future:
        return Cancelled()

    def break_off(self) -> None:
        self.status, self.scheduler_comm, self.topics = "connecting", None, []

    def connect(self) -> None:
        self.status, self.scheduler_comm = "running", object()


class Cancelled:
    """Future of a job, which dask cancels when the connection breaks."""

    status = "cancelled"
    threads: tuple[threading.Thread, ...] = ()

    def cancel(self) -> None:
        self.threads += (threading.current_thread(),)

    def add_done_callback(self, call: Callable[[Cancelled], None]) -> None:
        self.call = call


def test_a_scheduler_that_is_gone_is_said_and_its_jobs_are_lost_without_fault() -> None:
    client, clock = Connection(), [0.0]
    executor = ClusterExecutor(client, Setup(), empty, clock=lambda: clock[0])
    executor.submit(Job(spec=specs(1)[0]))
    future = executor._tasks[specs(1)[0].name][1]
    client.break_off()
    future.call(future)
    assert not executor.has_room((), 0), "nothing is sent into a broken line"
    said = []
    for clock[0] in (0.0, 4.0, 12.0):
        said += executor.events(0.0) + executor.events(0.0)
    assert [event.what for event in said] == [
        "the scheduler is gone: waiting 120 s for it",
        "the scheduler is gone: waiting 110 s for it",
    ]
    client.connect()
    executor.events(0.0)
    (lost,) = executor.events(0.0)
    assert isinstance(lost, Lost) and not lost.is_counted
    assert client.topics, "it hears of starts and deaths again"
    client.break_off()
    executor.events(0.0)
    clock[0] = 200.0
    with pytest.raises(ToolError, match="the scheduler is gone"):
        executor.events(0.0)


def test_a_scheduler_that_was_away_between_two_looks_is_noticed() -> None:
    client = Connection()
    executor = ClusterExecutor(client, Setup(), empty)
    executor.submit(Job(spec=specs(1)[0]))
    client.break_off()
    client.connect()
    executor.events(0.0)
    assert [event.name for event in executor.events(0.0)] == [specs(1)[0].name]


def test_the_task_of_a_dead_worker_is_cancelled_by_the_thread_that_can() -> None:
    """Dask's own thread, which hears of the death, would make a coroutine that is never awaited."""
    executor = ClusterExecutor(Connection(), Setup(), empty)
    (spec,) = specs(1)
    executor.submit(Job(spec=spec))
    future = executor._tasks[spec.name][1]
    executor._on_start((0.0, {"name": spec.name, "worker": "w"}))
    died = (0.0, {"action": "remove-worker", "worker": "w"})
    dasks = threading.Thread(target=executor._on_change, args=(died,))
    dasks.start()
    dasks.join()
    assert future.threads == ()
    found = executor.events(0.0)
    assert found == [Started(name=spec.name, worker="w"), Died(name=spec.name, worker="w")]
    assert future.threads == (threading.current_thread(),)


def test_a_worker_that_is_started_again_is_waited_for_and_said() -> None:
    client, clock = Connection(), [0.0]
    executor = ClusterExecutor(client, Setup(), empty, clock=lambda: clock[0], workers=1)
    client.workers = {"w": {"nthreads": 1}}
    clock[0] = 1.0
    assert executor.events(0.0) == []
    client.workers = {}
    clock[0] = 2.0
    assert [type(event) for event in executor.events(0.0)] == [Waiting]
    clock[0] = 100.0
    assert executor.events(0.0) == [], "it does not come back"
