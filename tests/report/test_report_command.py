# SPDX-License-Identifier: Apache-2.0
"""``mlf-sdk report``: real images on an emulated board; the page, the terminal and the JSON agree."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, build, write
from mlf_sdk.cli.main import main
from mlf_sdk.pipeline.options import GatherOptions
from report_cases import Page

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits"


@pytest.mark.qemu
def test_an_archive(needs_qemu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive, page = DIGITS / "digits-graph-tvm0.11.1.tar", tmp_path / "report.html"
    with np.load(DIGITS / "test.npz") as arrays:
        cases = {name: arrays[name][:2] for name in arrays.files}
    np.savez(tmp_path / "cases.npz", **cases)
    files = ("--inputs", str(tmp_path / "cases.npz"), "--expect", str(tmp_path / "cases.npz"))
    assert main(["report", str(archive), "-o", str(page), *files, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["ok"] is True
    assert value["page"] == str(page)
    arena = {row["item"]: row for row in value["proof"]}["arena"]
    assert arena["planned"] == arena["measured"] == value["arena"]["size_bytes"] == 7296
    assert value["arena"]["measured_bytes"] == 7296
    flash, ram = value["memories"][:2]
    for memory in (flash, ram):
        assert sum(p["size_bytes"] for p in memory["parts"]) == memory["used_bytes"]
    kinds = {p["kind"]: p["size_bytes"] for p in flash["parts"]}
    assert 16_872 <= kinds["params"] < 16_900
    assert {"vectors", "runtime", "application", "kernels", "library", "tables"} <= kinds.keys()
    assert {p["kind"] for p in ram["parts"]} >= {"stack", "arena", "server", "runtime"}
    kernels = [i for i in value["code"] if i["kind"] == "kernels"]
    assert sum(i["size_bytes"] for i in kernels) <= kinds["kernels"]
    assert {i["name"] for i in kernels} >= {s["name"] for s in value["steps"]}
    assert [s["index"] for s in value["profile"]["steps"]] == list(range(len(value["steps"])))
    assert (
        sum(s["cost"] for s in value["profile"]["steps"]) + value["profile"]["overhead"]
        == value["profile"]["total"]
    )
    assert value["findings"] is not None
    assert [v["ok"] for v in value["verdicts"]] == [True, True, True]
    facts = {f["label"]: f["text"] for f in value["provenance"]}
    assert len(facts["sha256"]) == 64
    assert len(facts["build id"]) >= 32
    assert "GCC" in facts["compiler"]
    words = Page(page.read_bytes()).root.words()
    assert "7,296" in words
    assert f"{value['profile']['total']:,}" in words


@pytest.mark.qemu
def test_a_project_in_the_terminal(
    needs_qemu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = write(build(Spec(kind="aot-c")), tmp_path / "aot.tar")
    folder = tmp_path / "app"
    assert main(["generate", str(archive), "-o", str(folder), "--board", "mps2-an385"]) == 0
    capsys.readouterr()
    assert main(["report", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "mps2-an385" in out
    assert "peak in step 0" in out
    assert out.rstrip().endswith("PASS")
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".html"] == []


@pytest.mark.toolchain
def test_without_a_run_twice_the_same(
    needs_arm: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = write(build(), tmp_path / "tiny.tar")
    pages = [tmp_path / "1.html", tmp_path / "2.html"]
    for page in pages:
        assert main(["report", str(archive), "-o", str(page), "--no-run"]) == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()
    out = capsys.readouterr().out
    assert "not run: it was not asked for" in out
    assert "not checked" in out


@pytest.mark.toolchain
def test_a_standalone_application_is_not_run(needs_arm: None, tmp_path: Path) -> None:
    archive = write(build(), tmp_path / "tiny.tar")
    folder = str(tmp_path / "app")
    assert main(["generate", str(archive), "-o", folder, "--board", "mps2-an386", "--app", "standalone"]) == 0
    found = mlf_sdk.report(folder)
    assert found.run is None
    assert "standalone" in found.not_run
    assert found.ok
    assert found.examination is None


def test_bad_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = write(build(), tmp_path / "tiny.tar")
    assert main(["report", str(archive), "-o", str(tmp_path / "no" / "report.html")]) == 2
    assert "the folder of the output does not exist" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "none.tar")]) == 2
    assert main(["report", str(archive), "--board", "none"]) == 2
    assert GatherOptions().with_run is True
