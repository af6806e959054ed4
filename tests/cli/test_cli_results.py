# SPDX-License-Identifier: Apache-2.0
"""Results: JSON of every command, tables at every width, names as they are."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rich.console import Console

import mlf_sdk
from archives import KINDS, Spec, build, reference, sample, write
from cli_helpers import Called, Caller, named_archive
from mlf_sdk.cli.output import show
from mlf_sdk.judge.check import CheckReport, ProofRow, State
from mlf_sdk.judge.compare import Comparison, OutputDifference
from mlf_sdk.judge.groups import SizedItem
from mlf_sdk.judge.memorymap import Region
from mlf_sdk.pipeline import doctor as examining
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.reporting.proof import check_parts, run_parts
from mlf_sdk.reporting.values import run_values
from mlf_sdk.tools.discovery import Tool, ToolStatus, known_tools

WIDTHS = (40, 60, 80, 120, 200)
BIG = 4_294_967_280
LONG = "tvmgen_default_" + "fused_nn_contrib_conv2d_NCHWc_add_nn_relu_" * 3 + "12345678901234567890"


def shown(called: Called) -> str:
    assert (called.code, called.err) == (0, "")
    assert all(line == line.rstrip() for line in called.out.splitlines())
    return called.out


# ---- inspect, doctor, boards ----


@pytest.mark.parametrize("kind", KINDS)
def test_inspect(kind: str, call: Caller, tmp_path: Path) -> None:
    spec = Spec(kind=kind)
    path = write(build(spec), tmp_path / "model.tar.gz")
    value = call("inspect", path, "--json").value
    assert value["archive_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (value["format"], value["format_version"]) == ("MLF", "7")
    expected = [8] if kind == "operator" else [1, 8]
    assert [t["shape"] for t in value["inputs"]] == [expected]
    assert [t["dtype"] for t in value["outputs"]] == ["float32"]
    assert value["memory"]["lower_bound_bytes"] <= value["memory"]["arena_bytes"]
    assert value["memory"].keys() == {
        "arena_bytes",
        "caller_inputs_bytes",
        "lower_bound_bytes",
        "io_bytes",
        "params_bytes",
        "state_bytes",
        "summary",
    }
    assert len(value["steps"]) == (3 if kind == "graph" else 1)
    assert all(u["linked"] in (True, False) and u["size_bytes"] for u in value["code"])
    text = shown(call("inspect", path))
    assert f"{value['memory']['arena_bytes']} B" in text
    assert all(step["name"] in text for step in value["steps"])
    assert all(unit["member"] in text for unit in value["code"])
    assert ("1 step," in text) is (kind != "graph")
    assert "left out" in text or all(unit["linked"] for unit in value["code"])


def test_doctor_of_an_archive(call: Caller, tmp_path: Path) -> None:
    path = write(build(kind="aot-c"), tmp_path / "model.tar")
    value = call("doctor", path, "--json").value
    assert (value["ok"], value["archive"], value["module"]) == (True, str(path), "tiny")
    assert value["findings"]
    text = shown(call("doctor", path))
    assert text.count("\nwhere ") == len(value["findings"])
    for finding in value["findings"]:
        assert finding.pop("blocks") is False
        assert finding.keys() == {"where", "what", "handled"}
        assert all(finding.values())
        assert " ".join(finding["what"].split())[:30] in text
    assert text.rstrip().splitlines()[-1].startswith("verdict")


def test_doctor_of_the_machine(call: Caller) -> None:
    value = call("doctor", "--json").value
    assert {t["tool"]["name"] for t in value["tools"]} >= {
        "cmake",
        "ninja",
        "arm-none-eabi-gcc",
        "qemu-system-arm",
    }
    needed = [t for t in value["tools"] if t["tool"]["required"]]
    assert value["ok"] is all(t["path"] or t["replaced_by"] for t in needed)
    assert {t["tool"]["name"] for t in value["tools"]} >= {"clang", "zig", "unicorn"}
    used = [text.partition(" ")[0] for text in value["used"]["Cortex-M"]]
    stand_ins = {"arm-none-eabi-gcc": "zig", "qemu-system-arm": "unicorn"}
    assert used == [name if shutil.which(name) else other for name, other in stand_ins.items()]


def test_doctor_of_a_machine_without_root(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ("arm-none-eabi-", "qemu-", "riscv64-")

    def installed(tool: Tool) -> ToolStatus:
        gone = tool.name.startswith(missing)
        text = None if gone else "1.2.3"
        return ToolStatus(tool=tool, path=text, version=text, replaced_by=tool.stand_in if gone else "")

    monkeypatch.setattr(examining, "find_tools", lambda: tuple(map(installed, known_tools())))
    text = shown(call("doctor"))
    assert re.search(r"^arm-none-eabi-gcc +- +zig +building", text, re.MULTILINE)
    assert "used       Cortex-M: zig 1.2.3 and unicorn 1.2.3" in text
    assert "qemu-system-arm, for what unicorn can't: some boards, exact profiles, cycles and debug" in text
    assert re.search(r"^verdict +emulated boards work, with zig and unicorn +PASS$", text, re.MULTILINE)
    assert call("doctor", "--json").value["ok"]


def test_boards(call: Caller, tmp_path: Path) -> None:
    value = call("boards", "--json").value
    rows = {row["name"]: row for row in value["boards"]}
    six = {"mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547", "microbit"}
    assert rows.keys() >= six | {"host"}
    assert rows["mps2-an386"]["memories"][0]["size_bytes"] == 4 << 20
    text = shown(call("boards"))
    assert re.search(r"^microbit +256 KiB +16 KiB +emulated +BBC micro:bit", text, re.MULTILINE)
    assert all(re.search(rf"^{name} ", text, re.MULTILINE) for name in rows)
    assert re.search(
        r"^zephyr +also every board .*such as nucleo_f411re",
        " ".join(text[text.index("\nzephyr") + 1 :].split()),
    )
    own = tmp_path / "own.toml"
    source = Path(__file__).parents[2] / "board_templates/boards/mps2-an386.toml"
    own.write_text(source.read_text().replace('"mps2-an386"\ntitle', '"mine"\ntitle'))
    named = {row["name"] for row in call("boards", "--board-file", own, "--json").value["boards"]}
    assert named == rows.keys() | {"mine"}


# ---- generate, build, check ----


@pytest.mark.toolchain
@pytest.mark.usefixtures("needs_arm")
def test_generate_build_check(call: Caller, tiny: Path, tmp_path: Path) -> None:
    app = tmp_path / "app"
    value = call("generate", tiny, "-o", app, "--board", "mps2-an386", "--json").value
    assert (value["project"], value["kept"]) == (str(app), [])
    lock = value["lock"]
    assert (lock["board"], lock["models"][0]["name"]) == ("mps2-an386", "tiny")
    assert lock["models"][0]["archive_sha256"] == hashlib.sha256(tiny.read_bytes()).hexdigest()
    built = call("build", app, "--json").value
    assert built["elf"] == str(app / "build/app.elf")
    assert built["seconds"] > 0
    checked = call("check", app, "--json").value
    assert checked["ok"] is True
    rows = {row["item"]: row for row in checked["rows"]}
    assert rows["arena"]["planned"] == lock["models"][0]["arena_bytes"]
    assert rows["parameters"]["image"] == 64
    assert {k["name"].removeprefix("tvmgen_tiny_") for k in checked["kernels"]} == {
        "fused_multiply",
        "fused_smooth",
        "fused_add_relu",
    }
    assert {r["name"] for r in checked["regions"]} == {"flash", "ram", "psram"}
    assert {g["name"]: g["size_bytes"] for g in checked["groups"]}["runtime"] > 0
    text = shown(call("check", app))
    assert text.rstrip().splitlines()[-1] == "verdict    PASS"
    assert "mlf-sdk check" in shown(call("build", app))


def test_generate_keeps_what_was_edited_and_says_so(call: Caller, tiny: Path, tmp_path: Path) -> None:
    app = tmp_path / "app"
    text = shown(call("generate", tiny, "-o", app, "--board", "host"))
    assert f"next       mlf-sdk build {app}" in text
    (app / "src/main.c").write_text("/* mine */\n")
    value = call("generate", tiny, "-o", app, "--board", "host", "--json").value
    assert value["kept"] == ["src/main.c"]
    assert "kept       src/main.c: edited by you" in shown(
        call("generate", tiny, "-o", app, "--board", "host")
    )
    assert (app / "src/main.c").read_text() == "/* mine */\n"


@pytest.mark.toolchain
@pytest.mark.usefixtures("needs_host")
def test_check_of_an_image_that_breaks_its_promises(call: Caller, tiny: Path, tmp_path: Path) -> None:
    app = tmp_path / "app"
    assert call("generate", tiny, "-o", app, "--board", "host").code == 0
    assert call("build", app).code == 0
    lock = app / "mlf-project.json"
    text = lock.read_text()
    found = re.search(r'"arena_reserved_bytes": (\d+)', text)
    assert found is not None
    lock.write_text(text.replace(found[0], f'"arena_reserved_bytes": {int(found[1]) + 16}'))
    called = call("check", app)
    assert (called.code, called.err) == (1, "")
    assert "WRONG" in called.out
    assert called.out.rstrip().splitlines()[-1] == "verdict    FAIL"
    as_json = call("check", app, "--json")
    assert (as_json.code, as_json.value["ok"]) == (1, False)


# ---- names as they are ----


@pytest.mark.parametrize(
    "name", ["[red]x[/red]", "[/]", "[link=file:///etc]x", ":smile:", "a\\[b]", "x{{ 7*7 }}", "größe", "目"]
)
def test_names_are_never_interpreted(name: str, call: Caller, tmp_path: Path) -> None:
    path = named_archive(tmp_path / "[bold]a :cat:.tar", input_name=name)
    assert f"'{name}'" in shown(call("inspect", path))
    assert call("inspect", path, "--json").value["inputs"][0]["name"] == name
    assert "[bold]a :cat:.tar" in shown(call("doctor", path))
    out = tmp_path / "[red]out"
    assert "[red]out" in shown(call("generate", path, "-o", out, "--board", "host"))


# ---- reports at every width ----


def check_report() -> CheckReport:
    def row(model: str, item: str, state: State = "proven", note: str = "") -> ProofRow:
        return ProofRow(
            model=model,
            item=item,
            summary=BIG,
            planned=BIG - 16,
            image=BIG - 32,
            measured=None,
            state=state,
            note=note,
        )

    return CheckReport(
        rows=(
            row("[b]one", "arena"),
            row("[b]one", "parameters", "failed", note="not 16-byte aligned: 0x20000004"),
            row("two", "arena"),
        ),
        kernels=(SizedItem(name=LONG, size_bytes=BIG), SizedItem(name="[red]k[/red]", size_bytes=7)),
        groups=(SizedItem(name="kernels", size_bytes=BIG),),
        regions=(Region(name="flash", origin=0, size_bytes=BIG, used_bytes=BIG - 48),),
        stack_bytes=BIG - 64,
    )


def printed(parts: list, width: int, monkeypatch: pytest.MonkeyPatch, capsys) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    show(parts, {}, as_json=False)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    return text


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_check_at_every_width(width: int, monkeypatch, capsys) -> None:
    text = printed(check_parts(check_report()), width, monkeypatch, capsys)
    for value in (BIG, BIG - 16, BIG - 32, BIG - 48, BIG - 64):
        assert f"{value:,}" in text
    joined = "".join(text.split())
    assert LONG in joined
    assert "not16-bytealigned:0x20000004" in joined
    assert "0x20000004" in text
    assert "[b]one" in text
    assert "[red]k[/red]" in text
    assert text.count("WRONG") == 1
    assert text.rstrip().endswith("FAIL")


@pytest.mark.parametrize(
    ("strict", "end"), [(False, "PASS, but nothing proves: stack"), (True, "FAIL: stack unproven")]
)
def test_verdict_with_an_unproven_row(strict: bool, end: str, monkeypatch, capsys) -> None:
    rows = (check_report().rows[0], ProofRow(model="", item="stack", state="unproven", note="no bound: why"))
    report = dataclasses.replace(check_report(), rows=rows, strict=strict)
    text = " ".join(printed(check_parts(report), 120, monkeypatch, capsys).split())
    assert "unproven no bound: why" in text and text.endswith(f"verdict {end}")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, needs_host: None) -> RunReport:
    """A real run on the host, to be changed by tests."""
    folder = tmp_path_factory.mktemp("report")
    x = np.stack([sample(Spec()), sample(Spec()) * 2])
    expected = np.stack([reference(Spec(), each) for each in x])
    return mlf_sdk.run(
        write(build(), folder / "tiny.tar"), board="host", inputs={"x": x}, expect={"0": expected}
    )


def failing(report: RunReport) -> RunReport:
    wrong = Comparison(
        outputs=(
            OutputDifference(name="[red]a[/red]", max_abs=0.5, max_rel=0.25, mismatches=BIG, elements=BIG),
            OutputDifference(name="b", max_abs=0.0, max_rel=0.0, mismatches=0, elements=1),
        )
    )
    big = dataclasses.replace(
        report.memory,
        arena_bytes=BIG,
        lower_bound_bytes=BIG - 8,
        arena_high_water_bytes=BIG - 4,
        stack_bytes=BIG,
        stack_high_water_bytes=BIG,
    )
    model = msgspec.structs.replace(report.model, name="[b]" + "n" * 70, params_bytes=BIG)
    checked = dataclasses.replace(
        check_report(),
        rows=tuple(dataclasses.replace(row, model=model.name) for row in check_report().rows[:2]),
    )
    return dataclasses.replace(
        report,
        model=model,
        memory=big,
        check=checked,
        compare=wrong,
        twin=wrong,
        twin_note="no [i]twin[/i]",
        instructions=BIG,
        accuracy=0.5,
    )


@pytest.mark.toolchain
@pytest.mark.parametrize("width", WIDTHS[1:])
def test_a_failed_run_at_every_width(width: int, report: RunReport, monkeypatch, capsys) -> None:
    text = printed(run_parts(failing(report)), width, monkeypatch, capsys)
    for value in (BIG, BIG - 8, BIG - 16, BIG - 32):
        assert f"{value:,}" in text
    joined = " ".join(text.split())
    assert f"differ from the expected outputs in {BIG:,} of {BIG + 1:,} elements" in joined
    assert f"'[red]a[/red]' in {BIG:,} of {BIG:,} elements" in joined
    assert "no [i]twin[/i]" in text
    assert "n" * 70 in joined.replace(" ", "")
    assert "2 inferences" in text
    assert "accuracy 0.5000" in text
    assert "the stack was used up to its end" in joined
    last = joined[joined.rindex("verdict") :]
    assert last.startswith("verdict FAIL: outputs differ; the measured memory")


@pytest.mark.toolchain
@pytest.mark.parametrize("width", WIDTHS)
def test_a_good_run_at_every_width(width: int, report: RunReport, monkeypatch, capsys) -> None:
    text = printed(run_parts(report), width, monkeypatch, capsys)
    joined = " ".join(text.split())
    assert joined.startswith("tiny MLF 7, TVM")
    assert "graph executor: 3 steps, 64 B parameters" in joined
    assert "board host: " in joined
    if width == 40:
        assert re.search(r"arena summary 104, planned 72, ELF \d+, measured 72, = lower bound ok", joined)
    else:
        assert re.search(r"arena( +104)( +72)( +\d+)( +72) +ok", text)
    assert "equal to the expected outputs (max difference 0) PASS" in joined
    assert joined.endswith("verdict PASS")


@pytest.mark.toolchain
def test_values_of_a_run(report: RunReport) -> None:
    good, bad = run_values(report), run_values(failing(report))
    assert (good["ok"], bad["ok"]) == (True, False)
    assert good["compare"]["against"] == "reference"
    assert (
        run_values(dataclasses.replace(report, compare=None, twin=report.compare))["compare"]["against"]
        == "host"
    )
    assert run_values(dataclasses.replace(report, compare=None))["compare"] is None
    assert bad["compare"]["mismatches"] == BIG
    assert msgspec.json.decode(msgspec.json.encode(good))["memory"]["arena_bytes"] == 72


def test_colour_only_on_a_terminal(monkeypatch, capsys) -> None:
    show(check_parts(check_report()), {}, as_json=False)
    assert "\x1b[" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    show(check_parts(check_report()), {}, as_json=False)
    coloured = capsys.readouterr().out
    assert "\x1b[" in coloured
    plain = Console(width=120).render_str(re.sub(r"\x1b\[[0-9;]*m", "", coloured), markup=False).plain
    assert all(line == line.rstrip() for line in plain.splitlines())
