# SPDX-License-Identifier: Apache-2.0
"""Bytes are moved instead of real numbers.

What is quantised behind a concatenation, a padding or a transposition is quantised in front of it, and what
is cut out of dequantised numbers is cut out of their bytes. Functions of elements in between go along.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, Graph, Value
from mlf_sdk.compiler.operators import Array, Convert, Map, Move, Operator, Reshape
from mlf_sdk.compiler.passes.rewrite import Rewrite
from mlf_sdk.compiler.reference import evaluate


def move_bytes(graph: Graph) -> Graph:
    """Exchange moves of real numbers with the functions that make bytes of them, or make them of bytes."""
    for exchange in (_dequantise_after, _quantise_before):
        rewrite = Rewrite(graph)
        while exchange(rewrite):
            graph = rewrite.finish()
            rewrite = Rewrite(graph)
    return graph


def _quantise_before(rewrite: Rewrite) -> bool:
    """Let a function whose result is quantised stand in front of the move before; False: there is none."""
    graph, readers, makers = rewrite.graph, rewrite.readers(), rewrite.makers()
    for position, function in enumerate(graph.operators):
        moved = _operand(graph, function)
        if (
            moved is None
            or moved.dtype != FLOAT32
            or moved.id not in makers
            or not _is_quantised(rewrite, readers, function)
        ):
            continue
        maker = makers[moved.id]
        move = graph.operators[maker]
        if not isinstance(move, Move | Reshape) or len(move.outputs) != 1:
            continue
        inputs = graph.read(move)
        no_more = sum(v.elements for v in inputs) <= moved.elements
        fit = len(inputs) == 1 or any(v.data is not None or _is_of_bytes(graph, makers, v) for v in inputs)
        if no_more and fit and rewrite.only_reader(readers, moved.id) == position:
            rewrite.operators[position] = None
            rewrite.operators[maker : maker + 1] = _functions_moved(rewrite, function, moved, move)
            return True
    return False


def _functions_moved(
    rewrite: Rewrite, function: Operator, moved: Value, move: Move | Reshape
) -> list[Operator]:
    """A function of each input of a move, and the move of their results."""
    graph = rewrite.graph
    (y,) = graph.written(function)
    inputs: list[int] = []
    found: list[Operator] = []
    for x in graph.read(move):
        if x.data is not None:
            inputs.append(rewrite.constant(y, _result(graph, function, moved, x.data), y.quantisation))
            continue
        inputs.append(rewrite.value(y, name=x.name, shape=x.shape).id)
        found.append(_applied(function, moved, x.id, inputs[-1]))
    after = dataclasses.replace(move, inputs=tuple(inputs), outputs=(y.id,))
    if isinstance(after, Move) and after.fill is not None:
        filled = _result(graph, function, moved, np.array([after.fill], moved.dtype))
        after = dataclasses.replace(after, fill=float(filled[0]))
    return [*found, after]


def _dequantise_after(rewrite: Rewrite) -> bool:
    """Let a function that makes real numbers of bytes stand behind their moves; False: there is none."""
    graph, readers, makers = rewrite.graph, rewrite.readers(), rewrite.makers()
    for position, function in enumerate(graph.operators):
        x = _operand(graph, function)
        if x is None or not _is_of_bytes(graph, makers, x):
            continue
        (y,) = graph.written(function)
        moves = [(p, graph.operators[p]) for p in sorted(set(readers.get(y.id, [])))]
        if y.id in graph.outputs or y.dtype != FLOAT32 or not _cut(graph, y, [m for _, m in moves]):
            continue
        rewrite.operators[position] = None
        for place, (p, move) in enumerate(moves):
            (z,) = graph.written(move)
            part = rewrite.value(x, name=z.name, shape=z.shape)
            before = dataclasses.replace(move, inputs=(x.id,), outputs=(part.id,))
            after = _applied(function, x, part.id, z.id)
            rewrite.operators[p + place : p + place + 1] = [before, after]
        return True
    return False


def _cut(graph: Graph, y: Value, moves: list[Operator]) -> bool:
    """True for moves of one value without anything around it, together of no more elements than it has."""
    if not moves or not all(isinstance(m, Move) and m.fill is None and m.inputs == (y.id,) for m in moves):
        return False
    written = [v for m in moves for v in graph.written(m)]
    return len(written) == len(moves) and sum(v.elements for v in written) <= y.elements


def _operand(graph: Graph, operator: Operator) -> Value | None:
    """The value whose elements a function takes one by one; None for other operators."""
    if not isinstance(operator, Convert | Map):
        return None
    (y,) = graph.written(operator)
    varying = {v.id: v for v in graph.read(operator) if v.data is None}
    others = [v for v in graph.read(operator) if v.data is not None]
    if len(varying) != 1 or any(v.elements != 1 for v in others):
        return None
    (x,) = varying.values()
    return x if x.shape == y.shape else None


def _is_quantised(rewrite: Rewrite, readers: dict[int, list[int]], function: Operator) -> bool:
    """True for a function whose result becomes bytes, by itself or by the next functions."""
    while True:
        (y,) = rewrite.graph.written(function)
        if isinstance(function, Convert):
            return y.dtype.itemsize == 1 and y.quantisation is not None
        reader = rewrite.only_reader(readers, y.id)
        if reader is None or _operand(rewrite.graph, rewrite.graph.operators[reader]) is None:
            return False
        function = rewrite.graph.operators[reader]


def _is_of_bytes(graph: Graph, makers: dict[int, int], x: Value) -> bool:
    """True for bytes, and for what functions make of them."""
    while x.dtype.itemsize != 1:
        before = _operand(graph, graph.operators[makers[x.id]]) if x.id in makers else None
        if before is None:
            return False
        x = before
    return True


def _applied(function: Operator, old: Value, x: int, y: int) -> Operator:
    """The function of another value."""
    inputs = tuple(x if i == old.id else i for i in function.inputs)
    return dataclasses.replace(function, inputs=inputs, outputs=(y,))


def _result(graph: Graph, function: Operator, moved: Value, data: Array) -> Array:
    """Results of a function for known elements."""
    given = [data if v.id == moved.id else v.constant.reshape(-1)[0] for v in graph.read(function)]
    return evaluate(graph, function, [np.asarray(a) for a in given], [])[0].reshape(data.shape)
