# SPDX-License-Identifier: Apache-2.0
"""Projects of archives that are run without being generated first: kept, and built once."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec

from mlf_sdk.codegen.writer import is_generated, write_project
from mlf_sdk.errors import ToolError
from mlf_sdk.pipeline.project import ProjectPlan
from mlf_sdk.resources import cache_dir
from mlf_sdk.targets.cmake import BuildResult
from mlf_sdk.tools.files import make_folder, scratch_folder, write_error, write_whole
from mlf_sdk.tools.locks import exclusive, lock_folder
from mlf_sdk.tools.process import ProcessError
from mlf_sdk.tools.programs import program_stamp

WRITE_TIMEOUT_S = 60.0
CLEAN_TIMEOUT_S = 10.0
_TRASH = ".trash-"
_WHOLE = "mlf-image.sha256"  # in the build folder: hash of the image of the last whole build
_NOTHING_DONE = "ninja: no work to do."


def cache_folder() -> Path:
    """Folder of cached projects (``$XDG_CACHE_HOME/mlf-sdk/projects`` on Linux)."""
    return cache_dir("projects")


def plugin_folder() -> Path:
    """Folder of plugins that were built for an emulator."""
    return cache_dir("plugins")


def cached_project(plan: ProjectPlan, root: Path | None = None) -> Path:
    """Folder of the plan's project, written when it is not there yet.

    Its name is a hash of every file of the project, that is of the archive, the options, the board and the
    runtime, of options that its builds remember, and of the compilers on this machine that build it, with
    their arguments. Two different projects never share a folder, nor do builds by two versions of a compiler.
    """
    files = plan.files()
    digest = hashlib.sha256()
    for path, content in files.items():
        digest.update(msgspec.json.encode([path, len(content)]))
        digest.update(content)
    digest.update(program_stamp(plan.compilers).encode())
    remembered = (plan.choice.cmake_args, plan.choice.build_dir, plan.choice.cmsis_nn)  # by the project
    if any(remembered):
        digest.update(msgspec.json.encode(remembered))
    if plan.build_variables:  # as a toolchain's row has them
        digest.update(msgspec.json.encode(sorted(plan.build_variables.items())))
    name = f"{plan.lock.models[0].c_name}-{plan.board.name.replace('/', '_')}-{digest.hexdigest()[:16]}"
    folder = (root or cache_folder()) / name
    with exclusive(str(folder), WRITE_TIMEOUT_S):
        if folder.is_dir() and not is_generated(folder):  # a removal was killed
            shutil.rmtree(folder)
        write_project(files, folder, force=True)
    return folder


def build_cached(folder: Path, build: Callable[[], BuildResult]) -> BuildResult:
    """Build a cached project; a build that is unfinished, or was damaged since, is made anew.

    Args:
        folder: of the project.
        build: builds it; errors as in `Target.build`.
    """
    record = folder / "build" / _WHOLE
    if not record.is_file():
        shutil.rmtree(record.parent, ignore_errors=True)
        built = build()
    else:
        expected = record.read_text()
        try:
            built = build()
            whole = _NOTHING_DONE not in built.log or _digest(built.elf) == expected
        except ProcessError:  # late, or not started
            raise
        except ToolError:
            whole = False  # its sources built before
        if not whole:
            shutil.rmtree(record.parent, ignore_errors=True)
            built = build()
    write_whole(record, _digest(built.elf).encode())
    return built


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def clean_cache(timeout_s: float = CLEAN_TIMEOUT_S) -> int:
    """Remove everything that the SDK keeps between runs: projects, builds, templates, plugins, proofs.

    Each entry is moved away before it is removed: a process that is killed meanwhile leaves it as it is, or
    nothing of it; the next removes what is left.

    Args:
        timeout_s: to wait for processes that use it.

    Returns:
        Bytes that were freed.

    Raises:
        ToolError: processes use it.
        InputError: it can't be changed.
    """
    root = cache_dir()
    make_folder(root)
    before = cache_bytes()
    try:
        with exclusive(str(root), timeout_s), scratch_folder(_TRASH, root) as trash:
            for entry in root.iterdir():
                if entry.name != lock_folder().name and not entry.name.startswith(_TRASH):
                    entry.rename(trash / entry.name)
    except OSError as error:
        raise write_error(error, "can't remove it", where=str(root), hint="Whose is it?") from error
    return before - cache_bytes()


def cache_bytes() -> int:
    """Size in bytes of everything that the SDK keeps between runs."""
    result = (Path(folder) / name for folder, _, names in os.walk(cache_dir()) for name in names)
    return sum(map(_size, result))


def _size(path: Path) -> int:
    try:
        result = path.lstat()
    except FileNotFoundError:  # it was removed meanwhile
        return 0
    return result.st_size if stat.S_ISREG(result.st_mode) else 0
