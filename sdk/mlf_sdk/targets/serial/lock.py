# SPDX-License-Identifier: Apache-2.0
"""Exclusive lock of a serial port: one process at a time, identified to the others."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from types import TracebackType

import msgspec
from filelock import FileLock, Timeout

from mlf_sdk.errors import ToolError
from mlf_sdk.tools.files import write_whole
from mlf_sdk.tools.locks import lock_path
from mlf_sdk.wire.errors import PortBusyError


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Process id and command line of the process that holds a port."""

    pid: int
    command: str


class PortLock:
    """The lock of a port, held until `release` or the end of the process."""

    def __init__(self, lock: FileLock) -> None:
        self._lock = lock

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        self._lock.release()

    def __enter__(self) -> PortLock:
        """Return the lock itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock."""
        self.release()


def lock_port(name: str, *, folder: Path | None = None, command: str | None = None) -> PortLock:
    """Lock a port for this session.

    Args:
        name: the port; links to the same device are the same port.
        folder: folder of the lock files (default: the user's).
        command: command line to show to others (default: that of this process).

    Raises:
        PortBusyError: another process, or another session of this one, has the port.
        ToolError: the lock can't be made.
    """
    real = os.path.realpath(name) if name.startswith("/") else name.lower()
    path = lock_path(real, prefix="port-", folder=folder)
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise PortBusyError(name, _describe(_read_holder(path))) from None
    except OSError as error:
        raise ToolError(f"the port can't be locked: {error.strerror}", where=str(path)) from error
    said = command if command is not None else shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    write_whole(_holder_path(path), msgspec.json.encode(Holder(pid=os.getpid(), command=said)))
    return PortLock(lock)


def _holder_path(path: Path) -> Path:
    return path.with_suffix(".json")


def _read_holder(path: Path) -> Holder | None:
    try:
        return msgspec.json.decode(_holder_path(path).read_bytes(), type=Holder)
    except (OSError, msgspec.MsgspecError):  # not yet written
        return None


def _describe(holder: Holder | None) -> str:
    return "another process" if holder is None else f"process {holder.pid} ({holder.command})"
