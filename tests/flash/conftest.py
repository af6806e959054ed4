# SPDX-License-Identifier: Apache-2.0
"""What tests of flashing share: a cache of their own, projects, and calls of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlf_sdk
from archives import Spec, build, write


def _built(folder: Path, spec: Spec) -> Path:
    archive = write(build(spec), folder / f"{spec.name}.tar")
    mlf_sdk.generate(archive, folder / "app", board="mps2-an386")
    mlf_sdk.build(folder / "app")
    return folder / "app"


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built project of the model tiny."""
    return _built(tmp_path_factory.mktemp("tiny"), Spec())


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built project of another model."""
    return _built(tmp_path_factory.mktemp("other"), Spec(name="other", dtype="int8"))
