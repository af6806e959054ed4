# SPDX-License-Identifier: Apache-2.0
"""Witnesses of a model's file: each there or not, in time or not, and what each of them covers."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.compiler.passes.edges import strip_conversions
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.judge.data import Batch
from mlf_sdk.judge.witnesses import interpreter
from mlf_sdk.judge.witnesses.panel import Hearing, WitnessStatement, hear
from mlf_sdk.judge.witnesses.reference import ReferenceSession
from mlf_sdk.judge.witnesses.witness import ModelFile, WitnessUnableError
from small_models import TWICE, floats_at_the_edges, own_operator, svdf
from tflite_models import Array, Maker, small_network

TFLM = pytest.mark.skipif(interpreter.Tflm().title() is None, reason="tflite-micro is not installed")
RUNTIME = pytest.mark.skipif(
    interpreter.OnnxRuntime().title() is None, reason="ONNX Runtime is not installed"
)


def model_file(path: Path, content: bytes | None = None, **options: object) -> ModelFile:
    if content is not None:
        path.write_bytes(content)
    return ModelFile(path, compiling_frontend(path), CompileOptions(**options))  # type: ignore[arg-type]


def batch_of(model: ModelFile, count: int = 3) -> Batch:
    random = np.random.default_rng(2)
    arrays = []
    for value in (model.graph.values[i] for i in model.graph.inputs):
        found = random.uniform(-100, 100, (count, *value.shape))
        arrays.append((found / 50 if value.dtype.kind == "f" else found).astype(value.dtype))
    return Batch(arrays=tuple(arrays), count=count)


def ask(
    model: ModelFile, batch: Batch, seconds: float = 100.0, **others: object
) -> dict[str, WitnessStatement]:
    names = [f"out{i}" for i in range(len(model.graph.outputs))]
    hearing = Hearing(names=names, tolerance=Tolerance(), seconds=seconds, timeout_s=60.0)
    return {one.witness.split()[0]: one for one in hear(model, batch, hearing, **others)}  # type: ignore[arg-type]


@TFLM
def test_tflm_and_the_reference_say_the_same_of_every_inference(tmp_path: Path) -> None:
    model = model_file(tmp_path / "m.tflite", small_network())
    found = ask(model, batch_of(model))
    assert list(found) == ["TFLM", "reference"] and found["TFLM"].text == "TFLM 2026-10"
    for one in found.values():
        assert one.inferences == one.asked == 3 and one.uncovered == () and one.why == ""
        assert one.outputs["out0"].shape == (3, 1, 10)
    compared = found["TFLM"].compare(found["reference"].outputs)
    assert compared is not None and compared.ok and compared.max_abs == 0
    wrong = {"out0": found["reference"].outputs["out0"] + 1}
    compared = found["TFLM"].compare(wrong)
    assert compared is not None and compared.mismatches == 30
    compared = found["TFLM"].compare({"out0": wrong["out0"].reshape(3, 10)})
    assert compared is not None and compared.mismatches == 30


@RUNTIME
def test_onnx_runtime_and_the_reference(tmp_path: Path) -> None:
    from onnx_models import convolutional

    m = convolutional()
    model = model_file(m.save(tmp_path / "m.onnx", m.nodes[-1].output[0]))
    found = ask(model, batch_of(model))
    assert list(found) == ["ONNX", "reference"]
    compared = found["ONNX"].compare(found["reference"].outputs)
    assert compared is not None and compared.ok and 0 <= compared.max_rel < 1e-4
    assert (
        found["ONNX"].tolerances["out0"].rtol == 1e-4 and found["reference"].tolerances["out0"].rtol == 1e-5
    )


@RUNTIME
def test_strings_and_dictionaries_of_onnx_runtime_are_compared(tmp_path: Path) -> None:
    """Labels by their numbers, and the probabilities of a ZipMap in the order of the classes."""
    from onnx_models import OnnxMaker

    m, labels = OnnxMaker(3), ["no", "yes", "maybe"]
    weights = m.random.standard_normal(9).astype(np.float32).tolist()
    label = m.add(
        "LinearClassifier", m.input(1, 3), outputs=2, domain="ai.onnx.ml", coefficients=weights,
        intercepts=[0.1, 0.2, 0.3], classlabels_strings=labels, post_transform="SOFTMAX",
    )  # fmt: skip
    scores = m.add("ZipMap", f"{label}_1", domain="ai.onnx.ml", classlabels_strings=labels)
    model = model_file(m.save(tmp_path / "m.onnx", label, scores))
    found = ask(model, batch_of(model))
    compared = found["ONNX"].compare(found["reference"].outputs)
    assert compared is not None and compared.ok
    wrong = {name: array.copy() for name, array in found["reference"].outputs.items()}
    wrong["out0"] = (wrong["out0"] + 1) % 3
    compared = found["ONNX"].compare(wrong)
    assert compared is not None and not compared.ok


@RUNTIME
def test_a_quantised_onnx_model_is_compared_with_a_share_of_the_largest_value(tmp_path: Path) -> None:
    from onnx_models import OnnxMaker

    m = OnnxMaker()
    scale, zero = m.constant(np.float32(0.05)), m.constant(np.int8(3))
    y = m.add("DequantizeLinear", m.add("QuantizeLinear", m.input(1, 8), scale, zero), scale, zero)
    y = m.add("Relu", y)
    y = m.add("DequantizeLinear", m.add("QuantizeLinear", y, scale, zero), scale, zero)
    model = model_file(m.save(tmp_path / "q.onnx", y))
    found = ask(model, batch_of(model))
    assert found["ONNX"].text.endswith("(within 5%)") and found["reference"].text == "reference"
    assert found["ONNX"].tolerances["out0"].rtol == 0.05
    compared = found["ONNX"].compare(found["reference"].outputs)
    assert compared is not None and compared.ok


@RUNTIME
def test_sums_that_are_quantised_may_be_a_step_off(tmp_path: Path) -> None:
    """Real sums in another order may be rounded to the next step; integers of a layer may not."""
    from onnx_models import OnnxMaker

    for kind, sums in (("MatMul", True), ("Add", False)):
        m = OnnxMaker()
        scale, zero = m.constant(np.float32(0.05)), m.constant(np.int8(3))
        y = m.add(kind, m.input(1, 8), m.weights(8, 8) if sums else m.weights(8))
        y = m.add("QuantizeLinear", m.add("Relu", y), scale, zero)
        for name, output in (("real", m.add("DequantizeLinear", y, scale, zero)), ("whole", y)):
            model = model_file(m.save(tmp_path / f"{kind}_{name}.onnx", output))
            assert model.quantises_sums == sums
            found = ask(model, batch_of(model))["reference"]
            assert found.text == ("reference (within 5%)" if sums else "reference")
            own = found.outputs["out0"]
            near, far = (own + 1, own + 30) if name == "whole" else (own * 1.04, own * 1.3)
            for other, ok in ((near, sums), (far, False)):
                compared = found.compare({"out0": other.astype(own.dtype)})
                assert compared is not None and compared.ok == ok


def test_one_that_is_not_installed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert interpreter.installed("no-such-package", "numpy") is not None
    monkeypatch.setattr(interpreter, "installed", lambda *_: None)
    model = model_file(tmp_path / "m.tflite", small_network())
    assert list(ask(model, batch_of(model))) == ["reference"]


def test_as_many_inferences_as_fit_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "installed", lambda *_: None)
    model = model_file(tmp_path / "m.tflite", small_network())

    def ticking() -> Iterator[float]:
        now = 0.0
        while True:
            yield now
            now += 2.0

    for seconds, count, text in ((0.0, 1, "1 of 5"), (6.5, 3, "3 of 5"), (100.0, 5, "")):
        clock = ticking()
        (found,) = ask(model, batch_of(model, 5), seconds, clock=lambda clock=clock: next(clock)).values()
        assert found.inferences == count == len(found.outputs["out0"])
        assert found.text == (f"reference ({text} inferences)" if text else "reference")
        others = {"out0": np.concatenate([found.outputs["out0"], np.zeros((5 - count, 1, 10), np.int8)])}
        compared = found.compare(others)
        assert compared is not None and compared.ok


@TFLM
def test_states_live_from_one_inference_to_the_next(tmp_path: Path) -> None:
    model = model_file(tmp_path / "m.tflite", svdf(0, 16, 8, 1, 6, 1, "int16"))
    found = ask(model, batch_of(model, 5))
    compared = found["TFLM"].compare(found["reference"].outputs)
    assert compared is not None and compared.ok and found["TFLM"].inferences == 5
    fresh = ask(model, Batch(arrays=tuple(a[1:2] for a in batch_of(model, 5).arrays), count=1))
    assert (fresh["TFLM"].outputs["out0"][0] != found["TFLM"].outputs["out0"][1]).any()


@TFLM
def test_int8_at_the_edges_is_converted_exactly(tmp_path: Path) -> None:
    """The file takes and gives floats; the device the integers behind and before its conversions."""
    content = floats_at_the_edges()
    model = model_file(tmp_path / "m.tflite", content, io="int8")
    device = strip_conversions(load_tflite(model.path))
    random = np.random.default_rng(1)
    given = random.integers(-128, 128, (4, 1, 6, 6, 4)).astype(np.int8)
    wanted = np.stack([Interpreter(device).run([x])[0] for x in given])
    found = ask(model, Batch(arrays=(given,), count=4))
    assert list(found) == ["TFLM", "reference"]
    for one in found.values():
        assert one.outputs["out0"].dtype == np.int8 and (one.outputs["out0"] == wanted).all()


def test_a_batch_and_shapes_are_those_of_the_options(tmp_path: Path) -> None:
    m = Maker(5)
    x = m.input((1, 8))
    y = m.logistic(x)
    for number in (x, y):
        m.spec.tensors[number].signature = (-1, 8)
    model = model_file(tmp_path / "m.tflite", m.finish(y), batch=3)
    found = ask(model, batch_of(model))
    assert found["reference"].outputs["out0"].shape == (3, 3, 8)
    if "TFLM" in found:  # it has the shapes of the file
        assert found["TFLM"].outputs == {} and found["TFLM"].why and found["TFLM"].inferences == 0


def custom_model(folder: Path) -> ModelFile:
    (folder / "twice.c").write_text(TWICE)
    return model_file(folder / "m.tflite", own_operator(), custom=f"Twice={folder / 'twice.c'}")


def test_an_operator_that_none_knows_is_counted(tmp_path: Path) -> None:
    """What depends on it is not known either, and what comes before it is shown by nothing."""
    model = custom_model(tmp_path)
    for one in ask(model, batch_of(model)).values():
        assert one.outputs == {} and one.why
    session = ReferenceSession(model.graph)
    assert session.infer(model.inputs_for_file(batch_of(model).inputs(0))) == [None]
    assert session.uncovered == ("0 FULLY_CONNECTED", "1 CUSTOM:Twice", "2 FULLY_CONNECTED")


def test_an_operator_whose_outputs_are_supplied(tmp_path: Path) -> None:
    """Its inputs are shown to whoever supplies them: all steps but its own are covered."""
    model = custom_model(tmp_path)
    seen: list[int] = []

    def supply(operator: Operator, inputs: list[Array | None]) -> list[Array]:
        (x,) = inputs
        assert x is not None
        seen.append(operator.number)
        return [x]

    session = ReferenceSession(model.graph, supply)
    batch = batch_of(model)
    outputs = [session.infer(model.inputs_for_file(batch.inputs(index)))[0] for index in range(2)]
    assert seen == [1, 1]
    assert all(one is not None for one in outputs) and session.uncovered == ("1 CUSTOM:Twice",)


# ---- interpreters that fail ----


@TFLM
def test_an_interpreter_that_crashes_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "arena_bytes", lambda _: 100)
    model = model_file(tmp_path / "m.tflite", small_network())
    found = ask(model, batch_of(model))
    assert found["TFLM"].outputs == {} and "Failed to allocate" in found["TFLM"].why
    assert found["reference"].inferences == 3


WORKERS = {
    "late": ("import time\ntime.sleep(60)\n", "it gave no answer within 1 s"),
    "dead": ("import os\nos._exit(7)\n", "it ended with code 7"),
    "noise": ("import os, time\nos.write(1, bytes([255]) * 64)\ntime.sleep(60)\n", "its answer is no frame"),
}


@pytest.mark.parametrize("case", WORKERS)
def test_a_worker_that_fails(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, why = WORKERS[case]
    (tmp_path / "worker.py").write_text(text)
    monkeypatch.setattr(interpreter, "WORKER", tmp_path / "worker.py")
    timeout_s = 1.0 if case == "late" else 60.0
    with pytest.raises(WitnessUnableError, match=why), interpreter.open_worker(["any"], timeout_s):
        pass


# ---- PyTorch ----

FAKE = """
import numpy as np

class _Tensor:
    def __init__(self, array):
        self.array = array
    def detach(self):
        return self
    def numpy(self):
        return self.array

class no_grad:
    def __enter__(self): pass
    def __exit__(self, *_): pass

def from_numpy(array):
    return _Tensor(array)

class export:
    @staticmethod
    def load(path):
        import os
        assert os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] == "1" and path.endswith("m.pt2")
        class Program:
            def module(self):
                return lambda x: (_Tensor(np.maximum(x.array, 0)),)
        return Program()
"""


def test_pytorch_runs_its_own_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for the package: the program is loaded without objects, and gives its outputs."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(interpreter, "installed", lambda *_: "2.99")
    model = model_file(tmp_path / "m.onnx", _relu(tmp_path))
    with zipfile.ZipFile(tmp_path / "m.pt2", "w") as archive:
        archive.writestr("m/archive_format", b"pt2")
    program = ModelFile(tmp_path / "m.pt2", compiling_frontend(tmp_path / "m.pt2"), CompileOptions())
    program.__dict__["graph"] = model.graph  # as PyTorch's exporter gives it
    found = ask(program, batch_of(model))
    assert list(found) == ["PyTorch", "reference"] and found["PyTorch"].why == ""
    assert found["PyTorch"].text == "PyTorch 2.99"
    compared = found["PyTorch"].compare(found["reference"].outputs)
    assert compared is not None and compared.ok and compared.max_abs == 0
    with zipfile.ZipFile(tmp_path / "m.pt2", "a") as archive:
        archive.writestr("m/data/constants/custom_obj_0", b"x")
    assert "run code when they are loaded" in ask(program, batch_of(model))["PyTorch"].why


def _relu(folder: Path) -> bytes:
    pytest.importorskip("onnx", reason="onnx is not installed")
    from onnx_models import OnnxMaker

    m = OnnxMaker()
    return m.save(folder / "relu.onnx", m.add("Relu", m.input(1, 6))).read_bytes()
