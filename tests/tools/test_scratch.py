# SPDX-License-Identifier: Apache-2.0
"""Temporary folders: those of killed processes are removed, those of living ones and of others stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mlf_sdk.tools import files
from mlf_sdk.tools.files import remove_abandoned, scratch_folder

HOLDER = """
import sys, time
from pathlib import Path
from mlf_sdk.tools.files import scratch_folder
with scratch_folder("mlf-x-", Path(sys.argv[1])) as folder:
    (folder / "sub").mkdir()
    print(folder, flush=True)
    time.sleep(60)
"""


def test_a_folder_goes_with_its_block(tmp_path: Path) -> None:
    with pytest.raises(KeyError), scratch_folder("mlf-x-", tmp_path) as folder:
        (folder / "sub").mkdir()
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as holder:
        left = Path(os.fsdecode(holder.stdout.readline()).strip())
        assert remove_abandoned("mlf-x-", tmp_path) == 0 and left.is_dir(), "its owner lives"
        with scratch_folder("mlf-x-", tmp_path):
            assert left.is_dir()
        holder.send_signal(signal.SIGKILL)
    assert left.is_dir()
    with scratch_folder("mlf-x-", tmp_path) as own:
        assert list(tmp_path.iterdir()) == [own]


def test_what_belongs_to_nobody_or_to_others_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mlf-x-none", "mlf-x-other", "mlf-y-owned"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "mlf-x-file").write_text("")
    (tmp_path / "mlf-x-link").symlink_to("mlf-y-owned")
    for name in ("mlf-x-other", "mlf-y-owned"):
        (tmp_path / name / ".owner").touch()
    before = sorted(tmp_path.iterdir())
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert remove_abandoned("mlf-x-", tmp_path) == 0
    assert sorted(tmp_path.iterdir()) == before
    monkeypatch.undo()
    (tmp_path / "mlf-x-empty").mkdir()  # its process was killed before it owned it
    assert remove_abandoned("mlf-x-", tmp_path) == 1
    assert sorted(tmp_path.iterdir()) == [path for path in before if path.name != "mlf-x-other"]
    assert remove_abandoned("mlf-x-", tmp_path / "none") == 0


def test_a_folder_that_is_removed_before_it_has_an_owner_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process begins to clean between the folder and its lock."""
    made: list[str] = []
    make = files.tempfile.mkdtemp

    def unlucky(**options: str) -> str:
        made.append(make(**options))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(files.tempfile, "mkdtemp", unlucky)
    with scratch_folder("mlf-x-", tmp_path) as folder:
        assert [str(folder)] == made[1:] and folder.is_dir()


def test_a_folder_that_can_not_be_locked_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.fcntl, "flock", full)
    with pytest.raises(OSError, match="No space left"), scratch_folder("mlf-x-", tmp_path):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []
