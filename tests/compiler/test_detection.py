# SPDX-License-Identifier: Apache-2.0
"""Detection post-processing: boxes, classes and scores of the kernel, its reference, and by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

import mlf_sdk
from mlf_sdk.compiler.reference import Interpreter
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.compiler.tflite.survey import survey_tflite
from mlf_sdk.errors import ArchiveError
from tflite_models import ModelSpec, OperatorSpec, write_model

NAME = "CUSTOM:TFLite_Detection_PostProcess"
OPTIONS = {
    "max_detections": 4, "max_classes_per_detection": 1, "nms_score_threshold": 0.25, "nms_iou_threshold": 0.5,
    "num_classes": 2, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip
# Centre y and x, height and width: the second overlaps with the first, the last is apart.
ANCHORS = np.array([[0.5, 0.5, 1, 1], [0.5, 0.55, 1, 1], [0.5, 0.5, 0.2, 0.2], [3, 3, 1, 2]], np.float32)


def model(
    path: Path,
    dtype: str = "float32",
    background: int = 1,
    shapes: tuple[tuple[int, ...], ...] = ((),) * 4,
    **options: Any,
) -> Path:
    """One post-processing of four boxes with two classes."""
    spec = ModelSpec()
    scale = (
        {} if dtype == "float32" else {"scale": (1 / 256,), "zero_point": (-128 if dtype == "int8" else 0,)}
    )
    boxes = spec.tensor("boxes", dtype, (1, 4, 4), **scale)
    scores = spec.tensor("scores", dtype, (1, 4, 2 + background), **scale)
    anchors = spec.tensor("anchors", "float32", (4, 4), data=ANCHORS)
    names = ("corners", "classes", "best", "count")
    outputs = tuple(spec.tensor(n, "float32", s) for n, s in zip(names, shapes, strict=True))
    packed = bytes(flexbuffers.Dumps(OPTIONS | options))
    spec.operators.append(OperatorSpec(NAME, (boxes, scores, anchors), outputs, custom=packed))
    spec.inputs, spec.outputs = [boxes, scores], list(outputs)
    path.write_bytes(write_model(spec))
    return path


def test_the_best_box_leaves_out_those_it_covers(tmp_path: Path) -> None:
    scores = np.array([[[0, 0.5, 0.75], [1, 0.875, 0.125], [0, 0.5, 0.5], [0.9, 0.1, 0.2]]], np.float32)
    boxes = np.zeros((1, 4, 4), np.float32)
    boxes[0, 2] = [10, 0, 5 * np.log(2), 0]  # moved down by its height, twice as high
    graph = load_tflite(model(tmp_path / "d.tflite"))
    corners, classes, best, count = Interpreter(graph).run([boxes, scores])
    assert count == [2] and classes.tolist() == [[0, 0, 0, 0]] and best.tolist() == [[0.875, 0.5, 0, 0]]
    np.testing.assert_allclose(corners[0, :2], [[0, 0.05, 1, 1.05], [0.5, 0.4, 0.9, 0.6]], atol=1e-6)
    assert not corners[0, 2:].any()


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
@pytest.mark.parametrize("background", [0, 1])
def test_the_kernel_agrees_with_the_reference(tmp_path: Path, dtype: str, background: int) -> None:
    path = model(tmp_path / "d.tflite", dtype, background)
    chance = np.random.default_rng(background)
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    for _ in range(3):
        if dtype == "float32":
            inputs = [chance.normal(size=(1, 4, 4)), chance.random((1, 4, 2 + background))]
        else:
            inputs = [chance.integers(low, high, (1, 4, n)) for n in (4, 2 + background)]
        given = dict(zip(("boxes", "scores"), (x.astype(dtype) for x in inputs), strict=True))
        report = mlf_sdk.run(path, board="host", inputs=given, twin=False)
        expected = Interpreter(load_tflite(path)).run(given)
        for found, wanted in zip(report.outputs.values(), expected, strict=True):
            np.testing.assert_allclose(np.asarray(found).reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)


def test_shapes_that_are_stated_follow_from_the_options(tmp_path: Path) -> None:
    """Some converters flatten the outputs, others count all boxes of the model."""
    plain = load_tflite(model(tmp_path / "d.tflite"))
    path = model(tmp_path / "f.tflite", shapes=((16,), (4,), (1, 4, 1), (1, 1)))
    odd = survey_tflite(path)
    assert [v.shape for v in odd.outputs] == [(1, 4, 4), (1, 4), (1, 4), (1,)]
    assert odd.findings[0].what == "'corners' is stated with shape (16,)"
    given = [np.zeros((1, 4, 4), np.float32), np.full((1, 4, 3), 0.5, np.float32)]
    for found, wanted in zip(
        Interpreter(load_tflite(path)).run(given), Interpreter(plain).run(given), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"use_regular_nms": True}, "use_regular_nms=False"),
        ({"max_classes_per_detection": 2}, "max_classes_per_detection=1"),
        ({"num_classes": 7}, "3 scores a box; 7 classes"),
        ({"y_scale": 0.0}, "scales"),
        ({"max_detections": 0}, "gives 0 detections"),
    ],
)
def test_what_is_not_supported_is_refused(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ArchiveError, match=said):
        load_tflite(model(tmp_path / "d.tflite", **options))


def test_damaged_options_are_refused(tmp_path: Path) -> None:
    path = model(tmp_path / "d.tflite")
    packed = bytes(flexbuffers.Dumps(OPTIONS))
    for damaged in (packed[:1] * len(packed), bytes(len(packed)), b"\xff" * len(packed)):
        path.with_name("e.tflite").write_bytes(path.read_bytes().replace(packed, damaged))
        with pytest.raises(ArchiveError, match="its options"):
            load_tflite(path.with_name("e.tflite"))
