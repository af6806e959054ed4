# SPDX-License-Identifier: Apache-2.0
"""One call for each job: load, generate, build, check, run."""

from mlf_sdk.pipeline.compare import compare
from mlf_sdk.pipeline.firmware import InspectedFirmware, inspect_firmware
from mlf_sdk.pipeline.profile import profile
from mlf_sdk.pipeline.project import (
    GeneratedProject,
    ProjectPlan,
    build,
    check,
    generate,
    load,
    plan_project,
)
from mlf_sdk.pipeline.results import MemoryFigures, RunReport
from mlf_sdk.pipeline.run import run
from mlf_sdk.pipeline.sbom import Sbom, make_sbom
from mlf_sdk.pipeline.verification import Verification, verify_device

__all__ = [
    "GeneratedProject",
    "InspectedFirmware",
    "MemoryFigures",
    "ProjectPlan",
    "RunReport",
    "Sbom",
    "Verification",
    "build",
    "check",
    "compare",
    "generate",
    "inspect_firmware",
    "load",
    "make_sbom",
    "plan_project",
    "profile",
    "run",
    "verify_device",
]
