# SPDX-License-Identifier: Apache-2.0
"""A graph under construction: what the readers of model files add to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.operators import Array, Operator
from mlf_sdk.errors import InputError
from mlf_sdk.ir.tensor import Quantisation


class UnsupportedError(InputError):
    """An operator that can't be compiled; the message says why and what to do."""


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
