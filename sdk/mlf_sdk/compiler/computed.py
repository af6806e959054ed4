# SPDX-License-Identifier: Apache-2.0
"""Operators whose weights, indices or scales are computed at run time, or whose results choose elements."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlf_sdk.compiler.operators import Array, Operator, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicQuantise(Operator):
    """Real numbers as bytes without sign, with the scale and zero point of their own range.

    Outputs: the bytes, the scale (float32) and the zero point (uint8), both of one element. The range is that
    from the least to the largest element, with 0 inside; the scale is 1 where it is empty.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResponse(Operator):
    """Elements divided by ``(bias + alpha / size * squares) ** beta``.

    Attributes:
        axis: along which squares are summed.
        size: elements of a sum: ``(size - 1) // 2`` before the place, the others from there on.
    """

    axis: int
    size: int
    alpha: float
    beta: float
    bias: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolIndices(Operator):
    """Place of the first largest element of every window of x (NHWC), counted in the order N, C, H, W.

    Attributes:
        columns_first: count in the order N, C, W, H.
    """

    window: Window
    columns_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherSlices(Operator):
    """Slices of the first input at the places that the last axis of the second one states.

    Places outside are taken as the nearest ones; negative ones count from the end.

    Attributes:
        batch: leading axes that both inputs share.
    """

    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherElements(Operator):
    """Elements of the first input at places along ``axis`` that the second one states, as `GatherSlices`."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterSlices(Operator):
    """The first input with slices of the third put where the last axis of the second states.

    Places outside are left out; negative ones count from the end.

    Attributes:
        reduction: key of `REDUCTIONS`.
    """

    reduction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterElements(Operator):
    """The first input with elements of the third put at places along ``axis``, as `ScatterSlices`."""

    axis: int
    reduction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelEncoder(Operator):
    """Value of each element: the one of its key.

    Attributes:
        keys: different, in ascending order; of the type of the elements.
        values: one a key.
        default: of elements that are no key.
        missing: of NaN.
    """

    keys: Array = field(repr=False, compare=False)
    values: Array = field(repr=False, compare=False)
    default: float
    missing: float


REDUCTIONS = ("none", "add", "mul", "max", "min")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(Operator):
    """Largest (or smallest) elements along ``axis`` in order, and their places; equal ones in their order.

    NaN is larger than any number, as in numpy and ONNX Runtime.
    """

    axis: int
    smallest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionPostProcess(Operator):
    """Boxes of a detector by fast non-maximum suppression, with one class each.

    Inputs: encodings (1, N, 4) of centre y and x, height and width; scores (1, N, classes); anchors (N, 4).
    Outputs: corners (1, D, 4) as ymin, xmin, ymax, xmax; classes (1, D); scores (1, D); their number (1,).
    What no box fills is 0.

    Attributes:
        scales: of the four encodings.
        classes: that are chosen from; one more score in front of them is that of the background.
        least_score: boxes with less are left out.
        most_overlap: intersection over union with a better box, above which a box is left out.
    """

    scales: tuple[float, float, float, float]
    classes: int
    least_score: float
    most_overlap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSlice(Operator):
    """The first input with the second one put where the third, the place of its first element, says.

    The place is moved into the input where the second would reach beyond it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgExtreme(Operator):
    """Index of the largest (or smallest) element along an axis; of equal ones the first, or the last."""

    axis: int
    smallest: bool
    last: bool = False
