# SPDX-License-Identifier: Apache-2.0
"""Safe intake: the allow-listed files of an archive in memory, or every reason why not.

Nothing is ever unpacked to disk, so a path in an archive can do no harm; bad ones are refused all
the same, because an archive that has them is broken or hostile.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.frontends.intake.bytestream import ArchiveStream
from mlf_sdk.frontends.intake.limits import DEFAULT_LIMITS, Limits, StopReadingError
from mlf_sdk.frontends.intake.tarstream import TarMember, TarReader
from mlf_sdk.tools.checks import BoundedFaults, shown
from mlf_sdk.tools.files import read_error

KEPT_FOLDERS: Final = frozenset(
    {"codegen", "executor-config", "runtime-config", "parameters", "src"},
)
KEPT_FILES: Final = frozenset({"metadata.json"})

WHOLE: Final = "(archive)"
"""Member of a fault that is about the archive as a whole."""

_DRIVE: Final = re.compile(r"[A-Za-z]:")
_SAFE_COMPONENT: Final = re.compile(r"[\w.+@=,](?:[\w.+@=, -]*[\w.+@=,-])?")


class ArchiveFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of an archive that matter.

    Attributes:
        source: the path it was read from, as given.
        sha256: hex; of the archive file's bytes, or for a folder of its kept files (see ``folder_hash``).
        files: content by name, without a leading ``./``, sorted by name.
        skipped: names of members that were looked at but not kept, e.g. TVM's own ``runtime/``.
    """

    source: str
    sha256: str
    files: Mapping[str, bytes]
    skipped: tuple[str, ...] = ()


class _Intake(msgspec.Struct, kw_only=True):
    """State of reading one archive: what is kept, what was seen, what is wrong."""

    limits: Limits
    faults: FaultCollector
    kept: Callable[[str], bool]
    files: dict[str, bytes] = msgspec.field(default_factory=dict)
    skipped: list[str] = msgspec.field(default_factory=list)
    files_seen: dict[str, str] = msgspec.field(default_factory=dict)
    folders: set[str] = msgspec.field(default_factory=set)
    count: int = 0
    total_bytes: int = 0

    def count_member(self) -> None:
        """Count one member; StopReadingError beyond the limit."""
        self.count += 1
        if self.count > self.limits.members:
            raise StopReadingError(f"more than {self.limits.members} members")

    def admit(self, raw: str, *, folder: bool) -> str:
        """Give the normal form of a member's name; empty when it is the root or must be passed over."""
        name = raw.rstrip("/") if folder else raw
        while name.startswith("./"):
            name = name[2:]
        if folder and name in ("", "."):
            return ""
        problem = path_problem(name, self.limits.path_chars, self.kept)
        problem = problem or self._collision(name, folder=folder)
        if problem is not None:
            self.faults.add(_printable(raw), problem)
            return ""
        return name

    def admit_size(self, name: str, size_bytes: int) -> None:
        """Take note of a file's size; StopReadingError beyond a limit."""
        if size_bytes > self.limits.file_bytes:
            raise StopReadingError(f"{size_bytes} bytes; at most {self.limits.file_bytes}", member=name)
        self.total_bytes += size_bytes
        if self.total_bytes > self.limits.total_bytes:
            raise StopReadingError(f"the members have more than {self.limits.total_bytes} bytes", member=name)

    def _collision(self, name: str, *, folder: bool) -> str | None:
        """Record a name; return the problem if it collides with an earlier one on some file system."""
        parts = _folded(name).split("/")
        key = "/".join(parts)
        above = {"/".join(parts[:end]) for end in range(1, len(parts))}
        self.folders |= above
        if not above.isdisjoint(self.files_seen) or (key in (self.files_seen if folder else self.folders)):
            return "is both a file and a folder"
        if folder:
            self.folders.add(key)
            return None
        other = self.files_seen.get(key)
        if other is None:
            self.files_seen[key] = name
            return None
        return "occurs twice" if other == name else f"differs only in case or accents from {shown(other)}"


def is_kept(name: str) -> bool:
    """Return whether the content of a member matters: on the allow-list and not hidden."""
    parts = name.split("/")
    if any(part.startswith(".") for part in parts):
        return False
    return name in KEPT_FILES or (len(parts) > 1 and parts[0] in KEPT_FOLDERS)


def path_problem(name: str, limit: int, kept: Callable[[str], bool] = is_kept) -> str | None:
    """Return the reason why ``name`` (without a leading ``./``) cannot be a member's path, or None."""
    parts = name.split("/")
    checks = (
        (len(name) > limit, f"a path of more than {limit} characters"),
        (not name.isprintable(), "a path with control, unprintable or non-UTF-8 characters"),
        (name.startswith("/"), "an absolute path"),
        ("\\" in name, "a path with a backslash"),
        (_DRIVE.match(name) is not None, "a path with a drive letter"),
        (".." in parts, "a path with '..'"),
        ("" in parts or "." in parts, "a path with an empty or '.' component"),
        (
            len(name) <= limit and kept(name) and not all(map(_SAFE_COMPONENT.fullmatch, parts)),
            "a path with characters other than letters, digits, space and ._+@=,-",
        ),
    )
    return next((problem for wrong, problem in checks if wrong), None)


def folder_hash(files: Mapping[str, bytes]) -> str:
    """SHA-256 in hex over the sorted (name, length, content) of files: the identity of a folder."""
    digest = hashlib.sha256(b"mlf-folder-1\n")
    for name in sorted(files):
        encoded = name.encode("utf-8")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
        digest.update(len(files[name]).to_bytes(8, "little") + files[name])
    return digest.hexdigest()


def read_archive(path: Path, limits: Limits = DEFAULT_LIMITS) -> ArchiveFiles:
    """Read the files that matter of a ``.tar``, ``.tar.gz``, ``.tar.xz`` or an unpacked folder.

    The container is recognised by its content, not by its name.

    Raises:
        InputError: there is no such file.
        ArchiveError: the archive is broken or hostile; all faults that can safely be found.
    """
    faults = BoundedFaults(str(path))
    files = collect_files(path, limits, faults)
    faults.raise_if_any()
    return files


def collect_files(
    path: Path, limits: Limits, faults: FaultCollector, kept: Callable[[str], bool] = is_kept
) -> ArchiveFiles:
    """Read an archive like ``read_archive``, but return tolerable faults to the caller.

    Args:
        kept: predicate on a member's name: whether its content is kept.

    Raises:
        InputError: there is no such file, or it is neither a file nor a folder.
        ArchiveError: reading had to stop; the archive's remaining members are unknown.
    """
    intake = _Intake(limits=limits, faults=faults, kept=kept)
    digest = ""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            _read_folder(path, intake)
        elif stat.S_ISREG(mode):
            digest = _read_tar(path, intake)
        else:
            raise InputError("neither a file nor a folder", where=str(path))
    except StopReadingError as stop:
        faults.add(_printable(stop.member) or WHOLE, stop.what)
        faults.raise_if_any()
    except OSError as error:
        raise read_error(error, str(path), "Give the path of a model, or of an archive's folder.") from error
    if not intake.count:
        faults.add(WHOLE, "the archive has no members")
        faults.raise_if_any()
    files = {name: intake.files[name] for name in sorted(intake.files)}
    return ArchiveFiles(
        source=str(path),
        sha256=digest or folder_hash(files),
        files=MappingProxyType(files),
        skipped=tuple(sorted(intake.skipped)),
    )


def _read_tar(path: Path, intake: _Intake) -> str:
    with path.open("rb") as file:
        stream = ArchiveStream(file, intake.limits)
        reader = TarReader(stream)
        while (member := reader.next()) is not None:
            intake.count_member()
            _take_member(reader, member, intake)
        return stream.finish()


def _take_member(reader: TarReader, member: TarMember, intake: _Intake) -> None:
    name = _printable(member.name)
    intake.admit_size(name, member.size_bytes)
    if member.kind not in ("file", "folder"):
        intake.faults.add(name, f"a {member.kind}; only files and folders are allowed")
        return
    folder = member.kind == "folder"
    admitted = intake.admit(member.name, folder=folder)
    if folder and member.size_bytes:
        intake.faults.add(name, "a folder with content")
    elif not folder and admitted:
        if intake.kept(admitted):
            intake.files[admitted] = reader.read()
        else:
            intake.skipped.append(admitted)


def _read_folder(root: Path, intake: _Intake) -> None:
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(root / prefix) as result:
            entries = sorted(islice(result, intake.limits.members + 1), key=lambda entry: entry.name)
        for entry in entries:
            intake.count_member()
            name = prefix + entry.name
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                if intake.admit(name, folder=True):
                    pending.append(name + "/")
            elif stat.S_ISREG(status.st_mode):
                _take_file(root, name, status.st_size, intake)
            else:
                kind = "symbolic link" if stat.S_ISLNK(status.st_mode) else "device, fifo or socket"
                intake.faults.add(_printable(name), f"a {kind}; only files and folders are allowed")


def _take_file(root: Path, name: str, size_bytes: int, intake: _Intake) -> None:
    if not intake.admit(name, folder=False):
        return
    if not intake.kept(name):
        intake.skipped.append(name)
        return
    intake.admit_size(name, size_bytes)
    with (root / name).open("rb") as file:
        intake.files[name] = file.read(size_bytes)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _printable(name: str) -> str:
    """A member's name as it can be shown: quoted and escaped when it has odd characters."""
    return name if name.isprintable() and len(name) <= 240 else shown(name, 100)
