# SPDX-License-Identifier: Apache-2.0
"""Tables and next commands in narrow terminals, and with paths that a shell would take apart."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import mlf_sdk
from archives import build, write
from mlf_sdk.cli.main import main
from mlf_sdk.cli.output import show
from mlf_sdk.judge.profile import Profile, StepProfile, Work
from mlf_sdk.reporting.layout import table
from mlf_sdk.reporting.profile import profile_parts

LONG = "fused_nn_contrib_conv2d_NCHWc_add_nn_relu_1"


def profile(runs: int) -> Profile:
    work = Work(
        macs=1_769_472, read_bytes=18_432, params_bytes=2_304, written_bytes=18_432, workspace_bytes=20_808
    )
    steps = tuple(
        StepProfile(
            index=index, name=f"tvmgen_vww_{LONG}{index}", cost=16_777_216 + index, least=16_777_200, most=16_777_299,
            share=0.25, work=work,
        )
        for index in range(4)
    )  # fmt: skip
    return Profile(
        model="vww", archive_sha256="0" * 64, board="mps2-an386", rows="steps", unit="instructions", hz=10**9,
        runs=runs, steps=steps, overhead=512, total=67_109_376, resolution=0, method="counted", symbol_prefix="tvmgen_vww_",
    )  # fmt: skip


def printed(
    parts: list, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    show(parts, {}, as_json=False)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    return text


@pytest.mark.parametrize("runs", [1, 10])
@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_a_profile_shows_every_figure_whole(width: int, runs: int, monkeypatch, capsys) -> None:
    text = printed(profile_parts(profile(runs)), width, monkeypatch, capsys)
    assert "67,109,376" in text
    for index in range(4):
        assert f"{16_777_216 + index:,}" in text
    assert len(re.findall(r"(?<![\d,])1,769,472(?![\d,])", text)) == 4
    assert len(re.findall(r"(?<![\d,])59,976(?![\d,])", text)) == 4
    if runs > 1:
        assert text.count("16,777,299") == 4
    assert f"{LONG}3" in "".join(text.split())


def test_the_bars_go_first(monkeypatch, capsys) -> None:
    parts = profile_parts(profile(1))
    assert "█" in printed(parts, 120, monkeypatch, capsys)
    narrow = printed(parts, 70, monkeypatch, capsys)
    assert "█" not in narrow
    assert re.search(r"^step +share +instructions", narrow, re.MULTILINE), "still a table"


def test_a_table_that_does_not_fit_becomes_paragraphs(monkeypatch, capsys) -> None:
    rows = [("x" * 20, "1,234,567,890", "98,765,432,109", "a text that folds"), ("y", "-", "5", "")]
    text = printed([table(("=name", ">one", ">two", "why"), rows)], 40, monkeypatch, capsys)
    assert text.splitlines()[0].startswith("name " + "x" * 20)
    assert "one 1,234,567,890" in text
    assert text.splitlines()[-1] == "name y  two 5"


OPERATORS = ("7 DEPTHWISE_CONV_2D 3x3", "12 RESIZE_NEAREST_NEIGHBOR", "3 CONV_2D 10x4, stride 2", "9 SOFTMAX")


@pytest.mark.parametrize("width", range(40, 121, 4))
def test_no_line_ends_inside_the_name_of_an_operator(width: int, monkeypatch, capsys) -> None:
    rows = [
        (str(at), f"{at:,}", "a long text that may fold anywhere", one, LONG, "1x25x5x64 > 1x25x5x64")
        for at, one in enumerate(OPERATORS)
    ]
    parts = [table((">step", ">cost", "why", "layer", "kernel", "shapes"), rows)]
    text = printed(parts, width, monkeypatch, capsys)
    for one in OPERATORS:
        assert one.split()[1] in text
    assert "7 DEPTHWISE_CONV_2D" in text


def test_what_is_left_of_a_line_goes_to_the_narrowest_column_that_folds(monkeypatch, capsys) -> None:
    rows = [("word " * 10, "a text of thirty-five characters ...", "1,234")]
    text = printed([table(("one", "two", ">n"), rows)], 60, monkeypatch, capsys)
    one, two = text.splitlines()[0].index("two"), text.splitlines()[0].rindex("n")
    assert 24 <= one <= 30
    assert 24 <= two - one <= 32


def test_next_commands_can_be_pasted(tmp_path: Path, monkeypatch, capsys) -> None:
    archive = write(build(), tmp_path / "tiny.tar")
    folder = tmp_path / "my app; $(touch x)"
    monkeypatch.setenv("COLUMNS", "400")
    assert main(["generate", str(archive), "-o", str(folder), "--board", "host"]) == 0
    (command,) = re.findall(r"^next +(.*)$", capsys.readouterr().out, re.MULTILINE)
    assert shlex.split(command) == ["mlf-sdk", "build", str(folder)]
    with pytest.raises(mlf_sdk.InputError) as caught:
        mlf_sdk.flash(folder, runner="gdb")
    assert shlex.split(caught.value.hint.partition(": ")[2])[-1] == str(folder)
