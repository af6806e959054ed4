# SPDX-License-Identifier: Apache-2.0
"""LabelEncoder and strings, which become their numbers: against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.errors import MlfError
from mlf_sdk.frontends.onnx.frontend import OnnxFrontend
from onnx_agreement import agree
from onnx_models import OnnxMaker

DOMAIN = "ai.onnx.ml"
NAMES = ["low", "high", "low", "middle"]


def tensor(values: Any, dtype: Any) -> Any:
    """A tensor as an attribute."""
    from onnx import numpy_helper

    return numpy_helper.from_array(np.array(values, dtype))


def encoder(folder: Path, rows: Any, **attributes: Any) -> Path:
    m = OnnxMaker()
    m.domains[DOMAIN] = 4 if any(name.endswith("tensor") for name in attributes) else 3
    m.input(*rows.shape, dtype={"f": TensorProto.FLOAT, "i": TensorProto.INT64}[rows.dtype.kind])
    return m.save(folder / "model.onnx", m.add("LabelEncoder", "x", domain=DOMAIN, **attributes))


def strings(m: OnnxMaker, *texts: str) -> str:
    m.constants.append(
        helper.make_tensor("texts", TensorProto.STRING, [len(texts)], [t.encode() for t in texts])
    )
    return "texts"


def test_numbers_become_numbers(tmp_path: Path) -> None:
    """Of equal keys the first counts; others have the default value, which has one itself."""
    whole, real = np.array([[3, -5, 70000], [0, 9, 1 << 40]]), np.array([[1, 2.5, np.nan, -0.0]], np.float32)
    agree(
        encoder(tmp_path, whole, keys_int64s=[70000, 3, -5, 3], values_floats=[1.5, 2.0, 3.0, 9.0]), [whole]
    )
    agree(encoder(tmp_path, whole, keys_int64s=[9], values_int64s=[-(1 << 40)], default_int64=7), [whole])
    agree(encoder(tmp_path, real, keys_floats=[2.5, 0.0, 1.0], values_int64s=[8, 9, 300]), [real])
    missing = {"keys_tensor": tensor([1, np.nan], np.float32), "values_tensor": tensor([5, 6], np.float32)}
    agree(encoder(tmp_path, real, **missing), [real])


def test_labels_of_constants_are_computed_when_the_model_is_read(tmp_path: Path) -> None:
    m = OnnxMaker()
    given = {"keys_int64s": [5, 3, 5], "values_floats": [2.0, 0.5, 9.0], "default_float": -1.5}
    found = m.add("LabelEncoder", m.constant(np.array([3, 1, 5])), domain=DOMAIN, **given)
    graph = agree(m.save(tmp_path / "model.onnx", m.add("Add", m.input(2, 3), found)))
    assert [operator.kind for operator in graph.operators] == ["Add"]


def test_numbers_become_strings(tmp_path: Path) -> None:
    """An output has the strings that its numbers stand for, the default one among them."""
    rows = np.array([4, 5, 6, 7, 8])
    path = encoder(tmp_path, rows, keys_int64s=[7, 6, 5, 4], values_strings=NAMES, default_string="?")
    graph = load_onnx(path)
    (found,) = Interpreter(graph).run([rows])
    (wanted,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": rows})
    assert graph.labels == (("low", "high", "middle", "?"),)
    assert [graph.labels[0][place] for place in found] == wanted.tolist()
    (note,) = OnnxFrontend().findings(path, CompileOptions())
    assert "0 'low', 1 'high', 2 'middle'" in note.handled and "LabelEncoder" in note.where


def test_strings_that_are_chosen_and_encoded(tmp_path: Path) -> None:
    """As scikit-learn's exporter takes labels of strings: from a constant, at the place of the largest score."""
    m = OnnxMaker()
    m.input(4, 3)
    place = m.add("ArgMax", "x", axis=1, keepdims=0)
    label = m.add("ArrayFeatureExtractor", strings(m, "b", "a", "c"), place, domain=DOMAIN)
    label = m.add("Reshape", m.add("Cast", label, to=TensorProto.STRING), m.constant(np.array([-1])))
    number = m.add(
        "LabelEncoder", label, domain=DOMAIN, keys_strings=["a", "b", "a"], values_int64s=[4, 5, 6]
    )
    path = m.save(tmp_path / "model.onnx", label, number)
    rows = np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32)
    graph = load_onnx(path)
    found = Interpreter(graph).run([rows])
    wanted = onnxruntime.InferenceSession(str(path)).run(None, {"x": rows})
    assert graph.labels == (("b", "a", "c"), ())
    assert [graph.labels[0][place] for place in found[0]] == wanted[0].tolist()
    assert found[1].tolist() == wanted[1].tolist()
    (note,) = OnnxFrontend().findings(path, CompileOptions())
    assert "0 'b', 1 'a', 2 'c'" in note.handled and "texts" in note.where


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"keys_int64s": [1, 2], "values_int64s": [1]}, "2 keys and 1 values"),
        ({"values_int64s": [1]}, "one attribute states its keys"),
        ({"keys_strings": ["a"], "values_int64s": [1]}, "keys are strings"),
        ({"keys_floats": [float("nan")], "values_int64s": [1]}, "NaN among keys_floats"),
    ],
)
def test_encoders_that_are_none(tmp_path: Path, attributes: dict[str, Any], said: str) -> None:
    with pytest.raises(MlfError, match=said):
        load_onnx(encoder(tmp_path, np.zeros(2, np.float32), **attributes))


@pytest.mark.parametrize("kind", ["Equal", "Cast", "StringConcat"])
def test_what_computes_with_strings_is_refused(tmp_path: Path, kind: str) -> None:
    """Their numbers are none of the file's: an answer would be wrong."""
    m = OnnxMaker(opset=20)
    m.input(1, dtype=TensorProto.INT64)
    texts = m.add("ArrayFeatureExtractor", strings(m, "1", "2", "7"), "x", domain=DOMAIN)
    given = {"Cast": ([texts], {"to": TensorProto.INT64})}.get(kind, ([texts, texts], {}))
    with pytest.raises(MlfError, match="computes with strings"):
        load_onnx(m.save(tmp_path / "model.onnx", m.add(kind, *given[0], **given[1])))


def test_numbers_are_not_made_strings(tmp_path: Path) -> None:
    m = OnnxMaker()
    text = m.add("Cast", m.input(2), to=TensorProto.STRING)
    with pytest.raises(MlfError, match="makes strings of numbers"):
        load_onnx(m.save(tmp_path / "model.onnx", text))


def test_doctor_of_a_model_whose_functions_have_kernels() -> None:
    """Operators that we have are not replaced by what ONNX defines them by: their types may not be known then."""
    path = Path(__file__).parents[3] / "examples" / "onnx" / "small.onnx"
    assert OnnxFrontend().findings(path, CompileOptions()) == ()
