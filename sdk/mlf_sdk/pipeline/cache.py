# SPDX-License-Identifier: Apache-2.0
"""Projects of archives that are run without being generated first: kept, and built once."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import platformdirs

from mlf_sdk.codegen.writer import write_project
from mlf_sdk.pipeline.project import ProjectPlan
from mlf_sdk.tools.locks import exclusive

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
    with exclusive(str(folder), WRITE_TIMEOUT_S):
        write_project(files, folder)
    return folder
