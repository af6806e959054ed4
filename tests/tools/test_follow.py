# SPDX-License-Identifier: Apache-2.0
"""Lines are told once, whole, and as soon as they are there."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from mlf_sdk.errors import ToolError
from mlf_sdk.tools.follow import Follower
from mlf_sdk.tools.process import run_process


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_pieces_make_the_same_lines(tmp_path: Path, size: int):
    data = "one\ntwo\r\n\nä\nrest".encode()
    told: list[str] = []
    with (tmp_path / "out").open("w+b", buffering=0) as file:
        follower = Follower((file,), told.append)
        for start in range(0, len(data), size):
            file.write(data[start : start + size])
            follower()
        assert told == ["one", "two", "", "ä"]
        follower.finish()
        follower.finish()
    assert told == ["one", "two", "", "ä", "rest"]


def test_a_line_without_an_end_is_told_in_pieces(tmp_path: Path):
    told: list[str] = []
    with (tmp_path / "out").open("w+b", buffering=0) as file:
        follower = Follower((file,), told.append)
        file.write(b"x" * 200_000)
        follower()
        follower.finish()
    assert sum(map(len, told)) == 200_000
    assert len(told) > 1


def test_a_program_is_watched_while_it_runs():
    code = (
        "import sys, time\nprint('a', flush=True)\ntime.sleep(0.5)\nprint('b', file=sys.stderr, flush=True)"
    )
    told: list[tuple[str, float]] = []
    done = run_process(
        [sys.executable, "-c", code], timeout_s=20, watch=lambda line: told.append((line, time.monotonic()))
    )
    assert [line for line, _ in told] == ["a", "b"]
    assert told[1][1] - told[0][1] > 0.3
    assert (done.stdout, done.stderr) == ("a\n", "b\n")


def test_what_a_late_program_said_is_told_as_well():
    told: list[str] = []
    code = "import time\nprint('waiting', flush=True)\ntime.sleep(60)"
    with pytest.raises(ToolError, match="did not end within"):
        run_process([sys.executable, "-c", code], timeout_s=1.0, watch=told.append)
    assert told == ["waiting"]
