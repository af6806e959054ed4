# SPDX-License-Identifier: Apache-2.0
"""Models that take frames of a time series: in sessions, in runs against TFLM, in C, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from emulated import need_board
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import InputError, NotPossibleError
from mlf_sdk.tools.process import run_process
from tflite_models import Maker
from time_series import strided, wake_word

ROWS = 17  # of a window of `wake_word`


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frames") / "words.tflite"
    m = Maker(4)
    path.write_bytes(m.finish(wake_word(m)))
    return path


@pytest.fixture(scope="module")
def project(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project for this machine, built."""
    folder = tmp_path_factory.mktemp("frames") / "project"
    mlf_sdk.generate(model, folder, board="host", frames=True)
    mlf_sdk.build(folder)
    return folder


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys)


def series_of(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (1, rows, 1, 8)).astype(np.int8)


def windows(series: np.ndarray) -> list[np.ndarray]:
    return [series[:, end - ROWS : end] for end in range(ROWS, series.shape[1] + 1)]


def expected(model: Path, series: np.ndarray) -> list[bytes]:
    interpreter = Interpreter(load_tflite(model))
    return [interpreter.run([window])[0].tobytes() for window in windows(series)]


def test_frames_as_they_come(model: Path, project: Path) -> None:
    """The first sixteen frames have no outputs; then each has those of its window."""
    series = series_of(ROWS + 6, 1)
    with mlf_sdk.open_session(project) as session:
        found = [session.frame(row) for row in series[0]]
    assert found[: ROWS - 1] == [None] * (ROWS - 1)
    assert [outputs[0].tobytes() for outputs in found[ROWS - 1 :] if outputs] == expected(model, series)


def test_windows_and_frames(model: Path, project: Path) -> None:
    """A whole window is a session's start as well, and one that follows takes the frames that are new."""
    series, other = series_of(ROWS + 5, 2), series_of(ROWS, 3)
    wanted = expected(model, series)
    with mlf_sdk.open_session(project) as session:
        runs = []
        infer = session.session.infer

        def counted(*arguments: object) -> object:
            runs.append(arguments)
            return infer(*arguments)

        session.session.infer = counted
        assert session.infer(windows(series)[0])[0].tobytes() == wanted[0]
        assert len(runs) == ROWS
        assert session.infer(windows(series)[1])[0].tobytes() == wanted[1]
        assert len(runs) == ROWS + 1
        assert session.infer(windows(series)[4])[0].tobytes() == wanted[4]
        assert len(runs) == ROWS + 4
        assert session.frame(series[0, -1])[0].tobytes() == wanted[5]
        assert session.infer(other)[0].tobytes() == expected(model, other)[0]
        assert len(runs) == 2 * ROWS + 5
        batch = np.stack(windows(series))
        assert [one.tobytes() for one in session.infer(batch)[0]] == wanted


def test_arrays_that_do_not_fit(project: Path) -> None:
    with mlf_sdk.open_session(project) as session:
        with pytest.raises(InputError, match=r"shape \[7\] was given for a frame of \[1, 1, 1, 8\]"):
            session.frame(np.zeros(7, np.int8))
        with pytest.raises(InputError, match="int16"):
            session.frame(np.zeros(8, np.int16))
        with pytest.raises(InputError, match="does not fit"):
            session.infer(np.zeros((1, 5, 1, 8), np.int8))


def test_a_model_of_whole_inputs_takes_no_frame(model: Path) -> None:
    with (
        mlf_sdk.open_session(model, board="host") as session,
        pytest.raises(InputError, match="takes a whole input"),
    ):
        session.frame(np.zeros(8, np.int8))


@pytest.mark.qemu
@pytest.mark.parametrize("board", ["microbit", "mps3-an547"])
def test_a_run_on_a_board(board: str, model: Path, call: Caller) -> None:
    """Windows that slide, against the witnesses and against a host twin of the whole model."""
    need_board(board)
    result = call("run", model, "--board", board, "--frames")
    assert result.code == 0 and "PASS" in result.out, result.out + result.err
    assert "8 inferences" in result.out and "host twin" in result.out


def test_cases(model: Path, tmp_path: Path, call: Caller) -> None:
    """Windows with their outputs; a wrong one is noticed."""
    series = series_of(ROWS + 3, 4)
    outputs = np.stack([np.frombuffer(one, np.int8) for one in expected(model, series)])
    cases = tmp_path / "cases.npz"
    np.savez(cases, input=np.stack(windows(series)), **{"0": outputs.reshape(4, 1, 8)})
    result = call("test", model, "--board", "host", "--frames", "--cases", cases)
    assert result.code == 0, result.out + result.err
    outputs[2] ^= 1
    np.savez(cases, input=np.stack(windows(series)), **{"0": outputs.reshape(4, 1, 8)})
    result = call("test", model, "--board", "host", "--frames", "--cases", cases)
    assert result.code == 1 and "case 2" in result.out


def test_the_layer_that_differs(model: Path, tmp_path: Path) -> None:
    """Targets are compared layer by layer at the last frame of a window, with each other and with the reference."""
    archive, folder, inputs = tmp_path / "words.tar", tmp_path / "edited", tmp_path / "inputs.npz"
    mlf_sdk.compile(model, archive, frames=True)
    np.savez(inputs, input=series_of(ROWS, 9))
    shared = {"inputs": str(inputs), "model_file": str(model)}
    mlf_sdk.generate(archive, folder, board="host")
    [source] = folder.glob("model/words/kernels/*.c")
    head, mark, rest = source.read_text().partition("/* Layer 3: CONV_2D")
    source.write_text(head + mark + rest.replace("\n}\n", "\n    y0[0] ^= 1;\n}\n", 1))
    report = mlf_sdk.compare(archive, on=("host", f"dir:{folder}"), every_step=True, **shared)
    first, witnesses = report.places[1], report.places[2:]
    assert first.first is not None, first.note
    assert (first.first.name, first.first.at, first.first.same_inputs) == (
        "conv_2d_3",
        (0, 0, 0, 0),
        True,
    )
    assert {one.name for one in witnesses} >= {"reference"}
    assert all(one.ok for one in witnesses) and any(one.steps_equal for one in witnesses)
    report = mlf_sdk.compare(archive, on=(f"dir:{folder}", "host"), **shared)
    reference = next(one for one in report.places if one.name == "reference")
    assert reference.first is not None and reference.first.name == "conv_2d_3", reference.note


MAIN = """#include "words.h"
#include <stdio.h>

int main(void) {
  int8_t frame[WORDS_INPUT_ELEMENTS];
  while (fread(frame, 1, sizeof frame, stdin) == sizeof frame) {
    if (words_frame(frame) != MLF_OK) {
      return 1;
    }
    const uint32_t due = words_frames_due();
    fwrite(&due, 1, sizeof due, stdout);
    fwrite(words_output(), 1, WORDS_OUTPUT_SIZE, stdout);
    if (due == 0u && frame[0] == 77) {
      words_reset();
    }
  }
  return WORDS_FRAMES == 17u ? 0 : 2;
}
"""


def test_frames_in_c(model: Path, tmp_path: Path) -> None:
    """The header's functions, in a program of the user's; a reset begins a series."""
    out = tmp_path / "library"
    mlf_sdk.export(model, out, own=mlf_sdk.ExportOptions(to="make"), frames=True)
    sources = [str(path) for path in out.rglob("*.c") if path.parent.name != "example"]
    folders = {str(path.parent) for path in out.rglob("*.h")} | {str(path) for path in out.rglob("include")}
    (tmp_path / "main.c").write_text(MAIN)
    program = tmp_path / "program"
    includes = [f"-I{folder}" for folder in sorted(folders)]
    argv = ["gcc", "-std=gnu11", "-g", "-fsanitize=address,undefined", *includes]
    done = run_process([*argv, *sources, str(tmp_path / "main.c"), "-lm", "-o", str(program)], timeout_s=120)
    assert done.returncode == 0, done.stderr
    series = series_of(2 * ROWS + 4, 6)
    series[0, :, 0, 0] = np.minimum(series[0, :, 0, 0], 70)
    series[0, ROWS + 1, 0, 0] = 77
    (tmp_path / "series").write_bytes(series.tobytes())
    shell = f"{program} < {tmp_path / 'series'} > {tmp_path / 'found'}"
    assert run_process(["sh", "-c", shell], timeout_s=60).returncode == 0
    found = (tmp_path / "found").read_bytes()
    answers = [found[k : k + 12] for k in range(0, len(found), 12)]
    due = [int.from_bytes(one[:4], "little") for one in answers]
    series_due = [*range(ROWS - 1, 0, -1), 0, 0, 0]
    assert due == [*series_due, *series_due]
    wanted = expected(model, series)
    for number, one in enumerate(answers):
        if due[number] == 0:
            assert one[4:] == wanted[number - ROWS + 1], number


def test_the_standalone_application(tmp_path: Path) -> None:
    """Its sample is a whole window of frames of four rows, the first of which is not whole."""
    m = Maker(9)
    path = tmp_path / "steps.tflite"
    path.write_bytes(m.finish(strided(m)))
    out = tmp_path / "project"
    mlf_sdk.generate(path, out, board="host", frames=True, app="standalone", sample_outputs=True)
    printed = run_process([str(mlf_sdk.build(out).elf)], timeout_s=30).stdout.replace("\r", "").splitlines()
    assert printed[-2:] == ["mlf: output 0 as expected", "mlf: done 0"]


@pytest.mark.parametrize(
    ("options", "said"),
    [({"stream": True}, "in frames or by rows"), ({"app": "mlperf", "mlperf_id": "my"}, "comes in frames")],
)
def test_what_does_not_go_together(
    options: dict[str, object], said: str, model: Path, tmp_path: Path
) -> None:
    with pytest.raises((InputError, NotPossibleError), match=said):
        mlf_sdk.generate(model, tmp_path / "project", board="mps2-an386", frames=True, **options)
    assert not (tmp_path / "project").exists()


def test_an_archive_keeps_its_window(model: Path, tmp_path: Path) -> None:
    archive = tmp_path / "words.tar"
    mlf_sdk.compile(model, archive, frames=True)
    loaded = mlf_sdk.load(archive)
    assert loaded.tensors[loaded.inputs[0]].shape == (1, 1, 1, 8)
    assert loaded.provenance.options["window"] == "1,17,1,8" and len(loaded.states) == 3
    with mlf_sdk.open_session(archive, board="host") as session:
        series = series_of(ROWS, 8)
        assert session.infer(series)[0].tobytes() == expected(model, series)[0]
