# SPDX-License-Identifier: Apache-2.0
"""A graph under construction: what the readers of model files add to."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.operators import Array, Operator
from mlf_sdk.ir.tensor import Quantisation


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

    def emit(self, operator: Operator) -> None:
        """Add an operator."""
        self.operators.append(operator)
