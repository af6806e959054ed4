# SPDX-License-Identifier: Apache-2.0
"""Builders of recurrent layers: one operator a direction, the products with the sequence before it."""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import FLOAT32, Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.operators import UNLIMITED, Array, FullyConnected, Move
from mlf_sdk.compiler.recurrences import Cell, Recurrent

GATES: Final = {"LSTM": 4, "GRU": 3, "RNN": 1}
_DEFAULTS: Final = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}
_KNOWN: Final = {"sigmoid", "tanh", "relu"}


def recurrent(context: Context, node: Node) -> None:
    """LSTM, GRU and RNN in one or two directions."""
    layer = _Layer(context, node)
    ends = [layer.direction(d) for d in range(layer.directions)]
    layer.finish(ends)


class _Layer:
    def __init__(self, context: Context, node: Node) -> None:
        self.context, self.node = context, node
        x = node.input(0)
        self.weights, self.recurrence = node.data(1, "weights"), node.data(2, "recurrent weights")
        if x.rank != 3 or self.weights.ndim != 3 or self.recurrence.ndim != 3:
            refuse("its input or its weights don't have three axes")
        self.directions, rows, self.hidden = self.recurrence.shape
        self.gates = GATES[node.kind]
        direction = node.attribute("direction", "forward")
        if self.directions != (2 if direction == "bidirectional" else 1) or rows != self.gates * self.hidden:
            refuse(f"recurrent weights {self.recurrence.shape} of a layer that is {direction}")
        self.reverse = (False, True) if direction == "bidirectional" else (direction == "reverse",)
        if node.attribute("layout", 0):
            self.batch, self.steps, self.inputs = x.shape
            x = context.transposed(x, (1, 0, 2), "")
        else:
            self.steps, self.batch, self.inputs = x.shape
        if self.weights.shape != (self.directions, rows, self.inputs):
            refuse(f"weights {self.weights.shape} for an input {x.shape}")
        if node.has(3) and node.input(3).shape != (self.directions, 2 * rows):
            refuse(f"biases {node.input(3).shape}; {(self.directions, 2 * rows)} are needed")
        if node.attribute("clip") is not None or node.attribute("input_forget", 0):
            refuse("clip and input_forget are not supported")
        if node.has(7) and np.any(node.data(7, "peepholes")):
            refuse("peepholes are not supported")
        if node.has(4) and (node.data(4, "lengths of sequences") != self.steps).any():
            refuse("sequences shorter than the input are not supported")
        self.x = context.value(x)
        self.names = self._activations()
        self.after = bool(node.attribute("linear_before_reset", 0))

    def _activations(self) -> tuple[str, ...]:
        given = self.node.attribute("activations")
        if not given:
            return _DEFAULTS[self.node.kind]
        names = tuple((n.decode() if isinstance(n, bytes) else n).lower() for n in given)
        count = len(_DEFAULTS[self.node.kind])
        if not set(names) <= _KNOWN or names[:count] != names[-count:]:
            refuse(f"the activations {', '.join(names)} are not supported; Sigmoid, Tanh and Relu are")
        return names[:count]

    def _constant(self, data: Array) -> Value:
        return self.context.add_constant(self.node.name + "_weights", data.astype(np.float32))

    def _start(self, position: int, direction: int) -> Value:
        shape = (self.batch, self.hidden)
        if not self.node.has(position):
            return self._constant(np.zeros(shape))
        tensor = self.node.input(position)
        if self.node.attribute("layout", 0):
            refuse("initial values together with layout 1 are not supported")
        if tensor.data is not None:
            return self._constant(tensor.data[direction])
        source = self.context.value(tensor)
        if self.directions == 1:
            return self.context.value(self.context.reshaped("", tensor, shape))
        value = self.context.add(tensor.name, FLOAT32, shape)
        part = regions.strided_slice(source.shape, (direction, 0, 0), (1, 1, 1), (1, *shape))
        self.context.move(source, value, (part,), self.node.kind)
        return value

    def direction(self, d: int) -> list[Value]:
        """Values of one direction: all hidden ones, the last, the last of the cell."""
        context, node = self.context, self.node
        size = self.gates * self.hidden
        bias = node.data(3, "biases")[d] if node.has(3) else np.zeros(2 * size)
        own, other = bias[:size], bias[size:]
        product = context.add(node.name + "_gates", FLOAT32, (self.steps, self.batch, size))
        inputs = (self.x, self._constant(self.weights[d]), self._constant(own))
        context.emit(FullyConnected(**node.common(inputs, product), clamp=UNLIMITED))
        reads = [product, self._constant(self.recurrence[d]), self._constant(other), self._start(5, d)]
        shapes = [(self.steps, self.batch, self.hidden), (self.batch, self.hidden)]
        if node.kind == "LSTM":
            reads.append(self._start(6, d))
            shapes.append((self.batch, self.hidden))
        written = [context.add(f"{node.name}_{i}", FLOAT32, s) for i, s in enumerate(shapes)]
        context.emit(
            Recurrent(
                **node.common(reads, *written),
                cell=Cell(node.kind.lower()),
                reverse=self.reverse[d],
                activations=self.names,
                reset_after=self.after,
            )
        )
        return written

    def finish(self, ends: list[list[Value]]) -> None:
        """Put the directions together as the outputs of the node."""
        steps, batch, hidden = self.steps, self.batch, self.hidden
        turned = bool(self.node.attribute("layout", 0))
        for position, name in enumerate(self.node.raw.outputs):
            if not name:
                continue
            parts = [end[position] for end in ends]
            whole = position == 0
            shape = (steps, self.directions, batch, hidden) if whole else (self.directions, batch, hidden)
            order: tuple[int, ...] = tuple(range(len(shape)))
            if turned:
                order = (2, 0, 1, 3) if whole else (1, 0, 2)
            if self.directions == 1 and not turned:
                base = Tensor(name=name, dtype=FLOAT32, shape=parts[0].shape, nchw=parts[0])
                self.context.reshaped(name, base, shape)
                continue
            result = tuple(shape[i] for i in order)
            _, y = self.context.output(name, FLOAT32, result)
            to = regions.strides(result)
            step = tuple(to[order.index(i)] for i in range(len(shape)))
            pieces = []
            for d, _part in enumerate(parts):
                extents = (steps, batch, hidden) if whole else (batch, hidden)
                target = (step[0], *step[2:]) if whole else step[1:]
                pieces.append(
                    regions.box(
                        extents, regions.strides(extents), target, input=d,
                        target_offset=d * (step[1] if whole else step[0]),
                    )
                )  # fmt: skip
            self.context.emit(Move(**self.node.common(parts, y), regions=tuple(pieces)))


BUILDERS: Final = dict.fromkeys(GATES, recurrent)
