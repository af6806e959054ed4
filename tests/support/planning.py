# SPDX-License-Identifier: Apache-2.0
"""Plans of projects for models that were built in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.doctor import ArchiveExamination, examine_request
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.project import ProjectPlan
from mlf_sdk.pipeline.request import Request


def plan_project(models: Sequence[Model], **options: Any) -> ProjectPlan:
    """The stage plan for ``models``; options as those of a request."""
    return stages.plan(Request(source=("in memory",), **options), models)


def examine(archive: Path, **options: Any) -> ArchiveExamination:
    """Findings about an archive, as ``doctor`` shows them."""
    return examine_request(Request(source=(str(archive),), **options), Pipeline())
