# SPDX-License-Identifier: Apache-2.0
"""Builder of TFLite_Detection_PostProcess, the custom operator at the end of single-shot detectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlf_sdk.compiler.computed import DetectionPostProcess
from mlf_sdk.compiler.graph import Value, refuse
from mlf_sdk.compiler.tflite.context import Context
from mlf_sdk.compiler.tflite.file import RawOperator
from mlf_sdk.compiler.tflite.flexbuffer import options_of

_TYPES = ("float32", "int8", "uint8")
_NEEDED = (
    *("num_classes", "max_classes_per_detection", "max_detections"),
    *("nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale"),
)
_MOST = 1 << 15  # detections and classes


def detection_post_process(context: Context, operator: RawOperator) -> None:
    """Add the operator; shapes of outputs, which converters leave out, follow from its options."""
    options = _options(operator.custom)
    encodings, scores, anchors = values = context.inputs(operator, 3)
    if len(operator.outputs) != 4:
        refuse(f"has {len(operator.outputs)} outputs; 4 are needed")
    _check_inputs(encodings, scores, anchors)
    _check_options(options, scores)
    count = int(options["max_detections"])
    shapes = ((1, count, 4), (1, count), (1, count), (1,))
    outputs = [_output(context, operator, at, shape) for at, shape in enumerate(shapes)]
    context.add_operator(
        DetectionPostProcess,
        operator,
        values,
        *outputs,
        scales=(options["y_scale"], options["x_scale"], options["h_scale"], options["w_scale"]),
        classes=int(options["num_classes"]),
        least_score=options["nms_score_threshold"],
        most_overlap=options["nms_iou_threshold"],
    )


def _options(data: bytes) -> dict[str, Any]:
    options = options_of(data, _NEEDED)
    return {**options, **{name: float(options[name]) for name in _NEEDED}}


def _check_options(options: dict[str, Any], scores: Value) -> None:
    classes = int(options["num_classes"])
    if not 1 <= classes <= scores.shape[2] <= classes + 1:
        refuse(f"has {scores.shape[2]} scores a box; {classes} classes follow from its options")
    if int(options["max_classes_per_detection"]) != 1:
        refuse("gives several classes a box", "convert the model with max_classes_per_detection=1")
    if options.get("use_regular_nms"):
        refuse("suppresses boxes class by class", "convert the model with use_regular_nms=False")
    count = int(options["max_detections"])
    if not 1 <= count <= _MOST:
        refuse(f"gives {count} detections; at most {_MOST}")
    scales = [options[f"{name}_scale"] for name in "yxhw"]
    limits = [options["nms_score_threshold"], options["nms_iou_threshold"]]
    if not np.isfinite([*scales, *limits]).all() or 0 in scales:
        refuse(f"has scales {scales} and thresholds {limits}")


def _check_inputs(encodings: Value, scores: Value, anchors: Value) -> None:
    boxes = anchors.shape[0] if anchors.shape else 0
    if not boxes or (encodings.shape, anchors.shape) != ((1, boxes, 4), (boxes, 4)):
        refuse(
            f"encodings {encodings.shape}, anchors {anchors.shape}; shapes (1, N, 4) and (N, 4) are needed"
        )
    if len(scores.shape) != 3 or scores.shape[:2] != (1, boxes):
        refuse(f"scores of shape {scores.shape}; (1, {boxes}, classes) is needed")
    if scores.shape[2] > _MOST:
        refuse(f"has {scores.shape[2]} classes; at most {_MOST}")
    for value in (encodings, scores, anchors):
        if value.dtype.name not in _TYPES or (value.dtype.kind != "f" and len(value.scales) != 1):
            refuse(f"'{value.name}' is of {value.dtype}; one of {', '.join(_TYPES)} with one scale is needed")
        if value.dtype.kind != "f" and value.quantisation is None:
            refuse(f"'{value.name}' has no scale")


def _output(context: Context, operator: RawOperator, position: int, shape: tuple[int, ...]) -> Value:
    """An output with the shape that follows from the options, which converters leave out or flatten."""
    number = operator.outputs[position]
    tensor = context.raw.tensors[number]
    if tensor.dtype != np.float32:
        refuse(f"'{tensor.name}' is of {tensor.dtype}; float32 follows")
    if number in context.value_of:
        refuse(f"writes '{tensor.name}', which is written already")
    if tensor.shape not in ((), shape):
        context.note(
            operator,
            f"'{tensor.name}' is stated with shape {tensor.shape}",
            f"{shape} follows from its options and is taken",
        )
    value = context.add(tensor.name, np.dtype(np.float32), shape, None)
    context.value_of[number] = value.id
    return value
