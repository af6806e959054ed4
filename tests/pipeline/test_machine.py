# SPDX-License-Identifier: Apache-2.0
"""Machines that lack a program or space, and builds in the cache that were damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mlf_sdk
from archives import build, write
from hidden_packages import hide_packages
from mlf_sdk.errors import ToolError
from mlf_sdk.pipeline.cache import cache_folder
from mlf_sdk.targets.cmake import build_project
from mlf_sdk.tools.files import write_whole
from mlf_sdk.tools.process import ProcessResult

PROGRAMS = ("cmake", "ninja", "cc", "arm-none-eabi-gcc", "arm-none-eabi-objcopy", "qemu-system-arm")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write(build(), tmp_path / "tiny.tar")


@pytest.mark.parametrize(
    ("program", "package", "board", "twin"),
    [
        ("cmake", "cmake", "host", False),
        ("ninja", "ninja-build", "host", False),
        ("cc", "gcc", "host", False),
        ("arm-none-eabi-gcc", "gcc-arm-none-eabi", "mps2-an386", False),
        ("qemu-system-arm", "qemu-system-arm", "mps2-an386", False),
        ("cc", "gcc", "mps2-an386", True),
    ],
)
def test_a_missing_program_is_named_before_anything_is_built(
    tiny: Path,
    tmp_path: Path,
    own_cache: Path,
    monkeypatch,
    program: str,
    package: str,
    board: str,
    twin: bool,
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        if name != program:
            (programs / name).write_text("#!/bin/sh\necho started >> $0.log\nexit 1\n")
            (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("CC", raising=False)
    hide_packages(monkeypatch)
    with pytest.raises(ToolError, match=f"'{program}' is not installed") as caught:
        mlf_sdk.run(tiny, board=board, twin=twin)
    install = f"Install it: sudo apt-get install {package}; mlf-sdk doctor lists all that is missing"
    assert caught.value.hint.splitlines()[0] == install
    started = {path.stem for path in programs.glob("*.log")}
    assert not started & {"cmake", "ninja", "qemu-system-arm"}  # compilers may preprocess what is analysed
    assert not list(own_cache.rglob("build"))


@pytest.mark.toolchain
@pytest.mark.usefixtures("needs_host", "own_cache")
def test_a_damaged_build_in_the_cache_is_made_anew(tiny: Path) -> None:
    folder = mlf_sdk.run(tiny, board="host").folder
    assert folder.is_relative_to(cache_folder())
    elf = folder / "build/app.elf"
    inode = elf.stat().st_ino
    assert mlf_sdk.run(tiny, board="host").ok
    assert elf.stat().st_ino == inode, "a whole build is kept"
    elf.write_bytes(elf.read_bytes()[:3000])
    assert mlf_sdk.run(tiny, board="host").ok
    (folder / "build/CMakeCache.txt").write_bytes(b"\0 not a cache\n")
    os.utime(folder / "CMakeLists.txt")  # CMake runs again
    assert mlf_sdk.run(tiny, board="host").ok
    next((folder / "build").rglob("*.o")).write_bytes(b"")
    elf.unlink()
    assert mlf_sdk.run(tiny, board="host").ok
    for path in (folder / "build").glob("mlf-image*"):  # as if it had been interrupted
        path.unlink()
    (folder / "build/build.ninja").write_bytes(b"")
    assert mlf_sdk.run(tiny, board="host").ok


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_named_where_a_file_is_written() -> None:
    with pytest.raises(ToolError, match="the disk is full") as caught:
        write_whole("/dev/full", b"content")
    assert caught.value.where == "/dev/full"
    assert "mlf-sdk cache clean" in caught.value.hint


def test_a_full_disk_is_named_where_a_project_is_written(tiny: Path, tmp_path: Path, monkeypatch) -> None:
    def full(source: Path, *_: object) -> None:
        raise OSError(28, "No space left on device", str(source))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ToolError, match="the disk is full"):
        mlf_sdk.generate(tiny, tmp_path / "app", board="host")
    assert not (tmp_path / "app").exists()


def test_a_full_disk_is_named_where_a_project_is_built(tmp_path: Path) -> None:
    def runner(argv: list[str], **_: object) -> ProcessResult:
        output = "FAILED: a.o\n/tmp/x.s: fatal error: can't write: No space left on device\n"
        return ProcessResult(argv=tuple(argv), returncode=1, stdout=output, stderr="", seconds=0.1)

    with pytest.raises(ToolError, match="the disk is full") as caught:
        build_project(tmp_path, runner=runner)
    assert caught.value.where == str(tmp_path)


@pytest.mark.parametrize(
    ("output", "is_named"),
    [
        (
            "ninja: error: unknown target 'cmTC_5b286'\nCMake will not be able to generate this project.\n",
            True,
        ),
        ("ninja: error: build.ninja:52: unknown build rule 'C_COMPILER__mlf_runtime_None'\n", True),
        ("model.c:3:1: error: unknown type name 'x'\n", False),
    ],
)
def test_a_full_disk_is_named_where_no_program_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, is_named: bool
) -> None:
    """What CMake cut off without a word is made again; a fault of the code stays one."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def runner(argv: list[str], **_: object) -> ProcessResult:
        return ProcessResult(argv=tuple(argv), returncode=1, stdout=output, stderr="", seconds=0.1)

    rules = tmp_path / "build/build.ninja"
    rules.parent.mkdir()
    rules.write_text("build a: C_COMPIL")
    with pytest.raises(ToolError, match=r"failed with exit code 1"):
        build_project(tmp_path, runner=runner)
    assert rules.exists(), "there is room: the output stands"
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(ToolError, match="the disk is full" if is_named else "unknown type name"):
        build_project(tmp_path, runner=runner)
    assert rules.exists() is not is_named
