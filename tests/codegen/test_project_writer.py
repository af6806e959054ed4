# SPDX-License-Identifier: Apache-2.0
"""Writing a project: all or nothing, whatever happens; what is the user's stays."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mlf_sdk.codegen import writer
from mlf_sdk.codegen.changes import MANIFEST_NAME, encode_manifest
from mlf_sdk.codegen.writer import LOCK_NAME, ChangedFilesError, WriteResult, write_project
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.tools.files import scratch_folder
from mlf_sdk.tools.process import run_process, start_process

KILLED_WRITER = Path(__file__).resolve().parents[1] / "support" / "killed_writer.py"
OLD = {
    LOCK_NAME: b'{"schema": 1}',
    "CMakeLists.txt": b"project(old)\n",
    "src/main.c": b"int main(void) { return 0; }\n",
    "model/old/old.c": b"int old;\n",
    "model/old/codegen/host/src/lib0.c": b"int kernel;\n",
    "crt/src/mlf.c": b"int runtime;\n",
    "board/linker.ld": b"MEMORY {}\n",
    "README.md": b"# old\n",
}
NEW = {
    **{path: content for path, content in OLD.items() if "old" not in path},
    LOCK_NAME: b'{"schema": 1, "new": true}',
    "CMakeLists.txt": b"project(new)\n",
    "model/new/new.c": b"int new;\n",
    "README.md": b"# new\n",
}
USERS = {
    "model/own.c": b"int own;\n",
    "crt/notes/todo.txt": b"mine",
    "src/extra.c": b"int extra;\n",
    "app/deep/notes.txt": b"mine",
    "data.bin": bytes(range(256)),
    ".git/HEAD": b"ref: refs/heads/main\n",
}


def on_disk(files: dict[str, bytes]) -> dict[str, bytes]:
    return {**files, MANIFEST_NAME: encode_manifest(files)}


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def sources_of(folder: Path) -> dict[str, bytes]:
    """All but the build folder, which is only a cache."""
    return {path: data for path, data in files_of(folder).items() if not path.startswith("build/")}


def put(folder: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def times_of(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A project of OLD with files of the user."""
    folder = tmp_path / "parent" / "out"
    write_project(OLD, folder)
    put(folder, USERS)
    return folder


def alone(folder: Path) -> bool:
    """Whether nothing lies beside the project."""
    return [path.name for path in folder.parent.iterdir()] == [folder.name]


# ---- what is written, what is kept ----


def test_new_folder(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er" / "out"
    assert write_project(OLD, folder) == WriteResult()
    assert files_of(folder) == on_disk(OLD)
    assert alone(folder)


def test_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "parent" / "out"
    folder.mkdir(parents=True)
    write_project(OLD, folder)
    assert files_of(folder) == on_disk(OLD)
    assert alone(folder)


def test_writing_again_changes_nothing(out: Path) -> None:
    past = 1_000_000_000_123_456_789
    for path in files_of(out):
        os.utime(out / path, ns=(past, past))
    before = files_of(out)
    assert write_project(OLD, out) == WriteResult()
    assert files_of(out) == before
    assert set(times_of(out).values()) == {past}
    assert alone(out)


def test_only_what_differs_gets_a_new_time(out: Path) -> None:
    before = times_of(out)
    time.sleep(0.01)
    write_project({**OLD, "crt/src/mlf.c": b"int changed;\n"}, out)
    after = times_of(out)
    assert {path for path in after if after[path] != before[path]} == {"crt/src/mlf.c", MANIFEST_NAME}


def test_replacing_a_project(out: Path) -> None:
    assert write_project(NEW, out) == WriteResult()
    assert files_of(out) == on_disk(NEW) | USERS
    assert alone(out)


def test_users_main_is_renewed_until_it_is_edited(out: Path) -> None:
    """Of another model it would include a header that is gone; a manifest without its hash says nothing."""
    write_project({**NEW, "src/main.c": b"int main(void) { return 1; }\n"}, out)
    assert (out / "src/main.c").read_bytes() == b"int main(void) { return 1; }\n"
    lines = (out / MANIFEST_NAME).read_text().splitlines(keepends=True)
    (out / MANIFEST_NAME).write_text("".join(line for line in lines if "main.c" not in line))
    assert write_project(NEW, out) == WriteResult(kept=("src/main.c",))


def test_users_main_is_kept_and_told(out: Path) -> None:
    mine = b"int main(void) { return 42; }\n"
    (out / "src/main.c").write_bytes(mine)
    assert write_project(NEW, out) == WriteResult(kept=("src/main.c",))
    assert (out / "src/main.c").read_bytes() == mine
    assert write_project({**NEW, "src/main.c": mine}, out) == WriteResult()


def test_deleted_main_comes_back(out: Path) -> None:
    (out / "src/main.c").unlink()
    write_project(NEW, out)
    assert (out / "src/main.c").read_bytes() == on_disk(NEW)["src/main.c"]


def test_the_manifest_is_checked_by_sha256sum(out: Path) -> None:
    run_process(["sha256sum", "--check", "--strict", "--quiet", MANIFEST_NAME], cwd=out, timeout_s=10)


def test_folders_that_are_no_longer_generated_vanish(out: Path) -> None:
    write_project(NEW, out)
    assert not (out / "model/old").exists()


def test_an_empty_folder_of_the_user_stays(out: Path) -> None:
    (out / "data" / "later").mkdir(parents=True)
    write_project(NEW, out)
    assert (out / "data" / "later").is_dir()


# ---- edits of generated files ----

EDITED = ("CMakeLists.txt", "crt/src/mlf.c", "model/old/old.c")


def edit(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).write_bytes(b"edited " + path.encode())


def test_edited_generated_files_are_refused_together(out: Path) -> None:
    edit(out, *EDITED)
    before, times = files_of(out), times_of(out)
    with pytest.raises(
        ChangedFilesError, match="3 files were changed since the project was generated"
    ) as caught:
        write_project(NEW, out)
    assert caught.value.paths == EDITED
    assert all(path in caught.value.what for path in EDITED)
    assert "app.cmake" in caught.value.hint and "--force" in caught.value.hint
    assert (files_of(out), times_of(out)) == (before, times)
    assert alone(out)


def test_forced_edits_are_kept_beside(out: Path) -> None:
    edit(out, *EDITED)
    put(out, {"crt/src/mlf.c.orig": b"an older one"})
    backups = ("CMakeLists.txt.orig", "crt/src/mlf.c.orig2", "model/old/old.c.orig")
    assert write_project(NEW, out, force=True) == WriteResult(backups=backups)
    saved = dict(zip(backups, (b"edited " + path.encode() for path in EDITED), strict=True))
    assert files_of(out) == on_disk(NEW) | USERS | saved | {"crt/src/mlf.c.orig": b"an older one"}
    assert write_project(NEW, out) == WriteResult()
    assert alone(out)


def test_an_edit_that_is_what_would_be_generated_is_no_edit(out: Path) -> None:
    put(out, {path: content for path, content in NEW.items() if path != "src/main.c"})
    assert write_project(NEW, out) == WriteResult()
    assert files_of(out) == on_disk(NEW) | USERS


def test_a_file_of_the_user_where_a_new_one_is_generated(out: Path) -> None:
    put(out, {"model/new/new.c": b"int mine;\n"})
    with pytest.raises(ChangedFilesError) as caught:
        write_project(NEW, out)
    assert caught.value.paths == ("model/new/new.c",)
    write_project(NEW, out, force=True)
    assert (out / "model/new/new.c.orig").read_bytes() == b"int mine;\n"


def test_deleted_generated_files_come_back(out: Path) -> None:
    for path in OLD:
        (out / path).unlink()
    assert write_project(OLD, out) == WriteResult()
    assert files_of(out) == on_disk(OLD) | USERS


def test_without_a_manifest_what_differs_is_refused(out: Path) -> None:
    (out / MANIFEST_NAME).unlink()
    assert write_project(OLD, out) == WriteResult()  # nothing differs
    (out / MANIFEST_NAME).unlink()
    with pytest.raises(ChangedFilesError) as caught:
        write_project(NEW, out)
    assert caught.value.paths == ("CMakeLists.txt", "README.md", LOCK_NAME)


@pytest.mark.parametrize("damage", [b"# mine\n", b"0" * 64 + b" CMakeLists.txt\n", b"x"])
def test_a_changed_manifest_is_refused(out: Path, damage: bytes) -> None:
    (out / MANIFEST_NAME).write_bytes((out / MANIFEST_NAME).read_bytes() + damage)
    before = files_of(out)
    with pytest.raises(InputError, match="the list of generated files was changed") as caught:
        write_project(OLD, out)
    assert caught.value.where == str(out / MANIFEST_NAME)
    assert files_of(out) == before
    edit(out, "CMakeLists.txt")
    assert write_project(OLD, out, force=True) == WriteResult(backups=("CMakeLists.txt.orig",))


@pytest.mark.parametrize(
    ("obstacle", "make"),
    [
        ("crt", lambda path: path.symlink_to("/nowhere")),
        ("crt", lambda path: path.write_bytes(b"a file")),
        ("README.md", lambda path: path.mkdir()),
        ("README.md", lambda path: path.symlink_to("src/main.c")),
        ("model/old", lambda path: path.symlink_to("/nowhere")),
    ],
)
def test_a_link_or_another_kind_of_entry_in_the_way(
    out: Path, obstacle: str, make: Callable[[Path], None]
) -> None:
    entry = out / obstacle
    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    make(entry)
    kind = entry.lstat().st_mode
    with pytest.raises(ChangedFilesError) as caught:
        write_project(NEW, out)
    assert caught.value.paths == (obstacle,)
    assert write_project(NEW, out, force=True).backups == (f"{obstacle}.orig",)
    assert (out / f"{obstacle}.orig").lstat().st_mode == kind
    assert NEW.items() <= files_of(out).items()


def test_a_link_in_place_of_a_file_of_the_user_stays(out: Path) -> None:
    (out / "src/main.c").unlink()
    (out / "src/main.c").symlink_to("extra.c")
    assert write_project(NEW, out) == WriteResult(kept=("src/main.c",))
    assert (out / "src/main.c").readlink() == Path("extra.c")


def test_links_of_the_user_stay_links(out: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"far")
    (out / "link").symlink_to(tmp_path / "elsewhere")
    (out / "app" / "broken").symlink_to("nowhere")
    write_project(NEW, out)
    assert (out / "link").readlink() == tmp_path / "elsewhere"
    assert (out / "app" / "broken").readlink() == Path("nowhere")
    assert (tmp_path / "elsewhere" / "file").read_bytes() == b"far"


def test_build_folder_moves_along(out: Path) -> None:
    put(out, {"build/app.elf": b"\x7fELF", "build/CMakeFiles/x.o": b""})
    inode = (out / "build/app.elf").stat().st_ino
    write_project(NEW, out)
    assert (out / "build/app.elf").stat().st_ino == inode  # not a copy
    assert alone(out)


def test_access_rights_of_users_files_are_kept(out: Path) -> None:
    (out / "data.bin").chmod(0o751)
    write_project(NEW, out)
    assert (out / "data.bin").stat().st_mode & 0o777 == 0o751


def test_without_the_atomic_exchange(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer.ctypes, "CDLL", lambda *_, **__: object())
    put(out, {"build/app.elf": b"\x7fELF"})
    write_project(NEW, out)
    assert files_of(out) == on_disk(NEW) | USERS | {"build/app.elf": b"\x7fELF"}
    assert alone(out)


def test_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(OLD, Path("out"))
    write_project(NEW, Path("x/../out"))
    assert files_of(tmp_path / "out") == on_disk(NEW)


@pytest.mark.parametrize("name", [".", "./", "../here", "sub/.."])
def test_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_project(OLD, Path(name))
    assert files_of(tmp_path / "here") == on_disk(OLD)


# ---- what is refused ----


def test_foreign_folder(tmp_path: Path) -> None:
    put(tmp_path / "out", USERS)
    with pytest.raises(InputError, match="not empty and holds no generated project") as caught:
        write_project(OLD, tmp_path / "out")
    assert "nothing was written" in caught.value.hint
    assert files_of(tmp_path / "out") == USERS
    assert alone(tmp_path / "out")


def test_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"mine")
    with pytest.raises(InputError, match="the output exists and is no folder"):
        write_project(OLD, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"mine"


@pytest.mark.parametrize("target", ["real", "nowhere"])
def test_link_in_the_way(tmp_path: Path, target: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / target)
    with pytest.raises(InputError, match="is no folder"):
        write_project(OLD, tmp_path / "out")
    assert not any((tmp_path / "real").iterdir())


def test_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="can't write the project") as caught:
        write_project(OLD, tmp_path / "file" / "out")
    assert str(tmp_path / "file") in caught.value.where
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("path", ["/abs", "../out", "a/../../b", "a\\b", "", "."])
def test_path_that_leaves_the_project(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match="a generated path leaves the project"):
        write_project({**OLD, path: b""}, tmp_path / "out")
    assert not any(tmp_path.iterdir())


# ---- failing ----


def failing_at(number: int, call: Callable[..., object]) -> Callable[..., object]:
    """``call``, but its ``number``-th use finds the disk full."""
    count = 0

    def wrapped(*args: object, **kwargs: object) -> object:
        nonlocal count
        count += 1
        if count == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "the file")
        return call(*args, **kwargs)

    return wrapped


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Path, "write_bytes"), (shutil, "copy2"), (Path, "mkdir"), (Path, "rename"), (Path, "read_bytes")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_disk_full_at_every_call(out: Path, owner: object, name: str) -> None:
    """Whatever fails, the old project is there, whole, and nothing beside it; at last it succeeds."""
    put(out, {"build/app.elf": b"\x7fELF"})
    before = sources_of(out)
    call = getattr(owner, name)
    failures = 0
    for number in range(1, 200):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, failing_at(number, call))
            try:
                write_project(NEW, out)
                break
            except ToolError as error:
                failures += 1
                assert error.what == "the disk is full"
                assert error.where == "the file"
        now = sources_of(out)
        assert now in (before, on_disk(NEW) | USERS)
        assert alone(out)
    assert failures >= 1
    assert sources_of(out) == on_disk(NEW) | USERS


def test_interrupted_by_the_user(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files_of(out)

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "_swap", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_project(NEW, out)
    assert files_of(out) == before
    assert alone(out)


# ---- killed ----


def test_killed_before_every_change(tmp_path: Path) -> None:
    """SIGKILL before each change to the file system: always the old project or the new one, whole."""
    write_project(OLD, tmp_path / "old")
    put(tmp_path / "old", USERS | {"build/app.elf": b"\x7fELF"})
    put(tmp_path / "new", NEW)
    path = os.pathsep.join(filter(None, sys.path))
    run = run_process(
        [sys.executable, str(KILLED_WRITER), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        timeout_s=60,
    )
    count = int(run.stdout)
    assert count > 25
    seen = set()
    for number in range(1, count + 1):
        folder = tmp_path / str(number) / "out"
        found = sources_of(folder)
        assert found in (on_disk(OLD) | USERS, on_disk(NEW) | USERS), number
        seen.add(found == on_disk(NEW) | USERS)
        write_project(NEW, folder)  # the next one sweeps up and succeeds
        assert sources_of(folder) == on_disk(NEW) | USERS
        assert alone(folder), number
    assert seen == {True, False}


def test_killed_at_random_times(tmp_path: Path) -> None:
    """A child writes two projects in turn, endlessly; whenever it is killed, one of them is there."""
    large = {f"crt/src/f{i}.c": os.urandom(2000) for i in range(60)}
    projects = {"A": {**OLD, **large}, "B": {**NEW, **{path: data[::-1] for path, data in large.items()}}}
    for name, files in projects.items():
        put(tmp_path / name, files)
    out = tmp_path / "parent" / "out"
    write_project(projects["A"], out)
    script = (
        "import sys, itertools\nfrom pathlib import Path\n"
        "from killed_writer import files_of\nfrom mlf_sdk.codegen.writer import write_project\n"
        "root = Path(sys.argv[1])\nprojects = [files_of(root / n) for n in 'AB']\n"
        "(root / 'ready').touch()\n"
        "for files in itertools.cycle(projects):\n    write_project(files, root / 'parent' / 'out')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    dice = random.Random(7)
    for _ in range(5):
        (tmp_path / "ready").unlink(missing_ok=True)
        with start_process([sys.executable, "-c", script, str(tmp_path)], env=environment) as child:
            until = time.monotonic() + 30
            while not (tmp_path / "ready").exists():
                assert time.monotonic() < until and child.exit_code() is None, child.stderr_tail()
                time.sleep(0.005)
            time.sleep(dice.uniform(0.0, 0.06))
            os.kill(child.pid, signal.SIGKILL)
            assert child.wait(10.0) == -signal.SIGKILL
        assert files_of(out) in [on_disk(files) for files in projects.values()]
    write_project(projects["A"], out)
    assert alone(out)


def test_stale_staging_folders_are_removed(out: Path) -> None:
    stale = out.parent / ".out.mlf-abc"
    put(stale, {".owner": b"", "new/crt/src/mlf.c": b""})
    others = [out.parent / name for name in (".other.mlf-x", ".out.mlf-user", "out.mlf")]
    for folder in others:
        put(folder, {"file": b""})
    with scratch_folder(".out.mlf-", out.parent) as alive:
        write_project(NEW, out)
        assert alive.is_dir()  # another writer at work
    assert not stale.exists()
    assert all(folder.is_dir() for folder in others)
