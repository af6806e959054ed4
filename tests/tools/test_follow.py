# SPDX-License-Identifier: Apache-2.0
"""Lines are told once, whole, and as soon as they are there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mlf_sdk.errors import ToolError
from mlf_sdk.tools.child import Follower
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


def test_a_program_is_watched_while_it_runs(tmp_path):
    """The program says the second line only after somebody has seen the first."""
    seen = tmp_path / "seen"
    code = (
        "import pathlib, sys, time\nprint('a', flush=True)\n"
        "while not pathlib.Path(sys.argv[1]).exists():\n    time.sleep(0.01)\n"
        "print('b', file=sys.stderr, flush=True)"
    )
    told: list[str] = []

    def watch(line: str) -> None:
        told.append(line)
        seen.touch()

    done = run_process([sys.executable, "-c", code, str(seen)], timeout_s=120, watch=watch)
    assert told == ["a", "b"]
    assert (done.stdout, done.stderr) == ("a\n", "b\n")


def test_what_a_late_program_said_is_told_as_well():
    told: list[str] = []
    code = "import time\nprint('waiting', flush=True)\ntime.sleep(60)"
    with pytest.raises(ToolError, match="did not end within"):
        run_process([sys.executable, "-c", code], timeout_s=1.0, watch=told.append)
    assert told == ["waiting"]
