# SPDX-License-Identifier: Apache-2.0
"""Locks between the processes of a user, held in files that the system unlocks when a process ends."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from mlf_sdk.errors import ToolError
from mlf_sdk.resources import cache_dir
from mlf_sdk.tools.orphans import MARK, end_orphans


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
        raise ToolError(f"can't make the folder of locks: {error.strerror}", where=str(where)) from error
    return where / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"


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
        raise ToolError(
            f"another process has been working on it for {timeout_s:.0f} s",
            where=name,
            hint="Wait for it, or end it.",
        ) from None
    except OSError as error:
        raise ToolError(f"can't lock: {error.strerror}", where=str(path)) from error
    try:
        if MARK in os.environ:
            end_orphans()
        yield
    finally:
        lock.release()
