# SPDX-License-Identifier: Apache-2.0
"""The connection to a scheduler of its own."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="dask.distributed is not installed (pip install 'mlf-sdk[sweep]')")

from mlf_sdk.sweep.cluster import local_cluster, open_cluster


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
