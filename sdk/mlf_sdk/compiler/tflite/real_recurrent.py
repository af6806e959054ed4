# SPDX-License-Identifier: Apache-2.0
"""SVDF and LSTM of real numbers, made of other operators.

SVDF: products of the input with the features go to the end of lines of the past, one a filter; these are
weighted, and the sums of ``rank`` lines each are the outputs.

LSTM: products of the sequence with the weights of all gates stand before the operator that ONNX's has, too.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import State, Value, refuse
from mlf_sdk.compiler.operators import (
    UNLIMITED,
    Call,
    FullyConnected,
    Map,
    Move,
    ReadState,
    Reshape,
    WriteState,
)
from mlf_sdk.compiler.reals import Reduce, Reduction
from mlf_sdk.compiler.recurrences import Cell, Recurrent
from mlf_sdk.compiler.tflite.context import Context, clamp, expect_shape
from mlf_sdk.compiler.tflite.file import RawOperator

_GATES = (0, 3, 1, 2)  # of `Recurrent` in the order of the file


def real_svdf(
    context: Context,
    operator: RawOperator,
    values: list[Value],
    y: Value,
    state: int,
    rank: int,
    activation: int,
) -> None:
    """Add the layer.

    Args:
        values: input, features (filters, inputs), weights of the past (filters, memory), and maybe a bias.
        state: number of the state with the lines.
    """
    x, features, times, *bias = values
    _check(context.states[state], values, y, rank)
    (filters, _), memory, batches = features.shape, times.shape[1], y.shape[0]
    fresh = context.add(f"{y.name}_products", y.dtype, (batches, filters))
    context.add_operator(FullyConnected, operator, [x, features], fresh, clamp=UNLIMITED)
    lines = _shifted(context, operator, fresh, state, memory)
    units = filters // rank
    add = partial(context.add, dtype=y.dtype)
    cube = add(f"{y.name}_lines", shape=(batches, filters, memory))
    weighted = add(f"{y.name}_weighted", shape=(batches, filters, memory))
    rows, total = (
        add(f"{y.name}_rows", shape=(batches, units, rank * memory)),
        add(f"{y.name}_sums", shape=y.shape),
    )
    context.add_operator(Reshape, operator, [lines], cube)
    context.add_operator(Map, operator, [cube, times], weighted, expression=Call.of("mul", 2))
    context.add_operator(Reshape, operator, [weighted], rows)
    context.add_operator(Reduce, operator, [rows], total, function=Reduction.SUM, axes=(2,))
    term = bias[0] if bias else context.add_constant(f"{y.name}_bias", np.zeros(units, np.float32))
    total_with_bias = Call.of("add", 2).limited(clamp(activation, y))
    context.add_operator(Map, operator, [total, term], y, expression=total_with_bias)


def _check(state: State, values: list[Value], y: Value, rank: int) -> None:
    x, features, times, *bias = values
    if any(v.dtype != np.float32 for v in (*values, y)) or state.dtype != np.float32:
        refuse(f"activations of type {x.dtype} to {y.dtype} with a state of type {state.dtype}")
    if any(v.data is None for v in values[1:]) or len(features.shape) != 2 or len(times.shape) != 2:
        refuse("weights that are not constant, or have not two dimensions")
    filters, inputs = features.shape
    if rank < 1 or not inputs or filters % rank or times.shape[0] != filters or x.elements % inputs:
        refuse(f"features {features.shape} and weights {times.shape} of rank {rank} for an input {x.shape}")
    batches = x.elements // inputs
    if state.shape != (batches, filters * times.shape[1]):
        refuse(f"a state of shape {state.shape}; {(batches, filters * times.shape[1])} follows")
    expect_shape(y, (batches, filters // rank))
    for value in bias:
        expect_shape(value, (filters // rank,))


def _shifted(context: Context, operator: RawOperator, fresh: Value, state: int, memory: int) -> Value:
    """The lines of the state with new last elements, which are its next value."""
    batches, filters = fresh.shape
    if memory == 1:  # nothing of the past is left
        context.add_operator(WriteState, operator, [fresh], state=state)
        return fresh
    shape = (batches, filters * memory)
    old = context.add(f"{fresh.name}_before", fresh.dtype, shape)
    lines = context.add(f"{fresh.name}_after", fresh.dtype, shape)
    context.add_operator(ReadState, operator, [], old, state=state)
    steps = (filters * memory, memory, 1)
    moved = (
        regions.box((batches, filters, memory - 1), steps, steps, source_offset=1),
        regions.box((batches, filters), (filters, 1), steps[:2], target_offset=memory - 1, input=1),
    )
    context.add_operator(Move, operator, [old, fresh], lines, regions=moved)
    context.add_operator(WriteState, operator, [lines], state=state)
    return lines


def real_lstm(
    context: Context,
    operator: RawOperator,
    values: list[Value],
    y: Value,
    states: tuple[int, int],
    clip: float,
) -> None:
    """Add the layer.

    Args:
        values: input (steps, batches, inputs); four weights of it, four of the hidden value, four biases, in
            the order of the gates input, forget, cell, output.
        y: hidden values (steps, batches, units).
        states: numbers of the hidden and of the cell value.
        clip: limit of cell values; 0 for none.
    """
    x, *constants = values
    weights, recurrent, biases = (
        np.concatenate([constants[first + gate].constant for gate in _GATES]) for first in (0, 4, 8)
    )
    steps, batches, units = y.shape
    gates = context.add(f"{y.name}_gates", y.dtype, (steps, batches, 4 * units))
    read = (
        x,
        context.add_constant(f"{y.name}_weights", weights),
        context.add_constant(f"{y.name}_bias", biases),
    )
    context.add_operator(FullyConnected, operator, read, gates, clamp=UNLIMITED)
    before, after = (
        [context.add(f"{y.name}_{name}_{when}", y.dtype, (batches, units)) for name in ("hidden", "cell")]
        for when in ("before", "after")
    )
    for value, state in zip(before, states, strict=True):
        context.add_operator(ReadState, operator, [], value, state=state)
    known = [context.add_constant(f"{y.name}_recurrent", recurrent)]
    known.append(context.add_constant(f"{y.name}_no_bias", np.zeros(4 * units, np.float32)))
    context.add_operator(
        Recurrent,
        operator,
        [gates, *known, *before],
        y,
        *after,
        cell=Cell.LSTM,
        reverse=False,
        activations=("sigmoid", "tanh", "tanh"),
        cell_clip=clip,
    )
    for value, state in zip(after, states, strict=True):
        context.add_operator(WriteState, operator, [value], state=state)
