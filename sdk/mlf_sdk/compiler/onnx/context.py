# SPDX-License-Identifier: Apache-2.0
"""Values and operators of a graph while it is built from an ONNX model.

Layers read and write the channels last, everything else the order of ONNX (channels before height and width);
`sink_transpositions` removes the changes of order in between.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import FLOAT32, GraphBuilder, Value, refuse
from mlf_sdk.compiler.onnx.budget import Budget
from mlf_sdk.compiler.onnx.raw import RawNode, text_of
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor, kept
from mlf_sdk.compiler.operators import Array, Convert, Move, Operator, Reshape
from mlf_sdk.compiler.regions import (
    TO_FIRST,
    TO_LAST,
    Region,
    keeps_order,
    shape_with_channels_last,
    with_channels_last,
)
from mlf_sdk.ir.tensor import Quantisation


class Context(GraphBuilder):
    """The graph so far, and the tensor of each name."""

    def __init__(self, opset: int, budget: Budget) -> None:
        super().__init__()
        self.opset = opset
        self.budget = budget
        self.strings: dict[str, tuple[str, ...]] = {}
        self.tensors: dict[str, Tensor] = {}
        self.readers: dict[str, list[RawNode]] = {}
        self.results: frozenset[str] = frozenset()

    # Nodes

    def read_by(self, nodes: Iterable[RawNode]) -> None:
        """Note the nodes that read each name."""
        for node in nodes:
            for name in node.reads:
                self.readers.setdefault(name, []).append(node)

    def replace_reader(self, node: RawNode, by: Iterable[RawNode]) -> None:
        """Note that other nodes stand for one."""
        for name in set(node.reads):
            self.readers[name] = [reader for reader in self.readers.get(name, ()) if reader is not node]
        self.read_by(by)

    # Tensors

    def bind(self, name: str, tensor: Tensor) -> Tensor:
        """Give a tensor another name."""
        if name:
            self.tensors[name] = tensor
        return tensor

    def constant(self, name: str, data: Array) -> Tensor:
        """Add a constant; strings become their places among the different ones, which are noted."""
        data = np.asarray(data)
        if data.dtype.kind in "OSU":
            texts = text_of(data.reshape(-1).tolist())
            self.strings[name] = tuple(dict.fromkeys(texts))
            number = {text: place for place, text in enumerate(self.strings[name])}
            data = np.array([number[text] for text in texts], np.int64).reshape(data.shape)
        data = kept(data, name)
        return self.bind(name, Tensor(name=name, dtype=data.dtype, shape=data.shape, data=data))

    def output(
        self,
        name: str,
        dtype: np.dtype[Any],
        shape: Shape,
        *,
        nhwc: bool = False,
        quantisation: Quantisation | None = None,
    ) -> tuple[Tensor, Value]:
        """A new tensor, and the value that an operator writes."""
        value = self.add(name, dtype, shape_with_channels_last(shape) if nhwc else shape, quantisation)
        tensor = Tensor.of_value(value, shape, nhwc=nhwc)
        if not tensor.elements:
            tensor = Tensor(name=name, dtype=dtype, shape=shape, data=np.zeros(shape, dtype))
        return self.bind(name, tensor), value

    def reshaped(self, name: str, tensor: Tensor, shape: Shape) -> Tensor:
        """The same elements in another shape; costs nothing until its value is asked for."""
        if min(shape, default=0) < 0 or int(np.prod(shape, dtype=np.int64)) != tensor.elements:
            refuse(f"{tensor.elements} elements can't have the shape {shape}")
        if shape == tensor.shape:
            return self.bind(name, tensor)
        result = Tensor(name=name, dtype=tensor.dtype, shape=shape, quantisation=tensor.quantisation)
        if tensor.data is not None:
            result.data = tensor.data.reshape(shape)
            return self.bind(name, result)
        result.base = tensor.base or tensor
        if tensor.stored is not None:
            result.stored, result.base = self.reshaped("", tensor.stored, shape), None
        return self.bind(name, result)

    # Values

    def emit(self, operator: Operator) -> None:
        """Add an operator, but for one that has nothing to write: tensors without elements are constant."""
        if any(self.values[number].elements for number in operator.outputs):
            super().emit(operator)

    def value(self, tensor: Tensor) -> Value:
        """Value in the order of ONNX."""
        if tensor.nchw is None:
            tensor.nchw = self._nchw(tensor)
        return tensor.nchw

    def _nchw(self, tensor: Tensor) -> Value:
        if tensor.data is not None:
            return self.add(tensor.name, tensor.dtype, tensor.shape, tensor.quantisation, tensor.data)
        if tensor.nhwc is not None:
            inner = self._moved(tensor, tensor.nhwc, TO_FIRST)
            return inner if inner.shape == tensor.shape else self._renamed(tensor, inner)
        if tensor.base is not None:
            return self._renamed(tensor, self.value(tensor.base))
        if tensor.stored is not None:
            return self.real(tensor.name, self.value(tensor.stored))
        raise AssertionError(f"'{tensor.name}' has no value")

    def nhwc(self, tensor: Tensor) -> Value:
        """Value of four axes with channels last, as `shape_with_channels_last` says."""
        if tensor.nhwc is None:
            if tensor.data is not None:
                data = with_channels_last(tensor.data)
                tensor.nhwc = self.add(tensor.name, tensor.dtype, data.shape, tensor.quantisation, data)
            else:
                n, *space, c = shape_with_channels_last(tensor.shape)
                nchw = self.value(tensor)
                if nchw.shape != (n, c, *space):
                    nchw = self._renamed(tensor, nchw, (n, c, *space))
                tensor.nhwc = self._moved(tensor, nchw, TO_LAST)
        return tensor.nhwc

    # Quantised tensors

    def real(self, name: str, x: Value) -> Value:
        """Real numbers that a quantised value stands for."""
        value = self.add(name, FLOAT32, x.shape)
        self.emit(Convert(**self.common("DequantizeLinear", [x], value)))
        return value

    def arranged(
        self, tensor: Tensor, name: str, arrange: Callable[[Array], Array], axes: tuple[int, int] = (0, 0)
    ) -> Value:
        """Value of a constant whose elements are arranged anew; of a dequantised one its integers are.

        Args:
            axes: where scales of channels lie in the tensor, and where after that.
        """
        stored = tensor.stored
        q = stored.quantisation if stored is not None else None
        if stored is None or stored.data is None or q is None or q.axis not in (None, axes[0]):
            data = tensor.known
            if data is None:
                raise AssertionError(f"'{tensor.name}' is not constant")
            return self.add_constant(name, arrange(data))
        moved = q if q.axis is None else dataclasses.replace(q, axis=axes[1])
        return self.real(name, self.add_constant(name, arrange(stored.data), moved))

    def _renamed(self, tensor: Tensor, value: Value, shape: Shape | None = None) -> Value:
        """The bytes of ``value`` in the shape of ``tensor``."""
        result = self.add(
            tensor.name,
            value.dtype,
            tensor.shape if shape is None else shape,
            tensor.quantisation or value.quantisation,
        )
        self.emit(Reshape(**self.common("Reshape", [value], result)))
        return result

    def reshaped_value(self, name: str, x: Value, shape: Shape) -> Value:
        """The bytes of a value in another shape."""
        if x.shape == shape:
            return x
        result = self.add(name, x.dtype, shape, x.quantisation)
        self.emit(Reshape(**self.common("Reshape", [x], result)))
        return result

    def _moved(self, tensor: Tensor, value: Value, order: Shape) -> Value:
        """Axes of a value in another order."""
        shape = tuple(value.shape[i] for i in order)
        if keeps_order(value.shape, order):
            return self._renamed(tensor, value, shape)
        result = self.add(tensor.name, value.dtype, shape, tensor.quantisation or value.quantisation)
        self.move(value, result, (regions.transpose(value.shape, order),), "Transpose")
        return result

    def transposed(self, x: Tensor, order: Shape, name: str) -> Tensor:
        """Axes of a tensor in another order."""
        source = self.value(x)
        result, y = self.output(name, x.dtype, tuple(x.shape[i] for i in order))
        self.move(source, y, (regions.transpose(x.shape, order),), "Transpose")
        return result

    def move(
        self, x: Value, y: Value, parts: tuple[Region, ...], kind: str, fill: float | None = None
    ) -> None:
        """Add copies of regions of one value."""
        self.emit(Move(**self.common(kind, [x], y), regions=parts, fill=fill))
