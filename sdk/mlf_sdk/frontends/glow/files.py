# SPDX-License-Identifier: Apache-2.0
"""The files of a bundle, found from any of them or from their folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from mlf_sdk.analysis.elf.ar import AR_MAGIC
from mlf_sdk.analysis.elf.raw import ET_REL, elf_type
from mlf_sdk.frontends.glow.header import HEAD_BYTES, is_header
from mlf_sdk.frontends.glow.objects import configured
from mlf_sdk.frontends.glow.weights import ENDINGS, PLAIN_ENDINGS
from mlf_sdk.frontends.intake.limits import DEFAULT_LIMITS
from mlf_sdk.frontends.intake.members import folder_hash
from mlf_sdk.tools.files import read_bounded

_MAX_FILES: Final = 1024


class BundlePaths(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of the files of one bundle.

    Attributes:
        name: that its files have in common.
        header, code: None: there is no such file.
        weights: all files with its constants.
    """

    name: str
    header: Path | None
    code: Path | None
    weights: tuple[Path, ...]


class BundleFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the files of one bundle, by name.

    Attributes:
        source: the path that they were found from, as given.
        sha256: hex; over all of them.
    """

    source: str
    sha256: str
    name: str
    header: tuple[str, bytes] | None
    code: tuple[str, bytes] | None
    weights: Mapping[str, bytes]


def find_bundles(path: Path) -> tuple[BundlePaths, ...]:
    """Find the bundles in a folder, or the one that a file belongs to; none is no error.

    Raises:
        OSError: the path can't be read.
    """
    if path.is_dir():
        return tuple(_bundles(_listed(path)))
    if not path.is_file():
        return ()
    given = [path] if _kind(path) else []
    every = tuple(_bundles([p for p in _listed(path.parent) if p.name != path.name] + given))
    return tuple(bundle for bundle in every if path in (bundle.header, bundle.code))


def read_files(paths: BundlePaths, source: Path) -> BundleFiles:
    """Read the files of a bundle.

    Raises:
        InputError: one can't be read, or is too large.
    """
    header, code = (None if p is None else (p.name, _read(p)) for p in (paths.header, paths.code))
    weights = {p.name: _read(p) for p in paths.weights}
    every = dict(part for part in (header, code, *weights.items()) if part is not None)
    return BundleFiles(
        source=str(source),
        sha256=folder_hash(every),
        name=paths.name,
        header=header,
        code=code,
        weights=weights,
    )


def _listed(folder: Path) -> list[Path]:
    with os.scandir(folder) as result:
        names = sorted(
            e.name
            for e in islice(result, _MAX_FILES)
            if e.is_file(follow_symlinks=False) and e.name[0] != "."
        )
    return [folder / name for name in names]


def _kind(path: Path) -> str:
    """``header`` or ``code`` by a file's first bytes; empty for all else."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return ""
    if head.startswith(AR_MAGIC) or elf_type(head) == ET_REL:
        return "code"
    return "header" if is_header(head) else ""


def _bundles(files: list[Path]) -> Iterator[BundlePaths]:
    """Pair headers with code by their names; a single one of each need not have the same."""
    kinds = {path: _kind(path) for path in files}
    headers = {path.stem: path for path, kind in kinds.items() if kind == "header"}
    codes = [path for path, kind in kinds.items() if kind == "code"]
    if len(headers) == 1 and len(codes) == 1:
        headers = {codes[0].stem: next(iter(headers.values()))}
    alone = len(codes) <= 1 and len(headers) <= 1
    for code in codes:
        header = headers.pop(code.stem, None)
        if header is not None or configured(_read(code)) is not None:
            yield _paths(header, code, files, alone=alone)
    for header in headers.values():
        yield _paths(header, None, files, alone=alone)


def _paths(header: Path | None, code: Path | None, files: list[Path], *, alone: bool) -> BundlePaths:
    stems = {path.stem for path in (header, code) if path is not None}
    taken = (header, code)

    def ending(endings: tuple[str, ...]) -> tuple[Path, ...]:
        names = {stem + end for stem in stems for end in endings}
        return tuple(p for p in files if p.name in names and p not in taken)

    weights = ending(ENDINGS)
    if not weights and alone:
        weights = tuple(p for p in files if p.name.endswith(ENDINGS) and p not in taken)
    named = code or header
    return BundlePaths(
        name=named.stem if named else "",
        header=header,
        code=code,
        weights=weights or ending(PLAIN_ENDINGS),
    )


def _read(path: Path) -> bytes:
    return read_bounded(path, DEFAULT_LIMITS.file_bytes)
