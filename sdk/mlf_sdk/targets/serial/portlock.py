# SPDX-License-Identifier: Apache-2.0
"""One process a port: a lock that says who holds it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec
import platformdirs

from mlf_sdk.errors import ToolError
from mlf_sdk.wire.errors import PortBusyError


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a port: process id and command line."""

    pid: int
    command: str


def lock_folder() -> Path:
    """Where the locks lie (``$XDG_CACHE_HOME/mlf-sdk/locks`` on Linux)."""
    return Path(platformdirs.user_cache_dir("mlf-sdk")) / "locks"


@dataclass(slots=True)
class PortLock:
    """A lock that is held; the system gives it back when this process ends, however it ends."""

    _file: IO[bytes]

    def release(self) -> None:
        """Give it back; twice is harmless."""
        if not self._file.closed:
            self._file.truncate(0)
            self._file.close()

    def __enter__(self) -> PortLock:
        """Use it in a with block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back."""
        self.release()


def lock_port(name: str, *, folder: Path | None = None, command: str | None = None) -> PortLock:
    """Take the lock of a port.

    Args:
        name: the port; links to the same device are the same port.
        folder: where locks lie.
        command: what to tell others; None: the command line of this process.

    Raises:
        PortBusyError: another process (or session of this one) has it; says which.
        ToolError: the folder can't be written.
    """
    real = os.path.realpath(name) if name.startswith("/") else name.lower()
    where = folder or lock_folder()
    path = where / f"port-{hashlib.sha256(real.encode()).hexdigest()[:16]}.lock"
    try:
        where.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b", buffering=0)
    except OSError as error:
        raise ToolError(f"the port can't be locked: {error.strerror}", where=str(path)) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _read_holder(file)
        file.close()
        raise PortBusyError(name, _who(holder)) from error
    said = command if command is not None else shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    file.truncate(0)
    file.write(msgspec.json.encode(Holder(pid=os.getpid(), command=said)))
    return PortLock(file)


def _read_holder(file: IO[bytes]) -> Holder | None:
    file.seek(0)
    try:
        return msgspec.json.decode(file.read(65536), type=Holder)
    except msgspec.MsgspecError:  # it is about to write it
        return None


def _who(holder: Holder | None) -> str:
    return "another process" if holder is None else f"process {holder.pid} ({holder.command})"
