# SPDX-License-Identifier: Apache-2.0
"""How the official runner is started and read: with a stand-in of its own, and (marker mlperf) with itself."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.pipeline.mlperf.bench import bench_mlperf
from mlf_sdk.pipeline.mlperf.inputs import InputFile, read_folder
from mlf_sdk.pipeline.mlperf.official import Job, devices_text, main_of, run_official, script_text
from mlf_sdk.pipeline.mlperf.results import MlperfReport
from mlf_sdk.pipeline.options import MlperfOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request

SHARED = Path(__file__).resolve().parents[3] / "shared"
# What the runner would do: find the port by its USB id, read its files, write a session.
STAND_IN = """
import json, sys
from pathlib import Path
from serial.tools import list_ports
import device_manager
ports = [p for p in list_ports.comports(True) if p.vid]
found = {"ports": [(p.device, p.vid, p.pid, p.description) for p in ports], "argv": sys.argv[1:]}
found["data"] = {p.name: p.read_bytes().hex() for p in Path("datasets/toy01").iterdir()}
found["script"] = Path("tests.yaml").read_text()
session = Path("sessions/20260101_000000")
session.mkdir(parents=True)
(session / "log.txt").write_text(json.dumps(found))
infer = {"start_time": 5, "end_time": 12000005, "iterations": 24, "warmups": 2, "results": [0.5, 0.5]}
(session / "results.json").write_text(json.dumps([{"infer": infer}] * 5 + [{"error": "x"}]))
(session / "results.txt").write_text(device_manager.TEXT)
print("done")
sys.exit(device_manager.CODE)
"""
GOOD = "0101 ulp-mlperf: Median throughput is      2.000 inf./sec.\n"


def runner(folder: Path, text: str = GOOD, code: int = 0) -> Path:
    folder.mkdir()
    (folder / "main.py").write_text(STAND_IN)
    (folder / "device_manager.py").write_text(f"TEXT = {text!r}\nCODE = {code}\n")
    return folder


def job(folder: Path, program: Path, mode: str = "performance") -> Job:
    folder.mkdir()
    return Job(
        runner=program,
        python=sys.executable,
        port="/dev/pts/toy",
        baud=57600,
        folder=folder,
        benchmark="toy01",
        mode=mode,
        inferences=24,
        warmups=2,
        files=[InputFile(name="a.bin", classes=2, label=1, data=b"\1\2")],
        timeout_s=60,
    )


def test_a_run(tmp_path: Path) -> None:
    done = run_official(job(tmp_path / "work", runner(tmp_path / "runner")))
    seen = json.loads((done.session / "log.txt").read_text())
    assert ["/dev/pts/toy", 0x1209, 1, "board"] in seen["ports"]
    assert seen["argv"] == ["-d", "devices.yaml", "-t", "tests.yaml", "-s", "datasets", "-m", "p"]
    assert seen["data"] == {"a.bin": "0102", "y_labels.csv": b"a.bin,2,1\n".hex()}
    assert "    - loop 5:\n      - download\n      - infer 24 2\n" in seen["script"]
    assert (tmp_path / "work/devices.yaml").read_text() == devices_text(57600)
    assert done.throughput == 2.0
    assert done.objections == ()
    assert [window.throughput for window in done.windows] == [2.0] * 5


def test_a_relative_python_is_that_of_the_callers_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner works in a folder of its own; a venv's interpreter stays the link that it is."""
    python = tmp_path / "env/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$0" > {tmp_path}/started\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (python.parent / "link").symlink_to("python")
    monkeypatch.chdir(tmp_path)
    asked = job(Path("work"), runner(Path("runner")))
    assert run_official(dataclasses.replace(asked, python="env/bin/link")).throughput == 2.0
    assert (tmp_path / "started").read_text().strip() == str(python.parent / "link")


def test_accuracy_is_read(tmp_path: Path) -> None:
    program = runner(tmp_path / "runner", "1 ulp-mlperf: Top 1% = 90.2\n1 ulp-mlperf: AUC = 0.995\n")
    done = run_official(job(tmp_path / "work", program, "accuracy"))
    assert (done.top1_percent, done.auc, done.objections) == (90.2, 0.995, ())
    assert script_text("toy01", "accuracy", 24, 2).endswith(
        "    - loop:\n      - download\n      - infer 1 0\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ulp-mlperf: ERROR 2 - loop exited early.\n", "ulp-mlperf: ERROR 2 - loop exited early."),
        (GOOD + "WARNING: Failed to get name.\n", "WARNING: Failed to get name."),
        ("nothing\n", "the official runner states no result"),
    ],
)
def test_objections(text: str, said: str, tmp_path: Path) -> None:
    """Its exit code is 0 all the same."""
    done = run_official(job(tmp_path / "work", runner(tmp_path / "runner", text)))
    assert done.objections == (said,)


def test_a_runner_that_fails(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="failed with exit code 3"):
        run_official(job(tmp_path / "1", runner(tmp_path / "fails", code=3)))
    program = runner(tmp_path / "lacks")
    (program / "device_manager.py").write_text("import no_such_package_at_all\n")
    with pytest.raises(ToolError, match="no_such_package_at_all") as error:
        run_official(job(tmp_path / "2", program))
    assert "--runner-python" in error.value.hint


def test_the_folder_of_the_runner(tmp_path: Path) -> None:
    program = runner(tmp_path / "runner")
    assert main_of(program) == program / "main.py"
    (tmp_path / "tiny/benchmark").mkdir(parents=True)
    program.rename(tmp_path / "tiny/benchmark/runner")
    assert main_of(tmp_path / "tiny") == tmp_path / "tiny/benchmark/runner/main.py"
    with pytest.raises(InputError, match="runner of MLPerf Tiny is not here"):
        main_of(tmp_path)


# ---- the runner itself ----


@pytest.fixture(scope="module")
def official(needs_qemu: None) -> MlperfOptions:
    """The official runner; skips where it, its packages or the models are not there."""
    folder, python = os.environ.get("MLPERF_RUNNER"), os.environ.get("MLPERF_PYTHON", "python3")
    if folder is None:
        pytest.skip(
            "no official runner: MLPERF_RUNNER names no checkout of mlcommons/tiny (docs/howto-mlperf.md)"
        )
    if not (SHARED / "tflite").is_dir():
        pytest.skip(f"no models: {SHARED / 'tflite'} is missing")
    return MlperfOptions(runner=folder, runner_python=python)


def bench(model: Path, own: MlperfOptions, **options: object) -> MlperfReport:
    request = Request(source=(str(model),), board="mps2-an386", **options)  # type: ignore[arg-type]
    return bench_mlperf(request, own, Pipeline())


AD_SCALES = ("input_1=0.3910152316093445,89", "output=0.36449846625328064,96")


@pytest.mark.mlperf
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "id_", "archive"),
    [
        ("kws_int8", "kws01", "aotc"),
        ("resnet8_int8", "ic01", "aotc"),
        ("vww_int8", "vww01", "graph"),
        ("ad_int8", "ad01", "aotc"),
        ("kws_int8", "kws01", ""),
        ("resnet8_int8", "ic01", ""),
        ("vww_int8", "vww01", ""),
        ("ad_int8", "ad01", ""),
    ],
)
def test_performance_mode(name: str, id_: str, archive: str, official: MlperfOptions) -> None:
    model = SHARED / "tflite" / f"{name}.tflite"
    if archive:
        model = SHARED / "mlf" / f"{name}-{archive}-tvm0.11.1.tar"
    stated = AD_SCALES if archive and id_ == "ad01" else ()
    found = bench(model, official, mlperf_id=id_, quantisation=stated)
    assert found.errors == ()
    assert found.official
    assert len(found.windows) == 5
    assert all(10 < window.seconds < 30 for window in found.windows)
    assert found.throughput == pytest.approx(np.median([w.throughput for w in found.windows]), abs=1e-3)


@pytest.mark.mlperf
@pytest.mark.slow
def test_accuracy_mode_and_every_line(official: MlperfOptions) -> None:
    data = os.environ.get("MLPERF_KWS")
    if data is None:
        pytest.skip("no official inputs: MLPERF_KWS names no folder datasets/kws01 of eembc/energyrunner")
    own = MlperfOptions(
        mode="accuracy", data=data, runner=official.runner, runner_python=official.runner_python
    )
    model = SHARED / "tflite/kws_int8.tflite"
    found = bench(model, own, mlperf_id="kws01")
    assert found.errors == ()
    assert found.top1_percent == pytest.approx(90.2, abs=0.2)
    files = read_folder(Path(data), None)
    given = np.stack([np.frombuffer(file.content(), np.int8) for file in files]).reshape(-1, 1, 49, 10, 1)
    ran = mlf_sdk.run(str(model), board="mps2-an386", inputs={"input_1": given}, twin=False, timeout_s=600)
    (stored,) = ran.outputs.values()
    values = (stored.reshape(len(files), 12).astype(np.int64) + 128) / 256
    assert [window.results for window in found.windows] == [tuple(row) for row in values]
    assert re.fullmatch(r"[0-9.]+", str(found.auc))
