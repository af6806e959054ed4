# SPDX-License-Identifier: Apache-2.0
"""JUnit XML report of test cases, with the console of the target."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from mlf_sdk.judge.check import PROVEN, UNPROVEN
from mlf_sdk.pipeline.cases import CasesReport

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 can't hold
_TAGS = {"failed": "failure", "error": "error", "skipped": "skipped"}


def junit_xml(report: CasesReport) -> bytes:
    """Render a report as one test suite; characters that XML can't represent are escaped."""
    rows = report.check.rows if report.check is not None else ()
    bad = [row for row in rows if row.state != PROVEN]
    skipped = [row for row in bad if row.state == UNPROVEN and not (report.check and report.check.strict)]
    suite = ET.Element(
        "testsuite",
        name=legal(f"mlf-sdk {report.model.name}"),
        tests=str(len(report.cases) + len(rows)),
        failures=str(report.count("failed") + len(bad) - len(skipped)),
        errors=str(report.count("error")),
        skipped=str(report.count("skipped") + len(skipped)),
        time=f"{report.seconds:.3f}",
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in _facts(report):
        ET.SubElement(properties, "property", name=name, value=legal(value))
    classname = legal(f"{report.model.name}.{report.board.name}")
    for case in report.cases:
        tag = _TAGS.get(case.outcome, "")
        add_case(suite, case.name, classname, tag, case.why, seconds=case.seconds)
    for row in rows:
        tag = "" if row not in bad else "skipped" if row in skipped else "failure"
        add_case(
            suite, f"image: {row.item}", f"{classname}.image", tag, f"{row.state}: {row.note or 'differs'}"
        )
    ET.SubElement(suite, "system-out").text = legal(report.console)
    return document(suite, *([] if report.min_accuracy is None else [_accuracy_suite(report)]))


def document(*suites: ET.Element) -> bytes:
    """Document of test suites."""
    root = ET.Element("testsuites")
    root.extend(suites)
    ET.indent(root)
    text: str = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _accuracy_suite(report: CasesReport) -> ET.Element:
    """The accuracy over all cases: a suite of its own, since it is no case."""
    name, failed = legal(f"mlf-sdk {report.model.name} accuracy"), str(int(bool(report.accuracy_why)))
    suite = ET.Element("testsuite", name=name, tests="1", failures=failed, errors="0", skipped="0")
    classname = legal(f"{report.model.name}.{report.board.name}")
    element = ET.SubElement(suite, "testcase", classname=classname, name="accuracy")
    if report.accuracy_why:
        ET.SubElement(element, "failure", message=report.accuracy_why)
    return suite


def _facts(report: CasesReport) -> list[tuple[str, str]]:
    facts = [
        ("board", report.board.name),
        ("port", report.port or ""),
        ("build_id", report.build_id),
        ("archive", report.model.archive),
        ("archive_sha256", report.model.archive_sha256),
        ("accuracy", "" if report.accuracy is None else f"{report.accuracy:.6f}"),
        ("min_accuracy", "" if report.min_accuracy is None else f"{report.min_accuracy:g}"),
    ]
    return [(name, value) for name, value in facts if value]


def add_case(
    suite: ET.Element, name: str, classname: str, tag: str, why: str, *, seconds: float = 0.0
) -> None:
    """Add a test case to a suite.

    Args:
        tag: ``failure``, ``error`` or ``skipped``; empty: it passed.
        why: reason of the tag.
    """
    element = ET.SubElement(suite, "testcase", classname=classname, name=legal(name), time=f"{seconds:.3f}")
    if tag:
        first = why.splitlines()[0] if why else ""
        ET.SubElement(element, tag, message=legal(first)).text = legal(why)


def legal(text: str) -> str:
    """Escape characters that XML 1.0 can't represent."""
    return _ILLEGAL.sub(lambda result: result[0].encode("unicode_escape", "surrogatepass").decode(), text)
