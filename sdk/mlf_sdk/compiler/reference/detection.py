# SPDX-License-Identifier: Apache-2.0
"""Reference of detection post-processing."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.computed import DetectionPostProcess
from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.reference import States, reference


@reference(DetectionPostProcess)
def detection_post_process(
    graph: Graph, operator: DetectionPostProcess, inputs: list[Array], _: States
) -> list[Array]:
    """Decode boxes, then take the best one that overlaps with no better one, of equal ones the first."""
    encodings, scores, anchors = (
        _real(value, array) for value, array in zip(graph.read(operator), inputs, strict=True)
    )
    corners = _corners(encodings[0], anchors, operator.scales)
    wanted = scores[0][:, scores.shape[2] - operator.classes :]
    classes, best = wanted.argmax(axis=1), wanted.max(axis=1)
    left = [int(i) for i in np.argsort(-best, kind="stable") if best[i] >= np.float32(operator.least_score)]
    result = [np.zeros(value.shape, np.float32) for value in graph.written(operator)]
    taken = 0
    while left and taken < result[1].shape[1]:
        top = left.pop(0)
        result[0][0, taken], result[1][0, taken], result[2][0, taken] = corners[top], classes[top], best[top]
        left = [i for i in left if _overlap(corners[top], corners[i]) <= np.float32(operator.most_overlap)]
        taken += 1
    result[3][0] = taken
    return result


def _real(value: Value, data: Array) -> Array:
    if data.dtype.kind == "f":
        return data
    return (data.astype(np.int32) - value.zero_point).astype(np.float32) * np.float32(value.scale)


def _corners(encodings: Array, anchors: Array, scales: tuple[float, ...]) -> Array:
    y, x, h, w = (encodings.astype(np.float64) / np.array(scales)).T
    centre_y, centre_x, height, width = anchors.astype(np.float64).T
    middle = np.stack([y * height + centre_y, x * width + centre_x], axis=1).astype(np.float32)
    half = np.stack([0.5 * np.exp(h) * height, 0.5 * np.exp(w) * width], axis=1).astype(np.float32)
    return np.concatenate([middle - half, middle + half], axis=1)


def _overlap(a: Array, b: Array) -> np.float32:
    """Intersection over union; 0 for boxes without an area."""
    areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    if min(areas) <= 0:
        return np.float32(0)
    height, width = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    inner = max(height, np.float32(0)) * max(width, np.float32(0))
    return np.float32(inner / (areas[0] + areas[1] - inner))
