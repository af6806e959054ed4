# SPDX-License-Identifier: Apache-2.0
"""The report as a function of the Python API."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from mlf_sdk.pipeline.arguments import Source, Sources, make_request, own_options
from mlf_sdk.pipeline.options import GatherOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.report import Findings, gather
from mlf_sdk.pipeline.request import Request
from mlf_sdk.reporting.html.collect import collect
from mlf_sdk.reporting.html.page import render_page
from mlf_sdk.tools.files import write_whole


def report(
    source: Sources,
    request: Request | None = None,
    *,
    output: Source | None = None,
    made: datetime | None = None,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> Findings:
    """Gather memory, time and verdicts of one model on one board, and write them as one HTML page.

    Args:
        source: an archive, or the folder of a project.
        request: prepared options.
        output: file of the page; None: no page is written.
        made: date to show on the page.
        progress: called with each stage and its state.
        options: ``with_run``, ``with_profile``, and fields of `Request`.

    Raises:
        InputError: bad arguments, archive, project or arrays; the page can't be written.
        ToolError: a tool is missing or failed.
        TargetError: the target did not answer in time, or faulted.
    """
    own, rest = own_options(GatherOptions, None, options)
    result = gather(make_request(source, request, rest), own, Pipeline(progress))
    if output is not None:
        write_whole(Path(output), render_page(collect(result, made)))
    return result
