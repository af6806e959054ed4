# SPDX-License-Identifier: Apache-2.0
"""Operators of ``ai.onnx.ml``: reference and kernels of all goals against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from mlf_sdk.compiler.onnx.load import load_onnx
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.errors import MlfError
from mlf_sdk.frontends.onnx.frontend import OnnxFrontend
from onnx_agreement import agree
from onnx_models import OnnxMaker

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
ROWS = np.array([[-1, 0.3, -5], [2, 0.5, -1], [0.1, 0.2, 0.3], [0.25, 1.5, 0.5], [0.5, -0.5, 4]], np.float32)
COEFFICIENTS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, -0.3, -0.2, 0.1]


def model(path: Path, kind: str, *, outputs: int = 1, rows: Any = ROWS, **attributes: Any) -> Path:
    """A model of one operator that reads rows."""
    m = OnnxMaker()
    m.input(*rows.shape, dtype={"f": 1, "i": 7}[rows.dtype.kind])
    first = m.add(kind, "x", outputs=outputs, domain=DOMAIN, **attributes)
    return m.save(path / "model.onnx", first, *(f"{first}_{i}" for i in range(1, outputs)))


def test_rows_are_scaled_and_normalised(tmp_path: Path) -> None:
    agree(model(tmp_path, "Scaler", offset=[1.0, -2, 0.5], scale=[2.0, 0.5, 3]), [ROWS])
    agree(model(tmp_path, "Scaler", offset=[1.0], scale=[2.0]), [ROWS])
    empty = np.array([[0, 0, 0], [1, -2, 3]], np.float32)
    for norm in ("MAX", "L1", "L2"):
        agree(model(tmp_path, "Normalizer", rows=empty, norm=norm), [empty])
    whole = np.array([[1, 2, 4]], np.int64)
    agree(model(tmp_path, "Scaler", rows=whole, offset=[1.0], scale=[0.5]), [whole])


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_classifiers(tmp_path: Path, transform: str) -> None:
    three = {"coefficients": COEFFICIENTS, "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [7, 8, 9]}
    agree(model(tmp_path, "LinearClassifier", outputs=2, post_transform=transform, **three), [ROWS])
    two = {"coefficients": COEFFICIENTS[:3], "intercepts": [0.1], "classlabels_ints": [7, 5]}
    agree(model(tmp_path, "LinearClassifier", outputs=2, post_transform=transform, **two), [ROWS])


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_regressors(tmp_path: Path, transform: str) -> None:
    for count in (1, 3):
        given = {"coefficients": COEFFICIENTS[: 3 * count], "intercepts": [0.1, 0.2, 0.3][:count]}
        agree(model(tmp_path, "LinearRegressor", targets=count, post_transform=transform, **given), [ROWS])
    agree(model(tmp_path, "LinearRegressor", rows=ROWS[0], coefficients=COEFFICIENTS[:3]), [ROWS[0]])


def test_probit(tmp_path: Path) -> None:
    """Of probabilities: others have no inverse."""
    rows = np.array([[0.05, 0.4, 0.5], [0.9, 0.7, 0.999]], np.float32)
    given = {"coefficients": np.eye(3).ravel().tolist(), "post_transform": "PROBIT"}
    agree(model(tmp_path, "LinearRegressor", rows=rows, targets=3, **given), [rows], tolerance=2e-5)


def test_small_operators_around_them(tmp_path: Path) -> None:
    holed = ROWS.copy()
    holed[1, 2] = np.nan
    replaced = {"imputed_value_floats": [1.0, 2, 3], "replaced_value_float": float("nan")}
    agree(model(tmp_path, "Imputer", **replaced), [holed])
    agree(model(tmp_path, "Imputer", imputed_value_floats=[9.0], replaced_value_float=0.5), [ROWS])
    whole = np.array([[1, 2, 4]], np.int64)
    replaced = {"imputed_value_int64s": [7, 8, 9], "replaced_value_int64": 2}
    agree(model(tmp_path, "Imputer", rows=whole, **replaced), [whole])
    agree(model(tmp_path, "Binarizer", threshold=0.3), [ROWS])
    m = OnnxMaker()
    m.input(*ROWS.shape)
    taken = m.add("ArrayFeatureExtractor", "x", m.constant(np.array([2, 0])), domain=DOMAIN)
    joined = m.add("FeatureVectorizer", taken, "x", domain=DOMAIN, inputdimensions=[2, 3])
    agree(m.save(tmp_path / "model.onnx", joined), [ROWS])


def test_labels_that_are_strings_become_places(tmp_path: Path) -> None:
    """Their classes are numbered; a note says so. ZipMap lets the probabilities through."""
    m = OnnxMaker()
    m.input(*ROWS.shape)
    labels = ["no", "yes", "maybe"]
    given = {"coefficients": COEFFICIENTS, "intercepts": [0.1, 0.2, 0.3], "classlabels_strings": labels}
    label = m.add("LinearClassifier", "x", outputs=2, domain=DOMAIN, **given)
    scores = m.add("ZipMap", f"{label}_1", domain=DOMAIN, classlabels_strings=labels)
    path = m.save(tmp_path / "model.onnx", label, scores)
    places, probabilities = Interpreter(load_onnx(path)).run([ROWS])
    assert places.dtype == np.int64 and places.tolist() == probabilities.argmax(axis=1).tolist()
    (note,) = OnnxFrontend().findings(path, CompileOptions())
    assert "strings" in note.what and "LinearClassifier" in note.where


@pytest.mark.parametrize(
    ("kind", "outputs", "attributes", "said"),
    [
        ("Scaler", 1, {"offset": [1.0, 2], "scale": [1.0, 2]}, "2 offsets and 2 scales of 3 features"),
        ("LinearRegressor", 1, {"coefficients": [1.0] * 4}, "4 coefficients for 1 results of 3 features"),
        ("LinearRegressor", 1, {"coefficients": [float("nan")] * 3}, "not finite"),
        ("LinearClassifier", 2, {"coefficients": [1.0] * 3, "intercepts": [0.0]}, "names the classes"),
        ("Normalizer", 1, {"norm": "L7"}, "the norm L7 is not known"),
    ],
)
def test_attributes_that_do_not_fit(
    tmp_path: Path, kind: str, outputs: int, attributes: dict[str, Any], said: str
) -> None:
    with pytest.raises(MlfError, match=said):
        mlf_sdk.load(model(tmp_path, kind, outputs=outputs, **attributes))
