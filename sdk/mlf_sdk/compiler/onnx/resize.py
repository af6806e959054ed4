# SPDX-License-Identifier: Apache-2.0
"""Builders of Resize and Upsample: nearest ones are moves, the others weighted sums of a few elements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import FLOAT32, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.movement import moved
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor, axis_of
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.reals import Resample


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Change of one axis."""

    size: int
    wanted: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    def positions(self, mode: str) -> Array:
        """Place in the input of each element of the output, in single precision as in ONNX Runtime.

        The corners of `align_corners` are those of whole extents, as in ONNX Runtime and PyTorch; ONNX's own
        tests take the extent before it is rounded.
        """
        x, half = np.arange(self.wanted, dtype=np.float32), np.float32(0.5)
        size, scale = np.float32(self.size), np.float32(self.scale)
        centred = (x + half) / scale - half
        offset = size / 2 * (1 - np.float32(self.wanted) / (scale * size))
        known = {
            "asymmetric": x / scale,
            "half_pixel": centred,
            "pytorch_half_pixel": centred if self.wanted > 1 else np.zeros(1, np.float32),
            "half_pixel_symmetric": offset + (x + half) / scale - half,
            "align_corners": x * (size - 1) / np.float32(max(self.wanted - 1, 1)),
            "tf_crop_and_resize": self._cropped(x),
        }
        if mode not in known:
            refuse(f"the coordinates {mode!r} are not supported")
        return known[mode]

    def _cropped(self, x: Array) -> Array:
        last = self.size - 1
        if self.wanted == 1:
            return np.array([0.5 * (self.start + self.end) * last])
        return self.start * last + x * (self.end - self.start) * last / (self.wanted - 1)


def resize(context: Context, node: Node) -> None:
    """Resize and Upsample."""
    x = node.input()
    mode = node.attribute("mode", "nearest")
    coordinates = node.attribute("coordinate_transformation_mode", "half_pixel")
    if node.kind == "Upsample" or context.opset < 11:
        coordinates = "asymmetric"
    axes = _axes(node, x, coordinates)
    if node.attribute("antialias", 0):
        refuse("antialias is not supported")
    if coordinates != "tf_crop_and_resize" and all(a.size == a.wanted for a in axes):
        moved(context, node, x, x.shape, regions.pick(x.shape, [list(range(e)) for e in x.shape]))
        return  # as ONNX Runtime does, whatever the scales are
    if mode == "nearest":
        rounding = node.attribute("nearest_mode", "round_prefer_floor")
        if node.kind == "Upsample" or context.opset < 11:
            rounding = "floor"
        _nearest(context, node, x, axes, coordinates, rounding)
    elif coordinates == "tf_crop_and_resize":
        refuse("interpolation with the coordinates 'tf_crop_and_resize' is not supported")
    else:
        _interpolated(context, node, x, axes, coordinates, mode)


def _axes(node: Node, x: Tensor, coordinates: str) -> list[_Axis]:
    older = node.kind == "Upsample" or node.context.opset < 11
    chosen = [axis_of(a, x.rank) for a in node.integers("axes", tuple(range(x.rank)))]
    scales = sizes = None
    if older:
        scales = node.data(1, "scales") if node.has(1) else np.array(node.attribute("scales"), np.float64)
    elif node.has(3):
        sizes = node.data(3, "sizes").reshape(-1)
    elif node.has(2):
        scales = node.data(2, "scales").reshape(-1)
    if (scales is None or scales.size != len(chosen)) and (sizes is None or sizes.size != len(chosen)):
        refuse(f"neither scales nor sizes for {len(chosen)} axes")
    region = node.data(1, "region").reshape(-1) if coordinates == "tf_crop_and_resize" else None
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    ratio = None  # of all axes, where their extents keep their proportions
    if sizes is not None and policy != "stretch":
        ratios = [int(s) / x.shape[a] for s, a in zip(sizes, chosen, strict=True)]
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        sizes = np.array([math.floor(x.shape[a] * ratio + 0.5) for a in chosen])
    result = [_Axis(size=e, wanted=e, scale=1.0) for e in x.shape]
    for position, axis in enumerate(chosen):
        size = x.shape[axis]
        scale = float(scales[position]) if scales is not None else int(sizes[position]) / size  # type: ignore[index]
        wanted = int(np.float32(size) * np.float32(scale)) if sizes is None else int(sizes[position])
        scale = scale if ratio is None else ratio
        if not 1 <= wanted <= 1 << 20:
            refuse(f"axis {axis} would have {wanted} elements")
        start, end = (
            (0.0, 1.0) if region is None else (float(region[position]), float(region[position + len(chosen)]))
        )
        result[axis] = _Axis(size=size, wanted=wanted, scale=scale, start=start, end=end)
    return result


def _nearest(
    context: Context, node: Node, x: Tensor, axes: list[_Axis], coordinates: str, rounding: str
) -> None:
    places = []
    for axis in axes:
        at = (
            axis.positions(coordinates)
            if axis.size != axis.wanted or axis.scale != 1.0
            else np.arange(axis.size)
        )
        if coordinates == "tf_crop_and_resize" and (at.min() < 0 or at.max() > axis.size - 1):
            refuse("a region outside of the input is not supported")
        whole = {
            "round_prefer_floor": np.ceil(at - 0.5),
            "round_prefer_ceil": np.floor(at + 0.5),
            "floor": np.floor(at),
            "ceil": np.ceil(at),
        }.get(rounding)
        if whole is None:
            refuse(f"the rounding {rounding!r} is not supported")
        places.append([int(p) for p in np.clip(whole, 0, axis.size - 1)])

    shape = tuple(len(p) for p in places)
    moved(context, node, x, shape, regions.pick(x.shape, places))


def _taps(axis: _Axis, coordinates: str, mode: str, factor: float, outside: bool) -> tuple[Array, Array]:
    """Places and weights of the elements that each output is made from."""
    at = axis.positions(coordinates)
    low = np.floor(at)
    part = at - low
    if mode == "linear":
        places = np.stack([low, low + 1], axis=1)
        weights = np.stack([1 - part, part], axis=1)
    else:
        places = low[:, None] + np.arange(-1, 3)[None]
        distance = np.abs(at[:, None] - places)
        near = (factor + 2) * distance**3 - (factor + 3) * distance**2 + 1
        far = factor * (distance**3 - 5 * distance**2 + 8 * distance - 4)
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
    if outside:
        weights = np.where((places < 0) | (places >= axis.size), 0.0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(places, 0, axis.size - 1).astype(np.int64), weights


def _interpolated(
    context: Context, node: Node, x: Tensor, axes: list[_Axis], coordinates: str, mode: str
) -> None:
    if mode not in ("linear", "cubic"):
        refuse(f"the mode {mode!r} is not supported")
    changed = [i for i, a in enumerate(axes) if a.size != a.wanted or a.scale != 1.0]
    if (
        x.dtype.kind != "f"
        or changed != list(range(changed[0] if changed else 0, changed[-1] + 1 if changed else 0))
        or len(changed) > 2
    ):
        refuse("interpolation of real numbers along one axis or two neighbouring ones is supported")
    factor = float(node.attribute("cubic_coeff_a", -0.75))
    outside = bool(node.attribute("exclude_outside", 0))
    first = changed[0] if changed else max(x.rank - 2, 0)
    pair = (first, first + 1) if first + 1 < x.rank else (first - 1, first) if x.rank > 1 else (0, 0)
    one = x.rank == 1
    still = (np.zeros((1, 1), np.int64), np.ones((1, 1)))
    tables = [
        _taps(axes[a], coordinates, mode, factor, outside)
        if a in changed
        else (np.arange(axes[a].size)[:, None], np.ones((axes[a].size, 1)))
        for a in pair
    ]
    if one:
        tables = [still, tables[0]]
    shape = tuple(a.wanted for a in axes)
    outer, inner = math.prod(x.shape[: pair[0]]), math.prod(x.shape[pair[1] + 1 :])
    extents = (1, x.shape[0]) if one else (x.shape[pair[0]], x.shape[pair[1]])
    source = context.reshaped("", x, (outer, *extents, inner))
    (rows, row_weights), (columns, column_weights) = tables
    result = node.emit(
        Resample, [source], FLOAT32, (outer, rows.shape[0], columns.shape[0], inner), "",
        rows=rows, columns=columns, row_weights=row_weights, column_weights=column_weights,
    )  # fmt: skip
    context.reshaped(node.name, result, shape)


BUILDERS: Final = {"Resize": resize, "Upsample": resize}
