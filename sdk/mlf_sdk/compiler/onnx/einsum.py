# SPDX-License-Identifier: Apache-2.0
"""Builder of Einsum: sums, transpositions and products of matrices, one operand after the other."""

from __future__ import annotations

import math
import string
from collections.abc import Iterable
from typing import Final

from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.dense import matrix_product
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.reals import Reduce, Reduction


def einsum(context: Context, node: Node) -> None:
    """Einsum, with an ellipsis and without diagonals."""
    tensors = node.inputs
    terms, result = _terms(str(node.attribute("equation", "")), tensors)
    sums = _Sums(context, node, _extents(terms, tensors))
    labels, results = terms[0], tensors[0]
    for place in range(1, len(terms)):
        needed = {*result, *(label for term in terms[place + 1 :] for label in term)}
        labels, results = sums.contracted((labels, results), (terms[place], tensors[place]), needed)
    labels, results = sums.summed(labels, results, set(result))
    context.reshaped(node.name, sums.turned(labels, results, result), tuple(sums.extents[e] for e in result))


def _terms(equation: str, tensors: list[Tensor]) -> tuple[list[str], str]:
    """Labels of the axes of each operand and of the result; an ellipsis has letters of its own."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        refuse(f"the equation {equation!r} of {len(tensors)} operands")
    free = [letter for letter in string.ascii_letters if letter not in equation]
    widest = ""
    for place, (term, tensor) in enumerate(zip(terms, tensors, strict=True)):
        count = tensor.rank - len(term.replace("...", ""))
        if count < 0 or ("..." not in term and count):
            refuse(f"the equation {equation!r} of an operand {tensor.shape}")
        letters = "".join(free[:count][::-1])  # counted from the last axis
        widest = max(widest, letters, key=len)
        terms[place] = term.replace("...", letters)
        if len(set(terms[place])) < len(terms[place]):
            refuse("diagonals are not supported")
    if not arrow:
        joined = left.replace("...", "").replace(",", "")
        result = "..." + "".join(sorted(e for e in set(joined) if joined.count(e) == 1))
    return terms, result.replace("...", widest)


def _extents(terms: list[str], tensors: list[Tensor]) -> dict[str, int]:
    result: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for label, extent in zip(term, tensor.shape, strict=True):
            if result.setdefault(label, extent) != extent:
                refuse(f"operands {', '.join(str(t.shape) for t in tensors)} don't fit")
    return result


class _Sums:
    """Operators that an Einsum is made of.

    Attributes:
        extents: of each label.
    """

    def __init__(self, context: Context, node: Node, extents: dict[str, int]) -> None:
        self.context, self.node, self.extents = context, node, extents

    def _shape(self, labels: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.extents[label] for label in labels)

    def summed(self, labels: str, x: Tensor, needed: set[str]) -> tuple[str, Tensor]:
        """A tensor summed along the axes that nothing needs."""
        axes = tuple(axis for axis, label in enumerate(labels) if label not in needed)
        if not axes:
            return labels, x
        left = "".join(label for label in labels if label in needed)
        source = self.context.value(x)
        result, y = self.context.output("", x.dtype, self._shape(left))
        self.context.emit(Reduce(**self.node.common([source], y), function=Reduction.SUM, axes=axes))
        return left, result

    def turned(self, labels: str, x: Tensor, wanted: str) -> Tensor:
        """A tensor with its axes in another order."""
        if set(labels) != set(wanted):
            refuse(f"the axes {wanted} of a result with {labels}")
        order = tuple(labels.index(label) for label in wanted)
        if order == tuple(range(len(order))):
            return x
        if x.data is not None:
            return self.context.constant("", x.data.transpose(order))
        return self.context.transposed(x, order, "")

    def contracted(
        self, first: tuple[str, Tensor], second: tuple[str, Tensor], needed: set[str]
    ) -> tuple[str, Tensor]:
        """Product of two operands, summed along the axes that nothing needs later."""
        own, a = self.summed(*first, needed | set(second[0]))
        other, b = self.summed(*second, needed | set(own))
        shared = [label for label in own if label in other]
        batch = "".join(label for label in shared if label in needed)
        inner = "".join(label for label in shared if label not in needed)
        left = "".join(label for label in own if label not in shared)
        right = "".join(label for label in other if label not in shared)
        rows, depth, columns = (math.prod(self._shape(part)) for part in (left, inner, right))
        a, b = self.turned(own, a, batch + left + inner), self.turned(other, b, batch + inner + right)
        outer = self._shape(batch)
        y = matrix_product(
            self.context, self.node,
            self.context.reshaped("", a, (*outer, rows, depth)),
            self.context.reshaped("", b, (*outer, depth, columns)),
            (*outer, rows, columns),
        )  # fmt: skip
        labels = batch + left + right
        return labels, self.context.reshaped("", y, self._shape(labels))


BUILDERS: Final = {"Einsum": einsum}
