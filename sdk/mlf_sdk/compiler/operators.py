# SPDX-License-Identifier: Apache-2.0
"""Operators of a graph, typed and frozen; they keep the names of the field."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
UNLIMITED: Final = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator: what it reads and writes.

    Attributes:
        number: position in the model's file, for messages and reports.
        kind: name in the model's file, e.g. ``CONV_2D``.
        inputs, outputs: ids of values.
    """

    number: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Window that moves over height and width of an NHWC tensor.

    Attributes:
        size, stride, dilation: height and width.
        before: rows above and columns left of the input that the window covers as padding.
    """

    size: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)

    def is_pointwise(self, x: tuple[int, ...], y: tuple[int, ...]) -> bool:
        """Return whether each pixel of ``y`` is made of the one at its place in ``x``, both NHWC."""
        return self.size == self.stride == (1, 1) and self.before == (0, 0) and x[1:3] == y[1:3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2D(Operator):
    """Convolution: inputs x (NHWC), weights (OHWI) and bias; ``clamp`` in stored values."""

    window: Window
    clamp: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseConv2D(Operator):
    """Depthwise convolution: weights (1HWC); channel c reads channel c // ``multiplier``."""

    window: Window
    multiplier: int
    clamp: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeConv(Operator):
    """Transposed convolution: inputs x (NHWC), weights (OHWI) and bias."""

    window: Window
    clamp: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FullyConnected(Operator):
    """Matrix product of the rows of x with weights (output, input), plus bias."""

    clamp: tuple[float, float]


class PoolKind(enum.Enum):
    """Function of a pooling window; L2 is the root of the mean square."""

    AVERAGE = "average"
    MAX = "max"
    L2 = "l2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool2D(Operator):
    """Pooling over windows; padding is not counted."""

    function: PoolKind
    window: Window
    clamp: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(Operator):
    """Mean over ``axes``; the sum where ``total`` is set."""

    axes: tuple[int, ...]
    total: bool = False


class Arithmetic(enum.Enum):
    """Function of two operands."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    PRELU = "prelu"
    SQUARED_DIFFERENCE = "squared_difference"
    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    GREATER = "greater"
    GREATER_EQUAL = "greater_equal"
    LESS = "less"
    LESS_EQUAL = "less_equal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Operator):
    """Elementwise function of two values, with broadcast."""

    function: Arithmetic
    clamp: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Operator):
    """Elementwise function of an 8-bit value: entry ``table[x]``, x as an unsigned byte."""

    table: Array = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert(Operator):
    """Change of quantisation or type: QUANTIZE, DEQUANTIZE and CAST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise(Operator):
    """Elementwise function of one value that is not 8 bits wide."""

    function: str
    alpha: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(Operator):
    """Softmax over the last axis; ``log`` for its logarithm."""

    beta: float
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Normalise(Operator):
    """Rows of stored values along the last axis, divided by their length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddN(Operator):
    """Sum of stored values of any number of inputs with one scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSlice(Operator):
    """The first input with the second one put where the third, the place of its first element, says.

    The place is moved into the input where the second would reach beyond it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One loop of a `Region`.

    Attributes:
        extent: iterations.
        source: distance in elements of the input between iterations, or the offset of each.
        target: distance in elements of the output between iterations.
    """

    extent: int
    source: int | tuple[int, ...]
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Elements of one input that go to places of one output; offsets in elements."""

    input: int
    output: int
    source: int
    target: int
    axes: tuple[Axis, ...]

    def indices(self) -> tuple[Array, Array]:
        """Flat positions in the input and in the output, element by element."""
        source = np.array([self.source], np.int64)
        target = np.array([self.target], np.int64)
        for axis in self.axes:
            steps = np.arange(axis.extent, dtype=np.int64)
            offsets = steps * axis.source if isinstance(axis.source, int) else np.array(axis.source)
            source = (source[:, None] + offsets).reshape(-1)
            target = (target[:, None] + steps * axis.target).reshape(-1)
        return source, target


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Operator):
    """Copies of elements; what no region writes holds ``fill``."""

    regions: tuple[Region, ...]
    fill: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom(Operator):
    """A function of the user's: nothing but the shapes of its outputs is known of it.

    Attributes:
        symbol: the function.
        declaration: of it, in C.
        options: bytes that the model has for it.
        source: C source that defines it.
    """

    symbol: str
    declaration: str
    options: bytes
    source: bytes


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
class Reshape(Operator):
    """The same bytes in another shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeBilinear(Operator):
    """Bilinear interpolation of height and width."""

    align_corners: bool
    half_pixel_centres: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgExtreme(Operator):
    """Index of the largest (or smallest) element along an axis; of equal ones the first, or the last."""

    axis: int
    smallest: bool
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState(Operator):
    """Current value of a state."""

    state: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteState(Operator):
    """New value of a state."""

    state: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Svdf(Operator):
    """Rank-decomposed recurrent layer: inputs x, feature and time weights, bias; activations in a state."""

    rank: int
    state: int
    clamp: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lstm(Operator):
    """Unidirectional LSTM over a sequence; hidden and cell value in states."""

    time_major: bool
    hidden: int
    cell: int
    cell_clip: float
