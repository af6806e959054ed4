# SPDX-License-Identifier: Apache-2.0
"""Pieces of Zephyr trees, for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

MakeTree = Callable[[str], Path]


def version_text(version: str) -> str:
    major, minor, patch = version.split(".")
    return (
        f"VERSION_MAJOR = {major}\nVERSION_MINOR = {minor}\nPATCHLEVEL = {patch}\n"
        "VERSION_TWEAK = 0\nEXTRAVERSION =\n"
    )


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
