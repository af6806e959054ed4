# SPDX-License-Identifier: Apache-2.0
"""The gates of ``check`` and the command ``proof``, on real builds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attacks import ILLEGAL
from cli_helpers import Caller

DIGITS = Path(__file__).parents[2] / "examples/digits/digits-graph-tvm0.11.1.tar"
pytestmark = [pytest.mark.toolchain, pytest.mark.usefixtures("needs_arm", "needs_host")]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built project and its baseline."""
    from mlf_sdk.pipeline.api import build, generate

    folder = tmp_path_factory.mktemp("gates") / "app"
    generate([DIGITS], folder, board="mps2-an386")
    build(folder)
    return folder


def test_totals_pass_at_the_exact_byte_and_fail_below(call: Caller, project: Path) -> None:
    totals = call("check", project, "--json").value["totals"]
    assert set(totals) == {"flash", "ram", "stack"}
    for name, size in totals.items():
        assert call("check", project, f"--max-{name}", str(size)).code == 0
        called = call("check", project, f"--max-{name}", str(size - 1), "--json")
        assert called.code == 1 and called.value["ok"] is False
        (line,) = called.value["budget"]
        assert (line["limit"]["name"], line["actual_bytes"], line["ok"]) == (name, size, False)


def test_budget_of_the_project(call: Caller, project: Path, tmp_path: Path) -> None:
    """The file in the project's folder counts unless another is given; the command line goes before both."""
    own = project / "mlf-budget.toml"
    own.write_text("flash = 1\nheap = false\n")
    try:
        called = call("check", project)
        assert called.code == 1 and "FAIL  flash" in called.out
        assert call("check", project, "--max-flash", "1M").code == 0
        other = tmp_path / "other.toml"
        other.write_text("[symbols]\n'tvmgen_digits_*' = '64K'\n[models.digits]\narena = 7296\n")
        assert call("check", project, "--budget", other).code == 0
        other.write_text("[models.digits]\narena = 7295\n")
        assert call("check", project, "--budget", other).code == 1
    finally:
        own.unlink()
    assert call("check", project, "--budget", tmp_path / "none.toml").code == 2
    assert call("check", project, "--max-ram", "much").block()["where"] == "--max-ram"


def test_grown_symbol_is_found(call: Caller, project: Path, tmp_path: Path) -> None:
    """A kernel that was changed, built again, and held against the baseline of before."""
    from mlf_sdk.pipeline.api import build

    baseline = tmp_path / "sizes.json"
    assert call("check", project, "--save-baseline", baseline).code == 0
    assert call("check", project, "--baseline", baseline).code == 0
    kept = json.loads(baseline.read_text())
    (kernel,) = [name for name in kept["symbols"] if name.endswith("nn_contrib_conv2d_NCHWc_add_nn_relu")]
    source = next(
        p for p in (project / "model").rglob("*_lib*.c") if f" {kernel}(void* args" in p.read_text()
    )
    text = source.read_text()
    body = text.index("{", text.rindex(f" {kernel}(")) + 1
    more = "static volatile int extra[8]; for (int i = 0; i < 8; ++i) { extra[i] = i * 77; }"
    source.write_text(text[:body] + more + text[body:])
    try:
        build(project)
        called = call("check", project, "--baseline", baseline, "--json")
        assert called.code == 1
        grown = {(c["kind"], c["name"]): c for c in called.value["changes"] if not c["ok"]}
        change = grown["symbol", kernel]
        assert (
            change["status"] == "grown" and change["growth"] == change["after"] - kept["symbols"][kernel] > 0
        )
        assert ("section", ".text") in grown and ("total", "flash") in grown
        assert any(c["status"] == "new" and "extra" in c["name"] and c["after"] == 32 for c in grown.values())
        shown = call("check", project, "--baseline", baseline).out
        assert f"symbol {kernel}" in shown and f"+{change['growth']}" in shown
        assert call("check", project, "--baseline", baseline, "--tolerance", "1%").code == 1
        assert call("check", project, "--baseline", baseline, "--tolerance", "4K").code == 0
    finally:
        source.write_text(text)
        build(project)
    assert call("check", project, "--baseline", baseline).code == 0


def test_paths_of_the_stack_are_in_the_json(call: Caller, project: Path) -> None:
    stack = call("check", project, "--json").value["stack"]
    assert stack["is_complete"] and stack["entry"] == "mlf_reset_handler" and stack["exception_bytes"] == 108
    (model,) = stack["models"]
    (first, _), (second, _), *_ = path = model["depth"]["path"]
    assert (model["model"], first) == ("digits", "mlf_run") and second.startswith("tvmgen_digits_")
    assert sum(size for _, size in path) == model["depth"]["bytes"]


@pytest.mark.qemu
def test_proof(call: Caller, tmp_path: Path, needs_qemu: None) -> None:
    """Two boards proven, one impossible; the second time from what was kept; the table is the same."""
    bad = Path(__file__).parents[2] / "examples/digits/digits-aotc-tvm0.11.1.tar"
    table = tmp_path / "proof.md"
    argv = ["proof", DIGITS, bad, "-b", "mps2-an386", "--markdown", table, "--made-by", "make it"]
    called = call(*argv, "--json")
    assert called.code == 0, called.err
    assert called.value["counts"] == {"proven": 2, "failed": 0, "unproven": 0, "not here": 0}
    cell = called.value["cells"][0]
    assert cell["arena_bytes"] == cell["arena_measured_bytes"] == 7296
    assert cell["stack_measured_bytes"] <= cell["stack_bound_bytes"] < cell["stack_bytes"]
    assert (cell["differing"], cell["against"], cell["allocators"]) == (0, "host", 0)
    assert {row["item"] for row in cell["rows"]} >= {"arena", "in + out", "parameters", "stack", "heap"}
    first = table.read_bytes()
    assert b"Made by `make it`" in first and b"| mps2-an386 | 7,296 | 7,296 |" in first
    assert call(*argv).code == 0
    assert table.read_bytes() == first


def test_proof_of_what_is_not_there(call: Caller, tmp_path: Path) -> None:
    assert call("proof", tmp_path / "none.tar").code == 2
    assert call("proof", DIGITS, "-b", "no-board").code == 2
    assert call("proof", DIGITS, "--markdown", tmp_path / "no" / "p.md").code == 2


def test_proof_tells_why_a_cell_is_not_here(call: Caller, tmp_path: Path) -> None:
    """An archive whose kernel leaves its tensor: the table shows no reason, the lines below it do."""
    (bigger,) = (attack for attack in ILLEGAL if attack.name == "bigger_kernel")
    called = call("proof", bigger.write(tmp_path), "-b", "mps2-an386")
    assert called.code == 1
    shown = " ".join(called.out.split())
    assert "not here bigger_kernel.tar on mps2-an386: " in shown
    assert "byte 1200 of" in shown and "which has 1024" in shown
