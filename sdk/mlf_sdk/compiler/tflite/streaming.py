# SPDX-License-Identifier: Apache-2.0
"""Builders of custom operators that keep part of a stream: delays, frames, stacks, circular buffers.

Each reads what earlier runs left, moves elements, and writes what the next run needs. Where TensorFlow Lite
Micro leaves an output as it was, because too little has come, it is computed here from zeros; the second
output tells.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlf_sdk.compiler import regions, signals
from mlf_sdk.compiler.graph import State, Value, refuse
from mlf_sdk.compiler.operators import Array, Move, ReadState, Reshape, WriteState
from mlf_sdk.compiler.regions import Region
from mlf_sdk.compiler.tflite.context import Context, expect_elements, expect_shape
from mlf_sdk.compiler.tflite.file import CUSTOM, RawOperator
from mlf_sdk.compiler.tflite.flexbuffer import options_of, whole_number
from mlf_sdk.compiler.tflite.pointwise import emit
from mlf_sdk.compiler.tflite.signal import typed_values

_LONGEST: Final = 1 << 20
_TYPES: Final = {0: "float32", 7: "int16"}  # of the schema
_LAST_LAYERS: Final = (5, 13, 25)  # slots of buffers that state no period and pass on every run


def delay(context: Context, operator: RawOperator) -> None:
    """SignalDelay."""
    length = whole_number(options_of(operator.custom, ("delay_length",)), "delay_length", 0, _LONGEST)
    (x,), (y,) = typed_values(context, operator, ("int16",), ("int16",))
    expect_shape(y, x.shape)
    rows, samples = _rows(x)
    line = _line(context, operator, x, np.zeros((rows, length), np.int16))
    _move(context, operator, [line], y, regions.strided_slice(line.shape, (0, 0), (1, 1), (rows, samples)))


def framer(context: Context, operator: RawOperator) -> None:
    """SignalFramer: overlapping frames, the first ones behind zeros or, without ``prefill``, not valid."""
    options = options_of(operator.custom, ("frame_size", "frame_step", "prefill"))
    (x,), (y, valid) = typed_values(context, operator, ("int16",), ("int16", "bool"))
    size = whole_number(options, "frame_size", 1, _LONGEST)
    step = whole_number(options, "frame_step", 1, _LONGEST)
    prefill = bool(whole_number(options, "prefill", 0, 1))
    rows, samples = _rows(x)
    if samples % step or (prefill and size < step):
        refuse(f"frames of {size} samples every {step} of {samples}")
    frames = samples // step
    expect_shape(y, (*x.shape[:-1], frames, size))
    expect_elements(valid, 1)
    complete = -(-size // step)
    kept = size - step if prefill else (complete - 1) * step
    line = _line(context, operator, x, np.zeros((rows, kept), np.int16))
    steps = (kept + samples, step, 1)
    _move(context, operator, [line], y, regions.box((rows, frames, size), steps, (frames * size, size, 1)))
    _periodic(context, operator, 0 if prefill else -(-(complete - 1) // frames), 1, valid)


def stacker(context: Context, operator: RawOperator) -> None:
    """SignalStacker: a frame with its neighbours; the first one is its own past."""
    names = ("num_channels", "stacker_left_context", "stacker_right_context", "stacker_step")
    options = options_of(operator.custom, names)
    (x,), (y, valid) = typed_values(context, operator, ("int16",), ("int16", "bool"))
    channels = whole_number(options, names[0], 1, _LONGEST)
    left, right = (whole_number(options, name, 0, 1 << 12) for name in names[1:3])
    step = whole_number(options, names[3], 1, left + right + 1)
    expect_shape(x, (channels,))
    expect_shape(y, (channels * (left + right + 1),))
    expect_elements(valid, 1)
    past = channels * (left + right)
    if past:
        before, state = _read(context, operator, np.zeros((past,), np.int16))
        first, old = (context.add(f"{y.name}_{name}", x.dtype, (past,)) for name in ("first", "past"))
        _move(context, operator, [x], first, regions.tile(x.shape, (left + right,), (past,)))
        emit(context, operator, "where", [_periodic(context, operator, 1, 1), before, first], old)
        _move(context, operator, [old, x], y, *regions.concatenate([(past,), x.shape], 0, y.shape))
        _keep_last(context, operator, y, state)
    else:
        context.add_operator(Reshape, operator, [x], y)
    _periodic(context, operator, right, step, valid)


def overlap_add(context: Context, operator: RawOperator) -> None:
    """SignalOverlapAdd."""
    options = options_of(operator.custom, ("T", "frame_step"))
    if options["T"] not in _TYPES:
        refuse(f"computes with the type {options['T']!r:.40}; int16 and float32 are supported")
    dtype = _TYPES[options["T"]]
    (x,), (y,) = typed_values(context, operator, (dtype,), (dtype,))
    if len(x.shape) < 2:
        refuse(f"'{x.name}' has shape {x.shape}; frames of samples are needed")
    *outer, frames, size = x.shape
    step = whole_number(options, "frame_step", 1, size)
    expect_shape(y, (*outer, frames * step))
    state = _add_state(context, operator, np.zeros((math.prod(outer), size), dtype))
    context.add_operator(signals.SignalOverlapAdd, operator, [x], y, state=state, step=step)


def circular_buffer(context: Context, operator: RawOperator) -> None:
    """CIRCULAR_BUFFER: the last values of a stream; they are in the output of TensorFlow Lite Micro."""
    two = len(operator.outputs) == 2
    (x,), (y, *valid) = typed_values(context, operator, ("int8",), ("int8", "bool") if two else ("int8",))
    if len(x.shape) != 4 or len(y.shape) != 4 or x.shape[:2] != (1, 1):
        refuse(f"'{x.name}' has shape {x.shape}; batch and time of 1, and two more dimensions, are needed")
    expect_shape(y, (1, y.shape[1], *x.shape[2:]))
    period = options_of(operator.custom, ("cycles_max",))["cycles_max"] if operator.custom else 0
    if not isinstance(period, int) or period <= 0:
        period = 1 if y.shape[1] in _LAST_LAYERS else 2
    if not valid and period > 1:
        refuse(
            f"it ends {period - 1} of {period} runs of the model before what is behind it",
            "set its cycles_max to 1 and call the model at the rate of what is behind it",
        )
    context.copy_stored(operator, x, y)
    if y.shape[1] > 1:
        shape = (1, y.shape[1] - 1, *y.shape[2:])
        zero = y.zero_point if y.quantisation else 0
        before, state = _read(context, operator, np.full(shape, zero, np.int8))
        _move(context, operator, [before, x], y, *regions.concatenate([shape, x.shape], 1, y.shape))
        _keep_last(context, operator, y, state)
    else:
        context.add_operator(Reshape, operator, [x], y)
    if valid:
        _periodic(context, operator, period - 1, period, valid[0])


def _rows(x: Value) -> tuple[int, int]:
    """Number of streams side by side, and of new samples of each."""
    if not x.shape or not x.elements:
        refuse(f"'{x.name}' has shape {x.shape}; samples are needed")
    return x.elements // x.shape[-1], x.shape[-1]


def _line(context: Context, operator: RawOperator, x: Value, initial: Array) -> Value:
    """The samples that earlier runs left, ``initial`` at first, and behind them those of this run."""
    rows, samples = _rows(x)
    kept = initial.shape[1]
    line = context.add(f"{x.name}_line", x.dtype, (rows, kept + samples))
    if not kept:
        context.add_operator(Reshape, operator, [x], line)
        return line
    before, state = _read(context, operator, initial)
    moved = regions.concatenate([initial.shape, (rows, samples)], 1, line.shape)
    _move(context, operator, [before, x], line, *moved)
    rest = context.add(f"{x.name}_rest", x.dtype, initial.shape)
    _move(
        context, operator, [line], rest, regions.strided_slice(line.shape, (0, samples), (1, 1), rest.shape)
    )
    context.add_operator(WriteState, operator, [rest], state=state)
    return line


def _periodic(
    context: Context, operator: RawOperator, first: int, period: int, y: Value | None = None
) -> Value:
    """A truth value that holds from run ``first`` on once every ``period`` runs: a ring of those to come."""
    runs = np.arange(first + period)
    ring = (runs >= first) & ((runs - first) % period == 0)
    y = y or context.add(f"{operator.kind}_{operator.number}_when", ring.dtype, (1,))
    if ring.all():
        context.fold(y.id, ring)
        return context.values[y.id]
    now, state = _read(context, operator, ring)
    _move(context, operator, [now], y, regions.box((1,), (1,), (1,)))
    fresh = context.add(f"{now.name}_next", ring.dtype, ring.shape)
    last = len(ring) - 1
    turned = [regions.box((last,), (1,), (1,), source_offset=1)] if last else []
    turned.append(regions.box((1,), (1,), (1,), source_offset=first, target_offset=last))
    _move(context, operator, [now], fresh, *turned)
    context.add_operator(WriteState, operator, [fresh], state=state)
    return y


def _keep_last(context: Context, operator: RawOperator, y: Value, state: int) -> None:
    """Keep the last elements of a value, as many as the state has."""
    kept = context.states[state]
    rest = context.add(f"{kept.name}_next", kept.dtype, kept.shape)
    count = rest.elements
    _move(context, operator, [y], rest, regions.box((count,), (1,), (1,), source_offset=y.elements - count))
    context.add_operator(WriteState, operator, [rest], state=state)


def _read(context: Context, operator: RawOperator, initial: Array) -> tuple[Value, int]:
    """Value of a new state, and its number."""
    state = _add_state(context, operator, initial)
    value = context.add(context.states[state].name, initial.dtype, initial.shape)
    context.add_operator(ReadState, operator, [], value, state=state)
    return value, state


def _add_state(context: Context, operator: RawOperator, initial: Array) -> int:
    state = len(context.states)
    name = f"{operator.kind.removeprefix(CUSTOM)}_{operator.number}_{state}"
    context.states.append(State(name=name, dtype=initial.dtype, shape=initial.shape, initial=initial))
    return state


def _move(context: Context, operator: RawOperator, inputs: list[Value], y: Value, *moved: Region) -> None:
    context.add_operator(Move, operator, inputs, y, regions=moved)
