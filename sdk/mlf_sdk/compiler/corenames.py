# SPDX-License-Identifier: Apache-2.0
"""Names of the cores that kernels are chosen for; light to import."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from mlf_sdk.resources import data_dir

GENERIC: Final = "generic"


@cache
def core_names() -> tuple[str, ...]:
    """Names of all cores, the generic one first."""
    names = sorted(path.stem for path in cores_folder().glob("*.toml"))
    return (GENERIC, *(name for name in names if name != GENERIC))


def cores_folder() -> Path:
    """The folder of their rows."""
    return data_dir("board_templates") / "cores"
