# SPDX-License-Identifier: Apache-2.0
"""Locks between the processes of a user, held in files that the system unlocks when a process ends.

What a killed process left running is ended by the next one.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from mlf_sdk.errors import ToolError
from mlf_sdk.resources import cache_dir

CACHE_TIMEOUT_S = 60.0
_POLL_S = 0.05


def lock_folder() -> Path:
    """Folder of the lock files (``$XDG_CACHE_HOME/mlf-sdk/locks`` on Linux)."""
    return cache_dir("locks")


def lock_path(name: str) -> Path:
    """Return the path of the lock file of ``name``, in a folder that exists.

    Raises:
        ToolError: the folder can't be made.
    """
    where = lock_folder()
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(
            f"can't make the folder of locks: {error.strerror}",
            where=str(where),
            hint="Name a folder for the cache that can be written: XDG_CACHE_HOME=FOLDER.",
        ) from error
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()  # of a path in any encoding
    return where / f"{digest[:16]}.lock"


@contextmanager
def cache_in_use() -> Iterator[None]:
    """Keep what is in the cache as long as the block lasts: nothing of it is removed.

    Raises:
        ToolError: another process did not finish removing it, or the lock can't be made.
    """
    with shared(str(cache_dir()), CACHE_TIMEOUT_S):
        yield


@contextmanager
def shared(name: str, timeout_s: float) -> Iterator[None]:
    """Hold the lock of ``name`` together with others that hold it so; `exclusive` waits for all of them.

    Raises:
        ToolError: as `exclusive`.
    """
    file = _shared_file(name, time.monotonic() + timeout_s)
    if file is None:
        raise _late(name, timeout_s)
    try:
        yield
    finally:
        os.close(file)  # unlocks it


def _shared_file(name: str, deadline: float) -> int | None:
    """The open file of a lock that is held with others; None: it is late."""
    path = lock_path(name)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _lock_error(error, path) from error
    try:
        while True:
            if _try_shared(file):
                return file
            if time.monotonic() >= deadline:
                os.close(file)
                return None
            time.sleep(_POLL_S)
    except OSError as error:
        os.close(file)
        raise _lock_error(error, path) from error


def _try_shared(file: int, system: str = os.name) -> bool:
    """Lock an open file together with others; False: another one holds it alone."""
    if system == "nt":
        from mlf_sdk.tools.windowslocks import try_shared

        return try_shared(file)
    import fcntl  # other systems have none

    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    return False


def _lock_error(error: OSError, path: Path) -> ToolError:
    return ToolError(f"can't lock: {error.strerror}", where=str(path))


def _late(name: str, timeout_s: float) -> ToolError:
    return ToolError(
        f"another process has been working on it for {timeout_s:.0f} s",
        where=name,
        hint="Wait for it, or end it.",
    )


@contextmanager
def exclusive(name: str, timeout_s: float) -> Iterator[None]:
    """Hold the lock of ``name`` (a folder, or any resource that processes of this user share).

    A holder that was killed frees the lock at once, but its programs go on: a worker of a sweep ends them
    before it begins.

    Not reentrant: a second ``exclusive`` of the same name waits for the first, in this process as well.

    Raises:
        ToolError: another holder did not finish within ``timeout_s`` seconds, or the lock can't be made.
    """
    path = lock_path(name)
    lock = FileLock(path, timeout=timeout_s)
    try:
        lock.acquire()
    except Timeout:
        raise _late(name, timeout_s) from None
    except OSError as error:
        raise _lock_error(error, path) from error
    try:
        if MARK in os.environ:
            end_orphans()
        yield
    finally:
        lock.release()


MARK = "MLF_SDK_WORKER"
_PROC = Path("/proc")


def mark_children() -> None:
    """Mark programs that this process starts from now on as its own."""
    os.environ[MARK] = _identity(os.getpid())


def end_orphans() -> int:
    """Kill all programs of this user that carry the mark of a process that is no more (Linux only).

    Returns:
        Number of programs that were killed.
    """
    ended = 0
    own = os.getpid()
    for entry in _PROC.glob("[0-9]*"):
        owner = _owner(entry)
        if owner and int(entry.name) != own and owner != _identity(int(owner.partition("-")[0])):
            with suppress(OSError):
                os.kill(int(entry.name), signal.SIGKILL)
                ended += 1
    return ended


def _owner(entry: Path) -> str:
    """Mark of a process; empty: it has none, or belongs to another user."""
    try:
        content = (entry / "environ").read_bytes()
    except OSError:
        return ""
    start = content.find(f"{MARK}=".encode())
    if start < 0 or (start and content[start - 1] != 0):
        return ""
    result = content[start + len(MARK) + 1 :].split(b"\0", 1)[0].decode(errors="replace")
    return result if result.partition("-")[0].isdigit() else ""


def _identity(pid: int) -> str:
    """Process id and time of start, which no later process has; the id alone of one that is no more."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return str(pid)
    fields = text.rpartition(")")[2].split()
    return str(pid) if fields[0] == "Z" else f"{pid}-{fields[19]}"
