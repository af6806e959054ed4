# SPDX-License-Identifier: Apache-2.0
"""Figures that a page shows without a command: they are those of a run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILER = "12.2"  # of Debian 12, which the pages name; another one makes images of other sizes
_VARIES = (
    (re.compile(r"(build +(?:gcc, )?)[\d.]+ s"), r"\1... s"),
    (re.compile(r"(max difference) [\d.e-]+"), r"\1 ..."),  # the last bits of the host's expf
)


@pytest.fixture(scope="module", autouse=True)
def _compiler_of_the_pages() -> None:
    said = subprocess.run(
        ["arm-none-eabi-gcc", "-dumpfullversion"], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    if not said.startswith(COMPILER):
        pytest.skip(f"the figures of the pages are those of GCC {COMPILER}, this is {said.strip()}")


def lines_of(text: str) -> list[str]:
    """Lines without what differs from run to run."""
    for pattern, plain in _VARIES:
        text = pattern.sub(plain, text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.mark.qemu
@pytest.mark.toolchain
def test_the_demo_ends_as_the_readme_shows(needs_qemu: None, needs_host: None) -> None:
    readme = (ROOT / "README.md").read_text()
    shown = re.search(r"`make demo` ends like this.*?\n\n((?:    .*\n)+)", readme)
    assert shown is not None
    recipe = subprocess.run(
        ["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30
    ).stdout
    command = re.search(r"\S*mlf-sdk (run (?:.*\\\n)*.*)", recipe)
    assert command is not None
    argv = command[1].replace("\\\n", " ").split()
    done = subprocess.run(
        [sys.executable, "-m", "mlf_sdk", *argv],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert lines_of(shown[1]) == lines_of(done.stdout), "README.md shows other figures than the run"
