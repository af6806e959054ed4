# SPDX-License-Identifier: Apache-2.0
"""A node of an ONNX model with the tensors that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mlf_sdk.compiler.graph import Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.file import AttributeValue
from mlf_sdk.compiler.onnx.raw import RawNode
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor
from mlf_sdk.compiler.operators import Array, Operator


class Node:
    """A node with the tensors that it reads; what a builder asks."""

    def __init__(self, context: Context, raw: RawNode) -> None:
        self.context, self.raw = context, raw
        self.kind = raw.kind
        self.name = raw.outputs[0] if raw.outputs else ""

    def common(self, inputs: Iterable[Value], *outputs: Value) -> dict[str, Any]:
        """Fields of `Operator` for the next operator of this node."""
        return self.context.common(self.kind.replace(".", "_"), inputs, *outputs)

    def emit(
        self,
        kind: Callable[..., Operator],
        inputs: Iterable[Tensor | Value],
        dtype: np.dtype[Any],
        shape: Shape,
        name: str | None = None,
        *,
        nhwc: bool = False,
        **fields: AttributeValue,
    ) -> Tensor:
        """Add an operator that writes one tensor, by default the node's first output; that tensor.

        Args:
            nhwc: the operator writes it with its channels last.
        """
        values = [x if isinstance(x, Value) else self.context.value(x) for x in inputs]
        result, y = self.context.output(self.name if name is None else name, dtype, shape, nhwc=nhwc)
        self.context.emit(kind(**self.common(values, y), **fields))
        return result

    def has(self, position: int) -> bool:
        """Return whether an input is there."""
        return position < len(self.raw.inputs) and bool(self.raw.inputs[position])

    def input(self, position: int = 0) -> Tensor:
        """Tensor of an input that must be there."""
        if not self.has(position):
            refuse(f"input {position} is missing")
        return self.context.tensors[self.raw.inputs[position]]

    @property
    def inputs(self) -> list[Tensor]:
        """Tensors of all inputs that are there."""
        return [self.input(i) for i in range(len(self.raw.inputs)) if self.has(i)]

    def attribute(self, name: str, default: AttributeValue = None) -> AttributeValue:
        """Value of an attribute."""
        result = self.raw.attributes.get(name)
        return default if result is None else result

    def integers(
        self, name: str, default: AttributeValue = None, position: int | None = None
    ) -> tuple[int, ...]:
        """Whole numbers of an attribute or, since some version, of a constant input."""
        if position is not None and self.has(position):
            return tuple(int(v) for v in self.data(position, name).reshape(-1))
        attribute = self.attribute(name, default)
        if attribute is None:
            refuse(f"the attribute {name} is missing")
        return tuple(int(v) for v in attribute) if not isinstance(attribute, int) else (attribute,)

    def data(self, position: int, what: str) -> Array:
        """Data of an input that must be constant."""
        tensor = self.input(position)
        result = tensor.known
        if result is None:
            refuse(
                f"its {what} ('{tensor.name}') is computed at run time; only constants are supported. "
                "Fold constants when the model is exported"
            )
        return result

    def wants(self, position: int) -> bool:
        """Return whether an output is read by a node or is one of the model."""
        name = self.raw.outputs[position] if position < len(self.raw.outputs) else ""
        return bool(name) and (name in self.context.readers or name in self.context.results)

    def only(self, count: int) -> None:
        """Refuse outputs behind the first ``count``."""
        if any(self.wants(i) for i in range(count, len(self.raw.outputs))):
            refuse(f"output {count} ('{self.raw.outputs[count]}') is not supported")
