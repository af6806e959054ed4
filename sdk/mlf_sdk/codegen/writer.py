# SPDX-License-Identifier: Apache-2.0
"""The one place that writes a project: all of it or nothing, keeping what the user edited."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from mlf_sdk.errors import InputError

LOCK_NAME = "mlf-project.json"
USER_FILES = frozenset({"src/main.c", "prj.conf"})  # written once
OWNED_FOLDERS = ("board", "crt", "model", "zephyr")  # replaced as a whole
KEPT_FOLDERS = ("build",)
_AT_FDCWD = -100  # from the working directory, linux/fcntl.h
_RENAME_EXCHANGE = 2  # linux/fs.h


def write_project(files: Mapping[str, bytes], folder: Path) -> tuple[str, ...]:
    """Write ``files`` (relative path -> content) into ``folder``.

    The project is first written beside ``folder`` and then moved into place, so that a process that
    is killed leaves either the old project or the new one. Files in ``USER_FILES`` that exist are kept,
    and so is everything that the SDK never writes. A file whose content does not change keeps its time.

    Returns:
        The user's files that were kept although the new project would differ.

    Raises:
        InputError: ``folder`` holds something that is not a generated project, or can't be written.
    """
    for path in files:
        _check_path(path)
    _check_folder(folder)
    folder = Path(os.path.normpath(folder.absolute()))  # "." has a name and a parent, too
    try:
        kept = tuple(sorted(p for p in USER_FILES & files.keys() if _differs(folder / p, files[p])))
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder)
        prefix = f"{_stage_prefix(folder)}{os.getpid()}-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as temporary:
            staged = Path(temporary) / "new"
            _stage(files, folder, staged)
            _swap(staged, folder)
    except OSError as error:
        raise InputError(
            f"can't write the project: {error.strerror or error}",
            where=str(error.filename or folder),
            hint="Give a folder that can be written, with -o.",
        ) from error
    return kept


def _check_path(path: str) -> None:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\\" in path or not pure.parts:
        raise InputError("a generated path leaves the project", where=path)


def _check_folder(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(
            "the output exists and is no folder", where=str(folder), hint="Give another folder with -o."
        )
    if folder.is_dir() and any(folder.iterdir()) and not (folder / LOCK_NAME).is_file():
        raise InputError(
            f"the folder is not empty and holds no generated project ({LOCK_NAME})",
            where=str(folder),
            hint="Give a new folder with -o; nothing was written.",
        )


def _differs(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() != content


def _stage(files: Mapping[str, bytes], folder: Path, staged: Path) -> None:
    """The new project in ``staged``: unchanged and user's files are taken over with their times."""
    for path, content in files.items():
        target, current = staged / path, folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        keep = current.is_file() and (path in USER_FILES or current.read_bytes() == content)
        if keep:
            shutil.copy2(current, target)
        else:
            target.write_bytes(content)
    if not folder.is_dir():
        return
    for entry in sorted(folder.iterdir()):
        if entry.name in OWNED_FOLDERS or entry.name in KEPT_FOLDERS or entry.name in files:
            continue
        _take_over(entry, staged / entry.name)


def _take_over(entry: Path, target: Path) -> None:
    """Copy what the SDK does not own (the user's own files and folders)."""
    if entry.is_dir() and not entry.is_symlink():
        target.mkdir(exist_ok=True)
        for child in sorted(entry.iterdir()):
            _take_over(child, target / child.name)
    elif not target.exists():
        shutil.copy2(entry, target, follow_symlinks=False)


def _swap(staged: Path, folder: Path) -> None:
    """Put ``staged`` in the place of ``folder`` in one step; build folders move along."""
    if not folder.exists():
        staged.rename(folder)
        return
    _exchange(staged, folder)
    for name in KEPT_FOLDERS:  # staged now holds the old project
        if (staged / name).is_dir():
            (staged / name).rename(folder / name)


def _exchange(first: Path, second: Path) -> None:
    """Exchange two folders: atomically where the system can, else by three renames."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is not None:
        done = renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
        if done == 0:
            return
    third = first.with_name("old")
    second.rename(third)
    first.rename(second)
    third.rename(first)


def _stage_prefix(folder: Path) -> str:
    return f".{folder.name}.mlf-"


def _remove_stale(folder: Path) -> None:
    """Remove what a killed process staged beside ``folder``."""
    for path in folder.parent.glob(f"{_stage_prefix(folder)}*"):
        pid = path.name.removeprefix(_stage_prefix(folder)).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(path, ignore_errors=True)
