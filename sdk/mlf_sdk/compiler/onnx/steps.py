# SPDX-License-Identifier: Apache-2.0
"""Standard nodes that stand for one operator of classical machine learning."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.file import AttributeValue, foldable
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.raw import RawNode, text_of
from mlf_sdk.compiler.onnx.tensor import Shape
from mlf_sdk.compiler.operators import Array, Operator

_REAL, _INT64 = 1, 7  # element types in ONNX's numbers


class Steps:
    """Nodes so far; each method adds some and returns the name of their result."""

    def __init__(self, context: Context, raw: RawNode) -> None:
        self.context, self.raw, self.node = context, raw, Node(context, raw)
        self.nodes: list[RawNode] = []
        self.count = 0

    def wants(self, position: int) -> bool:
        """Return whether an output of the operator is read."""
        return self.node.wants(position)

    def name(self) -> str:
        """A new name."""
        self.count += 1
        return f"{self.raw.outputs[0]} of {self.raw.kind} {self.raw.number}.{self.count}"

    @property
    def kind(self) -> str:
        """Name of the operator without its domain."""
        return self.raw.kind.rpartition(".")[2]

    def constant(self, data: AttributeValue, dtype: type = np.float32) -> str:
        """A constant."""
        name = self.name()
        self.context.constant(name, np.asarray(data, dtype))
        return name

    def add(self, kind: str, *inputs: str, output: str = "", **attributes: AttributeValue) -> str:
        """A node of a standard operator, which is computed at once where what it reads is constant."""
        output = output or self.name()
        node = self.raw.replaced(kind, inputs, output, **attributes)
        self.nodes.append(node if "axes" in attributes else foldable(node))  # by version, axes are an input
        return output

    def emit(
        self, kind: type[Operator], x: Value, shape: Shape, dtype: np.dtype[Any], **fields: AttributeValue
    ) -> Value:
        """Add an operator of one input; its output."""
        _, y = self.context.output(self.name(), dtype, shape)
        self.context.emit(kind(**self.context.common(self.kind, [x], y), **fields))
        return y

    def real(self, position: int = 0) -> str:
        """An input as real numbers."""
        self.node.input(position)
        return self.add("Cast", self.raw.inputs[position], to=_REAL)

    def rows(self) -> tuple[str, int]:
        """The input as rows (n, features), and the number of features; a vector is one row."""
        x = self.node.input()
        if x.rank not in (1, 2):
            refuse(f"an input {x.shape}; rows of features are supported")
        shape = self.constant((x.shape if x.rank == 2 else (1, *x.shape)), np.int64)
        return self.add("Reshape", self.real(), shape), x.shape[-1]

    def is_rows(self) -> bool:
        """True where the input is rows of real numbers; otherwise it is made so in front of the same node."""
        x = self.node.input()
        if x.dtype == FLOAT32 and x.rank == 2:
            return True
        name, _ = self.rows()
        self.nodes.append(dataclasses.replace(self.raw, inputs=(name,)))
        return False

    def numbers(self, name: str, *, default: AttributeValue = None) -> Array:
        """Finite real numbers of an attribute, as one axis."""
        attribute = self.node.attribute(name, default)
        if attribute is None:
            refuse(f"the attribute {name} is missing")
        array = np.asarray(attribute, np.float32).reshape(-1)
        if not np.isfinite(array).all():
            refuse(f"the attribute {name} holds numbers that are not finite")
        return array

    def transformed(self, scores: str, width: int) -> None:
        """Results after the operator's ``post_transform``; of one score a row, PROBIT alone changes it."""
        kind = str(self.node.attribute("post_transform", "NONE"))
        output = self.raw.outputs[-1]
        if kind not in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"):
            refuse(f"the transformation {kind} is not known")
        if kind == "PROBIT":
            self._probit(scores, output)
        elif kind == "NONE" or width == 1:
            self.add("Identity", scores, output=output)
        elif kind == "SOFTMAX":
            self.add("Softmax", scores, output=output, axis=1)
        elif kind == "LOGISTIC":
            self.add("Sigmoid", scores, output=output)
        else:
            self._softmax_zero(scores, output)

    def _softmax_zero(self, scores: str, output: str) -> None:
        """Softmax of the scores that are not 0; the others stay 0."""
        most = self.add("ReduceMax", scores, axes=[1], keepdims=1)
        powers = self.add("Exp", self.add("Sub", scores, most))
        rest = self.add("Mul", scores, self.add("Exp", self.add("Neg", most)))
        large = self.add("Greater", self.add("Abs", scores), self.constant(1e-7))
        total = self.add("Where", large, powers, self.constant(0))
        total = self.add("ReduceSum", total, axes=[1], keepdims=1)
        self.add("Div", self.add("Where", large, powers, rest), total, output=output)

    def _probit(self, scores: str, output: str) -> None:
        """Winitzki's approximation of the inverse normal distribution, as ONNX Runtime computes it."""
        one, shape = self.constant(1), 0.147
        x = self.add("Sub", self.add("Mul", scores, self.constant(2)), one)
        log = self.add("Log", self.add("Mul", self.add("Sub", one, x), self.add("Add", one, x)))
        v = self.add("Mul", log, self.constant(0.5))
        v = self.add("Add", v, self.constant(2 / (math.pi * shape)))
        square = self.add("Sub", self.add("Mul", v, v), self.add("Mul", log, self.constant(1 / shape)))
        root = self.add("Sqrt", self.add("Sub", self.add("Sqrt", square), v))
        signed = self.add("Mul", root, self.add("Sign", x))
        self.add("Mul", signed, self.constant(math.sqrt(2)), output=output)

    # Labels of classes

    def labels(self, *names: str) -> Array:
        """Labels of the classes as whole numbers; of strings, their places.

        Args:
            names: attributes with whole numbers and with strings.
        """
        whole, strings = (self.node.attribute(name, ()) for name in names)
        if bool(len(whole)) == bool(len(strings)):
            refuse(f"one of the attributes {' and '.join(names)} names the classes")
        if len(whole):
            return np.asarray(whole, np.int64)
        self.context.strings[self.raw.outputs[0]] = text_of(strings)
        return np.arange(len(strings), dtype=np.int64)

    def chosen(self, places: str, labels: Array) -> None:
        """Label of each row, the first output, by the place of its class."""
        if (labels == np.arange(labels.size)).all():
            self.add("Identity", places, output=self.raw.outputs[0])
        else:
            known = self.constant(labels, np.int64)
            self.add("Gather", known, places, output=self.raw.outputs[0], axis=0)

    def largest(self, scores: str, labels: Array) -> None:
        """Label of each row by the first largest score."""
        self.chosen(self.add("ArgMax", scores, axis=1, keepdims=0), labels)

    def above(self, score: str, limit: float, labels: Array) -> None:
        """Label of each row by one score (n, 1): the second of two where it is larger than a limit."""
        truth = self.add("Greater", score, self.constant(limit))
        flat = self.add("Reshape", self.add("Cast", truth, to=_INT64), self.constant([-1], np.int64))
        self.chosen(flat, labels)

    def two_classes(self, score: str, *, complement: bool) -> None:
        """Scores of two classes by the second one's (n, 1).

        Args:
            complement: the first one's is 1 less that, otherwise its negative; LOGISTIC takes both from it.
        """
        kind, output = self.node.attribute("post_transform", "NONE"), self.raw.outputs[-1]
        if kind == "PROBIT":
            refuse("PROBIT of one score for two classes is not defined")
        if kind == "LOGISTIC" or not complement:
            other = self.add("Neg", score)
        else:
            other = self.add("Sub", self.constant(1), score)
        both = self.add("Concat", other, score, axis=1)
        self.add("Sigmoid" if kind == "LOGISTIC" else "Identity", both, output=output)
