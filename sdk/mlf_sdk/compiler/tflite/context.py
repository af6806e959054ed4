# SPDX-License-Identifier: Apache-2.0
"""Values and operators of a graph while it is built from the tensors of a file, and findings about that."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import GraphBuilder, ShapeError, State, Value, operator_fields, refuse
from mlf_sdk.compiler.operators import Array, Move, Operator, Reshape
from mlf_sdk.compiler.reference import evaluate_one
from mlf_sdk.compiler.reference.stored import stored
from mlf_sdk.compiler.tflite.file import RawOperator, RawSubgraph
from mlf_sdk.compiler.tflite.tensors import RawTensor
from mlf_sdk.errors import InputError
from mlf_sdk.ir.model import Finding
from mlf_sdk.tools.checks import shown

KNOWN: Final = {
    "ABS": 5, "ADD": 5, "ARG_MAX": 3, "ARG_MIN": 3, "AVERAGE_POOL_2D": 3, "BATCH_MATMUL": 4,
    "BATCH_TO_SPACE_ND": 4, "BROADCAST_TO": 3, "CAST": 7, "CONCATENATION": 4, "CONV_2D": 8,
    "DEPTHWISE_CONV_2D": 7, "DEPTH_TO_SPACE": 2, "DEQUANTIZE": 6, "DIV": 2, "DYNAMIC_UPDATE_SLICE": 4,
    "EMBEDDING_LOOKUP": 4, "EQUAL": 4,
    "EXP": 2, "FILL": 4, "FLOOR_DIV": 3, "FLOOR_MOD": 2, "FULLY_CONNECTED": 13, "GATHER": 7, "GATHER_ND": 5,
    "GREATER": 2, "GREATER_EQUAL": 3, "L2_NORMALIZATION": 2, "LEAKY_RELU": 2, "LESS": 3, "LESS_EQUAL": 2,
    "LOG": 2, "LOGISTIC": 3, "LOG_SOFTMAX": 2, "MAXIMUM": 4, "MAX_POOL_2D": 3, "MEAN": 3, "MINIMUM": 4,
    "MIRROR_PAD": 3, "MUL": 7, "NOT_EQUAL": 3, "PACK": 4, "PAD": 4, "PADV2": 4, "QUANTIZE": 3,
    "REDUCE_MAX": 3, "REDUCE_MIN": 3, "RELU": 3, "RELU6": 3, "RESHAPE": 1, "RESIZE_BILINEAR": 4,
    "RESIZE_NEAREST_NEIGHBOR": 4, "REVERSE_V2": 3, "RSQRT": 3, "SELECT": 4, "SELECT_V2": 2, "SLICE": 6,
    "SOFTMAX": 3, "SPACE_TO_BATCH_ND": 4, "SPACE_TO_DEPTH": 2, "SPLIT": 4, "SPLIT_V": 2,
    "SQUARED_DIFFERENCE": 2, "SQUEEZE": 2, "STRIDED_SLICE": 8, "SUB": 5, "SUM": 2, "SVDF": 4, "TANH": 3,
    "TILE": 3, "TRANSPOSE": 6, "TRANSPOSE_CONV": 5, "UNIDIRECTIONAL_SEQUENCE_LSTM": 4, "UNPACK": 4,
}  # fmt: skip
"""Highest version of operators of TensorFlow Lite that is known; 1 for those that are not listed."""


def file_findings(raw: RawSubgraph) -> Iterator[Finding]:
    """Findings about tensors and operators of a subgraph; like ones are one."""
    notes = [(t, note) for t in raw.tensors for note in (*t.notes, *filter(None, [t.flaw]))]
    yield from _alike(notes)
    for number in raw.inputs:
        yield from _open(raw.tensors[number])
    new = [o for o in raw.operators if not 1 <= o.version <= KNOWN.get(o.kind, 1)]
    for kind, version in dict.fromkeys((o.kind, o.version) for o in new):
        yield Finding(
            where=f"operator {kind}",
            what=f"its version is {version}; versions 1 to {KNOWN.get(kind, 1)} are known",
            handled="taken as the newest that is known; TFLM does not read versions",
        )


def _alike(notes: Iterable[tuple[RawTensor, str]]) -> Iterator[Finding]:
    """One finding of all notes that differ in numbers only."""
    groups: dict[str, list[tuple[RawTensor, str]]] = {}
    for tensor, note in notes:
        groups.setdefault(re.sub(r"[\d., ()]+", " ", note), []).append((tensor, note))
    for group in groups.values():
        tensor, note = group[0]
        more = f"; and {len(group) - 1} more such" if len(group) > 1 else ""
        yield Finding(
            where="tensors",
            what=f"{shown(tensor.name)} {note}{more}",
            handled="set aside, since no operator that is compiled needs it",
        )


def _open(tensor: RawTensor) -> Iterator[Finding]:
    for axis, is_open in enumerate(tensor.open[: len(tensor.shape)]):
        if is_open and axis:
            yield Finding(
                where=f"input {shown(tensor.name)}",
                what=f"leaves dimension {axis} open",
                handled=f"compiled for the extent that is stored, {tensor.shape[axis]}; "
                "for another, convert the model with a fixed shape",
            )


def fault_text(error: Exception) -> str:
    """A fault, and what to do about it besides converting the model again, which `model_faults` says."""
    if isinstance(error, InputError):
        return f"{error.what}; {error.hint}" if error.hint else error.what
    return f"its tensors do not fit it ({error})"


class Context(GraphBuilder):
    """The graph so far, and the value of each tensor of the file."""

    def __init__(self, raw: RawSubgraph, states: dict[str, int], known: list[State]) -> None:
        super().__init__()
        self.raw = raw
        self.states = known
        self.state_names = states
        self.handles: dict[int, int] = {}
        self.variables: dict[int, int] = {}
        self.value_of: dict[int, int] = {}
        self.findings: list[Finding] = []
        self.real_of: dict[int, int] = {}
        self.derived: dict[int, tuple[int, ...]] = {}  # shapes of tensors that the file leaves open

    def note(self, operator: RawOperator, what: str, handled: str) -> None:
        """Add a finding about an operator."""
        self.findings.append(
            Finding(where=f"operator {operator.number} {operator.kind}", what=what, handled=handled)
        )

    def copy_stored(self, operator: RawOperator, *values: Value) -> None:
        """Note that stored values are handed on between tensors whose scales or zero points differ.

        TFLM reads neither where it copies, compares or chooses; the file's other reading would be a change of
        scale that no interpreter makes.
        """
        points = {(v.scale, v.zero_point) for v in values if v.dtype.itemsize < 4}
        if len(points) > 1:
            self.note(
                operator,
                f"its tensors differ in their quantisation: {', '.join(map(str, sorted(points)))}",
                "stored values are handed on as they are, as TFLM does",
            )

    def input(self, number: int) -> Value:
        """Value of a tensor that something writes, or that is constant."""
        if number < 0:
            refuse("an input that is needed is absent")
        if number not in self.value_of:
            tensor = self.raw.tensors[number]
            if tensor.dtype is None or (tensor.data is None and not tensor.variable):
                refuse(f"reads '{tensor.name}', which nothing has written before")
            self.value_of[number] = self.add(
                tensor.name, tensor.dtype, tensor.shape, tensor.quantisation, tensor.data
            ).id
        return self.values[self.value_of[number]]

    def inputs(self, operator: RawOperator, least: int, most: int | None = None) -> list[Value]:
        """Values of all inputs that are present; raises UnsupportedError when their number is wrong."""
        present = [i for i in operator.inputs if i >= 0]
        if not least <= len(present) <= (most or least):
            refuse(f"has {len(present)} inputs; {least} are needed")
        return [self.input(i) for i in present]

    def output(self, operator: RawOperator, position: int = 0) -> Value:
        """A new value for an output."""
        if position >= len(operator.outputs):
            refuse(f"has {len(operator.outputs)} outputs")
        number = operator.outputs[position]
        tensor = self.raw.tensors[number]
        if tensor.dtype is None:
            refuse(f"'{tensor.name}' is a resource")
        if number in self.value_of:
            refuse(f"writes '{tensor.name}', which is written already")
        shape = self.derived.get(number, tensor.shape)
        value = self.add(tensor.name, tensor.dtype, shape, tensor.quantisation)
        self.value_of[number] = value.id
        return value

    def inputs_and_output(
        self, operator: RawOperator, least: int, most: int | None = None
    ) -> tuple[list[Value], Value]:
        """`inputs` of an operator, and its first `output`."""
        return self.inputs(operator, least, most), self.output(operator)

    def emit(self, operator: Operator) -> None:
        """Add an operator, or compute it at once when all that decides its results is constant."""
        reads = [self.values[i] for i in operator.inputs]
        known = reads and operator.has_meaning and not operator.states
        if not known or any(v.data is None for v in reads):
            super().emit(operator)
            return
        result = evaluate_one(self.values, operator, [v.data for v in reads if v.data is not None])
        for number, array in zip(operator.outputs, result, strict=True):
            self.fold(number, array)

    def add_operator(
        self,
        kind: Callable[..., Operator],
        operator: RawOperator,
        inputs: Iterable[Value],
        *outputs: Value,
        **fields: Any,  # noqa: ANN401
    ) -> None:
        """`emit` an operator of a class for one of the file, with the fields of that class."""
        self.emit(kind(**operator_fields(operator.number, operator.kind, inputs, outputs), **fields))

    def transposed(self, operator: RawOperator, x: Value, order: tuple[int, ...]) -> Value:
        """Axes of a value in another order."""
        y = self.add(f"{x.name}_turned", x.dtype, tuple(x.shape[i] for i in order), x.quantisation)
        self.put_transposed(operator, x, y, order)
        return self.values[y.id]

    def put_transposed(self, operator: RawOperator, x: Value, y: Value, order: tuple[int, ...]) -> None:
        """Make a value of another one with its axes in another order, of the same bytes where that is all."""
        if regions.keeps_order(x.shape, order):
            self.add_operator(Reshape, operator, [x], y)
        else:
            self.add_operator(Move, operator, [x], y, regions=(regions.transpose(x.shape, order),))

    def fold(self, number: int, array: Array) -> None:
        """Make a value constant."""
        old = self.values[number]
        data = np.ascontiguousarray(array.astype(old.dtype).reshape(old.shape))
        self.values[number] = dataclasses.replace(old, data=data)


def constant(value: Value, what: str) -> Array:
    """Data of a value that must be known at compile time."""
    if value.data is None:
        refuse(f"its {what} ('{value.name}') is known only at run time")
    return value.data


def whole_numbers(value: Value, what: str) -> tuple[int, ...]:
    """Integers of a constant."""
    return tuple(int(x) for x in constant(value, what).reshape(-1))


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < rank:
        refuse(f"axis {axis} of a tensor with {rank} dimensions")
    return axis % rank


def expect_shape(value: Value, shape: tuple[int, ...]) -> None:
    """Refuse an output whose stated shape is not the one that follows from the operator."""
    if value.shape != shape:
        raise ShapeError(value, shape)


def broadcast_shape(*values: Value) -> tuple[int, ...]:
    """Shape of an elementwise function of the values."""
    try:
        return tuple(int(e) for e in np.broadcast_shapes(*(v.shape for v in values)))
    except ValueError:
        refuse(f"operands of shapes {', '.join(str(v.shape) for v in values)}")


def expect_elements(value: Value, count: int) -> None:
    """Refuse an output with another number of elements."""
    if value.elements != count:
        refuse(f"'{value.name}' has {value.elements} elements; {count} follow from the operator")


def expect_symmetric_words(*values: Value) -> None:
    """Refuse int16 values with a zero point, as TFLM does for this operator."""
    for value in values:
        if value.dtype == np.int16 and value.zero_point:
            refuse(f"'{value.name}' is of int16 values with the zero point {value.zero_point}; 0 is needed")


ACTIVATIONS = {0: (-math.inf, math.inf), 1: (0.0, math.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}


def clamp(activation: int, y: Value) -> tuple[float, float]:
    """Range of stored values of an output with a fused activation function."""
    if activation not in ACTIVATIONS:
        refuse(f"the fused activation function {activation} is not supported")
    low, high = ACTIVATIONS[activation]
    if y.dtype.kind == "f":
        return low, high
    info = np.iinfo(y.dtype)
    least = info.min if low == -math.inf else max(info.min, stored(low, y) if y.quantisation else int(low))
    most = info.max if high == math.inf else min(info.max, stored(high, y) if y.quantisation else int(high))
    return least, most
