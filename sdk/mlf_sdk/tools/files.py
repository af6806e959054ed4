# SPDX-License-Identifier: Apache-2.0
"""Files that are read within a bound, and written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
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
