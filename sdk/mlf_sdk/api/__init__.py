# SPDX-License-Identifier: Apache-2.0
"""One call for each job: load, generate, build, check, run."""

from mlf_sdk.api.compare import compare
from mlf_sdk.api.profile import profile
from mlf_sdk.api.project import (
    GeneratedProject,
    ProjectPlan,
    build,
    check,
    generate,
    load,
    plan_project,
)
from mlf_sdk.api.results import MemoryFigures, RunReport
from mlf_sdk.api.run import run

__all__ = [
    "GeneratedProject",
    "MemoryFigures",
    "ProjectPlan",
    "RunReport",
    "build",
    "check",
    "compare",
    "generate",
    "load",
    "plan_project",
    "profile",
    "run",
]
