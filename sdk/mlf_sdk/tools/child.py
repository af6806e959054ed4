# SPDX-License-Identifier: Apache-2.0
"""Supervision of child processes: CPU affinity, waiting for the exit, signals to a process group."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path


def death_watch() -> tuple[str, ...]:
    """Command prefix by which the kernel kills the program when its parent dies; empty if unavailable."""
    setpriv = shutil.which("setpriv")
    if setpriv is None or Path(setpriv).resolve().name != "setpriv":
        return ()
    return (setpriv, "--pdeathsig", "KILL", "--")


@contextmanager
def affinity(cpus: Set[int] | None) -> Iterator[None]:
    """Set the CPU affinity of programs started in the block; the thread's own is restored afterwards."""
    if cpus is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def wait_exit(pid: int, deadline: float, meanwhile: Callable[[], None] | None = None) -> int | None:
    """Wait until the child has ended, without reaping it (its group id stays taken): its exit code."""
    pause_s = 0.0005
    while True:
        if meanwhile is not None:
            meanwhile()
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return None
        time.sleep(min(pause_s, left_s))
        pause_s = min(pause_s * 1.5, 0.02)


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to all processes of a group; good when none is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
