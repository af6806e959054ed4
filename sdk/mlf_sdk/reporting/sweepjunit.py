# SPDX-License-Identifier: Apache-2.0
"""JUnit XML report of a sweep: one test case a cell."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from mlf_sdk.judge.check import FAILED, PROVEN, UNPROVEN
from mlf_sdk.pipeline.cell import NOT_HERE
from mlf_sdk.reporting.junit import add_case, document, legal
from mlf_sdk.sweep.results import SweepResult, SweepRow


def sweep_junit(sweep_result: SweepResult) -> bytes:
    """Render a sweep as one test suite; a cell without a result is an error."""
    tags = [_tag(row, strict=sweep_result.strict) for row in sweep_result.rows]
    suite = ET.Element(
        "testsuite",
        name=legal(f"mlf-sdk sweep {sweep_result.title}"),
        tests=str(len(tags)),
        failures=str(tags.count("failure")),
        errors=str(tags.count("error")),
        skipped=str(tags.count("skipped")),
        time=f"{sum(row.duration_s or 0 for row in sweep_result.rows):.3f}",
    )
    for row, tag in zip(sweep_result.rows, tags, strict=True):
        name = ", ".join(label for axis, label in row.labels.items() if axis != "model")
        classname = legal(f"sweep.{row.labels.get('model', '')}")
        add_case(suite, name, classname, tag, row.why or row.verdict, seconds=row.duration_s or 0.0)
    return document(suite)


def _tag(row: SweepRow, *, strict: bool) -> str:
    if row.verdict == PROVEN:
        return ""
    if row.verdict == NOT_HERE:
        return "skipped"
    if row.verdict == UNPROVEN:
        return "failure" if strict else "skipped"
    return "failure" if row.verdict == FAILED else "error"
