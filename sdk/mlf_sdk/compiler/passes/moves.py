# SPDX-License-Identifier: Apache-2.0
"""Bytes are moved instead of real numbers.

What is quantised after a concatenation, a padding or a transposition is quantised before it, and what
is cut out of dequantised numbers is cut out of their bytes. Functions of elements in between go along.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, Graph, Value
from mlf_sdk.compiler.operators import (
    UNLIMITED,
    Array,
    Convert,
    Map,
    Move,
    Operator,
    Pool2D,
    PoolKind,
    Reshape,
)
from mlf_sdk.compiler.passes.rewrite import Rewrite
from mlf_sdk.compiler.reference import evaluate_one
from mlf_sdk.compiler.reference.maps import dequantised, nearest_even


def move_bytes(graph: Graph) -> Graph:
    """Exchange moves of real numbers with the functions that make bytes of them, or make them of bytes."""
    for exchange in (_dequantise_after, _quantise_before):
        rewrite = Rewrite(graph)
        pending = list(range(len(rewrite.operators)))
        while pending:
            position = pending.pop()
            if rewrite.operators[position] is not None:
                pending += exchange(rewrite, position)
        graph = rewrite.finish()
    return graph


def move_stored(graph: Graph) -> Graph:
    """Let moves, reshapes and comparisons of dequantised values take the bytes; results are dequantised."""
    rewrite = Rewrite(graph)
    for position, operator in enumerate(graph.operators):
        convert, stored = _dequantised(rewrite, operator)
        if convert is None:
            continue
        x, inputs, (y, *more) = stored[0], tuple(v.id for v in stored), rewrite.written(operator)
        if type(operator).__name__ == "ArgExtreme":
            rewrite.put(position, dataclasses.replace(operator, inputs=inputs))
        changed = _of_bytes(operator, x) if not more and y.dtype == FLOAT32 else None
        if changed is not None:
            part = rewrite.value(x, name=y.name, shape=y.shape)
            rewrite.insert(dataclasses.replace(changed, inputs=inputs, outputs=(part.id,)), position)
            rewrite.put(position, dataclasses.replace(convert, inputs=(part.id,), outputs=(y.id,)))
    return rewrite.finish()


def _dequantised(rewrite: Rewrite, operator: Operator) -> tuple[Convert | None, list[Value]]:
    """The conversion that made all inputs, and the bytes that it made them of, in one quantisation."""
    converts = [
        o
        for o in map(rewrite.maker, operator.inputs)
        if isinstance(o, Convert) and rewrite.written(o)[0].dtype == FLOAT32
    ]
    stored = [rewrite.read(o)[0] for o in converts]
    same = len(stored) == len(operator.inputs) and len({(v.dtype, v.quantisation) for v in stored}) == 1
    if not same or all(v.data is not None for v in stored) or stored[0].dtype.itemsize != 1:
        return None, []
    q = stored[0].quantisation
    return (converts[0], stored) if q is not None and q.axis is None else (None, [])


def _of_bytes(operator: Operator, x: Value) -> Operator | None:
    """The operator on stored values like ``x``; None where it does not just move them or compare them."""
    if isinstance(operator, Pool2D) and operator.function is PoolKind.MAX and operator.clamp == UNLIMITED:
        info = np.iinfo(x.dtype)
        return dataclasses.replace(operator, clamp=(int(info.min), int(info.max)))
    if isinstance(operator, Move) and operator.fill is not None:
        fill = nearest_even(x, np.array(operator.fill))
        exact = dequantised(x, fill) == np.float32(operator.fill)
        return dataclasses.replace(operator, fill=float(fill)) if exact else None
    return operator if isinstance(operator, Move | Reshape) else None


def _quantise_before(rewrite: Rewrite, position: int) -> list[int]:
    """Let a quantisation, and the functions before it, stand before the move of their operand.

    Returns:
        Positions of quantisations that may be exchanged since.
    """
    functions = _quantised_functions(rewrite, position)
    moved = _operand(rewrite, rewrite.operators[functions[0]]) if functions else None
    move = rewrite.maker(moved.id) if moved is not None else None
    if moved is None or not isinstance(move, Move | Reshape) or len(move.outputs) != 1:
        return []
    place = rewrite.makers[moved.id]
    inputs = rewrite.read(move)
    no_more = sum(v.elements for v in inputs) <= moved.elements
    fit = len(inputs) == 1 or any(v.data is not None or _is_of_bytes(rewrite, v) for v in inputs)
    if not no_more or not fit or rewrite.only_reader(moved.id) != functions[0]:
        return []
    chain = [operator for p in functions if (operator := rewrite.operators[p]) is not None]
    (y,) = rewrite.written(chain[-1])
    for each in functions:
        rewrite.put(each, None)
    results: list[int] = []
    made: list[int] = []
    for x in inputs:
        if x.data is not None:
            results.append(rewrite.constant(y, _results(rewrite, chain, x.data), y.quantisation))
            continue
        source = x.id
        for function in chain:
            (old,) = rewrite.written(function)
            target = rewrite.value(old, name=x.name, shape=x.shape).id
            made.append(rewrite.insert(_applied(rewrite, function, source, target), place))
            source = target
        results.append(source)
    after = dataclasses.replace(move, inputs=tuple(results), outputs=(y.id,))
    if isinstance(after, Move) and after.fill is not None:
        filled = _results(rewrite, chain, np.array([after.fill], moved.dtype))
        after = dataclasses.replace(after, fill=float(filled[0]))
    rewrite.put(place, after)
    return made


def _quantised_functions(rewrite: Rewrite, position: int) -> list[int]:
    """Positions of a quantisation to bytes and of the functions of real numbers that only it follows."""
    operator = rewrite.operators[position]
    (y,) = rewrite.written(operator) if isinstance(operator, Convert) else (None,)
    if y is None or y.dtype.itemsize != 1 or y.quantisation is None:
        return []
    result: list[int] = []
    operand = _operand(rewrite, operator)
    while operand is not None and operand.dtype == FLOAT32:
        result.insert(0, position)
        if rewrite.only_reader(operand.id) != position or operand.id not in rewrite.makers:
            break
        position = rewrite.makers[operand.id]
        operand = _operand(rewrite, rewrite.operators[position])
    return result


def _dequantise_after(rewrite: Rewrite, position: int) -> list[int]:
    """Let a function that makes real numbers of bytes stand after the moves of its result.

    Returns:
        Positions of functions that may be exchanged since.
    """
    function = rewrite.operators[position]
    x = _operand(rewrite, function)
    if function is None or x is None or not _is_of_bytes(rewrite, x):
        return []
    (y,) = rewrite.written(function)
    moves = {p: o for p in sorted(rewrite.readers.get(y.id, ())) if (o := rewrite.operators[p]) is not None}
    if y.id in rewrite.outputs or y.dtype != FLOAT32 or not _is_cut(rewrite, y, list(moves.values())):
        return []
    rewrite.put(position, None)
    for place, move in moves.items():
        (z,) = rewrite.written(move)
        part = rewrite.value(x, name=z.name, shape=z.shape)
        rewrite.put(place, _applied(rewrite, function, part.id, z.id))
        rewrite.insert(dataclasses.replace(move, inputs=(x.id,), outputs=(part.id,)), place)
    return [*moves, *([rewrite.makers[x.id]] if x.id in rewrite.makers else [])]


def _is_cut(rewrite: Rewrite, y: Value, moves: list[Operator]) -> bool:
    """True for moves of one value without anything around it, together of no more elements than it has."""
    if not moves or not all(isinstance(m, Move) and m.fill is None and m.inputs == (y.id,) for m in moves):
        return False
    written = [v for m in moves for v in rewrite.written(m)]
    return len(written) == len(moves) and sum(v.elements for v in written) <= y.elements


def _operand(rewrite: Rewrite, operator: Operator | None) -> Value | None:
    """The value whose elements a function takes one by one; None for other operators."""
    if not isinstance(operator, Convert | Map):
        return None
    (y,) = rewrite.written(operator)
    varying = {v.id: v for v in rewrite.read(operator) if v.data is None}
    others = [v for v in rewrite.read(operator) if v.data is not None]
    if len(varying) != 1 or any(v.elements != 1 for v in others):
        return None
    (x,) = varying.values()
    return x if x.shape == y.shape else None


def _is_of_bytes(rewrite: Rewrite, x: Value) -> bool:
    """True for bytes, and for what functions make of them."""
    while x.dtype.itemsize != 1:
        before = _operand(rewrite, rewrite.maker(x.id))
        if before is None:
            return False
        x = before
    return True


def _applied(rewrite: Rewrite, function: Operator, x: int, y: int) -> Operator:
    """The function of another value."""
    operand = _operand(rewrite, function)
    inputs = tuple(x if operand is not None and i == operand.id else i for i in function.inputs)
    return dataclasses.replace(function, inputs=inputs, outputs=(y,))


def _results(rewrite: Rewrite, functions: list[Operator], data: Array) -> Array:
    """Results of functions, each of the one before, for known elements."""
    for function in functions:
        reads = rewrite.read(function)
        given = [data if v.data is None else v.constant.reshape(-1)[0] for v in reads]
        (result,) = evaluate_one(rewrite.values, function, [np.asarray(a) for a in given])
        data = result.reshape(data.shape)
    return data
