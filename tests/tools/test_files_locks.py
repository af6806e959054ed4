# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole; locks between processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.tools.files import write_whole
from mlf_sdk.tools.locks import MARK, exclusive, lock_folder, mark_children


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        write_whole(tmp_path / "a.json", content)
        assert (tmp_path / "a.json").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("name", ["write_bytes", "replace"])
def test_a_full_disk_leaves_the_former_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_whole(tmp_path / "a", b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, name, full)
    with pytest.raises(ToolError, match="the disk is full") as caught:
        write_whole(tmp_path / "a", b"new")
    monkeypatch.undo()
    assert caught.value.where == str(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"x"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()), daemon=True)
    reader.start()
    write_whole(tmp_path / "pipe", b"through")
    reader.join(10)
    assert found == [b"through"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("path", ["missing/a", "."])
def test_a_path_that_can_not_be_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match="can't write the file"):
        write_whole(tmp_path / path, b"")
    assert not any(tmp_path.iterdir())


def test_a_held_lock_is_waited_for(tmp_path: Path) -> None:
    name = str(tmp_path)
    order: list[str] = []
    held = threading.Event()

    def hold() -> None:
        with exclusive(name, 10.0):
            held.set()
            time.sleep(0.1)
            order.append("first")

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    with exclusive(name, 10.0):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_of_another_process_times_out_and_ends_with_the_process(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom mlf_sdk.tools.locks import exclusive\n"
        "with exclusive(sys.argv[1], 5.0):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with (
            pytest.raises(ToolError, match="another process has been working on it for 0 s") as caught,
            exclusive(str(tmp_path), 0.05),
        ):
            pass
        assert caught.value.where == str(tmp_path)
        with exclusive(f"{tmp_path}-other", 0.05):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    with exclusive(str(tmp_path), 10.0):
        pass


def test_an_error_inside_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), exclusive(str(tmp_path), 1.0):
        raise ZeroDivisionError
    with exclusive(str(tmp_path), 1.0):
        pass


def test_no_folder_for_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ToolError, match="can't make the folder of locks") as caught, exclusive("x", 1.0):
        pass
    assert caught.value.where == str(lock_folder())


def test_a_worker_ends_the_programs_of_a_killed_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    holder = """
import subprocess, sys
from mlf_sdk.tools.locks import exclusive
from mlf_sdk.tools.locks import mark_children
mark_children()
with exclusive("build", 5.0):
    program = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True)
    print(program.pid, flush=True)
    program.wait()
"""
    monkeypatch.setenv(MARK, "")  # restored afterwards
    with subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        program = int(process.stdout.readline())
        mark_children()
        state = Path(f"/proc/{program}/stat")
        assert state.exists()
        process.kill()
    with exclusive("build", 30.0):
        deadline = time.monotonic() + 10
        while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < deadline, "the program of the killed holder still runs"
            time.sleep(0.01)
