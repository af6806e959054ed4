# SPDX-License-Identifier: Apache-2.0
"""Removal of the cache beside those that use it, and what a removal that was killed leaves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mlf_sdk.errors import ToolError
from mlf_sdk.pipeline.cache import cache_bytes, cached_project, clean_cache
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.project import ProjectPlan
from mlf_sdk.pipeline.request import Request
from mlf_sdk.resources import cache_dir
from mlf_sdk.tools.locks import cache_in_use, exclusive
from mlf_sdk.tools.toolchains import load_toolchains
from model_cases import Net


@pytest.fixture
def cache(own_cache: Path) -> Path:
    return cache_dir()


@pytest.fixture
def request_(tmp_path: Path, cache: Path) -> Request:
    net = Net("doubling")
    archive = net.write(tmp_path / "doubling.tar", net.call("double", [net.input("x")], "2.0f * in0[i]"))
    return Request(source=(str(archive),), board="mps2-an386")


@pytest.fixture
def plan(request_: Request) -> ProjectPlan:
    return Pipeline().plan(request_)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_what_a_run_uses_is_not_removed(request_: Request, cache: Path) -> None:
    pipeline = Pipeline()
    folder = pipeline.project(request_).folder
    files = contents(folder)
    with pytest.raises(ToolError, match="another process has been working on it for 0 s") as caught:
        clean_cache(timeout_s=0.1)
    assert caught.value.where == str(cache)
    assert contents(folder) == files
    pipeline.close()
    assert clean_cache(timeout_s=0.1) >= sum(map(len, files.values()))
    assert [path.name for path in cache.iterdir()] == ["locks"]


def test_another_version_of_the_compiler_is_another_build(
    request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs_arm: None
) -> None:
    """A kept image is not that of a compiler that was replaced since."""

    def folder(**options: str) -> Path:
        return cached_project(Pipeline().plan(request_.replace(**options)))

    first = folder()
    assert folder() == first
    compiler = tmp_path / "bin" / "arm-none-eabi-gcc"
    compiler.parent.mkdir()
    compiler.symlink_to(shutil.which(compiler.name) or "")
    monkeypatch.setenv("PATH", os.pathsep.join([str(compiler.parent), os.environ["PATH"]]))
    assert folder() == first  # the same one by another name
    compiler.unlink()
    compiler.write_text(f'#!/bin/sh\nexec {shutil.which(compiler.name)} "$@"\n')
    compiler.chmod(0o755)
    second = folder()
    os.utime(compiler, (1, 1))
    assert len({first, second, folder(), folder(toolchain="zig")}) == 4


def test_other_arguments_of_a_compiler_are_another_build(
    request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project for this machine does not know them: the build's environment has them."""

    def folder(argument: str) -> Path:
        rows = load_toolchains()
        zig = msgspec.structs.replace(rows["zig"], native_arguments=(argument,))
        monkeypatch.setattr("mlf_sdk.tools.toolchains.load_toolchains", lambda: rows | {"zig": zig})
        return cached_project(Pipeline().plan(request_.replace(board="host", toolchain="zig")))

    assert folder("-mcpu=baseline") == folder("-mcpu=baseline") != folder("-mcpu=native")


def test_a_pipeline_that_is_gone_uses_nothing(request_: Request, cache: Path) -> None:
    Pipeline().project(request_)
    clean_cache(timeout_s=0.1)
    assert not (cache / "projects").exists()


def test_a_removal_is_waited_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlf_sdk.tools.locks.CACHE_TIMEOUT_S", 0.1)
    with (
        exclusive(str(cache), 1.0),
        pytest.raises(ToolError, match="another process has been working on it"),
        cache_in_use(),
    ):
        raise AssertionError("it is being removed")


def test_several_use_the_cache_at_once(cache: Path) -> None:
    with cache_in_use(), cache_in_use():
        pass
    with exclusive(str(cache), 0.1):
        pass


KILLED = """
import os, shutil
from mlf_sdk.pipeline.cache import clean_cache
shutil.rmtree = lambda *_, **__: os._exit(9)
clean_cache()
"""


def test_a_removal_that_is_killed_leaves_nothing_half(plan: ProjectPlan, cache: Path) -> None:
    folder = cached_project(plan)
    path = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", KILLED], env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.returncode == 9 and not folder.exists()
    assert [entry.name for entry in cache.glob(".trash-*")]
    assert contents(cached_project(plan)).keys() >= plan.files().keys()
    assert clean_cache() > 0
    assert [entry.name for entry in cache.iterdir()] == ["locks"]


def test_a_project_that_is_not_whole_is_made_again(plan: ProjectPlan) -> None:
    """Whatever an earlier version's removal left, when it was killed or when programs used the folder."""
    folder = cached_project(plan)
    whole = contents(folder)
    for kept in ("mlf-project.json", "CMakeLists.txt", "build/app.elf", "src/main.c"):
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        (folder / kept).parent.mkdir(exist_ok=True)
        (folder / kept).write_bytes(whole.get(kept, b"elf"))
        assert cached_project(plan) == folder
        found = contents(folder)
        assert {name: found.get(name) for name in whole} == whole, kept


def test_the_size_is_known_while_files_vanish(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(parents=True)
    (cache / "a").write_bytes(b"12345")
    (cache / "link").symlink_to("a")
    walk = os.walk

    def vanishing(*arguments: object):
        for folder, folders, names in walk(*arguments):
            yield folder, folders, [*names, "gone"]

    monkeypatch.setattr("mlf_sdk.pipeline.cache.os.walk", vanishing)
    assert cache_bytes() == 5
