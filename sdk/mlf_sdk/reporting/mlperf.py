# SPDX-License-Identifier: Apache-2.0
"""Result of ``bench mlperf`` for the terminal, and as a part of the report page."""

from __future__ import annotations

import dataclasses

from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.mlperf.bench import mlperf_request, rpc_request
from mlf_sdk.pipeline.mlperf.results import MlperfReport
from mlf_sdk.pipeline.options import GatherOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.report import gather
from mlf_sdk.pipeline.request import NO_PORT, Request
from mlf_sdk.reporting.html.collect import collect
from mlf_sdk.reporting.html.mlperf import is_timed, mlperf_facts, window_rows
from mlf_sdk.reporting.html.page import render_page
from mlf_sdk.reporting.layout import Parts, line, lines, table, verdict
from mlf_sdk.targets.target import Ability


def mlperf_parts(mlperf_report: MlperfReport) -> Parts:
    """Lay out a bench."""
    parts: Parts = [line(label, text) for label, text in mlperf_facts(mlperf_report)]
    if is_timed(mlperf_report):
        parts += ["", table((">window", ">seconds", ">inferences/s"), window_rows(mlperf_report)), ""]
    parts += [*lines("objection", mlperf_report.errors), *lines("note", mlperf_report.notes)]
    return [*parts, line("verdict", verdict(mlperf_report.ok))]


def mlperf_page(request: Request, mlperf_report: MlperfReport, pipeline: Pipeline) -> bytes:
    """Report page of the model, with the result of a bench.

    An emulated board also runs the model once in the rpc application; else the page is about the image alone.
    """
    own = GatherOptions(with_run=False, with_profile=False)
    request = mlperf_request(request).replace(**NO_PORT)
    if not stages.is_project(request) and Ability.START in pipeline.project(request).target.abilities:
        request, own = rpc_request(request), GatherOptions()
    report = collect(gather(request, own, pipeline))
    return render_page(dataclasses.replace(report, mlperf=mlperf_report))
