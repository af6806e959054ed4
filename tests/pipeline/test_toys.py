# SPDX-License-Identifier: Apache-2.0
"""A format and a target that are one class each, without an edit elsewhere, through every command."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.ir.model import Model
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.execute import Execution
from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.firmware import inspect_firmware
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.project import BuiltProject, ProjectPlan, TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.pipeline.run import run_request
from mlf_sdk.targets.registry import register_target
from mlf_sdk.tools.serial import decode, encode
from toy_format import toy_frontend, write_toy
from toy_target import KeepingToy, ToyPlace, ToyTarget, place_with

pytestmark = pytest.mark.toolchain
TRIPLE = """\
toy 1
input x float32 1 8
output y float32 1 8
---
int triple(void *x, void *y) {
  for (int i = 0; i < 8; ++i) {
    ((float *)y)[i] = 3.0f * ((const float *)x)[i];
  }
  return 0;
}
"""
X = np.arange(16, dtype=np.float32).reshape(2, 1, 8)


@pytest.fixture(autouse=True)
def _toys(needs_host: None) -> Iterator[None]:
    for target in (ToyTarget, KeepingToy, ToyPlace):
        register_target(target)
    with toy_frontend():
        yield


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return write_toy(tmp_path / "scaler.toy", TRIPLE)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys)


def test_every_command(toy: Path, tmp_path: Path, call: Caller) -> None:
    """From inspect to params: each works on the toy format, on the toy target where it runs anything."""
    cases, app, board = tmp_path / "cases.npz", tmp_path / "app", ("--board", "toy:one")
    np.savez(cases, x=X, **{"0": X * 3})
    assert call("inspect", toy, "--json").value["format"] == "Toy"
    assert call("doctor", toy, "--json").value["ok"]
    assert call("generate", toy, "-o", app, *board).code == 0
    assert call("build", app).code == 0
    assert call("check", app, "--json").value["ok"]
    ran = call("run", toy, *board, "--inputs", cases, "--expect", cases, "--twin", "--json").value
    assert (ran["ok"], ran["board"]) == (True, "toy:one")
    assert call("run", app, "--json").value["ok"]
    assert call("test", toy, *board, "--cases", cases, "--json").value["counts"]["passed"] == 2
    proven = call("proof", toy, *board, "--json", "--jobs", "1").value
    assert "cells" in proven, proven
    assert [(cell["board"], cell["outcome"]) for cell in proven["cells"]] == [("toy:one", "proven")]
    assert call("report", toy, *board, "-o", tmp_path / "page.html").code == 0
    assert "scaler" in (tmp_path / "page.html").read_text()
    assert call("profile", toy, *board, "--json").value["steps"][0]["name"] == "triple"
    compared = call("compare", toy, "--on", "host,toy:one", "--json").value
    assert compared["ok"]
    assert call("sbom", app, "-o", tmp_path / "sbom.json").code == 0
    assert "Toy 1" in (tmp_path / "sbom.json").read_text()
    flashed = call("flash", app, "--json")
    assert (flashed.code, "nothing has to be flashed" in flashed.value["error"]["what"]) == (2, True)


def test_commands_about_a_board_that_holds_an_image(toy: Path, tmp_path: Path, call: Caller) -> None:
    """verify, run, check, test and triage on a place that is one class."""
    app, cases, log = tmp_path / "app", tmp_path / "cases.npz", tmp_path / "console.log"
    np.savez(cases, x=X, **{"0": X * 3})
    log.write_text("booting\nmlf-fault: busfault pc=00001f3e step=0 model=scaler\n")
    assert call("generate", toy, "-o", app, "--board", "toy:one").code == 0
    elf = mlf_sdk.build(app).elf
    with place_with(elf) as place:
        on = ("--board", place)
        for source in (app, elf, toy):
            verified = call("verify", source, *on, "--json")
            assert (verified.code, verified.value["ok"]) == (0, True), source
        ran = call("run", app, *on, "--json")
        assert (ran.code, ran.value["verdict"]) == (0, "PASS"), ran.err
        assert ran.value["build_id"] == inspect_firmware(elf).build_id
        assert call("test", app, *on, "--cases", cases, "--json").value["counts"]["passed"] == 2
        other = write_toy(tmp_path / "scaler2.toy", TRIPLE.replace("3.0f", "2.0f"))
        assert call("verify", other, *on).code == 1
    explained = call("triage", log, "--elf", app, "--json")
    assert [fault["step_name"] for fault in explained.value["faults"]] == ["triple"]


def test_commands_that_need_an_ability(toy: Path, tmp_path: Path, call: Caller) -> None:
    """A target that lacks it is named with what is missing; one that declares it works."""
    refused = call("verify", toy, "--board", "toy:one")
    assert refused.code == 2 and "toy:one is started here: it holds no image" in refused.block()["what"]
    watched = call("monitor", "--board", "toy:one")
    assert watched.code == 2 and "--port" in watched.err
    shown = call("params", "show", "--board", "toy:one")
    assert shown.code == 2 and "toy:one is started here" in shown.block()["what"]
    digits = Path(__file__).resolve().parents[2] / "examples/digits/digits-graph-tvm0.11.1.tar"
    for board in ("toy:one", "toykeep:one"):
        app = tmp_path / board[:-4]
        assert call("generate", digits, "-o", app, "--board", board, "--executor", "graph").code == 0
    lost = call("params", "push", digits, "--project", tmp_path / "toy")
    assert lost.code == 2 and "parameters can't be kept on this target" in lost.block()["what"]
    app = tmp_path / "toykeep"
    before = call("params", "show", "--project", app, "--json").value["generation"]
    pushed = call("params", "push", digits, "--project", app, "--json")
    assert pushed.code == 0, pushed.err
    after = call("params", "show", "--project", app, "--json").value["generation"]
    assert after == pushed.value["generation"] != before
    no_graph = call("params", "push", toy, "--project", app)
    assert no_graph.code == 2 and "graph executor only" in no_graph.block()["what"]


def test_a_damaged_file_of_the_format(toy: Path, call: Caller) -> None:
    write_toy(toy, "toy 1\n---\n")
    failed = call("run", toy, "--board", "toy:one", "--json").value["error"]
    assert failed["exit_code"] == 2
    assert failed["faults"][0]["member"] == "code"


def test_the_python_functions(toy: Path) -> None:
    assert mlf_sdk.load(toy).provenance.format_text == "Toy 1"
    assert np.array_equal(mlf_sdk.run(toy, board="toy:two", inputs={"x": X}).outputs["y"], X * 3)
    with mlf_sdk.open_session(toy, board="toy:two") as model:
        assert np.array_equal(model.infer(X)[0], X * 3)


# ---- every stage's request and result survive pickle and JSON ----


def same(value: Any, type_: type[Any]) -> None:
    """Assert that a value is the same after pickle, and after JSON."""
    plain = encode(value)
    assert encode(pickle.loads(pickle.dumps(value))) == plain
    assert encode(decode(plain, type_)) == plain


@pytest.mark.parametrize("kind", ["toy", "graph", "aot"])
def test_results_of_stages(kind: str, toy: Path) -> None:
    examples = Path(__file__).resolve().parents[2] / "examples" / "digits"
    source = {"toy": toy, "graph": "digits-graph-tvm0.11.1.tar", "aot": "digits-aotc-tvm0.11.1.tar"}[kind]
    request = Request(source=(str(examples / source),), board="host", twin=False)
    pipeline = Pipeline()
    same(request, Request)
    (model,) = pipeline.models(request)
    same(model, Model)
    plan = pipeline.plan(request)
    same(plan, ProjectPlan)
    assert decode(encode(plan), ProjectPlan).files() == plan.files()
    project = pipeline.project(request)
    same(project, TargetProject)
    same(pipeline.build(request), BuiltProject)
    same(stages.check(project), CheckReport)
    same(pipeline.execute(request), Execution)
    same(run_request(request, pipeline), RunReport)


def test_a_later_stage_takes_what_another_process_sent(toy: Path, tmp_path: Path) -> None:
    """A plan that was decoded from JSON renders, builds and runs like the one that was made here."""
    request = Request(source=(str(toy),), board="toy:three")
    plan = decode(encode(Pipeline().plan(request)), ProjectPlan)
    folder = tmp_path / "sent"
    for name, content in plan.files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    assert json.loads((folder / "mlf-project.json").read_text())["board"] == "toy:three"
    assert mlf_sdk.run(folder, inputs={"x": X}, expect={"y": X * 3}).ok
    shutil.rmtree(folder)


def test_what_is_no_result() -> None:
    with pytest.raises((msgspec.ValidationError, msgspec.DecodeError)):
        decode(b'{"source": 3}', Request)
