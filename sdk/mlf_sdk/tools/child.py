# SPDX-License-Identifier: Apache-2.0
"""Supervision of child processes: CPU affinity, output, waiting for the exit, signals to a process group."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


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


_PIECE_BYTES = 65_536
_LONGEST_LINE = 8_192  # a longer one is passed on in pieces
_TAIL_LINES = 30
_TAIL_BYTES = 8_192  # what a message shows of an output


class Follower:
    """Follower of growing files: each call reads new data and reports each complete line.

    Args:
        streams: files that are written from their start on; their position is left alone.
        tell: takes a line without its end, decoded as UTF-8 with replacement.
    """

    def __init__(self, streams: Sequence[IO[bytes]], tell: Callable[[str], None]) -> None:
        self._streams = tuple(streams)
        self._tell = tell
        self._offsets = [0] * len(self._streams)
        self._rests = [b""] * len(self._streams)

    def __call__(self) -> None:
        """Report every line that is complete by now."""
        for index, stream in enumerate(self._streams):
            while data := os.pread(stream.fileno(), _PIECE_BYTES, self._offsets[index]):
                self._offsets[index] += len(data)
                *lines, rest = (self._rests[index] + data).split(b"\n")
                self._rests[index] = rest
                for line in lines:
                    self._say(line)
                if len(rest) > _LONGEST_LINE:
                    self._say(rest)
                    self._rests[index] = b""

    def finish(self) -> None:
        """Report all remaining text; the program has ended."""
        self()
        for index, rest in enumerate(self._rests):
            self._rests[index] = b""
            if rest:
                self._say(rest)

    def _say(self, line: bytes) -> None:
        self._tell(line.rstrip(b"\r").decode("utf-8", "replace"))


def read_end(stream: IO[bytes], limit: int) -> str:
    """The last ``limit`` bytes of a file that a program may still be writing to."""
    size = os.fstat(stream.fileno()).st_size
    data = os.pread(stream.fileno(), min(size, limit), max(0, size - limit))
    return data.decode("utf-8", "replace")


def last_lines(text: str) -> str:
    """The end of an output, short enough for a message."""
    return "\n".join(text[-_TAIL_BYTES:].splitlines()[-_TAIL_LINES:])
