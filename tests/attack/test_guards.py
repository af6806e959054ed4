# SPDX-License-Identifier: Apache-2.0
"""A kernel that writes one byte behind the arena of an emulated board, and answers right: the cases of ``test``,
the pytest plugin and an open session tell of it."""

from __future__ import annotations

import shutil
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from rich.console import Console

import mlf_sdk
from mlf_sdk.judge.check import FAILED, PROVEN
from mlf_sdk.judge.painted import GuardError
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.reporting.cases import cases_parts
from mlf_sdk.reporting.junit import junit_xml
from model_cases import Net
from pytest_runs import UNUSED

BOARD = "mps2-an386"
BEHIND = "the model wrote behind the arena"
BYTE = 0xA5  # one of the two paints

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.toolchain, pytest.mark.qemu, pytest.mark.usefixtures("needs_qemu")]


@pytest.fixture(scope="module")
def beyond(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the archive of y = 2 x, whose kernel writes the byte x[1] at distance x[0] from y, if x[0] > 0."""
    net = Net("beyond")
    first, second = (f"(int32_t)((float*)in0)[{i}]" for i in range(2))
    write = f"if ({first} > 0) ((uint8_t*)out0)[{first}] = (uint8_t)({second})"
    y = net.call("double", [net.input("x")], f"2.0f * in0[i]; {write}")
    return net.write(tmp_path_factory.mktemp("beyond") / "beyond.tar", y)


def distance(archive: Path) -> int:
    """Bytes from the output to the first byte behind the arena."""
    planned = Pipeline().plan(Request(source=(str(archive),), board=BOARD)).layouts[0]
    return planned.arena_reserved_bytes - planned.offset(planned.model.outputs[0])


def cases(*writes: tuple[int, int]) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs with the right outputs; each case writes a byte (value) at a distance, 0: nowhere."""
    x = np.zeros((len(writes), 1, 8), np.float32)
    x[:, 0, 2:] = np.arange(3, 9)
    x[:, 0, :2] = writes
    return {"x": x, "0": 2 * x}


def test_each_case_that_writes_outside_fails(beyond: Path) -> None:
    at = distance(beyond)
    report = mlf_sdk.test(beyond, cases((0, 0), (at, 7), (0, 0), (at, BYTE), (0, 0)), board=BOARD)
    assert [case.outcome for case in report.cases] == ["passed", "failed", "passed", "failed", "passed"]
    assert all(case.comparison is not None and case.comparison.ok for case in report.cases)
    assert (report.cases[1].why, report.cases[3].why) == (BEHIND, BEHIND)
    assert not report.ok
    assert report.check is not None
    row = next(row for row in report.check.rows if row.item == "guards")
    assert (row.planned, row.measured, row.state, row.note) == (2, 2, FAILED, BEHIND)
    printed = StringIO()
    Console(width=120, file=printed).print(*cases_parts(report))
    shown = printed.getvalue()
    assert f"case 1: {BEHIND}" in shown and f"guards failed: {BEHIND}" in shown
    failures = ET.fromstring(junit_xml(report)).iter("failure")
    assert sum(BEHIND in (f.get("message") or "") + (f.text or "") for f in failures) == 3


def test_cases_that_stay_inside_prove_the_guards(beyond: Path) -> None:
    report = mlf_sdk.test(beyond, cases((0, 0), (0, 0)), board=BOARD)
    assert report.ok
    assert report.check is not None
    row = next(row for row in report.check.rows if row.item == "guards")
    assert (row.planned, row.measured, row.state, row.note) == (2, 2, PROVEN, "")


def test_an_open_session_tells_and_goes_on(beyond: Path) -> None:
    given = cases((distance(beyond), 7), (0, 0))
    with mlf_sdk.open_session(beyond, board=BOARD) as model:
        with pytest.raises(GuardError, match=BEHIND) as caught:
            model.infer(given["x"][0])
        np.testing.assert_array_equal(caught.value.outputs[0], given["0"][0])
        np.testing.assert_array_equal(model.infer(given["x"][1])[0], given["0"][1])


def test_the_plugin_tells(beyond: Path, pytester: pytest.Pytester) -> None:
    """The test that made the model write fails, or has an error at its end; the board stays in use."""
    shutil.copy(beyond, pytester.path / "beyond.tar")
    pytester.makepyfile(f"""
        import numpy as np
        import pytest

        pytestmark = pytest.mark.mlf("beyond.tar")
        OUTSIDE = np.float32([[{distance(beyond)}, 7, 3, 4, 5, 6, 7, 8]])
        INSIDE = OUTSIDE * np.float32([0, 1, 1, 1, 1, 1, 1, 1])

        def test_model_outside(mlf_model):
            mlf_model().infer(OUTSIDE)

        def test_model_inside(mlf_model):
            np.testing.assert_array_equal(mlf_model().infer(INSIDE)[0], 2 * INSIDE)

        def test_session_outside(mlf_session):
            np.testing.assert_array_equal(mlf_session.infer(0, [OUTSIDE])[0], 2 * OUTSIDE)

        def test_session_inside(mlf_session):
            np.testing.assert_array_equal(mlf_session.infer(0, [INSIDE])[0], 2 * INSIDE)
    """)
    result = pytester.runpytest_subprocess(*UNUSED, "-p", "no:xdist", "--mlf-board", BOARD, "-rfEp")
    result.assert_outcomes(failed=1, errors=1, passed=3)
    result.stdout.fnmatch_lines_random(
        [
            "FAILED *::test_model_outside?mps2-an386?*",
            "ERROR *::test_session_outside?mps2-an386?*",
            "PASSED *::test_model_inside?mps2-an386?*",
            "PASSED *::test_session_inside?mps2-an386?*",
            f"*GuardError: model beyond: {BEHIND}*",
        ]
    )
