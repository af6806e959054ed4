# SPDX-License-Identifier: Apache-2.0
"""Preprocessing in projects: its step runs on boards, is confirmed by witnesses, and applications call the function."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from export_worlds import compiled
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import InputError
from preprocess_c import Array
from tflite_models import ModelSpec, write_model

ROOT = Path(__file__).resolve().parents[2]
PRE: dict[str, Any] = {"frame": "bayer-grbg", "width": 13, "height": 9, "range": [0.0, 1.0]}
SOUND: dict[str, Any] = {"rate": 16000, "coefficients": 4, "noise": True}
TOML = '[pre]\nframe = "bayer-grbg"\nwidth = 13\nheight = 9\nrange = [0.0, 1.0]\n'


def image_model(names: tuple[str, ...] = ("image",), shape: tuple[int, ...] = (1, 6, 8, 3)) -> bytes:
    spec = ModelSpec()
    scale = {"scale": (1 / 255,), "zero_point": (-128,)}
    spec.inputs = [spec.tensor(name, "int8", shape, **scale) for name in names]
    outputs = [spec.tensor(f"y{k}", "int8", shape, scale=(0.02,), zero_point=(3,)) for k in range(len(names))]
    spec.outputs = [spec.add("QUANTIZE", (x,), y) for x, y in zip(spec.inputs, outputs, strict=True)]
    return write_model(spec)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    path = tmp_path / "pictures.tflite"
    path.write_bytes(image_model())
    return path


def frames(count: int = 3) -> Array:
    return np.random.default_rng(1).integers(0, 256, (count, 9, 13)).astype(np.uint8)


def meant(path: Path, raw: Array, pre: dict[str, Any]) -> Array:
    """Outputs by the Python function and the numpy reference of the model's file."""
    interpreter = Interpreter(load_tflite(path))
    return np.stack([interpreter.run([one])[0] for one in mlf_sdk.preprocess(raw, pre, model=path)])


@pytest.mark.parametrize(
    "board",
    [
        "host",
        pytest.param("mps2-an386", marks=pytest.mark.qemu),
        pytest.param("microbit", marks=pytest.mark.qemu),
    ],
)
def test_frames_are_prepared_on_the_target(board: str, pictures: Path, needs_qemu: None) -> None:
    raw = frames()
    report = mlf_sdk.run(pictures, board=board, pre=PRE, inputs={"frame": raw})
    assert report.ok
    assert "reference" in report.evidence
    np.testing.assert_array_equal(report.outputs["y0"], meant(pictures, raw, PRE))


@pytest.mark.qemu
def test_sound_is_prepared_on_the_target(tmp_path: Path, needs_qemu: None) -> None:
    path = tmp_path / "sound.tflite"
    path.write_bytes(image_model(shape=(1, 3, 4, 1)))
    raw = np.random.default_rng(2).integers(-9000, 9000, (2, 480 + 2 * 320)).astype(np.int16)
    report = mlf_sdk.run(path, board="mps2-an386", pre=SOUND, inputs={"audio": raw})
    assert report.ok
    np.testing.assert_array_equal(report.outputs["y0"], meant(path, raw, SOUND))


@pytest.mark.toolchain
def test_a_wrong_preparation_is_a_failure(
    pictures: Path, monkeypatch: pytest.MonkeyPatch, needs_host: None
) -> None:
    """The witnesses get what Python prepares: code that prepares something else differs from them."""
    from mlf_sdk.compiler.preprocess import imagecode

    real = imagecode._mosaic
    monkeypatch.setattr(imagecode, "_mosaic", lambda plan: real(plan).replace("+ 1) >> 1", "+ 0) >> 1"))
    report = mlf_sdk.run(pictures, board="host", pre=PRE, inputs={"frame": frames()})
    assert not report.ok
    assert report.first is not None
    assert (
        "preprocess" not in report.first.name
    )  # a step that no file has; the first layer behind it is named


@pytest.mark.toolchain
def test_a_project_keeps_its_section(
    pictures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    needs_host: None,
) -> None:
    call = Caller(capsys)
    (tmp_path / "mlf.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "in.npz", frame=frames())
    assert call("generate", pictures, "-o", "app", "--board", "host").code == 0
    assert (
        "pictures_preprocess" in (tmp_path / "app/model/pictures/kernels/pictures_preprocess.h").read_text()
    )
    assert call("build", "app").code == 0
    assert call("run", "app", "--inputs", "in.npz").code == 0
    assert call("compare", "app", "--inputs", "in.npz", "--on", "host,dir:app").code == 0
    (tmp_path / "mlf.toml").write_text(TOML.replace("13", "14"))
    refused = call("run", "app", "--inputs", "in.npz")
    assert refused.code == 2
    assert "--pre can't be given here" in refused.err
    preprocessing = read_lock(tmp_path / "app").models[0].preprocessing
    assert preprocessing is not None
    assert preprocessing.is_step


@pytest.mark.toolchain
def test_an_export_has_the_function(pictures: Path, tmp_path: Path, needs_cc: str) -> None:
    folder = tmp_path / "net"
    mlf_sdk.export(pictures, folder, to="make", model_name="net", pre=PRE)
    raw = frames(1)[0]
    (folder / "main.c").write_text(
        f"""#include <stdio.h>
#include "net.h"
#include "net_preprocess.h"
static const uint8_t frame[NET_FRAME_BYTES] = {{ {", ".join(map(str, raw.reshape(-1)))} }};
int main(void) {{
  net_preprocess(frame, net_input());
  if (net_run() != MLF_OK) return 1;
  for (unsigned i = 0; i < NET_OUTPUT_ELEMENTS; i++) printf("%d ", net_output()[i]);
  return 0;
}}
"""
    )
    said = compiled(folder, ["main.c", *(folder / "src").glob("*.c")], ["src"], flags=["-Wall", "-Werror"])
    np.testing.assert_array_equal([int(v) for v in said.split()], meant(pictures, raw[None], PRE).reshape(-1))
    assert "net_preprocess.c" in (folder / "net.mk").read_text()


@pytest.mark.toolchain
def test_an_archive_of_tvm_has_the_step(needs_host: None) -> None:
    pre = {"frame": "grey8", "width": 8, "height": 8, "range": [0.0, 16.0]}
    archive = ROOT / "examples/digits/digits-graph-tvm0.11.1.tar"
    raw = np.random.default_rng(3).integers(0, 256, (4, 8, 8)).astype(np.uint8)
    report = mlf_sdk.run(archive, board="host", pre=pre, inputs={"frame": raw})
    plain = mlf_sdk.run(archive, board="host", inputs={"0": mlf_sdk.preprocess(raw, pre, model=archive)})
    np.testing.assert_array_equal(report.outputs["output"], plain.outputs["output"])


def test_what_does_not_fit_a_model_is_named(tmp_path: Path) -> None:
    two = tmp_path / "two.tflite"
    two.write_bytes(image_model(("a", "b")))
    for pre, said in ((PRE, "[pre] input"), ({**PRE, "input": "c"}, "[pre] input")):
        with pytest.raises(InputError, match="a, b") as error:
            mlf_sdk.generate(two, tmp_path / "app", board="host", pre=pre)
        assert said in str(error.value)
    one = tmp_path / "one.tflite"
    one.write_bytes(image_model())
    with pytest.raises(InputError, match="several models"):
        mlf_sdk.generate([one, two], tmp_path / "app", board="host", pre={**PRE, "input": "a"})
    assert not (tmp_path / "app").exists()
    made = mlf_sdk.generate(two, tmp_path / "app", board="host", pre={**PRE, "input": "b"})
    assert dataclasses.is_dataclass(made)


def test_an_input_in_parts_is_refused(tmp_path: Path) -> None:
    layers = ROOT / "examples/layers/layers.tflite"
    pre = {"frame": "rgb888", "width": 10, "height": 12, "range": [0.0, 1.0]}
    with pytest.raises(InputError, match="row by row"):
        mlf_sdk.generate(layers, tmp_path / "app", board="mps2-an386", pre=pre, stream=True)
