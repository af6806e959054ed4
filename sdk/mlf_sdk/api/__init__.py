# SPDX-License-Identifier: Apache-2.0
"""One call for each job: load, generate, build, check, run."""

from mlf_sdk.api.compare import compare
from mlf_sdk.api.firmware import InspectedFirmware, inspect_firmware
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
from mlf_sdk.api.sbom import Sbom, make_sbom
from mlf_sdk.api.verification import Verification, verify_device

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
