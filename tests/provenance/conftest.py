# SPDX-License-Identifier: Apache-2.0
"""Built projects that several tests look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import mlf_sdk
from archives import Spec, build, write

Once = Callable[[str, Callable[[Path], None]], Path]


def _project(board: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        mlf_sdk.generate(write(build(Spec()), folder / "tiny.tar"), folder / "app", board=board)
        mlf_sdk.build(folder / "app")

    return make


@pytest.fixture(scope="session")
def arm_app(once: Once, needs_arm: None) -> Path:
    """A built project of the model tiny for an emulated board; not to be changed."""
    return once("provenance-arm", _project("mps2-an386")) / "app"


@pytest.fixture(scope="session")
def host_app(once: Once, needs_host: None) -> Path:
    """The same for this machine."""
    return once("provenance-host", _project("host")) / "app"
