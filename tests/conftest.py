# SPDX-License-Identifier: Apache-2.0
"""What all tests share: a cache of their own, and skips that say what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED_MLF = Path(__file__).resolve().parents[2] / "shared" / "mlf"


@pytest.fixture(scope="session", autouse=True)
def _cache_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test touches the user's cache; builds are kept for the session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("user-cache")))
        yield


def _need(*programs: str) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="session")
def needs_cc() -> str:
    """Skips where there is no native compiler; its name."""
    _need("cc")
    return "cc"


@pytest.fixture(scope="session")
def needs_host(needs_cc: str) -> None:
    """Skips where projects can't be built for the host."""
    _need("cmake", "ninja")


@pytest.fixture(scope="session")
def needs_arm() -> None:
    """Skips where projects can't be built for Cortex-M."""
    _need("arm-none-eabi-gcc", "arm-none-eabi-objcopy", "cmake", "ninja")


@pytest.fixture(scope="session")
def needs_qemu(needs_arm: None) -> None:
    """Skips where emulated boards can't be built for and booted."""
    _need("qemu-system-arm")


@pytest.fixture(scope="session")
def shared_mlf() -> Path:
    """The folder of the large real archives; skips where it is missing."""
    if not SHARED_MLF.is_dir():
        pytest.skip(f"no real archives: {SHARED_MLF} is missing")
    return SHARED_MLF
