# SPDX-License-Identifier: Apache-2.0
"""Client, scheduler and workers in processes of their own are killed: a few times here, often by `make kills`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep_kills import KILLS_IN_THE_SUITE, left_behind, sleeping

pytest.importorskip("distributed", reason="dask.distributed is not installed (pip install 'mlf-sdk[sweep]')")


@pytest.mark.slow
def test_killed_processes_lose_nothing(tmp_path: Path) -> None:
    killed, runs = sleeping(tmp_path, KILLS_IN_THE_SUITE, seed=3)
    assert killed
    assert sum(runs.values()) >= len(runs)
    assert left_behind(tmp_path / "cache") == []
