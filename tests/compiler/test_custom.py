# SPDX-License-Identifier: Apache-2.0
"""Custom operators of TensorFlow Lite models, with C code of the user's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from core_images import MISSING
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import ArchiveError, InputError
from tflite_models import Maker, OperatorSpec

needs_emulator = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
PROTOTYPE = (
    "void Sum_2(const void *const inputs[], void *const outputs[], const uint8_t *options, uint32_t size)"
)
SUM = f"""#include <stdint.h>
{PROTOTYPE}
{{
    const int8_t *x = inputs[0], *k = inputs[1];
    int16_t *y = outputs[0];
    int32_t *total = outputs[1];
    total[0] = 0;
    for (int i = 0; i < 6; i++) {{
        y[i] = (int16_t)(x[i] * k[i] + options[size - 1]);
        total[0] += y[i];
    }}
}}
"""
CONSTANT = np.arange(6, dtype=np.int8)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A custom operator with a constant, options and two outputs, behind a convolution."""
    return _model(tmp_path / "custom.tflite", bytes([1, 2, 7]))


def _model(path: Path, options: bytes) -> Path:
    m = Maker(1)
    x = m.conv(m.input((1, 3, 2, 1)), 1, (1, 1), 1, same=True)
    k = m.spec.tensor("k", "int8", (6,), data=CONSTANT)
    outputs = m.spec.tensor("y", "int16", (1, 6)), m.spec.tensor("total", "int32", (1,))
    m.spec.operators.append(OperatorSpec("CUSTOM:Sum/2", (x, k), outputs, custom=options))
    path.write_bytes(m.finish(x, *outputs))
    return path


def test_custom_operator_runs(model: Path, tmp_path: Path) -> None:
    code = tmp_path / "sum.c"
    code.write_text(SUM)
    image = np.array([[[[3], [-100]], [[50], [7]], [[-128], [127]]]], np.int8)
    report = mlf_sdk.run(model, board="host", inputs={"input": image}, custom=(f"Sum/2={code}",), twin=False)
    x, y, total = (np.asarray(a) for a in report.outputs.values())
    assert np.array_equal(y.reshape(-1), x.reshape(-1).astype(np.int16) * CONSTANT + 7)
    assert total.reshape(-1).tolist() == [int(y.sum())]
    code.write_text(SUM.replace("+ options", "- options"))  # no archive of the other code is taken
    report = mlf_sdk.run(model, board="host", inputs={"input": image}, custom=(f"Sum/2={code}",), twin=False)
    assert np.array_equal(
        np.asarray(report.outputs["y"]).reshape(-1), x.reshape(-1).astype(np.int16) * CONSTANT - 7
    )


@pytest.mark.qemu
@needs_emulator
@pytest.mark.parametrize("sign", [1, -1])
def test_models_of_one_image_have_functions_of_their_own(model: Path, tmp_path: Path, sign: int) -> None:
    """Two models with a custom operator of one name on a board: the same code, and other code."""
    sums, others = tmp_path / "sum.c", tmp_path / "other.c"
    sums.write_text(SUM)
    others.write_text(SUM if sign > 0 else SUM.replace("+ options", "- options"))
    other = _model(tmp_path / "other.tflite", bytes([9]))
    archives = [tmp_path / "custom.tar", tmp_path / "other.tar"]
    mlf_sdk.compile(model, archives[0], custom=(f"Sum/2={sums}",))
    mlf_sdk.compile(other, archives[1], custom=(f"Sum/2={others}",))
    mlf_sdk.generate(archives, tmp_path / "app", board="mps2-an386")
    mlf_sdk.build(tmp_path / "app")
    image = np.array([[[[3], [-100]], [[50], [7]], [[-128], [127]]]], np.int8)
    with mlf_sdk.open_session(tmp_path / "app") as opened:
        results = [opened.session.infer(number, [image]) for number in range(2)]
    for (x, y, total), added in zip(results, (7, 9 * sign), strict=True):
        assert np.array_equal(y.reshape(-1), x.reshape(-1).astype(np.int16) * CONSTANT + added)
        assert total.reshape(-1).tolist() == [int(y.sum())]


def test_without_code_it_is_one_error_that_names_it(model: Path) -> None:
    with pytest.raises(ArchiveError, match=r"--custom Sum/2=FILE\.c") as caught:
        mlf_sdk.compile(model, model.with_suffix(".tar"))
    assert "operator 1 CUSTOM:Sum/2" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "text", "message"),
    [
        ("Sum/2=FILE", "void other(void) {}", "does not define the function 'Sum_2'"),
        ("Sum/2=FILE", PROTOTYPE + ";", "does not define the function 'Sum_2'"),
        ("Sum/2=FILE", "#include <stdint.h>\nvoid Sum_2(int8_t *x) { *x = 0; }", "has another prototype"),
        ("Sum/2=FILE", "static " + SUM.partition("\n")[2], "has another prototype"),
        ("Sum/2=FILE", SUM.replace("void Sum_2", "int Sum_2"), "has another prototype"),
        ("Sum/2=missing.c", SUM, "can't be read"),
        ("Sum/2", SUM, "no custom operator: 'Sum/2'"),
        ("Other=FILE", SUM.replace("Sum_2", "Other"), "the model has no custom operator 'Other'"),
    ],
)
def test_code_that_does_not_fit_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, text: str, message: str
) -> None:
    code = tmp_path / "sum.c"
    code.write_text(text)
    arguments = ["compile", model, "-o", tmp_path / "a.tar", "--custom", given.replace("FILE", str(code))]
    result = Caller(capsys)(*arguments)
    assert result.code == 2
    assert message in result.err
    assert not (tmp_path / "a.tar").exists()


def test_other_formats_have_none(tmp_path: Path) -> None:
    onnx = Path(__file__).resolve().parents[2] / "examples" / "onnx" / "small.onnx"
    with pytest.raises(InputError, match=r"only \.tflite models"):
        mlf_sdk.compile(onnx, tmp_path / "a.tar", custom=("Sum=sum.c",))


@pytest.mark.parametrize(
    ("name", "what", "remedy"),
    [
        ("edgetpu-custom-op", "edgetpu_compiler compiled for a Coral Edge TPU", "the name without _edgetpu"),
        ("ethos-u", "Vela compiled for an Arm Ethos-U", "the name without _vela"),
        ("NeutronGraph", "the Neutron converter compiled for an NXP eIQ Neutron NPU", "before that step"),
        ("vsi-npu", "compiled for a VeriSilicon NPU", "before that step"),
        ("DISPATCH_OP", "LiteRT's compiler compiled for an NPU of a phone", "before that step"),
        ("DISPATCH_OP_2", "LiteRT's compiler compiled for an NPU of a phone", "before that step"),
    ],
)
def test_a_model_that_was_compiled_for_an_accelerator(
    name: str, what: str, remedy: str, tmp_path: Path
) -> None:
    m = Maker(1)
    x = m.input((1, 4))
    y = m.spec.add(f"CUSTOM:{name}", (x,), m.activation((1, 4)))
    path = tmp_path / "m_vela.tflite"
    path.write_bytes(m.finish(y))
    with pytest.raises(ArchiveError) as caught:
        load_tflite(path)
    assert what in caught.value.what and "its layers are not in the file" in caught.value.what
    assert caught.value.hint.startswith("Use the .tflite file from before that step")
    assert remedy in caught.value.what


def test_an_operator_of_tensorflow(tmp_path: Path) -> None:
    m = Maker(1)
    y = m.spec.add("CUSTOM:FlexErf", (m.input((1, 4)),), m.activation((1, 4)))
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(y))
    with pytest.raises(ArchiveError, match="TensorFlow Lite lacks; convert the model without SELECT_TF_OPS"):
        load_tflite(path)
