# SPDX-License-Identifier: Apache-2.0
"""Manifest of a project's files, and comparison of one on disk with the one that is to be written."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mlf_sdk.errors import InputError


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between a project on disk and the new one; paths are relative.

    Attributes:
        written: new content, of files that are missing, differ or were edited.
        removed: files that are no longer generated.
        edited: what the user changed -> where it is kept.
        kept: files of the user that were edited and differ from those that were generated.
    """

    written: Mapping[str, bytes]
    removed: frozenset[str]
    edited: Mapping[str, str]
    kept: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Nothing has to be written."""
        return not (self.written or self.removed or self.edited)


def compare(
    files: Mapping[str, bytes],
    folder: Path,
    recorded: Mapping[str, str],
    user_files: frozenset[str] | None = None,
) -> Changes:
    """Compare ``files`` (relative path -> content) with ``folder``.

    Args:
        recorded: hash of each file that was generated into ``folder``.
        user_files: those that are the user's once edited; None: `USER_FILES`.
    """
    users = USER_FILES if user_files is None else user_files
    disk = _Disk(folder)
    written: dict[str, bytes] = {}
    removed, kept = [], []
    edited: set[str] = set()
    for path, content in files.items():
        obstacle = disk.obstacle(path)
        result = None if obstacle else disk.read(path)
        if result == content:
            continue
        is_edited = result is not None and path != MANIFEST_NAME and file_hash(result) != recorded.get(path)
        if path in users and (obstacle or is_edited):
            kept.append(path)
            continue
        written[path] = content
        if obstacle or is_edited:
            edited.add(obstacle or path)
    for path in recorded.keys() - files.keys() - users:
        obstacle = disk.obstacle(path)
        result = None if obstacle else disk.read(path)
        if obstacle or (result is not None and file_hash(result) != recorded[path]):
            edited.add(obstacle or path)
        elif result is not None:
            removed.append(path)
    return Changes(
        written=written,
        removed=frozenset(removed),
        edited={path: _backup_name(folder, path, files) for path in edited},
        kept=tuple(sorted(kept)),
    )


def _backup_name(folder: Path, path: str, files: Mapping[str, bytes]) -> str:
    name, count = f"{path}.orig", 1
    while name in files or os.path.lexists(folder / name):
        count += 1
        name = f"{path}.orig{count}"
    return name


class _Disk:
    """Files of a project on disk, by relative path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._obstacles = {"": ""}  # of folders

    def read(self, path: str) -> bytes | None:
        """Content of a file; None when there is none."""
        return (self._folder / path).read_bytes() if self._mode(path) is not None else None

    def obstacle(self, path: str) -> str:
        """Part of ``path`` that is a link, a file in place of a folder or a folder in place of a file."""
        above = self._above(path)
        mode = None if above else self._mode(path)
        return above if mode is None or stat.S_ISREG(mode) else path

    def _above(self, path: str) -> str:
        folder = path.rpartition("/")[0]
        if folder not in self._obstacles:
            above = self._above(folder)
            mode = None if above else self._mode(folder)
            self._obstacles[folder] = above if mode is None or stat.S_ISDIR(mode) else folder
        return self._obstacles[folder]

    def _mode(self, path: str) -> int | None:
        try:
            return os.lstat(f"{self._folder}/{path}").st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None


MANIFEST_NAME = "mlf-project.sha256"
USER_FILES = frozenset(  # the user's once edited
    {
        ".gdbinit",
        ".gitignore",
        ".vscode/cmake-kits.json",
        ".vscode/launch.json",
        ".vscode/tasks.json",
        "app.cmake",
        "app.ld",
        "prj.conf",
        "smp.conf",
        "src/main.c",
    }
)
_LINE = re.compile(r"([0-9a-f]{64})  ([^\n]+)\n")


def encode_manifest(files: Mapping[str, bytes]) -> bytes:
    """Hashes of ``files`` (relative path -> content), by path."""
    return "".join(f"{file_hash(files[path])}  {path}\n" for path in sorted(files)).encode()


def read_manifest(folder: Path) -> dict[str, str]:
    """Hash of each file that was generated into ``folder``; empty without a manifest.

    Raises:
        InputError: the manifest is damaged.
        OSError: it can't be read.
    """
    path = folder / MANIFEST_NAME
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return {}
    lines = [_LINE.fullmatch(line) for line in text.splitlines(keepends=True)]
    result = {line[2]: line[1] for line in lines if line}
    if len(result) != len(lines):
        raise InputError(
            "the list of generated files was changed",
            where=str(path),
            hint="Restore it, or delete it: every file that differs then counts as changed.",
        )
    return result


def edited_files(folder: Path) -> tuple[str, ...]:
    """Generated files that are not as they were generated, apart from the user's; by path.

    Raises:
        InputError: as `read_manifest`.
        OSError: one can't be read.
    """
    disk = _Disk(folder)
    written = {path: of for path, of in read_manifest(folder).items() if path not in USER_FILES}
    contents = {path: None if disk.obstacle(path) else disk.read(path) for path in written}
    return tuple(
        sorted(path for path, data in contents.items() if data is None or file_hash(data) != written[path])
    )


def file_hash(content: bytes) -> str:
    """SHA-256 of a file, hexadecimal."""
    return hashlib.sha256(content).hexdigest()
