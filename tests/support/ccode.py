# SPDX-License-Identifier: Apache-2.0
"""What the tests of the C code share: strict flags, compilers, and calls that must go well."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
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


def sanitizing(name: str, *flags: str) -> str:
    """The path of a compiler that can link with sanitizers; skips where their run-time library is missing.

    Args:
        name: of the compiler.
        flags: that switch sanitizers on; default: `SANITIZE`.
    """
    path = compiler(name)
    if not _links(path, flags or tuple(SANITIZE)):
        pytest.skip(f"{name} can't link with its sanitizers (for clang: libclang-rt-dev)")
    return path


@functools.cache
def _links(path: str, flags: tuple[str, ...]) -> bool:
    """Whether a program that a fuzzer could call, too, is compiled and linked."""
    source = "int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 9; }\n"
    source += "" if "-fsanitize=fuzzer" in flags else "int main(void) { return 0; }\n"
    with tempfile.TemporaryDirectory() as folder:
        command = [path, *flags, "-x", "c", "-", "-o", f"{folder}/probe"]
        done = subprocess.run(command, input=source, text=True, capture_output=True, timeout=120)
    return done.returncode == 0


def call(*command: str | Path, cwd: Path | None = None) -> str:
    """What a program says; it must end well and warn of nothing."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240, cwd=cwd)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "warning" not in done.stderr
    return done.stdout + done.stderr
