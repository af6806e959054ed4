# SPDX-License-Identifier: Apache-2.0
"""Inputs on their way to a worker: they keep their names, and their content is checked."""

from __future__ import annotations

import errno
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="sweeps over processes need distributed")

from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.sweep import job as job_module
from mlf_sdk.sweep import travel
from mlf_sdk.sweep.identity import digest_of
from mlf_sdk.sweep.job import CELL, Job, JobResult, Setup, Spec, run_job
from mlf_sdk.sweep.travel import pack, unpack


def folder_of(path: Path) -> Path:
    (path / "include").mkdir(parents=True)
    (path / "model.weights.bin").write_bytes(bytes(range(64)))
    (path / "include" / "model.h").write_text("int model(void);\n")
    return path


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_an_input_keeps_its_name(tmp_path: Path, kind: str) -> None:
    """Tables and journals name an archive by the end of its path, wherever a cell ran."""
    source = folder_of(tmp_path / "my-bundle")
    if kind == "file":
        source = source / "model.weights.bin"
    digest = digest_of(source)
    found = Path(unpack(digest, pack(str(source)), tmp_path / "store"))
    assert (found.name, digest_of(found)) == (source.name, digest)


def test_equal_inputs_with_other_names_lie_beside_each_other(tmp_path: Path) -> None:
    one = folder_of(tmp_path / "one")
    two = Path(shutil.copytree(one, tmp_path / "two"))
    store = tmp_path / "store"
    found = [Path(unpack(digest_of(path), pack(str(path)), store)) for path in (one, two, one)]
    assert [path.name for path in found] == ["one", "two", "one"]
    assert all(digest_of(path) == digest_of(one) for path in found)


def test_a_damaged_copy_is_made_anew(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "my-bundle")
    digest, store = digest_of(source), tmp_path / "store"
    found = Path(unpack(digest, pack(str(source)), store))
    (found / "model.weights.bin").write_bytes(b"cut")
    assert digest_of(unpack(digest, pack(str(source)), store)) == digest


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_folder_that_another_worker_uses_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    """Another worker is faster: what it uses stays as it is, whatever this one finds there."""
    source = folder_of(tmp_path / "my-bundle")
    digest, store = digest_of(source), tmp_path / "store"
    packed = pack(str(source))
    theirs: list[Path] = []
    inodes: list[int] = []
    extract = tarfile.TarFile.extractall

    def slowly(tar: tarfile.TarFile, *arguments: Any, **more: Any) -> None:
        extract(tar, *arguments, **more)
        if not theirs:
            theirs.append(tmp_path)  # this worker's own turn comes once
            theirs[0] = Path(unpack(digest, packed, store))
            inodes.append(theirs[0].stat().st_ino)
            if is_damaged:
                (theirs[0] / "model.weights.bin").write_bytes(b"cut")

    monkeypatch.setattr(tarfile.TarFile, "extractall", slowly)
    ours = Path(unpack(digest, packed, store))
    assert [theirs[0].stat().st_ino] == inodes and digest_of(ours) == digest
    assert (ours == theirs[0]) is not is_damaged
    assert not list(store.glob(".part-*"))


def test_content_that_is_not_what_was_planned_with_is_not_kept(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "my-bundle")
    digest, store = digest_of(source), tmp_path / "store"
    (source / "model.weights.bin").write_bytes(b"other")
    with pytest.raises(InputError, match="changed since the sweep was planned"):
        unpack(digest, pack(str(source)), store)
    assert list(store.iterdir()) == []


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source = folder_of(tmp_path / "my-bundle")
    monkeypatch.setattr(tarfile.TarFile, "extractall", full)
    with pytest.raises(ToolError, match="the disk is full"):
        unpack(digest_of(source), pack(str(source)), tmp_path / "store")


# ---- jobs ----


def job_of(source: Path) -> Job:
    fields = {"source": [str(source)], "board": "mps2-an386"}
    return Job(spec=Spec(name="0" * 20, fields=fields, files={str(source): digest_of(source)}))


def run_here(job: Job, monkeypatch: pytest.MonkeyPatch) -> JobResult:
    monkeypatch.setattr("mlf_sdk.sweep.job.mark_children", lambda: None)
    monkeypatch.setattr("mlf_sdk.sweep.job.end_orphans", lambda: 0)
    return run_job(job)


def test_a_cell_whose_file_is_gone_is_lost_and_not_impossible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = folder_of(tmp_path / "my-bundle") / "model.weights.bin"
    job = job_of(source)
    source.unlink()
    found = run_here(job, monkeypatch)
    assert (found.cell, found.kind) == (None, CELL)
    assert found.lost == f"{source}: there is no such file"


def test_a_cell_whose_file_changes_while_it_runs_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found may be of either file: here, that the second one is no model."""
    source = folder_of(tmp_path / "my-bundle") / "model.weights.bin"
    job = job_of(source)
    relocated = job_module._relocated

    def changing(value: Any, files: Any) -> Any:
        source.write_bytes(b"other")
        return relocated(value, files)

    monkeypatch.setattr(job_module, "_relocated", changing)
    found = run_here(job, monkeypatch)
    assert found.cell is None and "changed since" in found.lost


def test_a_job_without_its_inputs_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose disk is full says so; the job may run elsewhere, or later."""

    class Worker:
        address = "tcp://127.0.0.1:1"

        def get_current_task(self) -> str:
            return "key"

        def log_event(self, *_: Any) -> None:
            pass

    def full(*_: Any) -> str:
        raise ToolError("the disk is full")

    source = folder_of(tmp_path / "my-bundle")
    monkeypatch.setattr(travel, "get_worker", Worker)
    monkeypatch.setattr(travel, "unpack", full)
    found = travel.run_remote(job_of(source), Setup(), {str(source): pack(str(source))}, run_job)
    assert (found.cell, found.lost) == (None, "the disk is full")
