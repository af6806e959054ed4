# SPDX-License-Identifier: Apache-2.0
"""`profile` and `compare` on real builds: exact counts, and a changed constant found at its step."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import mlf_sdk
from archives import Spec, build, write
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.cli.main import main
from mlf_sdk.errors import InputError
from mlf_sdk.judge.counting import missing_plugin_support
from mlf_sdk.judge.windows import handlers
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.reporting.proof import run_parts
from mlf_sdk.resources import data_dir

pytestmark = [pytest.mark.qemu, pytest.mark.toolchain]
counts = pytest.mark.skipif(bool(missing_plugin_support()), reason=missing_plugin_support())


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(build(Spec(nop=True)), tmp_path_factory.mktemp("archive") / "tiny.tar")


@pytest.fixture(scope="module")
def edited(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose second kernel has another constant."""
    folder = tmp_path_factory.mktemp("edited") / "app"
    mlf_sdk.generate(archive, folder, board="mps2-an386")
    old = "((float*)out)[i] = (((float*)pad)[i]"
    source = next(p for p in folder.glob("model/tiny/codegen/**/*.c") if old in p.read_text())
    source.write_text(source.read_text().replace(old, "((float*)out)[i] = 1.0f + (((float*)pad)[i]"))
    return folder


@counts
def test_instructions_are_exact_and_the_same_again(archive: Path) -> None:
    first = mlf_sdk.profile(archive)
    assert (first.unit, first.rows, first.resolution, first.runs) == ("instructions", "steps", 0, 1)
    assert [s.name.removeprefix("tvmgen_tiny_") for s in first.steps] == [
        "fused_multiply",
        "fused_smooth",
        "fused_add_relu",
    ]
    assert sum(s.cost for s in first.steps) + first.overhead == first.total
    assert all(s.cost > 20 for s in first.steps)
    assert 0 < first.overhead < 30 * len(first.steps)
    again = mlf_sdk.profile(archive, runs=3)
    assert again.total == first.total
    assert [(s.least, s.cost, s.most) for s in again.steps] == [(s.cost,) * 3 for s in first.steps]


@counts
@pytest.mark.parametrize("board", ["mps2-an386", "microbit"])
def test_a_count_by_the_clock_is_right_to_its_resolution(
    archive: Path, board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figure of a run by the clock, where there is no plugin, against those that QEMU counts."""
    counted = mlf_sdk.run(archive, board=board, twin=False)
    profiled = mlf_sdk.profile(archive, board=board).total
    assert counted.instructions is not None
    assert (counted.instructions_resolution, counted.instructions_range) == (0, (counted.instructions,) * 2)
    assert 0 <= counted.instructions - profiled < 50  # its image records workspaces
    monkeypatch.setattr("mlf_sdk.judge.counting.missing_plugin_support", lambda board: "no plugins here")
    by_clock = mlf_sdk.run(archive, board=board, twin=False)
    assert by_clock.instructions is not None
    assert by_clock.instructions_resolution in (120, 189)
    assert abs(by_clock.instructions - counted.instructions) <= by_clock.instructions_resolution
    assert by_clock.instructions % 100 == 0


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Path]:
    """Makes rows of a board on a machine of which nothing is known, with any clock."""
    monkeypatch.setattr("mlf_sdk.targets.boards.load.load_machines", dict)
    known = (data_dir("board_templates") / "boards" / "mps2-an386.toml").read_text()

    def row(hz: int) -> Path:
        path = tmp_path / f"own{hz}.toml"
        text = known.replace('name = "mps2-an386"', f'name = "own{hz}"').replace("25_000_000", str(hz))
        path.write_text(text)
        return path

    return row


@counts
def test_a_row_with_a_wrong_clock_does_not_change_the_count(
    archive: Path, foreign: Callable[[int], Path]
) -> None:
    def counted(hz: int) -> tuple[int | None, int, str]:
        report = mlf_sdk.run(archive, board=f"own{hz}", board_file=str(foreign(hz)), twin=False)
        shown = line_text(report)
        return report.instructions, report.instructions_resolution, shown

    right, wrong = counted(25_000_000), counted(168_000_000)
    assert right == wrong
    assert right[1] == 0
    assert f"{right[0]:,} instructions" in right[2]


def test_ticks_of_an_unknown_clock_are_no_instructions(
    archive: Path, foreign: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch, needs_qemu: None
) -> None:
    row = foreign(168_000_000)
    monkeypatch.setattr("mlf_sdk.judge.counting.missing_plugin_support", lambda board: "no plugins here")
    report = mlf_sdk.run(archive, board="own168000000", board_file=str(row), twin=False)
    assert (report.instructions, report.instructions_range, report.seconds) == (None, None, None)
    assert report.ticks > 0
    assert line_text(report) == f"run        1 inference, {report.ticks:,} ticks"
    monkeypatch.setattr("mlf_sdk.pipeline.profile.missing_plugin_support", lambda board: "no plugins here")
    profiled = mlf_sdk.profile(archive, board="own168000000", board_file=str(row), runs=1)
    assert profiled.unit == "ticks"
    assert "not known" in profiled.method


def line_text(report: RunReport) -> str:
    """Line of the run in the text of a report."""
    out = io.StringIO()
    Console(file=out, width=120).print(*run_parts(report), sep="\n")
    return next(line.rstrip() for line in out.getvalue().splitlines() if line.startswith("run "))


def test_what_runs_in_interrupts_only(edited: Path) -> None:
    mlf_sdk.build(edited)
    found = handlers(read_image(edited / "build" / "app.elf"))
    assert {"SysTick_Handler", "mlf_fault_handler"} <= found
    assert not {"main", "mlf_run", "mlf_reset_handler", "mlf_rpc_feed"} & found


@counts
def test_kernels_inside_a_model_compiled_ahead_of_time(tmp_path: Path) -> None:
    archive = write(build(Spec(kind="aot-c")), tmp_path / "tiny.tar")
    found = mlf_sdk.profile(archive, cflags="-O2 -fno-inline")
    assert found.rows == "kernels"
    assert [s.name.removeprefix("tvmgen_tiny_") for s in found.steps] == [
        "fused_multiply",
        "fused_smooth",
        "fused_add_relu",
    ]
    assert sum(s.cost for s in found.steps) + found.overhead == found.total


def test_the_boards_clock_where_nothing_counts(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = importlib.import_module("mlf_sdk.pipeline.profile")
    monkeypatch.setattr(home, "missing_plugin_support", lambda board: "no plugins here")
    found = mlf_sdk.profile(archive, runs=2)
    assert (found.unit, found.resolution, found.runs) == ("instructions", 40, 2)
    assert any("no plugins here" in note for note in found.notes)
    assert sum(s.cost for s in found.steps) + found.overhead == found.total


def test_profile_on_the_host_as_json(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(archive), "--board", "host", "--runs", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["unit"], found["hz"], found["runs"], len(found["steps"])) == ("ticks", 10**9, 3, 3)


def test_targets_that_agree(archive: Path) -> None:
    report = mlf_sdk.compare(archive)
    assert report.ok
    assert [p.name for p in report.places] == ["host", "mps2-an386"]
    assert report.places[1].steps_equal


def test_a_changed_constant_is_found_at_its_step(
    archive: Path, edited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved"
    arguments = ["compare", str(archive), "--on", f"host,dir:{edited}", "--save", str(saved), "--json"]
    assert main(arguments) == 1
    place = json.loads(capsys.readouterr().out)["places"][1]
    first = place["first"]
    assert (first["number"], first["name"].endswith("fused_smooth")) == (1, True)
    assert first["difference"]["max_abs"] == pytest.approx(1, rel=1e-5)
    assert first["difference"]["mismatches"] == 8
    assert first["same_inputs"]
    with np.load(place["saved"]) as arrays:
        off = arrays["output_0_got"] - arrays["output_0_expected"]
        assert np.allclose(off, 1)
        assert {"input_0", "model_input_0", "step"} <= set(arrays.files)


def test_a_project_against_the_host(archive: Path, edited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(edited), "--archive", str(archive)]) == 1
    out = capsys.readouterr().out
    assert "first step 1:" in out
    assert "fused_smooth" in out
    assert out.splitlines()[-1].split() == ["verdict", "FAIL"]


def test_outputs_only(archive: Path) -> None:
    report = mlf_sdk.compare(archive, every_step=False)
    assert report.ok
    assert report.places[1].steps_equal is None


def test_the_first_inference_of_a_batch_that_differs(archive: Path, edited: Path) -> None:
    """Relu hides the changed constant where everything is far below 0."""
    low, high = np.full((1, 8), -1e4, np.float32), np.full((1, 8), 5, np.float32)
    batch = {"0": np.stack([low, high])}
    report = mlf_sdk.compare(archive, on=["host", f"dir:{edited}"], inputs=batch, every_step=False)
    assert report.inferences == 2
    place = report.places[1]
    assert place.inference in (0, 1)
    assert place.first is not None
    assert place.first.number == 1


@pytest.mark.parametrize(
    ("on", "message"),
    [
        (["host"], "at least two different targets"),
        (["host", "host"], "at least two different targets"),
        (["host", "no-such-board"], "no-such-board"),
    ],
)
def test_bad_targets(archive: Path, on: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mlf_sdk.compare(archive, on=on)


def test_a_project_of_another_archive(edited: Path, tmp_path: Path) -> None:
    other = write(build(Spec(dtype="int8")), tmp_path / "tiny.tar")
    with pytest.raises(InputError, match="not made from this archive"):
        mlf_sdk.compare(other, on=["host", f"dir:{edited}"])
    with pytest.raises(InputError, match="not made from this archive"):
        mlf_sdk.compare(edited, archive=other)


def test_bad_runs(archive: Path) -> None:
    with pytest.raises(InputError, match="must be from 1 to"):
        mlf_sdk.profile(archive, runs=0)
