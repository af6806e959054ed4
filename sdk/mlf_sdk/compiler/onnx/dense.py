# SPDX-License-Identifier: Apache-2.0
"""Builders of matrix products, and of Einsum: sums, transpositions, products, an operand after the other."""

from __future__ import annotations

import math
import string
from collections.abc import Iterable

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.tensor import Shape, Tensor, check_broadcast
from mlf_sdk.compiler.operators import UNLIMITED, Call, FullyConnected, Map
from mlf_sdk.compiler.reals import MatMul, Reduce, Reduction


def gemm(context: Context, node: Node) -> None:
    """Gemm: a layer where its second operand is a real constant, a product of matrices otherwise."""
    a, b = node.input(0), node.input(1)
    alpha, beta = float(node.attribute("alpha", 1.0)), float(node.attribute("beta", 1.0))
    if a.rank != 2 or b.rank != 2:
        refuse(f"operands of {a.rank} and {b.rank} axes; both need two")
    _check_types(a, b)
    if node.attribute("transA", 0):
        a = _turned(context, a)
    rows, inner = a.shape
    turned = not node.attribute("transB", 0)
    depth, columns = b.shape if turned else b.shape[::-1]
    shape = (rows, columns)
    if depth != inner:
        refuse(f"operands {a.shape} and {b.shape} don't fit")
    c = node.input(2) if node.has(2) else None
    if c is not None:
        check_broadcast(c, shape)
    if b.known is None or a.dtype.kind != "f":
        name = node.name if c is None else ""
        b = b if turned else _turned(context, b)
        y = node.emit(MatMul, [a, b], a.dtype, shape, name if alpha == 1.0 else "")
        y = _scaled(context, node, y, alpha, name)
        rest = c and _scaled(context, node, c, beta, "")
    else:
        bias, rest = None, c
        if (
            c is not None
            and c.known is not None
            and (c.elements == 1 or c.shape in ((columns,), (1, columns)))
        ):
            bias = _scaled(context, node, c, beta, "")
            rest = None
        rest = rest and _scaled(context, node, rest, beta, "")
        weights = _scaled(context, node, b, alpha, "")
        y = _dense(context, node, a, weights, bias, shape, node.name if rest is None else "", turned=turned)
    if rest is not None:
        _binary(node, "add", (y, rest), shape, node.name)


def _turned(context: Context, x: Tensor) -> Tensor:
    """A matrix with its axes swapped."""
    if x.data is not None:
        return context.constant("", x.data.T)
    return context.transposed(x, (1, 0), "")


def _dense(
    context: Context,
    node: Node,
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    shape: Shape,
    name: str,
    *,
    turned: bool,
) -> Tensor:
    """Rows of x times a constant matrix.

    Args:
        weights: (input, output) where they are ``turned``, otherwise (output, input).
        bias: a constant of one element, or of one an output.
    """
    axes = (1 if turned else 0, 0)
    rows = context.arranged(weights, node.name + "_weights", lambda data: data.T if turned else data, axes)
    inputs = [context.value(x), rows]
    if bias is not None:
        columns = shape[-1]
        inputs.append(
            context.arranged(
                bias, node.name + "_bias", lambda data: np.broadcast_to(data.reshape(-1), (columns,)),
                (bias.rank - 1, 0) if bias.elements == columns else (-1, 0),
            )
        )  # fmt: skip
    return node.emit(FullyConnected, inputs, FLOAT32, shape, name, clamp=UNLIMITED)


def matrix_product(
    context: Context, node: Node, a: Tensor, b: Tensor, shape: Shape, name: str = ""
) -> Tensor:
    """Product of matrices: a layer where the second operand is one constant matrix of real numbers."""
    _check_types(a, b)
    data = b.known
    if data is not None and b.rank == 2 and data.dtype.kind == "f":
        return _dense(context, node, a, b, None, shape, name, turned=True)
    return node.emit(MatMul, [a, b], a.dtype, shape, name)


def _scaled(context: Context, node: Node, x: Tensor, by: float, name: str) -> Tensor:
    if by == 1.0:
        return x
    factor = np.array([by], x.dtype)
    if x.dtype.kind != "f" and factor[0] != by:
        refuse(f"{x.dtype} times {by}")
    if x.known is not None:
        return context.constant(name, x.known * factor[0])
    return _binary(node, "mul", (x, context.constant("", factor)), x.shape, name)


def _binary(node: Node, function: str, tensors: tuple[Tensor, Tensor], shape: Shape, name: str) -> Tensor:
    """Sum or product of numbers of one type."""
    return node.emit(Map, tensors, tensors[0].dtype, shape, name, expression=Call.of(function, 2))


def _check_types(a: Tensor, b: Tensor) -> None:
    """Refuse operands of a product of different types, or of 8 or 16 bits, whose sums need more."""
    if a.dtype != b.dtype or (a.dtype.kind != "f" and a.dtype.itemsize < 4):
        refuse(
            f"a product of {a.dtype} and {b.dtype}; real numbers or integers of 32 or 64 bits are supported"
        )


def product_shapes(a: Tensor, b: Tensor) -> tuple[Shape, Shape, Shape, Shape]:
    """Shapes of operands as matrices, of their product, and of the result, which lacks axes as they do."""
    if not a.rank or not b.rank:
        refuse("operands need at least one axis")
    left = a.shape if a.rank > 1 else (1, *a.shape)
    right = b.shape if b.rank > 1 else (*b.shape, 1)
    if left[-1] != right[-2]:
        refuse(f"operands {a.shape} and {b.shape} don't fit")
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        refuse(f"operands {a.shape} and {b.shape} don't fit")
    shape = (*batch, *((left[-2],) if a.rank > 1 else ()), *((right[-1],) if b.rank > 1 else ()))
    return left, right, (*batch, left[-2], right[-1]), shape


def mat_mul(context: Context, node: Node) -> None:
    """MatMul as in numpy."""
    a, b = node.input(0), node.input(1)
    _check_types(a, b)
    left, right, full, shape = product_shapes(a, b)
    if b.rank == 2 and b.known is not None and b.known.dtype.kind == "f":
        matrix_product(context, node, a, b, shape, node.name)
        return
    operands = [context.reshaped("", a, left), context.reshaped("", b, right)]
    y = node.emit(MatMul, operands, a.dtype, full, "")
    context.reshaped(node.name, y, shape)


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
        shape = self._shape(left)
        return left, self.node.emit(Reduce, [x], x.dtype, shape, "", function=Reduction.SUM, axes=axes)

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
