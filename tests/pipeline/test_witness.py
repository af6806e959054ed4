# SPDX-License-Identifier: Apache-2.0
"""PASS is a word about the model: a compiler that is wrong is found out by witnesses of the model's file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.compiler import build
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import FullyConnected
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.errors import CodeError, InputError, MissingToolError
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.judge.evidence import HOST_SANITIZED, NOT_COMPARED, NOT_WITH_MODEL
from mlf_sdk.judge.witnesses import interpreter, panel
from mlf_sdk.judge.witnesses.witness import ModelFile, WitnessUnableError
from mlf_sdk.pipeline import supplied
from small_models import TWICE, own_operator, two_layers

TFLM = pytest.mark.skipif(interpreter.Tflm().title() is None, reason="tflite-micro is not installed")
X = np.arange(-32, 32, 8, dtype=np.int8).reshape(1, 1, 8)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "two.tflite"
    path.write_bytes(two_layers())
    return path


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A compiler whose last layer saturates at 3, on the host and on any board."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # archives of the right one stay out of it
    right: Callable[[Graph], Graph] = build.improve

    def worse(graph: Graph) -> Graph:
        graph = right(graph)
        *others, last = graph.operators
        assert isinstance(last, FullyConnected)
        return dataclasses.replace(graph, operators=(*others, dataclasses.replace(last, clamp=(-128, 3))))

    monkeypatch.setattr(build, "improve", worse)


def run(source: Path, **options: Any) -> Any:
    return mlf_sdk.run(source, board="host", inputs={"input": X}, **options)


@TFLM
def test_a_wrong_compiler_fails(model: Path, wrong: None, call: Caller) -> None:
    """Its kernels agree with themselves, in the twin."""
    report = run(model, twin=True)
    assert report.twin.ok and report.twin.max_abs == 0
    assert report.verdict == "FAIL" and report.witnessed.wrong == ("TFLM 2026-10", "reference")
    shown = call("run", model, "--board", "host")
    assert shown.code == 1
    assert "differ from TFLM 2026-10 in" in shown.out and "differ from reference in" in shown.out
    assert "outputs differ from what the model means (TFLM 2026-10, reference)" in " ".join(shown.out.split())


def test_the_right_one_passes_by_all_witnesses(model: Path, needs_cc: str) -> None:
    report = run(model, twin=True)
    titles = [title for title in (interpreter.Tflm().title(), "reference") if title]
    assert report.verdict == "PASS" and [r.witness for r in report.witnessed.compared] == titles
    assert report.evidence == " + ".join([*titles, HOST_SANITIZED]) and not report.uncovered


def test_witnesses_that_contradict_each_other(
    model: Path, monkeypatch: pytest.MonkeyPatch, call: Caller
) -> None:
    """One of two references is wrong: the outputs can't be those of both, and both are named."""

    class Other(panel.Reference):
        def title(self) -> str:
            return "other"

        def open(self, model: Any, timeout_s: float) -> Any:
            changed = type(model)(model.path, model.frontend, model.options)
            graph = model.graph
            *others, last = graph.operators
            last = dataclasses.replace(last, clamp=(-128, 3))
            changed.__dict__["graph"] = dataclasses.replace(graph, operators=(*others, last))
            return super().open(changed, timeout_s)

    monkeypatch.setattr(panel, "WITNESSES", (panel.Reference(), Other()))
    report = run(model)
    assert report.verdict == "FAIL" and report.witnessed.wrong == ("other",)
    assert report.witnessed.disagreement == "reference and other contradict each other"
    shown = call("run", model, "--board", "host")
    assert shown.code == 1 and "reference and other contradict each other" in shown.out


# ---- archives remember their file ----


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Path:
    """An archive in a folder of its own: its model is not beside it."""
    (tmp_path / "apart").mkdir()
    path = tmp_path / "apart" / "two.tar"
    mlf_sdk.compile(model, path)
    return path


def test_an_archive_knows_its_file(model: Path, archive: Path) -> None:
    import hashlib

    found = mlf_sdk.load(archive).provenance.made_from
    assert found is not None and found.name == "two.tflite"
    assert found.sha256 == hashlib.sha256(model.read_bytes()).hexdigest()


def test_an_archive_without_its_file_is_no_pass(archive: Path, call: Caller, needs_cc: str) -> None:
    report = run(archive, twin=True)
    assert report.ok and report.verdict == NOT_WITH_MODEL and report.evidence == HOST_SANITIZED
    assert report.witnessed.why == "--model FILE names the file that it was made from (two.tflite)"
    assert run(archive).verdict == NOT_COMPARED
    shown = call("run", archive, "--board", "host", "--twin")
    assert shown.code == 0 and NOT_WITH_MODEL in shown.out and "PASS" not in shown.out.splitlines()[-1]
    assert "only compared with themselves" in " ".join(shown.out.split())
    assert call("run", archive, "--board", "host", "--twin", "--strict").code == 1


def test_an_archive_with_its_file_passes(model: Path, archive: Path, wrong: None) -> None:
    assert run(archive, model_file=str(model)).verdict == "PASS"
    (archive.parent / "two.tflite").write_bytes(model.read_bytes())
    assert run(archive).verdict == "PASS"
    mlf_sdk.compile(model, archive)  # by the wrong compiler
    assert run(archive).verdict == "FAIL"


def test_another_file_is_an_error(model: Path, archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(own_operator())
    with pytest.raises(InputError, match=r"was made from another file: two\.tflite"):
        run(archive, model_file=str(other))
    (archive.parent / "two.tflite").write_bytes(other.read_bytes())  # of the same name: not taken
    assert run(archive).verdict == NOT_COMPARED
    (archive.parent / "two.tflite").write_text("no model at all")
    assert run(archive).verdict == NOT_COMPARED


def test_an_archive_of_another_compiler_is_its_own_model(tmp_path: Path) -> None:
    from archives import Spec, write
    from archives import build as build_archive

    path = write(build_archive(Spec()), tmp_path / "tiny.tar")
    report = mlf_sdk.run(path, board="host", twin=True)
    assert report.verdict == "PASS" and not report.witnessed.needed and report.witnessed.results == ()
    with pytest.raises(InputError, match="does not say which file it was made from"):
        mlf_sdk.run(path, board="host", model_file=str(path))


def test_a_project_knows_its_file(model: Path, archive: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" / "app"
    mlf_sdk.generate(archive, folder, board="host")
    lock = json.loads((folder / "mlf-project.json").read_text())
    assert lock["models"][0]["made_from"]["name"] == "two.tflite"
    mlf_sdk.build(folder)
    plain = mlf_sdk.run(folder, inputs={"input": X})
    assert plain.verdict == NOT_COMPARED
    assert mlf_sdk.run(folder, inputs={"input": X}, model_file=str(model)).verdict == "PASS"
    near = folder.parent / "two.tflite"
    near.write_bytes(b"later")
    why = mlf_sdk.run(folder, inputs={"input": X}).witnessed.why
    assert why.endswith(f"(two.tflite); {near} is another one, or was changed since")
    near.write_bytes(model.read_bytes())
    assert mlf_sdk.run(folder, inputs={"input": X}).verdict == "PASS"


def test_the_archive_of_a_project_is_its_file(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" / "app"
    mlf_sdk.generate(model, folder, board="host")
    report = mlf_sdk.run(folder, inputs={"input": X}, archive=str(model))
    assert report.verdict == "PASS" and report.witnessed.compared


# ---- steps that none covers ----


@pytest.fixture
def own(tmp_path: Path) -> tuple[Path, str]:
    """A model with a custom operator between two layers, and its code."""
    model, code = tmp_path / "own.tflite", tmp_path / "twice.c"
    model.write_bytes(own_operator())
    code.write_text(TWICE)
    return model, f"Twice={code}"


def test_steps_without_a_witness_are_counted_and_named(own: tuple[Path, str], call: Caller) -> None:
    """The code of a custom operator runs alone on the reference's values: what follows it is covered."""
    model, code = own
    report = run(model, custom=(code,), twin=True)
    assert report.verdict == "PASS" and report.witnessed.uncovered == ("1 CUSTOM:Twice",)
    assert [one.witness for one in report.witnessed.compared] == ["reference"]
    options = ("--board", "host", "--custom", code)
    shown = call("run", model, *options)
    assert shown.code == 0 and "uncovered  1 of 3 steps: 1 CUSTOM:Twice (no witness)" in shown.out
    assert call("run", model, *options, "--strict").code == 1


def test_a_layer_in_front_of_a_custom_operator_that_is_wrong(
    own: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The operator's code gets the reference's inputs, not those of the wrong layer."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    right: Callable[[Graph], Graph] = build.improve

    def worse(graph: Graph) -> Graph:
        graph = right(graph)
        first, *others = graph.operators
        if isinstance(first, FullyConnected):
            first = dataclasses.replace(first, clamp=(-128, 3))
        return dataclasses.replace(graph, operators=(first, *others))

    monkeypatch.setattr(build, "improve", worse)
    report = run(own[0], custom=(own[1],), twin=True)
    assert report.twin.ok and report.verdict == "FAIL" and report.witnessed.wrong == ("reference",)
    assert report.first is not None and report.first.number == 0


def test_code_that_cannot_be_run_alone(own: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler for this machine nothing is known behind the operator; a fault of its code is named."""

    def missing(*_: Any, **__: Any) -> None:
        raise MissingToolError("cc is not installed")

    monkeypatch.setattr(supplied.Pipeline, "open", missing)
    path, custom = own
    file = ModelFile(
        path, compiling_frontend(path), CompileOptions(custom=custom), partial(supplied.code_of, 5.0)
    )
    with panel.Reference().open(file, 5.0) as session:
        assert session.infer([X[0]]) == [None]
        assert session.uncovered == ("0 FULLY_CONNECTED", "1 CUSTOM:Twice", "2 FULLY_CONNECTED")

    def broken(*_: Any, **__: Any) -> None:
        raise CodeError("twice.c: error")

    monkeypatch.setattr(supplied.Pipeline, "open", broken)
    with (
        panel.Reference().open(file, 5.0) as session,
        pytest.raises(WitnessUnableError, match=r"the code of step 1 CUSTOM:Twice alone: twice\.c: error"),
    ):
        session.infer([X[0]])


# ---- the other commands ----


@TFLM
def test_cases_are_judged_by_witnesses_too(
    model: Path, wrong: None, tmp_path: Path, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected outputs that the wrong kernels gave themselves: each case still differs from the model."""
    x = np.random.default_rng(3).integers(-128, 128, (4, 1, 8)).astype(np.int8)
    own = mlf_sdk.run(model, board="host", inputs={"input": x})
    name = next(iter(own.outputs))
    cases = {"input": x, name: own.outputs[name]}
    report = mlf_sdk.test(model, cases, board="host", strict=False)
    bad = [case for case in report.cases if case.outcome == "failed"]
    assert not report.ok and bad
    assert all("differs from what the model means (TFLM 2026-10, reference)" in case.why for case in bad)
    assert report.witnessed.wrong == ("TFLM 2026-10", "reference")
    np.savez(tmp_path / "cases.npz", **cases)
    shown = call("test", model, "--cases", tmp_path / "cases.npz", "--board", "host", "--no-strict")
    assert shown.code == 1 and "evidence   TFLM 2026-10 + reference + expected outputs" in shown.out
    monkeypatch.undo()
    meant = mlf_sdk.run(model, board="host", inputs={"input": x})
    right = {"input": x, name: meant.outputs[name]}
    report = mlf_sdk.test(model, right, board="host", strict=False, witness_s=0.0)
    assert report.ok and all(case.outcome == "passed" for case in report.cases)
    assert report.evidence == (
        "TFLM 2026-10 (1 of 4 inferences) + reference (1 of 4 inferences) + expected outputs"
    )


def test_a_report_says_what_the_model_means(model: Path, wrong: None, tmp_path: Path, call: Caller) -> None:
    shown = call("report", model, "--board", "host", "--no-profile", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert shown.code == 1 and "differ from reference in" in shown.out
    assert "differ from reference in" in page


# ---- layer by layer ----


@TFLM
def test_compare_names_the_first_layer_that_is_not_the_references(
    model: Path, wrong: None, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both targets agree with each other, and not with the model."""
    report = mlf_sdk.compare(model, board="host", on=("host", f"dir:{_project(model)}"), inputs={"input": X})
    others = {place.name: place for place in report.places[1:]}
    assert others[f"dir:{_project(model)}"].ok and not report.ok
    assert not others["TFLM 2026-10"].ok and others["TFLM 2026-10"].first is None
    first = others["reference"].first
    assert first is not None and first.number == 1 and first.same_inputs is False
    assert first.got == 3 and first.expected > 3 and others["reference"].inference == 0
    ran = run(model)
    assert ran.first is not None and (ran.first.number, ran.first.got) == (1, 3)
    shown = call("run", model, "--board", "host")
    assert "first step 1: " in " ".join(shown.out.split())


def _project(model: Path) -> Path:
    folder = model.parent / "app"
    if not folder.exists():
        mlf_sdk.generate(model, folder, board="host")
    return folder


def test_compare_with_the_reference_where_all_agree(model: Path) -> None:
    report = mlf_sdk.compare(model, board="host", on=("host", f"dir:{_project(model)}"), inputs={"input": X})
    assert report.ok
    assert [place.steps_equal for place in report.places if place.name == "reference"] == [True]
