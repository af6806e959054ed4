# SPDX-License-Identifier: Apache-2.0
"""Which tests of the readers the coverage counts (see tests/conftest.py)."""

from __future__ import annotations

import sys

import pytest


def measured() -> bool:
    return type(sys.gettrace()).__module__.startswith("coverage")


def test_tests_of_the_readers_are_counted(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("cov_source", []) or sys.version_info >= (3, 14):
        pytest.skip("coverage is not measured, or not by a trace function")
    assert measured()


@pytest.mark.shared
def test_tests_that_read_shared_archives_are_not_counted() -> None:
    """A line that only they reach would be missing where ``../shared`` is."""
    assert not measured()
