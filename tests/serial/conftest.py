# SPDX-License-Identifier: Apache-2.0
"""What tests of ports share: helper modules, a cache of their own, programs that serve as devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench_line import build_server
from cli_helpers import Caller
from serial_helpers import PtyDevice


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    """Calls the command line: ``call("ports")``."""
    return Caller(capsys)


@pytest.fixture(scope="session")
def small_server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The device of crt/tests/rpc_host.c."""
    return build_server("rpc_host.c", tmp_path_factory.mktemp("rpc_host"), max_payload=512)


@pytest.fixture(scope="session")
def bulk_server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The device of crt/tests/rpc_bulk.c."""
    return build_server("rpc_bulk.c", tmp_path_factory.mktemp("rpc_bulk"), max_payload=1024)


@pytest.fixture
def pty_device() -> Iterator[PtyDevice]:
    """The fake device behind a pty."""
    with PtyDevice() as device:
        yield device
