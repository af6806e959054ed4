# SPDX-License-Identifier: Apache-2.0
"""Values and operators of a graph while it is built from the tensors of a file."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from mlf_sdk.compiler.graph import GraphBuilder, State, Value, operator_fields, refuse
from mlf_sdk.compiler.operators import Array, Operator
from mlf_sdk.compiler.reference import evaluate_one
from mlf_sdk.compiler.reference.stored import stored
from mlf_sdk.compiler.tflite.file import RawOperator, RawSubgraph
from mlf_sdk.ir.model import Finding


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
        value = self.add(tensor.name, tensor.dtype, tensor.shape, tensor.quantisation)
        self.value_of[number] = value.id
        return value

    def emit(self, operator: Operator) -> None:
        """Add an operator, or compute it at once when all that it reads is constant."""
        reads = [self.values[i] for i in operator.inputs]
        if not reads or any(v.data is None for v in reads):
            super().emit(operator)
            return
        result = evaluate_one(self.values, operator, [v.data for v in reads if v.data is not None])
        for number, array in zip(operator.outputs, result, strict=True):
            self.fold(number, array)

    def fold(self, number: int, array: Array) -> None:
        """Make a value constant."""
        old = self.values[number]
        data = np.ascontiguousarray(array.astype(old.dtype).reshape(old.shape))
        self.values[number] = dataclasses.replace(old, data=data)


def common(operator: RawOperator, inputs: Iterable[Value], *outputs: Value) -> dict[str, Any]:
    """Fields of `Operator` for an operator of the file."""
    return operator_fields(operator.number, operator.kind, inputs, outputs)


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
        refuse(f"'{value.name}' is stated with shape {value.shape}; {shape} follows from the operator")


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
