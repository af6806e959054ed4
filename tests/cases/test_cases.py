# SPDX-License-Identifier: Apache-2.0
"""Many cases on one target: verdicts, accuracy, a target that dies, JUnit, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, reference
from mlf_sdk.cli.main import main
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.cases import Case, CasesReport
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.reporting.junit import junit_xml

COUNT = 5
pytestmark = pytest.mark.toolchain


def npz(
    path: Path,
    *,
    wrong: tuple[int, ...] = (),
    label_wrong: tuple[int, ...] = (),
    outputs: bool = True,
    labels: bool = False,
) -> Path:
    """Inputs and right answers; ``wrong``: of these the expected output is changed."""
    x = np.random.default_rng(3).standard_normal((COUNT, 1, 8)).astype(np.float32)
    y = np.stack([reference(Spec(), one) for one in x])
    label = y.reshape(COUNT, -1).argmax(axis=1)
    expected = y.copy()
    for index in wrong:
        expected[index, 0, 1] += 0.5
    for index in label_wrong:
        label[index] = (label[index] + 1) % 8
    arrays = {"x": x, **({"0": expected} if outputs else {}), **({"label": label} if labels else {})}
    np.savez(path, **arrays)
    return path


def outcomes(report: CasesReport) -> list[str]:
    return [case.outcome for case in report.cases]


def test_every_case_passes(tiny: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    class Seen(Progress):
        def count(self, done: int, total: int) -> None:
            seen.append((done, total))

    report = mlf_sdk.test(tiny, npz(tmp_path / "c.npz"), board="host", progress=Seen())
    assert report.ok
    assert outcomes(report) == ["passed"] * COUNT
    assert [case.name for case in report.cases] == [f"case {i}" for i in range(COUNT)]
    assert seen == [(i + 1, COUNT) for i in range(COUNT)]
    assert report.accuracy is None


def test_a_wrong_output_fails_its_case_alone(tiny: Path, tmp_path: Path) -> None:
    report = mlf_sdk.test(tiny, npz(tmp_path / "c.npz", wrong=(1, 3), labels=True), board="host")
    assert not report.ok
    assert outcomes(report) == ["passed", "failed", "passed", "failed", "passed"]
    assert "differs in 1 of 8 elements (max 0.5" in report.cases[1].why
    assert report.accuracy == 1.0


def test_the_accuracy_is_no_case(tiny: Path, tmp_path: Path) -> None:
    """An inference whose class alone is known has run: only the share of right ones is judged."""
    path = npz(tmp_path / "c.npz", label_wrong=(0,), outputs=False, labels=True)
    enough = mlf_sdk.test(tiny, path, board="host", min_accuracy=0.8)
    assert enough.ok
    assert (enough.accuracy, enough.accuracy_why) == (0.8, "")
    assert outcomes(enough) == ["ran"] * COUNT
    assert enough.cases[0].label == (enough.cases[0].got + 1) % 8
    low = mlf_sdk.test(tiny, path, board="host", min_accuracy=0.81)
    assert not low.ok
    assert outcomes(low) == ["ran"] * COUNT
    assert low.accuracy_why == "0.8000 is below 0.81"
    suites = ET.fromstring(junit_xml(low))
    assert [(s.attrib["tests"], s.attrib["failures"]) for s in suites] == [
        (str(COUNT + 4), "0"),
        ("1", "1"),
    ]  # with the rows of the image
    both = mlf_sdk.test(tiny, npz(tmp_path / "c.npz", labels=True), board="host", min_accuracy=1)
    assert outcomes(both) == ["passed"] * COUNT


def test_right_classes_are_no_output(tmp_path: Path) -> None:
    """An output named ``label``, as of scikit-learn's classifiers, is compared; with an accuracy its share is judged."""
    pytest.importorskip("onnx", reason="onnx is not installed: pip install 'mlf-sdk[onnx]'")
    from onnx import helper

    from onnx_models import OnnxMaker

    m = OnnxMaker()
    m.nodes.append(helper.make_node("ArgMax", [m.input(1, 3)], ["label"], axis=1, keepdims=0))
    path = m.save(tmp_path / "classes.onnx", "label")
    cases = {"x": np.eye(3, dtype=np.float32)[[0, 1, 2, 2], None], "label": np.array([0, 1, 2, 1])}
    share = mlf_sdk.test(path, cases, board="host", min_accuracy=0.75)
    assert share.ok
    assert (share.accuracy, outcomes(share)) == (0.75, ["ran"] * 4)
    assert outcomes(mlf_sdk.test(path, cases, board="host")) == ["passed", "passed", "passed", "failed"]


def test_labels_alone(tiny: Path, tmp_path: Path) -> None:
    """Without an accuracy to reach, the class of each case must be right."""
    path = npz(tmp_path / "c.npz", label_wrong=(2,), outputs=False, labels=True)
    report = mlf_sdk.test(tiny, path, board="host")
    assert outcomes(report) == ["passed", "passed", "failed", "passed", "passed"]
    assert report.cases[2].why.startswith("its class is ")


def test_cases_that_can_not_be_judged(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no array has the name of an output"):
        mlf_sdk.test(tiny, npz(tmp_path / "c.npz", outputs=False), board="host")
    with pytest.raises(InputError, match="right classes"):
        mlf_sdk.test(tiny, npz(tmp_path / "c.npz"), board="host", min_accuracy=0.5)
    with pytest.raises(InputError, match="no array for the input 'x'"):
        mlf_sdk.test(tiny, {"0": np.zeros((1, 8), np.float32)}, board="host")


def test_a_target_that_dies(faulty: Path, tmp_path: Path) -> None:
    """The cases before it keep their verdicts, it is an error, the others are skipped; nothing is tried again."""
    path = npz(tmp_path / "c.npz", wrong=(0,))
    report = mlf_sdk.test(faulty, path, board="host", timeout_s=4)
    assert outcomes(report) == ["failed", "passed", "error", "skipped", "skipped"]
    assert not report.ok
    assert "did not answer RUN" in report.cases[2].why
    assert "died in an earlier case" in report.cases[4].why


# ---- the command ----


def call(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(a) for a in argv])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_command(tiny: Path, tmp_path: Path, capsys) -> None:
    cases, junit = npz(tmp_path / "c.npz", labels=True), tmp_path / "r.xml"
    code, out, err = call(
        capsys, "test", tiny, "--cases", cases, "--board", "host", "--min-accuracy", "1", "--junit", junit
    )
    assert (code, err) == (0, "")
    assert "5 cases" in out and "5 passed" in out
    assert "accuracy   1.0000, at least 1  PASS" in out
    assert out.rstrip().endswith("PASS")
    suite = ET.parse(junit).getroot()[0]
    rows = [f"image: {item}" for item in ("arena", "in + out", "parameters", "functions")]
    assert suite.attrib["tests"] == str(COUNT + len(rows))
    assert [c.attrib["name"] for c in suite.iter("testcase")] == [*(f"case {i}" for i in range(COUNT)), *rows]
    assert {c.attrib["classname"] for c in suite.iter("testcase")} == {"tiny.host", "tiny.host.image"}


def test_the_command_when_a_case_fails(tiny: Path, tmp_path: Path, capsys) -> None:
    cases, junit = npz(tmp_path / "c.npz", wrong=(4,)), tmp_path / "r.xml"
    code, out, err = call(capsys, "test", tiny, "--cases", cases, "--board", "host", "--junit", junit)
    assert (code, err) == (1, "")
    assert "case 4: 'output" in out or "case 4: '" in out
    assert out.rstrip().endswith("FAIL")
    suite = ET.parse(junit).getroot()[0]
    assert (suite.attrib["failures"], suite.attrib["errors"]) == ("1", "0")
    [failed] = [c for c in suite.iter("testcase") if len(c)]
    assert (failed.attrib["name"], failed[0].tag) == ("case 4", "failure")
    assert "differs" in failed[0].attrib["message"]
    code, out, _ = call(capsys, "test", tiny, "--cases", cases, "--board", "host", "--json")
    value = json.loads(out)
    assert (code, value["ok"], value["counts"]) == (
        1,
        False,
        {"passed": 4, "ran": 0, "failed": 1, "error": 0, "skipped": 0},
    )
    assert value["cases"][4]["comparison"]["mismatches"] == 1
    assert call(capsys, "test", tiny, "--cases", cases, "--board", "host", "--atol", "1")[0] == 0


def test_the_command_when_the_target_dies(faulty: Path, tmp_path: Path, capsys) -> None:
    cases, junit = npz(tmp_path / "c.npz"), tmp_path / "r.xml"
    argv = ("test", faulty, "--cases", cases, "--board", "host", "--timeout", "3", "--junit", junit)
    code, out, err = call(capsys, *argv)
    assert code == 4
    assert "2 passed, 1 error, 2 skipped" in out
    assert err.startswith("error: the device did not answer RUN")
    suite = ET.parse(junit).getroot()[0]
    assert (suite.attrib["errors"], suite.attrib["skipped"]) == ("1", "2")
    code, out, err = call(capsys, *argv, "--json")
    assert (code, err) == (4, "")
    assert "did not answer RUN" in json.loads(out)["error"]["what"]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--min-accuracy", "1.1"], "must be from 0 to 1"),
        (["--min-accuracy", "nan"], "must be from 0 to 1"),
        (["--junit", "no/such/r.xml"], "folder of the output"),
        (["--baud", "9600"], "--baud is for a port"),
        (["--port", "/dev/none"], "no such port"),
    ],
)
def test_arguments(argv: list[str], says: str, tiny: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "test", tiny, "--cases", npz(tmp_path / "c.npz", labels=True), *argv)
    assert code == (4 if "--port" in argv else 2)
    assert out == ""
    assert says in err


@pytest.mark.qemu
def test_an_emulated_board(tiny: Path, tmp_path: Path) -> None:
    report = mlf_sdk.test(tiny, npz(tmp_path / "c.npz"), board="mps2-an386")
    assert report.ok
    assert report.board.name == "mps2-an386"


# ---- JUnit ----


def test_text_that_xml_can_not_hold(tiny: Path, tmp_path: Path) -> None:
    """Whatever a target prints ends up readable, and the file stays XML."""
    report = mlf_sdk.test(tiny, npz(tmp_path / "c.npz"), board="host")
    bad = "a\x00b\x1b[31m \ud800 <&>\ufffe\tü"
    changed = CasesReport(
        **{
            **{name: getattr(report, name) for name in CasesReport.__slots__},
            "console": bad,
            "cases": (Case(name="case \x07", index=0, outcome="failed", why=bad),),
        }
    )
    root = ET.fromstring(junit_xml(changed))
    assert root.find("testsuite/system-out").text == "a\\x00b\\x1b[31m \\ud800 <&>\\ufffe\tü"
    case = root.find("testsuite/testcase")
    assert case.attrib["name"] == "case \\x07"
    assert case.find("failure").text == "a\\x00b\\x1b[31m \\ud800 <&>\\ufffe\tü"
