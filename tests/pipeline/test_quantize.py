# SPDX-License-Identifier: Apache-2.0
"""Quantisation of a float model: its figures against ONNX Runtime and our own compiler, and bad samples."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.quantize import QuantizedModel
from mlf_sdk.pipeline.survey import survey_request
from onnx_models import OnnxMaker, convolutional

ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
ROOT = Path(__file__).parents[2]
COUNT = 40
Array = np.ndarray[Any, np.dtype[Any]]


def exact(path: Path) -> Any:
    """A session that computes what the nodes say, without fusions."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def outputs(path: Path, x: Array) -> Array:
    session = exact(path)
    return np.concatenate([session.run(None, {"x": one[None]})[0] for one in x])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convolutional(3).save(tmp_path_factory.mktemp("float") / "net.onnx", "softmax16")


@pytest.fixture(scope="module")
def samples() -> Array:
    return np.random.default_rng(5).standard_normal((COUNT, 3, 9, 10)).astype(np.float32)


@pytest.fixture(scope="module")
def made(model: Path, samples: Array) -> QuantizedModel:
    """The labels are the classes of the float model, the last four excepted."""
    labels = outputs(model, samples).argmax(axis=1)
    labels[-4:] = (labels[-4:] + 1) % 10
    data = {"x": samples, "label": labels}
    return mlf_sdk.quantize(model, model.parent / "int8.onnx", calibration=data)


def test_figures_are_those_of_both_models_in_onnx_runtime(
    made: QuantizedModel, model: Path, samples: Array
) -> None:
    real, int8 = outputs(model, samples), outputs(made.output, samples)
    (output,) = made.outputs
    assert output.max_error == pytest.approx(np.abs(real - int8).max(), rel=1e-4)
    ratio = 10 * np.log10((real**2).sum() / ((real - int8) ** 2).sum())
    assert output.snr_db == pytest.approx(ratio, abs=0.01)
    same = real.argmax(axis=1) == int8.argmax(axis=1)
    assert made.agreement == same.mean() >= 0.9
    assert made.accuracy_before == (COUNT - 4) / COUNT
    assert made.accuracy_after is not None and made.accuracy_after <= same.mean()
    assert (made.calibrated, made.measured, made.own_samples) == (COUNT, COUNT, False)


def test_layers_are_in_order_and_lose_more_and_more(made: QuantizedModel) -> None:
    kinds = [one.node.partition(" ")[0] for one in made.layers]
    assert kinds[0] == "input" and kinds[-1] == "Softmax"
    assert kinds.index("MaxPool") < kinds.index("Add") < kinds.index("Gemm")
    first, last = made.layers[0], made.layers[-2]
    assert first.snr_db is not None and last.snr_db is not None and 20 < last.snr_db < first.snr_db - 5
    step = 2 * first.max_value / 255
    assert first.max_error <= 0.6 * step  # an input is rounded, nothing else


def test_memory_is_that_of_the_compiled_models(made: QuantizedModel, model: Path) -> None:
    for path, plan in ((model, made.before), (made.output, made.after)):
        assert survey_request(mlf_sdk.Request(source=(str(path),))).plan == plan
    assert made.after.params_bytes < 0.7 * made.before.params_bytes
    assert made.after.arena_bytes < made.before.arena_bytes
    assert set(made.real_operators) == {"Softmax"}


def test_what_we_compile_of_it_has_the_same_top_class(made: QuantizedModel, samples: Array) -> None:
    wanted = outputs(made.output, samples)
    computes = Interpreter(load_onnx(made.output))
    found = np.concatenate([computes.run([one[None]])[0] for one in samples])
    kept = np.take_along_axis(wanted, found.argmax(axis=1)[:, None], axis=1)[:, 0]
    assert (wanted.max(axis=1) - kept).max() <= 0.02  # a few steps of its output, 1/256 each


def test_other_samples_for_the_loss_and_an_archive(model: Path, samples: Array, tmp_path: Path) -> None:
    cases = {"x": samples[:7] * 0.5}
    found = mlf_sdk.quantize(model, tmp_path / "net.tar", calibration={"x": samples[:9]}, cases=cases)
    assert (found.calibrated, found.measured, found.own_samples) == (9, 7, True)
    assert found.accuracy_before is None
    assert mlf_sdk.load(tmp_path / "net.tar").name == "net"
    assert [p.name for p in tmp_path.iterdir()] == ["net.tar"]


def test_an_old_operator_set_and_an_open_batch(tmp_path: Path) -> None:
    m = OnnxMaker(opset=11)
    y = m.add("Relu", m.add("Gemm", m.input("N", 12), m.weights(12, 8), m.weights(8)))
    m.add("Gemm", y, m.weights(8, 3), m.weights(3))
    path = m.save(tmp_path / "old.onnx", "gemm3")
    x = m.random.standard_normal((16, 12)).astype(np.float32)
    found = mlf_sdk.quantize(path, tmp_path / "int8.onnx", calibration={"x": x})
    assert found.real_operators == () and found.agreement is not None
    assert np.abs(outputs(path, x) - outputs(found.output, x)).max() == pytest.approx(
        found.outputs[0].max_error, rel=1e-3
    )


# ---- the command ----


def test_the_command(model: Path, samples: Array, tmp_path: Path, call: Caller) -> None:
    np.savez(tmp_path / "data.npz", x=samples[:5], label=np.zeros(5, np.int64))
    words = ("quantize", model, "--calibration", tmp_path / "data.npz", "-o", tmp_path / "int8.onnx")
    shown = call(*words)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    for label in ("top class", "accuracy", "flash", "RAM", "written"):
        assert sum(line.startswith(label) for line in lines) == 1, shown.out
    values = json.loads(call(*words, "--json").out)
    assert values["ok"] and values["size_bytes"] == (tmp_path / "int8.onnx").stat().st_size
    assert values["layers"][-1]["node"].startswith("Softmax") and values["accuracy_before"] is not None


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys)


# ---- what is refused ----

BAD: dict[str, tuple[Callable[[Array], dict[str, Array]], str]] = {
    "no array": (lambda x: {"y": x}, "input 'x': no array; there are y"),
    "shape": (lambda x: {"x": x[:, :2]}, r"shape \[40, 2, 9, 10\] does not fit 'x'"),
    "no samples": (lambda x: {"x": x[:0]}, "no samples: its leading axis is 0"),
    "not finite": (lambda x: {"x": np.where(x == x[3, 0, 0, 0], np.nan, x)}, "sample 3 has values that are"),
    "not numbers": (lambda x: {"x": x.astype("U8")}, "are not real numbers"),
    "labels": (lambda x: {"x": x, "label": np.arange(40)}, "classes from 0 to 39; the model's are 0 to 9"),
    "too few labels": (lambda x: {"x": x, "label": np.arange(4)}, "not 40 whole numbers, but 4"),
    "labels that are real": (lambda x: {"x": x, "label": np.ones(40)}, "but 40 of type float64"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_samples_are_one_error(case: str, model: Path, samples: Array, tmp_path: Path) -> None:
    arrays, said = BAD[case]
    out = tmp_path / "int8.onnx"
    out.write_bytes(b"former")
    with pytest.raises(InputError, match=said):
        mlf_sdk.quantize(model, out, calibration=arrays(samples))
    assert out.read_bytes() == b"former" and [*tmp_path.iterdir()] == [out]


def test_all_faults_of_samples_at_once(tmp_path: Path) -> None:
    m = OnnxMaker()
    y = m.add("Add", m.add("Add", m.input(1, 4), m.input(1, 4, name="b")), m.input(1, 4, name="c"))
    path = m.save(tmp_path / "sum.onnx", y)
    row = np.ones((6, 4), np.float32)
    with pytest.raises(InputError) as raised:
        mlf_sdk.quantize(path, tmp_path / "o.onnx", calibration={"x": row[:, :3], "c": row * np.inf})
    assert all(f"input '{name}'" in str(raised.value) for name in "xbc")
    with pytest.raises(InputError, match="their numbers differ: x: 6, b: 5, c: 6"):
        mlf_sdk.quantize(path, tmp_path / "o.onnx", calibration={"x": row, "b": row[:5], "c": row})


def test_models_and_outputs_that_are_refused(made: QuantizedModel, samples: Array, tmp_path: Path) -> None:
    data = {"x": samples[:2]}
    with pytest.raises(InputError, match="the model is quantised already"):
        mlf_sdk.quantize(made.output, tmp_path / "o.onnx", calibration=data)
    with pytest.raises(InputError, match=r"neither \.onnx nor \.tar"):
        mlf_sdk.quantize(made.output, tmp_path / "o.bin", calibration=data)
    with pytest.raises(InputError, match="it would replace the model"):
        mlf_sdk.quantize(made.output, made.output, calibration=data)
    with pytest.raises(InputError, match="can't be quantised here"):
        mlf_sdk.quantize(ROOT / "examples/layers/layers.tflite", tmp_path / "o.onnx", calibration=data)
    assert not [*tmp_path.iterdir()]


def test_a_failure_of_the_quantiser_is_one_error(
    model: Path, samples: Array, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("node /Conv_1 is odd\nand so on")

    monkeypatch.setattr("onnxruntime.quantization.quantize_static", fails)
    with pytest.raises(
        InputError, match=r"ONNX Runtime can't quantise the model: node /Conv_1 is odd$|odd\n"
    ):
        mlf_sdk.quantize(model, tmp_path / "o.onnx", calibration={"x": samples[:2]})
    assert not [*tmp_path.iterdir()]


def test_without_the_quantiser_the_extra_is_named(
    model: Path, samples: Array, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"'onnxruntime' is not installed\n.*mlf-sdk\[quantize\]"):
        mlf_sdk.quantize(model, tmp_path / "o.onnx", calibration={"x": samples[:2]})


def test_instructions_on_a_board(model: Path, samples: Array, tmp_path: Path, call: Caller) -> None:
    data = tmp_path / "samples.npz"
    np.savez(data, x=samples[:4])
    words = ("quantize", model, "--calibration", data, "-o", tmp_path / "int8.onnx", "--instructions")
    refused = call(*words)
    assert refused.code == 2 and "emulated boards alone" in refused.err
    shown = call(*words, "--board", "mps2-an386")
    assert shown.code == 0
    found = re.search(
        r"executes +([\d,]+) instructions before, ([\d,]+) after \((\d+)%\) on mps2-an386", shown.out
    )
    assert found is not None, shown.out
    before, after = (int(figure.replace(",", "")) for figure in found.groups()[:2])
    assert min(before, after) > 10_000 and round(100 * after / before) == int(found[3])
