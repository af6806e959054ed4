# SPDX-License-Identifier: Apache-2.0
"""Temporary folders whose owner is known: those of killed processes are removed by the next that starts."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

_OWNER = ".owner"  # locked by the owner as long as it lives, on whatever machine


@contextmanager
def scratch_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a folder that is removed at the end of the block, and remove those whose owners were killed.

    Args:
        prefix: of its name, of this use alone.
        parent: a folder that exists; None: that of temporary files.

    Raises:
        OSError: the folder can't be made.
    """
    above = parent or Path(tempfile.gettempdir())
    remove_abandoned(prefix, above)
    folder, lock = _owned(prefix, above)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def remove_abandoned(prefix: str, parent: Path) -> int:
    """Remove this user's folders whose owners are no more; those without an owner stay.

    Returns:
        Number of folders that were removed.
    """
    removed = 0
    for folder in parent.glob(f"{prefix}*"):
        if not _is_own_folder(folder) or not (folder / _OWNER).is_file():
            continue
        lock = FileLock(folder / _OWNER, timeout=0)
        try:
            lock.acquire()
        except (Timeout, OSError):  # it lives, or another process removes it
            continue
        try:
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
        finally:
            lock.release()
    return removed


def _owned(prefix: str, parent: Path) -> tuple[Path, FileLock]:
    """A new folder with the lock of its owner; one that was taken for abandoned meanwhile is made again."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = FileLock(folder / _OWNER)
        try:
            lock.acquire()
        except FileNotFoundError:
            continue
        if (folder / _OWNER).is_file():
            return folder, lock
        lock.release()


def _is_own_folder(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
