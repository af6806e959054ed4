# SPDX-License-Identifier: Apache-2.0
"""What the tests of the C code share: strict flags, compilers, and calls that must go well."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CRT = Path(__file__).resolve().parents[2] / "crt"
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wcast-qual", "-Wundef", "-Wshadow"]
WARNINGS += ["-Wmissing-prototypes", "-Werror"]
SANITIZE = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
CORTEX_M4 = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-O2"]


def compiler(name: str) -> str:
    """The path of a compiler or another program; skips where it is missing."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def call(*command: str | Path, cwd: Path | None = None) -> str:
    """What a program says; it must end well and warn of nothing."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240, cwd=cwd)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "warning" not in done.stderr
    return done.stdout + done.stderr
