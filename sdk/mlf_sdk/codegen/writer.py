# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of a project, without loss of the user's edits.

Three kinds of files lie in a project. Generated files are listed with their hashes in the manifest; one that
was changed since is not replaced unless forced, and then a copy is kept. `USER_FILES` are kept once edited.
Everything else belongs to the user and is never touched.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from mlf_sdk.codegen.changes import MANIFEST_NAME, Changes, compare, encode_manifest, read_manifest
from mlf_sdk.errors import InputError
from mlf_sdk.tools.files import remove_abandoned, scratch_folder, write_error

LOCK_NAME = "mlf-project.json"
BUILD_FOLDER = "build"  # moves along, is not copied
_AT_FDCWD = -100  # from the working directory, linux/fcntl.h
_RENAME_EXCHANGE = 2  # linux/fs.h


class ChangedFilesError(InputError):
    """Generated files were changed since, or files of the user are in their way.

    Attributes:
        paths: the files, relative to the project.
    """

    def __init__(self, folder: Path, paths: tuple[str, ...]) -> None:
        self.paths = paths
        count = "1 file was" if len(paths) == 1 else f"{len(paths)} files were"
        super().__init__(
            f"{count} changed since the project was generated: {', '.join(paths)}",
            where=str(folder),
            hint="Nothing was written. Move the changes to files that are yours (app.cmake, app.ld, src/, "
            "new ones), or replace these with --force, which keeps each as NAME.orig.",
        )


class WriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """Files that were not simply written, relative to the project.

    Attributes:
        kept: edited files of the user, from which a new project differs.
        backups: copies of changed files that were replaced.
    """

    kept: tuple[str, ...] = ()
    backups: tuple[str, ...] = ()


def write_project(
    files: Mapping[str, bytes],
    folder: Path,
    *,
    force: bool = False,
    user_files: frozenset[str] | None = None,
) -> WriteResult:
    """Write ``files`` (relative path -> content) and their manifest into ``folder``.

    The project is first written beside ``folder`` and then moved into place, so that a process that
    is killed leaves either the old project or the new one. A file that does not change keeps its time.

    Args:
        force: replace generated files that were changed; each is kept as ``NAME.orig``.
        user_files: files that are the user's, and kept, once edited; None: those of a project.

    Raises:
        ChangedFilesError: files were changed, and ``force`` is not set.
        InputError: ``folder`` holds something that is not a generated project, or can't be written.
        ToolError: the disk is full.
    """
    for path in files:
        _check_path(path)
    _check_folder(folder)
    folder = Path(os.path.normpath(folder.absolute()))  # "." has a name and a parent, too
    files = {**files, MANIFEST_NAME: encode_manifest(files)}
    try:
        changes = compare(files, folder, _recorded(folder, force=force), user_files)
        if changes.edited and not force:
            raise ChangedFilesError(folder, tuple(sorted(changes.edited)))
        result = WriteResult(kept=changes.kept, backups=tuple(sorted(changes.edited.values())))
        remove_abandoned(_stage_prefix(folder), folder.parent)
        if changes.is_empty:
            return result
        folder.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(_stage_prefix(folder), folder.parent) as temporary:
            staged = temporary / "new"
            _stage(changes, folder, staged)
            _swap(staged, folder)
    except OSError as error:
        raise write_error(
            error,
            "can't write the project",
            where=str(error.filename or folder),
            hint="Give a folder that can be written, with -o.",
        ) from error
    return result


def is_generated(folder: Path) -> bool:
    """Tell a generated project by its lock or its manifest; the user may have deleted one."""
    return any((folder / name).is_file() for name in (LOCK_NAME, MANIFEST_NAME))


def _check_path(path: str) -> None:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\\" in path or "\n" in path or not pure.parts:
        raise InputError("a generated path leaves the project", where=path)


def _check_folder(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(
            "the output exists and is no folder", where=str(folder), hint="Give another folder with -o."
        )
    if folder.is_dir() and any(folder.iterdir()) and not is_generated(folder):
        raise InputError(
            f"the folder is not empty and holds no generated project ({LOCK_NAME})",
            where=str(folder),
            hint="Give a new folder with -o; nothing was written.",
        )


def _recorded(folder: Path, *, force: bool) -> dict[str, str]:
    try:
        return read_manifest(folder)
    except InputError:
        if force:  # without it, every file that differs counts as edited
            return {}
        raise


def _stage(changes: Changes, folder: Path, staged: Path) -> None:
    """Make the new project in ``staged``; what is not written is taken over with its time."""
    staged.mkdir()
    for path, content in changes.written.items():
        target = staged / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    for path in _entries(folder, "", changes.edited):
        if path in changes.edited:
            _take_over(folder / path, staged / changes.edited[path])
        elif path not in changes.written and path not in changes.removed:
            _take_over(folder / path, staged / path)


def _entries(folder: Path, below: str, edited: Mapping[str, str]) -> Iterator[str]:
    """Relative paths of files, links, empty folders, and folders in ``edited``; not of the build folder."""
    for entry in sorted((folder / below).iterdir()) if folder.exists() else ():
        path = entry.relative_to(folder).as_posix()
        is_folder = entry.is_dir() and not entry.is_symlink()
        if entry.is_dir() and path == BUILD_FOLDER:
            continue
        if is_folder and path not in edited and any(entry.iterdir()):
            yield from _entries(folder, path, edited)
        else:
            yield path


def _take_over(entry: Path, target: Path) -> None:
    """Copy a file, a link as a link, or a whole folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if entry.is_dir() and not entry.is_symlink():
        shutil.copytree(entry, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(entry, target, follow_symlinks=False)


def _swap(staged: Path, folder: Path) -> None:
    """Put ``staged`` in the place of ``folder`` in one step; the build folder moves along."""
    if not folder.exists():
        staged.rename(folder)
        return
    _exchange(staged, folder)
    if (staged / BUILD_FOLDER).is_dir():  # staged now holds the old project
        (staged / BUILD_FOLDER).rename(folder / BUILD_FOLDER)


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
