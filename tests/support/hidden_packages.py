# SPDX-License-Identifier: Apache-2.0
"""A machine without programs and emulators that packages of this Python bring."""

from __future__ import annotations

import pytest

from mlf_sdk.targets.unicorn import launch
from mlf_sdk.tools import programs


def hide_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave programs on PATH alone: no compiler, build tool or emulator of a package."""
    monkeypatch.setattr(programs, "package_folders", lambda: ())
    monkeypatch.setattr(launch, "find_spec", lambda name: None)
