# SPDX-License-Identifier: Apache-2.0
"""``mlf-project.sha256``: the hash of every generated file, as ``sha256sum --check`` reads it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from mlf_sdk.errors import InputError

MANIFEST_NAME = "mlf-project.sha256"
USER_FILES = frozenset({"app.cmake", "app.ld", "prj.conf", "src/main.c"})  # written once, then the user's
_LINE = re.compile(r"([0-9a-f]{64})  ([^\n]+)\n")


def encode_manifest(files: Mapping[str, bytes]) -> bytes:
    """Hashes of ``files`` (relative path -> content) by path; files of the user are left out."""
    generated = sorted(path for path in files if path not in USER_FILES)
    return "".join(f"{file_hash(files[path])}  {path}\n" for path in generated).encode()


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
    found = {line[2]: line[1] for line in lines if line}
    if len(found) != len(lines):
        raise InputError(
            "the list of generated files was changed",
            where=str(path),
            hint="Restore it, or delete it: every file that differs then counts as changed.",
        )
    return found


def file_hash(content: bytes) -> str:
    """SHA-256 of a file, hexadecimal."""
    return hashlib.sha256(content).hexdigest()
