# SPDX-License-Identifier: Apache-2.0
"""Layers that run by rows in one step keep their names: in profiles, and where they fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import TargetError
from mlf_sdk.ir.names import layer_function, layer_of_function
from mlf_sdk.judge.profile import Profile
from row_networks import camera
from tflite_models import Maker

pytestmark = pytest.mark.qemu

BOARD = "mps2-an386"
KWS = Path(__file__).parents[3] / "shared/tflite/kws_int8.tflite"
BLOCKS = ((1, 3, 5, 7), (2, 4, 6, 8))  # its layers of equal shapes, which share their code


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution, three equal blocks of a MobileNet, and a dense layer."""
    m = Maker(5)
    x = m.conv(m.input((1, 24, 24, 4)), 16, (3, 3), 1, same=True, activation=1)
    for _ in range(3):
        x = m.conv(x, 16, (3, 3), 1, same=True, depthwise=True, activation=1)
        x = m.conv(x, 16, (1, 1), 1, same=True, activation=1)
    path = tmp_path_factory.mktemp("layers") / "blocks.tflite"
    path.write_bytes(m.finish(m.dense(m.pool(x, 24, largest=False), 5)))
    return path


@pytest.fixture(scope="module")
def whole(model: Path) -> Profile:
    """Profile of the model layer by layer."""
    return mlf_sdk.profile(model, board=BOARD)


@pytest.mark.parametrize("stream", [False, True])
def test_costs_of_the_layers_inside_are_those_they_have_alone(
    model: Path, whole: Profile, stream: bool, needs_qemu: None
) -> None:
    """Nearly so: rows take a call each, and depthwise layers make one row at once instead of two."""
    found = mlf_sdk.profile(model, board=BOARD, goal="ram", stream=stream, runs=2)
    region = found.steps[0]
    alone = {step.layer.number: step for step in whole.steps if step.layer is not None}
    inside = {one.layer.number: one for one in region.inside}
    assert list(inside) == list(range(len(inside))) and len(inside) > 4
    assert not any(step.inside for step in found.steps[1:])
    assert 0.9 * region.cost < sum(one.cost for one in region.inside) < region.cost
    for number, one in inside.items():
        step = alone[number].layer
        assert step is not None
        assert (one.layer.operator, one.layer.detail) == (step.operator, step.detail)
        assert one.layer.macs == step.macs and one.least == one.most == one.cost
        assert one.share == one.cost / found.total
        most = 1.15 if one.layer.operator == "CONV_2D" else 1.75
        least = 0.9 if one.layer.macs else 0
        assert least < one.cost / alone[number].cost < most, number


@pytest.mark.skipif(not KWS.is_file(), reason="the model is not here")
def test_layers_that_share_their_code_are_counted_each(needs_qemu: None) -> None:
    found = mlf_sdk.profile(KWS, board=BOARD, goal="ram")
    costs = {one.layer.number: one.cost for one in found.steps[0].inside}
    assert list(costs) == list(range(10))
    for numbers in BLOCKS:
        least, *_, most = sorted(costs[number] for number in numbers)
        assert 0 < most - most / 100 < least


def test_layers_of_strips_that_share_their_code_are_counted_each(tmp_path: Path, needs_qemu: None) -> None:
    """Regions of strips of equal width call the same functions."""
    m = Maker(7)
    path = tmp_path / "camera.tflite"
    path.write_bytes(m.finish(camera(m)))
    found = mlf_sdk.profile(path, board=BOARD, caller_inputs=True, max_arena="3000")
    regions = [step for step in found.steps if step.inside]
    assert len(regions) >= 3
    for region in regions:
        assert 0.9 * region.cost < sum(one.cost for one in region.inside) < region.cost


@pytest.mark.skipif(not KWS.is_file(), reason="the model is not here")
def test_a_fault_in_shared_code_names_the_layer_that_called_it(tmp_path: Path) -> None:
    """The first one: the code is that of four layers."""
    mlf_sdk.generate(KWS, tmp_path / "project", board=BOARD, goal="ram")
    _insert(tmp_path / "project", r"row_conv_1x1_\w+", '__asm volatile("udf #0");')
    with pytest.raises(TargetError, match=r"in step 0 \(.*\), layer 2: "):
        mlf_sdk.run(tmp_path / "project")


def test_a_clock_does_not_separate_layers(model: Path) -> None:
    found = mlf_sdk.profile(model, board="host", goal="ram")
    assert not any(step.inside for step in found.steps)


def test_layers_inside_stand_below_their_step(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], needs_qemu: None
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = Caller(capsys)("profile", model, "--board", BOARD, "--for", "ram").out
    heading, *rows = text[text.index("step  share") :].splitlines()
    at = heading.index("layer")
    assert rows[0][at:].startswith("4 ROWS of layers 0 to 4")
    assert [row[at:].rstrip() for row in rows[1:4]] == [
        "  0 CONV_2D 3x3",
        "  1 DEPTHWISE_CONV_2D 3x3",
        "  2 CONV_2D 1x1",
    ]


def test_the_page_of_a_report_has_the_cost_of_each_layer_inside(
    model: Path, tmp_path: Path, needs_qemu: None
) -> None:
    report = mlf_sdk.report(model, board=BOARD, goal="ram", output=tmp_path / "page.html")
    assert report.profile is not None and len(report.profile.steps[0].inside) > 4
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for one in report.profile.steps[0].inside:
        assert f"{one.cost:,} instructions, {one.share:.1%} of an inference" in page


@pytest.mark.parametrize("number", [0, 3])
def test_a_fault_in_a_layer_inside_names_it(model: Path, number: int, tmp_path: Path) -> None:
    mlf_sdk.generate(model, tmp_path / "project", board=BOARD, goal="ram")
    (lock,) = read_lock(tmp_path / "project").models
    assert lock.steps[0].layer is not None and len(lock.steps[0].layer.inside) > number
    _insert(tmp_path / "project", rf"rows_layer_{number}_\w+", '__asm volatile("udf #0");')
    with pytest.raises(TargetError, match=rf"in step 0 \(.*\), layer {number}: "):
        mlf_sdk.run(tmp_path / "project")


def test_a_difference_says_which_layers_were_not_observed(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a layer inside, whose function is left out; the steps behind it get wrong bytes."""
    monkeypatch.setenv("COLUMNS", "200")
    archive, project = tmp_path / "blocks.tar", tmp_path / "project"
    mlf_sdk.compile(model, archive, board=BOARD, goal="ram")
    mlf_sdk.generate(archive, project, board=BOARD)
    _insert(project, r"rows_layer_4_\w+", "return;")
    found = Caller(capsys)("compare", project, "--archive", archive)
    assert found.code == 1, found.err
    text = found.out
    assert "first step 0: " in text and "first step 1: " not in text
    assert "layers 0 to 4 run by rows in this step and can't be observed one by one" in text


def _insert(project: Path, function: str, statement: str) -> None:
    """Insert a C statement at the begin of all functions of a name, a regular expression."""
    name = rf"void {function}\(.*\)\n\{{\n"
    (source,) = [p for p in project.rglob("*.c") if re.search(name, p.read_text(encoding="utf-8"))]
    text = source.read_text(encoding="utf-8")
    source.write_text(re.sub(name, lambda found: f"{found[0]}    {statement}\n", text), encoding="utf-8")


def test_names_of_functions_of_layers() -> None:
    name = layer_function(12, "conv_2ch_0a1b")
    assert layer_of_function(name) == layer_of_function(f"{name}.constprop.0") == 12
    assert layer_of_function("rows_7") is layer_of_function("layer_1_1_128_127") is None
