# SPDX-License-Identifier: Apache-2.0
"""Programs that a killed worker left: every program carries its worker's mark in its environment."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

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
    found = content[start + len(MARK) + 1 :].split(b"\0", 1)[0].decode(errors="replace")
    return found if found.partition("-")[0].isdigit() else ""


def _identity(pid: int) -> str:
    """Process id and time of start, which no later process has; the id alone of one that is no more."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return str(pid)
    fields = text.rpartition(")")[2].split()
    return str(pid) if fields[0] == "Z" else f"{pid}-{fields[19]}"
