# SPDX-License-Identifier: Apache-2.0
"""Projects of archives that are run without being generated first: kept, and built once."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from mlf_sdk.codegen.writer import write_project
from mlf_sdk.errors import ToolError
from mlf_sdk.pipeline.project import ProjectPlan
from mlf_sdk.resources import cache_dir
from mlf_sdk.targets.cmake import BuildResult
from mlf_sdk.tools.files import write_whole
from mlf_sdk.tools.locks import exclusive
from mlf_sdk.tools.process import ProcessError

WRITE_TIMEOUT_S = 60.0
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
    runtime, and of options that its builds remember. Two different projects never share a folder.
    """
    files = plan.files()
    digest = hashlib.sha256()
    for path, content in files.items():
        digest.update(msgspec.json.encode([path, len(content)]))
        digest.update(content)
    remembered = (plan.choice.cmake_args, plan.choice.build_dir, plan.choice.cmsis_nn)  # by the project
    if any(remembered):
        digest.update(msgspec.json.encode(remembered))
    name = f"{plan.lock.models[0].c_name}-{plan.board.name.replace('/', '_')}-{digest.hexdigest()[:16]}"
    folder = (root or cache_folder()) / name
    with exclusive(str(folder), WRITE_TIMEOUT_S):
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


def clean_cache() -> int:
    """Remove everything that the SDK keeps between runs: projects, builds, templates, plugins, proofs.

    Returns:
        Bytes that were freed.
    """
    root = cache_folder().parent
    freed = cache_bytes()
    for entry in root.glob("*"):
        if entry.name != "locks":
            shutil.rmtree(entry, ignore_errors=True)
    return freed


def cache_bytes() -> int:
    """Size in bytes of everything that the SDK keeps between runs."""
    root = cache_folder().parent
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
