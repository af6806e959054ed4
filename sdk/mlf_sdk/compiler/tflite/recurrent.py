# SPDX-License-Identifier: Apache-2.0
"""Builders of layers that keep values from one run to the next: SVDF and LSTM."""

from __future__ import annotations

import math

import numpy as np

from mlf_sdk.compiler.graph import State, Value, refuse
from mlf_sdk.compiler.recurrences import Lstm, Svdf
from mlf_sdk.compiler.tflite.context import Context, clamp, expect_elements, expect_shape
from mlf_sdk.compiler.tflite.file import RawOperator
from mlf_sdk.compiler.tflite.hybrid import real_weights
from mlf_sdk.compiler.tflite.real_recurrent import real_lstm, real_svdf
from mlf_sdk.compiler.tflite.tensors import RawTensor

_TANH = 4
_INPUTS = 24
_STEPS_FIRST = (1, 0, 2)
_ABSENT = {**dict.fromkeys(range(9, 12), "peephole connections"), 16: "a projection", 17: "a projection",
           **dict.fromkeys(range(20, 24), "layer normalisation")}  # fmt: skip


def variable(context: Context, number: int) -> int:
    """State of a variable tensor; it begins at the zero point of int8 values and at 0 otherwise."""
    tensor = context.raw.tensors[number]
    if tensor.dtype is None or tensor.dtype.kind not in "if":
        refuse(f"the state '{tensor.name}' of type {tensor.dtype}")
    if number in context.variables:
        return context.variables[number]
    scale, zero = _quantised(tensor)
    first = zero if tensor.dtype == np.int8 else 0
    context.variables[number] = len(context.states)
    context.states.append(
        State(
            name=tensor.name, dtype=tensor.dtype, shape=tensor.shape, scale=scale, zero_point=zero,
            initial=np.full(tensor.shape, first, tensor.dtype),
        )
    )  # fmt: skip
    return context.variables[number]


def _quantised(tensor: RawTensor) -> tuple[float, int]:
    quantisation = tensor.quantisation
    return (quantisation.scale[0], quantisation.zero_point[0]) if quantisation is not None else (0.0, 0)


def svdf(context: Context, operator: RawOperator) -> None:
    """SVDF of int8 or real activations."""
    options = operator.options("SVDFOptions") or refuse("has no options")
    present = [i for i in operator.inputs if i >= 0]
    if len(operator.inputs) != 5 or len(present) < 4 or operator.inputs[4] < 0:
        refuse(f"has {len(present)} inputs; 5 are needed")
    x, features, times = (context.input(i) for i in operator.inputs[:3])
    bias = [context.input(operator.inputs[3])] if operator.inputs[3] >= 0 else []
    line = context.raw.tensors[operator.inputs[4]]
    y = context.output(operator)
    if x.dtype == np.float32:
        values = [x, *real_weights(context, operator, x, features, times), *bias]
        state, activation = variable(context, operator.inputs[4]), options.FusedActivationFunction()
        real_svdf(context, operator, values, y, state, options.Rank(), activation)
        return
    if x.dtype != np.int8 or line.dtype is None or line.dtype.kind != "i" or line.quantisation is None:
        refuse(f"activations of type {x.dtype} with a state of type {line.dtype}: int8 is supported")
    if features.dtype != np.int8 or times.dtype not in (np.int8, np.int16):
        refuse(f"weights of types {features.dtype} and {times.dtype}: int8, and int8 or int16 are supported")
    rank = options.Rank()
    if features.data is None or times.data is None or rank < 1 or features.shape[0] % rank:
        refuse("weights that are not constant, or a rank that does not divide their filters")
    expect_elements(y, x.shape[0] * features.shape[0] // rank)
    # Whatever the activation, TFLM limits int8 results to their type: converters put it into the zero point.
    context.add_operator(
        Svdf,
        operator,
        [x, features, times, *bias],
        y,
        rank=rank,
        state=variable(context, operator.inputs[4]),
        clamp=clamp(0, y),
    )


def lstm(context: Context, operator: RawOperator) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of int8, int16 or float activations, without variants."""
    options = operator.options("UnidirectionalSequenceLSTMOptions") or refuse("has no options")
    ids = operator.inputs
    if len(ids) not in (20, _INPUTS):
        refuse(f"has {len(ids)} inputs; {_INPUTS} are needed")
    for position, what in _ABSENT.items():
        if position < len(ids) and ids[position] >= 0:
            refuse(f"{what}; a plain LSTM is supported")
    if min(ids[i] for i in (*range(9), *range(12, 16), 18, 19)) < 0:
        refuse("a weight, bias or state is absent; a plain LSTM has all four gates")
    if options.FusedActivationFunction() != _TANH or options.DiagonalRecurrentTensors():
        refuse("another activation than tanh, or diagonal recurrent weights")
    x, *constants = (context.input(i) for i in (*ids[:9], *ids[12:16]))
    constants[:8] = real_weights(context, operator, x, *constants[:8])
    y = context.output(operator)
    hidden, cell = (context.raw.tensors[ids[i]] for i in (18, 19))
    _check(x, constants, hidden, cell, y, time_major=bool(options.TimeMajor()))
    clip = float(options.CellClip())
    if not 0 <= clip < math.inf:
        refuse(f"a limit of {clip} for cell values")
    states = variable(context, ids[18]), variable(context, ids[19])
    first = bool(options.TimeMajor())
    if x.dtype == np.float32:
        if first:
            real_lstm(context, operator, [x, *constants], y, states, clip)
            return
        source = context.transposed(operator, x, _STEPS_FIRST)
        target = context.add(f"{y.name}_turned", y.dtype, (y.shape[1], y.shape[0], y.shape[2]))
        real_lstm(context, operator, [source, *constants], target, states, clip)
        context.put_transposed(operator, target, y, _STEPS_FIRST)
        return
    fields = {"time_major": first, "hidden": states[0], "cell": states[1], "cell_clip": clip}
    context.add_operator(Lstm, operator, [x, *constants], y, **fields)


def _check(
    x: Value, constants: list[Value], hidden: RawTensor, cell: RawTensor, y: Value, *, time_major: bool
) -> None:
    """Refuse shapes, types and quantisations that an LSTM can't have."""
    if len(x.shape) != 3:
        refuse(f"an input of shape {x.shape}; batches, steps and inputs are needed")
    units, inputs = constants[0].shape[0] if constants[0].shape else 0, x.shape[2]
    batches = x.shape[1 if time_major else 0]
    shapes = [(units, inputs)] * 4 + [(units, units)] * 4 + [(units,)] * 4
    for value, shape in zip(constants, shapes, strict=True):
        if value.data is None:
            refuse(f"'{value.name}' is not constant")
        expect_shape(value, shape)
    expect_shape(y, (*x.shape[:2], units))
    for state in (hidden, cell):
        if math.prod(state.shape) != batches * units or not units:
            refuse(f"the state '{state.name}' of shape {state.shape} for {batches} times {units} units")
    kinds = {x.dtype, y.dtype, hidden.dtype}
    weights, biases = {v.dtype.name for v in constants[:8]}, {v.dtype.name for v in constants[8:]}
    wanted = {"int8": ("int8", "int32", "int16"), "int16": ("int8", "int64", "int16")}.get(
        x.dtype.name, ("float32", "float32", "float32")
    )
    result = (weights, biases, {cell.dtype.name if cell.dtype else ""})
    if len(kinds) != 1 or result != tuple({name} for name in wanted):
        refuse(
            f"activations of type {x.dtype} with weights of type {', '.join(sorted(weights))}, "
            f"biases of type {', '.join(sorted(biases))} and a cell value of type {cell.dtype}"
        )
    if x.dtype.kind == "f":
        return
    _check_scales(x, constants[:8], hidden, cell, y)


def _check_scales(x: Value, weights: list[Value], hidden: RawTensor, cell: RawTensor, y: Value) -> None:
    tensors = (x.quantisation, y.quantisation, hidden.quantisation, cell.quantisation)
    if any(q is None or len(q.scale) != 1 for q in (*tensors, *(w.quantisation for w in weights))):
        refuse("a tensor that has not one scale")
    if any(w.zero_point for w in weights) or _quantised(cell)[1]:
        refuse("weights or a cell value with a zero point other than 0")
    if x.dtype == np.int16 and (x.zero_point or y.zero_point):
        refuse("int16 activations with a zero point other than 0")
    if _quantised(hidden) != (y.scale, y.zero_point):
        refuse("hidden value and output differ in their quantisation")
    if math.frexp(_quantised(cell)[0])[0] != 0.5:
        refuse(f"a cell value with the scale {_quantised(cell)[0]}; it must be a power of two")
