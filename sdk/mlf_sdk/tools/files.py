# SPDX-License-Identifier: Apache-2.0
"""Files that are read within a bound, and written whole or not at all; temporary folders."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mlf_sdk.errors import InputError, MlfError, ToolError

DISK_FULL = "No space left on device"
_FULL = {errno.ENOSPC, errno.EDQUOT}


def disk_full_error(where: str) -> ToolError:
    """Error of a full disk (or quota), with the command that frees what the SDK keeps."""
    hint = "Free space on that disk; mlf-sdk cache clean removes what earlier runs left."
    return ToolError("the disk is full", where=where, hint=hint)


def is_full(folder: Path, needed_bytes: int = 1 << 20) -> bool:
    """Return whether a folder's disk (or quota) lacks room, of which programs may fail without a word."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, needed_bytes)
    except OSError as error:
        return error.errno in _FULL
    return False


def write_error(error: OSError, what: str, *, where: str, hint: str) -> MlfError:
    """Error of a file that can't be written; a full disk is named."""
    if error.errno in _FULL:
        return disk_full_error(str(error.filename or where))
    return InputError(f"{what}: {error.strerror or error}", where=where, hint=hint)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are missing.

    Raises:
        InputError: it can't be made.
        ToolError: the disk is full.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(error, "can't make the folder", where=str(path), hint="Give another.") from error


def file_text(path: Path) -> str:
    """Text of a file, with replacement of what is not UTF-8; empty: it can't be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def read_error(error: OSError, where: str, hint: str = "") -> InputError:
    """Error of a file that can't be read."""
    return InputError(f"cannot be read: {(error.strerror or str(error)).lower()}", where=where, hint=hint)


def read_bounded(path: Path, most_bytes: int, where: str = "") -> bytes:
    """Content of a file of at most ``most_bytes``.

    Args:
        where: its name in an error; empty: the path.

    Raises:
        InputError: it can't be read, or is larger.
    """
    where = where or str(path)
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise read_error(error, where) from error
    if len(data) > most_bytes:
        raise InputError(f"the file has more than {most_bytes} bytes", where=where)
    return data


def write_whole(path: str | Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically; on failure the former file stays.

    A link is followed; a device or a pipe is written to.

    Raises:
        InputError: the file can't be written.
        ToolError: the disk is full.
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        try:
            part.write_bytes(content)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise write_error(
            error, "can't write the file", where=str(path), hint="Give another path."
        ) from error


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
    paths: list[Path] = []
    with suppress(OSError):  # it is not there, or can't be listed
        paths += parent.iterdir()
    for folder in paths:
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
        result = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(result.st_mode) and result.st_uid == os.getuid()
