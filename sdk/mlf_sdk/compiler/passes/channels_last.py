# SPDX-License-Identifier: Apache-2.0
"""Values with their channels last, as `sink_transpositions` makes them."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import Value
from mlf_sdk.compiler.operators import Array, Convert, Move, Operator, Reshape
from mlf_sdk.compiler.passes.rewrite import Rewrite
from mlf_sdk.compiler.reference import evaluate_one
from mlf_sdk.compiler.regions import (
    TO_FIRST,
    TO_LAST,
    Shape,
    axis_with_channels_last,
    keeps_order,
    shape_with_channels_last,
    with_channels_last,
)

_Operator = TypeVar("_Operator", bound=Operator)


def _arranged(data: Array, rank: int) -> Array:
    """A constant operand of an expression with its channels last."""
    whole = data.reshape((1,) * (rank - data.ndim) + data.shape)
    return whole.reshape(-1) if data.size == 1 else with_channels_last(whole)


class Layout:
    """Values with the channels last, beside those in the order of the format.

    Attributes:
        last: for a value that was made from one with its channels last: that one.
        turned: for a value, one with its channels last that was made from it.
        flat: for rows that were flattened from such a value: its rows as they lie, and where each element is.
        planes: for a value of (planes, height, width, 1): the same with channels last.
        same: for a value with an axis of one element more or less: the one that it is made of.
    """

    def __init__(self, rewrite: Rewrite) -> None:
        self.rewrite = rewrite
        self.last: dict[int, int] = {}
        self.turned: dict[int, int] = {}
        self.flat: dict[int, tuple[int, Array]] = {}
        self.planes: dict[int, int] = {}
        self.same: dict[int, int] = {}

    def value(self, number: int) -> Value:
        """A value by its number, or what is read instead of it."""
        return self.rewrite.values[self.rewrite.current(number)]

    def agree(self, x: Value, y: Value) -> bool:
        """Return whether the elements of two values are the same numbers; of bytes, one may state as what."""
        if x.quantisation is None and y.quantisation is not None:
            for number in {x.id, self.last.get(x.id, x.id), self.turned.get(x.id, x.id)}:
                value = self.rewrite.values[number]
                self.rewrite.values[number] = dataclasses.replace(value, quantisation=y.quantisation)
            return True
        return x.quantisation == y.quantisation

    def insert(self, operator: _Operator, x: int, y: Value, position: int, **changes: Any) -> int:  # noqa: ANN401
        """Add an operator like another one that makes ``y`` of ``x``; return its output."""
        changed = dataclasses.replace(operator, inputs=(x,), outputs=(y.id,), **changes)
        self.rewrite.insert(changed, position)
        return y.id

    def reshaped(self, operator: Operator, x: int, y: Value, position: int) -> int:
        """Add a reshape; return its output."""
        like = Reshape(number=operator.number, kind="Reshape", inputs=(), outputs=())
        return self.insert(like, x, y, position)

    def transposed(self, operator: Operator, x: int, order: Shape, position: int) -> int:
        """Axes of a value in another order; its bytes where they stay in theirs."""
        given = self.value(x)
        y = self.rewrite.value(given, shape=tuple(given.shape[i] for i in order))
        if keeps_order(given.shape, order):
            return self.reshaped(operator, x, y, position)
        like = Move(
            number=operator.number, kind="Transpose", inputs=(), outputs=(),
            regions=(regions.transpose(given.shape, order),),
        )  # fmt: skip
        return self.insert(like, x, y, position)

    def as_last(self, number: int, operator: Operator, position: int) -> int:
        """A value with its channels last: the one that exists, or one that is made in front of a position."""
        number = self.rewrite.current(number)
        known = self.last.get(number, self.turned.get(number))
        if known is not None:
            return known
        x, maker = self.rewrite.values[number], self.rewrite.maker(number)
        if number in self.same:
            result = self.as_last(self.same[number], operator, position)
        elif x.data is not None:
            q = x.quantisation
            if q is not None and q.axis is not None:
                q = dataclasses.replace(q, axis=axis_with_channels_last(q.axis, len(x.shape)))
            result = self.rewrite.constant(x, with_channels_last(x.data), q)
        elif isinstance(maker, Convert) and self.value(maker.inputs[0]).dtype.itemsize == 1:
            source = self.as_last(maker.inputs[0], operator, position)
            result = self.insert(maker, source, self.like(x), position)
        else:
            four = number
            n, *space, c = shape_with_channels_last(x.shape)
            if x.shape != (n, c, *space):
                y = self.rewrite.value(x, shape=(n, c, *space))
                four = self.reshaped(operator, number, y, position)
            result = self.transposed(operator, four, TO_LAST, position)
        self.turned[number] = result
        return result

    def like(self, x: Value) -> Value:
        """A new value like one in the order of the format, with its channels last."""
        return self.rewrite.value(x, shape=shape_with_channels_last(x.shape))

    def operand(self, number: int, rank: int, operator: Operator, position: int) -> int:
        """An operand of an expression with its channels last; constants are broadcast as before."""
        x = self.value(number)
        maker = self.rewrite.maker(x.id)
        given = self.value(maker.inputs[0]) if isinstance(maker, Convert) else x
        if given.data is None:
            one = x.elements == 1 and len(x.shape) != rank
            return x.id if one else self.as_last(x.id, operator, position)
        q = given.quantisation
        if maker is not None and (q is None or q.axis is not None):
            (data,) = evaluate_one(self.rewrite.values, maker, [given.data])
            return self.rewrite.constant(x, _arranged(data.reshape(x.shape), rank), None)
        constant = self.rewrite.constant(given, _arranged(given.data.reshape(x.shape), rank), q)
        if maker is None:
            return constant
        shape = self.rewrite.values[constant].shape
        return self.insert(maker, constant, self.rewrite.value(x, shape=shape), position)

    def put_last(self, position: int, operator: Operator, inputs: tuple[int, ...], **changes: Any) -> None:  # noqa: ANN401
        """Replace an operator by one whose result has the channels last; what it wrote is made of that."""
        (y,) = self.rewrite.written(operator)
        target = self.like(y)
        changed = dataclasses.replace(operator, inputs=inputs, outputs=(target.id,), **changes)
        self.rewrite.insert(changed, position)
        self.put_back(position, operator, target.id, y)
        self.last[y.id] = target.id

    def put_back(self, position: int, operator: Operator, x: int, y: Value) -> None:
        """Make ``y`` in the place of an operator: ``x`` with its channels first, in the shape of ``y``."""
        given = self.value(x)
        keeps, shape = keeps_order(given.shape, TO_FIRST), tuple(given.shape[i] for i in TO_FIRST)
        number, outputs = operator.number, (y.id,)
        if keeps or shape != y.shape:
            source = x if keeps else self.transposed(operator, x, TO_FIRST, position)
            back: Operator = Reshape(number=number, kind="Reshape", inputs=(source,), outputs=outputs)
        else:
            parts = (regions.transpose(given.shape, TO_FIRST),)
            back = Move(number=number, kind="Transpose", inputs=(x,), outputs=outputs, regions=parts)
        self.rewrite.put(position, back)
