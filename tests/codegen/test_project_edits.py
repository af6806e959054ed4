# SPDX-License-Identifier: Apache-2.0
"""Every file of every kind of project: an edit is kept or refused when the project is generated again."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from archives import Spec, build, write
from mlf_sdk.codegen.changes import MANIFEST_NAME, USER_FILES
from mlf_sdk.codegen.writer import LOCK_NAME, ChangedFilesError, write_project
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from zephyr_trees import put, version_text

KINDS: dict[str, dict[str, Any]] = {
    "host": {"board": "host"},
    "bare metal": {"board": "mps2-an386"},
    "standalone": {"board": "microbit", "app": "standalone"},
    "graph executor": {"board": "mps2-an386", "executor": "graph"},
    "library": {"board": "mps2-an386", "app": "library"},
    "zephyr": {"board": "mps2_an385", "platform": "zephyr"},
    "zephyr module": {"board": "any", "platform": "zephyr", "app": "library"},
}
DESK = {
    ".gdbinit",
    ".gitignore",
    ".vscode/cmake-kits.json",
    ".vscode/launch.json",
    ".vscode/tasks.json",
}
YOURS = {
    "host": {"app.cmake", "src/main.c", *DESK},
    "bare metal": {"app.cmake", "app.ld", "src/main.c", *DESK},
    "standalone": {"app.cmake", "app.ld", "src/main.c", *DESK},
    "graph executor": {"app.cmake", "app.ld", "src/main.c", *DESK},
    "library": set(),
    "zephyr": {"app.cmake", "prj.conf", "src/main.c"},
    "zephyr module": set(),
}
EDIT = b"\n# an edit\n"


@cache
def files_of(kind: str) -> dict[str, bytes]:
    """All files of a project of the kind but the manifest, as they are generated."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        put(folder / "zephyr/VERSION", version_text("3.2.0"))
        put(folder / "zephyr/boards/arm/mps2_an385/mps2_an385_defconfig")
        archive = write(build(Spec()), folder / "tiny.tar")
        request = Request(source=(str(archive),), zephyr_base=str(folder / "zephyr"), **KINDS[kind])
        return Pipeline().plan(request).files()


def next_files(kind: str) -> dict[str, bytes]:
    """The same project where every file has other content."""
    return {path: content + b"\n# next\n" for path, content in files_of(kind).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_the_user(kind: str) -> None:
    assert files_of(kind).keys() & USER_FILES == YOURS[kind]
    assert LOCK_NAME in files_of(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_is_kept_or_refused(tmp_path: Path, kind: str) -> None:
    out, now, later = tmp_path / "out", files_of(kind), next_files(kind)
    write_project(now, out)
    for path in [*now, MANIFEST_NAME]:
        generated = (out / path).read_bytes()
        edited = generated + EDIT
        (out / path).write_bytes(edited)
        times = {file: file.stat().st_mtime_ns for file in out.rglob("*")}
        if path in YOURS[kind]:
            assert path in write_project(later, out).kept
        for files in (now, later) if path not in YOURS[kind] else ():
            if path == MANIFEST_NAME:
                with pytest.raises(InputError, match="the list of generated files was changed"):
                    write_project(files, out)
            else:
                with pytest.raises(ChangedFilesError) as caught:
                    write_project(files, out)
                assert caught.value.paths == (path,)
        assert (out / path).read_bytes() == edited, path
        if path in YOURS[kind]:
            write_project(now, out)
        else:
            assert {file: file.stat().st_mtime_ns for file in out.rglob("*")} == times, path
        (out / path).write_bytes(generated)


@pytest.mark.parametrize("kind", KINDS)
def test_deleted_files_come_back(tmp_path: Path, kind: str) -> None:
    write_project(files_of(kind), tmp_path / "out")
    for path in files_of(kind):
        (tmp_path / "out" / path).unlink()
    write_project(files_of(kind), tmp_path / "out")
    assert {path: (tmp_path / "out" / path).read_bytes() for path in files_of(kind)} == files_of(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_forced_edits_are_saved(tmp_path: Path, kind: str) -> None:
    files, out = files_of(kind), tmp_path / "out"
    write_project(files, out)
    for path in files:
        (out / path).write_bytes(files[path] + EDIT)
    result = write_project(next_files(kind), out, force=True)
    assert result.kept == tuple(sorted(YOURS[kind]))
    assert result.backups == tuple(sorted(f"{path}.orig" for path in files.keys() - YOURS[kind]))
    for path, content in next_files(kind).items():
        assert (out / path).read_bytes() == (files[path] + EDIT if path in YOURS[kind] else content)
    assert all((out / name).read_bytes() == files[name[:-5]] + EDIT for name in result.backups)


@pytest.mark.parametrize("kind", KINDS)
def test_files_beside_every_generated_file_are_kept(tmp_path: Path, kind: str) -> None:
    """Own files in all folders, and what editors and tools put there."""
    out = tmp_path / "out"
    write_project(files_of(kind), out)
    own = [out / path for path in ("CMakeUserPresets.json", ".git/config", "notes/deep/a.txt", "app.Kconfig")]
    own += [folder / "own.c" for folder in {(out / path).parent for path in files_of(kind)}]
    for path in own:
        put(path, f"mine {path.name}")
    assert write_project(next_files(kind), out).backups == ()
    assert write_project({LOCK_NAME: b"{}"}, out).backups == ()  # nothing else is generated any more
    assert all(path.read_text() == f"mine {path.name}" for path in own)
    left = {path for path in out.rglob("*") if path.is_file()} - set(own)
    assert left == {out / path for path in {LOCK_NAME, MANIFEST_NAME, *YOURS[kind]}}
