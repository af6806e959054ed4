# SPDX-License-Identifier: Apache-2.0
"""What tests of the command line share: calls, archives, and a cache of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from archives import build, write
from cli_helpers import Caller, misbehaving


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width and no colour from the terminal of whoever runs the tests."""
    for name in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in os.environ if name.endswith("_COMPLETE")]:
        monkeypatch.delenv(name)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    """Calls the command line: ``call("inspect", path)``."""
    return Caller(capsys)


@pytest.fixture(scope="session")
def archives_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archives")


@pytest.fixture(scope="session")
def tiny(archives_dir: Path) -> Path:
    """A good archive."""
    return write(build(), archives_dir / "tiny.tar")


@pytest.fixture(scope="session")
def returns(archives_dir: Path) -> Path:
    """Its third kernel returns an error."""
    return write(misbehaving("  return -1;\n"), archives_dir / "returns.tar")


@pytest.fixture(scope="session")
def spins(archives_dir: Path) -> Path:
    """Its third kernel never returns."""
    return write(misbehaving("  for (;;) {\n  }\n"), archives_dir / "spins.tar")


@pytest.fixture(scope="session")
def sleeps(archives_dir: Path) -> Path:
    """The same for the host, where a kernel can wait without taking a core."""
    pause = "  extern int pause(void);\n  for (;;) {\n    pause();\n  }\n"
    return write(misbehaving(pause), archives_dir / "sleeps.tar")


@pytest.fixture(scope="session")
def faults(archives_dir: Path) -> Path:
    """Its second kernel writes through a bad pointer."""
    bad = "  ((volatile int32_t*)0x70000000)[0] = 1;\n"
    return write(misbehaving(bad, kernel="fused_smooth"), archives_dir / "faults.tar")
