# SPDX-License-Identifier: Apache-2.0
"""What the tests of MLPerf Tiny share."""

from __future__ import annotations

import pytest

from cli_helpers import Caller


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    """Calls the command line: ``call("bench", "mlperf", path)``."""
    return Caller(capsys)
