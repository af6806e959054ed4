# SPDX-License-Identifier: Apache-2.0
"""Operators of a graph, typed and frozen; they keep the names of the field."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

if TYPE_CHECKING:
    from mlf_sdk.compiler.regions import Region

Array = np.ndarray[Any, np.dtype[Any]]
UNLIMITED: Final = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator: what it reads and writes.

    Attributes:
        number: position in the model's file, for messages and reports.
        kind: name in the model's file, e.g. ``CONV_2D``.
        inputs, outputs: ids of values.
        has_meaning: False: only its code says what it computes.
    """

    has_meaning: ClassVar[bool] = True
    number: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def states(self) -> tuple[int, ...]:
        """Numbers of the states that it reads or writes, in the order of its kernel's parameters."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stateful(Operator):
    """An operator with one state, which keeps values from one run to the next."""

    state: int

    @property
    def states(self) -> tuple[int, ...]:
        """See Operator."""
        return (self.state,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Window that moves over height and width of an NHWC tensor.

    Attributes:
        size, stride, dilation: height and width.
        before: rows above and columns left of the input that the window covers as padding; of pooling also
            below zero, where the first window begins so many behind the input's first.
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


Layer = Conv2D | DepthwiseConv2D | TransposeConv | FullyConnected
"""A layer of sums of products with weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolve(Operator):
    """Convolution of two values: x (NHWC) and weights (OHWI), in groups where those have fewer channels.

    A third input, of one element, is taken off every element of x; padding counts as that. Sums are real, or
    whole numbers of 32 bits.
    """

    window: Window


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


@dataclass(frozen=True, slots=True)
class Call:
    """A function of expressions.

    Attributes:
        function: key of `mlf_sdk.compiler.functions.FUNCTIONS`.
        arguments: the number of an input each, or another call.
        parameters: constants of the function, e.g. the limits of ``clip``.
    """

    function: str
    arguments: tuple[Expression, ...]
    parameters: tuple[float, ...] = ()

    @classmethod
    def of(cls, function: str, operands: int = 1, parameters: tuple[float, ...] = ()) -> Call:
        """The function of the first inputs, as many as it has operands."""
        return cls(function, tuple(range(operands)), parameters)

    @property
    def calls(self) -> int:
        """Number of functions, this one included."""
        return 1 + sum(argument.calls for argument in self.arguments if isinstance(argument, Call))

    def limited(self, clamp: tuple[float, float]) -> Call:
        """The result within a range."""
        return self if clamp == UNLIMITED else Call("clip", (self,), clamp)

    def unlimited(self) -> tuple[Call, tuple[float, float]]:
        """The call and the range that `limited` gives it."""
        if self.function != "clip" or not isinstance(self.arguments[0], Call):
            return self, UNLIMITED
        low, high = self.parameters
        return self.arguments[0], (low, high)


Expression = int | Call
"""Number of an input of a `Map`, or a function of some."""


class Rounding(enum.Enum):
    """Rule by which stored values stand for real ones where an operator computes."""

    TFLM = "tflm"  # as its reference kernel of the operator does, bit for bit
    CONCATENATION = "concatenation"  # as TensorFlow Lite's CONCATENATION rescales bytes
    NEAREST_EVEN = "nearest even"  # the quotient by the scale, in single precision, halves to even


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Operator):
    """Expression of the elements at one place of all inputs, with broadcast.

    Attributes:
        rounding: of an expression of what stored values stand for; None: of the numbers as they are stored.
        clamp: of the result in stored values, where the rounding is TFLM's.
    """

    expression: Call
    rounding: Rounding | None = None
    clamp: tuple[float, float] = UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert(Operator):
    """Change of quantisation or type: QUANTIZE, DEQUANTIZE and CAST."""

    rounding: Rounding = Rounding.TFLM


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Operator):
    """Any function of one byte whose results are bytes.

    Attributes:
        results: for each stored value, in the order of unsigned bytes.
    """

    results: Array = field(repr=False, compare=False)


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

    has_meaning: ClassVar[bool] = False
    symbol: str
    declaration: str
    options: bytes
    source: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape(Operator):
    """The same bytes in another shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState(Stateful):
    """Current value of a state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteState(Stateful):
    """New value of a state."""


SCRATCH_BYTES: Final = 640  # of kernels of rows that can do with less


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused(Operator):
    """A region, with the number of its last operator.

    Its inputs are the values from outside that are not constant, its outputs those that are used outside.

    Attributes:
        operators: in the graph's order.
        lines: rows of its output that each operator makes at once; empty: one.
        scratch_bytes: that kernels of rows may take where they can take less.
        fit_scratch: convolutions keep to it, too, by smaller tiles, and take more instructions.
        streamed: those of its inputs whose rows come one after the other, without a whole tensor.
    """

    operators: tuple[Operator, ...]
    lines: tuple[int, ...] = ()
    scratch_bytes: int = SCRATCH_BYTES
    fit_scratch: bool = False
    streamed: tuple[int, ...] = ()
