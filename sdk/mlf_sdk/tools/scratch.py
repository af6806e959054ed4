# SPDX-License-Identifier: Apache-2.0
"""Temporary folders whose owner is known: those of killed processes are removed by the next that starts."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
    folder, owner = _owned(prefix, above)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(owner)


def remove_abandoned(prefix: str, parent: Path) -> int:
    """Remove this user's folders whose owners are no more; what has no owner stays, unless it is empty.

    Returns:
        Number of folders that were removed.
    """
    removed = 0
    found: list[Path] = []
    with suppress(OSError):  # it is not there, or can't be listed
        found += parent.iterdir()
    for folder in found:
        if not folder.name.startswith(prefix) or not _is_own_folder(folder):
            continue
        owner = None
        with suppress(OSError):  # it can't be locked here, and stays
            owner = _lock(folder, os.O_RDWR | os.O_NOFOLLOW)
            if owner is None:
                folder.rmdir()  # its process was killed before it owned it
        if owner is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(owner)
            removed += 1
    return removed


def _owned(prefix: str, parent: Path) -> tuple[Path, int]:
    """A new folder with the open lock of its owner; one that was taken for abandoned is made again."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            owner = _lock(folder, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if owner is None:
            continue
        if os.fstat(owner).st_nlink:
            return folder, owner
        os.close(owner)


def _lock(folder: Path, flags: int) -> int | None:
    """The open file of a folder's owner, locked; None: another process has it, or it is not there.

    Raises:
        OSError: the system can't make or lock it.
    """
    try:
        file = os.open(folder / _OWNER, flags, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return file


def _is_own_folder(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
