# SPDX-License-Identifier: Apache-2.0
"""Graph of a model before compilation: values and operators, typed and frozen.

Operators keep the names of the field. What differs between formats in spelling only is one operator here:
everything that moves elements without computing is a `Move`, every elementwise expression a `Map`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import numpy as np

from mlf_sdk.compiler.operators import Array, Operator
from mlf_sdk.errors import InputError
from mlf_sdk.ir.tensor import Quantisation

INT8: Final = np.dtype(np.int8)
UINT8: Final = np.dtype(np.uint8)
INT32: Final = np.dtype(np.int32)
INT64: Final = np.dtype(np.int64)
FLOAT32: Final = np.dtype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A tensor of the graph.

    Attributes:
        id: index into ``Graph.values``.
        name: as the model names it.
        shape: extents; empty for a scalar.
        quantisation: None for a tensor that is not quantised.
        data: of a constant.
    """

    id: int
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    quantisation: Quantisation | None = None
    data: Array | None = field(default=None, repr=False, compare=False)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def size_bytes(self) -> int:
        """Bytes of one instance."""
        return self.elements * self.dtype.itemsize

    @property
    def constant(self) -> Array:
        """Data of a value that is constant.

        Raises:
            InputError: it is not.
        """
        if self.data is None:
            raise InputError(f"'{self.name}' is known only at run time", where="value of a graph")
        return self.data

    @property
    def scales(self) -> tuple[float, ...]:
        """Scales of the whole tensor or of each index of an axis; one of 0 without any."""
        return self.quantisation.scale if self.quantisation else (0.0,)

    @property
    def scale(self) -> float:
        """Scale of the whole tensor, as the single-precision number that files store; 0 without one."""
        return self.quantisation.scale[0] if self.quantisation else 0.0

    @property
    def zero_point(self) -> int:
        """Zero point of the whole tensor; 0 without one."""
        return self.quantisation.zero_point[0] if self.quantisation else 0


def all_values(x: Value) -> Array:
    """The 256 stored values of ``x``, in the order of their unsigned bytes."""
    return np.arange(256, dtype=np.uint8).view(x.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A value that lives from one run to the next, with its initial content."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    initial: Array = field(repr=False, compare=False)
    scale: float = 0.0
    zero_point: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A model as values and operators, in an order in which they can run.

    Attributes:
        labels: strings that an output stands for by their places, or none; empty where no output has any.
        small_tiles: numbers of convolutions that take tiles of two pixels, which need less scratch.
        window: shape of the input of which an inference takes the newest frame; empty: it takes all of it.
    """

    name: str
    values: tuple[Value, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[State, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()
    small_tiles: frozenset[int] = frozenset()
    window: tuple[int, ...] = ()

    def read(self, operator: Operator) -> tuple[Value, ...]:
        """Values that ``operator`` reads."""
        return tuple(self.values[i] for i in operator.inputs)

    def written(self, operator: Operator) -> tuple[Value, ...]:
        """Values that ``operator`` writes."""
        return tuple(self.values[i] for i in operator.outputs)

    def bias(self, operator: Operator) -> Array:
        """Biases of a layer whose third input they are, one a channel of its output; zeros without it.

        They are int64, or of the output's type where that is real.
        """
        values, (y,) = self.read(operator)[2:], self.written(operator)
        dtype = y.dtype if y.dtype.kind == "f" else np.int64
        return values[0].constant.reshape(-1).astype(dtype) if values else np.zeros(y.shape[-1], dtype)

    def computed(self) -> Iterator[Value]:
        """Values that are neither constant nor unused."""
        used = {i for o in self.operators for i in (*o.inputs, *o.outputs)} | {*self.inputs, *self.outputs}
        return (v for v in self.values if v.id in used and v.data is None)


class UnsupportedError(InputError):
    """An operator that can't be compiled; the message says why and what to do."""


UNREADABLE: Final = (UnsupportedError, ArithmeticError, LookupError, TypeError, ValueError)
"""Errors of a builder; arguments that contradict each other end in those of arithmetic."""


class ShapeError(UnsupportedError):
    """An output that is stated with another shape than the one that follows from its operator."""

    def __init__(self, value: Value, shape: tuple[int, ...]) -> None:
        super().__init__(
            f"'{value.name}' is stated with shape {value.shape}; {shape} follows from the operator"
        )
        self.value, self.shape = value, shape


def refuse(what: str, hint: str = "") -> NoReturn:
    """Raise UnsupportedError; the hint says what to do."""
    raise UnsupportedError(what, hint=hint)


class GraphBuilder:
    """Values and operators so far; the id of a value is its position."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.operators: list[Operator] = []

    def add(
        self,
        name: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        quantisation: Quantisation | None = None,
        data: Array | None = None,
    ) -> Value:
        """Add a value; ``data`` makes it a constant."""
        value = Value(
            id=len(self.values), name=name, dtype=dtype, shape=shape, quantisation=quantisation, data=data
        )
        self.values.append(value)
        return value

    def add_constant(self, name: str, data: Array, quantisation: Quantisation | None = None) -> Value:
        """Add a constant of the type and shape of its data."""
        return self.add(name, data.dtype, data.shape, quantisation, np.ascontiguousarray(data))

    def common(self, kind: str, inputs: Iterable[Value], *outputs: Value) -> dict[str, Any]:
        """Fields of `Operator` for the next operator, whose number is its position."""
        return operator_fields(len(self.operators), kind, inputs, outputs)

    def emit(self, operator: Operator) -> None:
        """Add an operator."""
        self.operators.append(operator)


def operator_fields(
    number: int, kind: str, inputs: Iterable[Value], outputs: Iterable[Value]
) -> dict[str, Any]:
    """Fields of `Operator`, which every class of operators has."""
    return {
        "number": number, "kind": kind, "inputs": tuple(x.id for x in inputs),
        "outputs": tuple(y.id for y in outputs),
    }  # fmt: skip
