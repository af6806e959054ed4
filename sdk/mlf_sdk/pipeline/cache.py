# SPDX-License-Identifier: Apache-2.0
"""Projects of archives that are run without being generated first: kept, and built once."""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import platformdirs

from mlf_sdk.codegen.writer import write_project
from mlf_sdk.errors import ToolError
from mlf_sdk.pipeline.project import ProjectPlan

WRITE_TIMEOUT_S = 60.0


def cache_folder() -> Path:
    """Where cached projects lie (``$XDG_CACHE_HOME/mlf-sdk/projects`` on Linux)."""
    return Path(platformdirs.user_cache_dir("mlf-sdk")) / "projects"


def cached_project(plan: ProjectPlan, root: Path | None = None) -> Path:
    """The folder of the plan's project, written when it is not there yet.

    Its name is a hash of every file of the project: of the archive, the options, the board and the
    runtime. Two different projects never share a folder.
    """
    files = plan.files()
    digest = hashlib.sha256()
    for path, content in files.items():
        digest.update(msgspec.json.encode([path, len(content)]))
        digest.update(content)
    name = f"{plan.lock.models[0].c_name}-{plan.board.name.replace('/', '_')}-{digest.hexdigest()[:16]}"
    folder = (root or cache_folder()) / name
    with only_one(str(folder), WRITE_TIMEOUT_S):
        write_project(files, folder)
    return folder


@contextmanager
def only_one(name: str, timeout_s: float) -> Iterator[None]:
    """Keep other processes of this user out while something is done to what ``name`` stands for.

    Raises:
        ToolError: another process did not finish in time.
    """
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    path = cache_folder().parent / "locks" / f"{digest}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + timeout_s
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ToolError(
                        f"another process has been working on it for {timeout_s:.0f} s",
                        where=name,
                        hint="Wait for it, or end it.",
                    ) from None
                time.sleep(0.05)
        yield
