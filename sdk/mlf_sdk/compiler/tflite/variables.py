# SPDX-License-Identifier: Apache-2.0
"""Builders of operators on variables, which become states."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from mlf_sdk.compiler.graph import UNREADABLE, State, Value, refuse
from mlf_sdk.compiler.operators import ReadState, WriteState
from mlf_sdk.compiler.tflite.context import (
    Context,
    constant,
    expect_shape,
    fault_text,
)
from mlf_sdk.compiler.tflite.file import RawOperator, RawSubgraph, flaw_of
from mlf_sdk.errors import FaultCollector


def nothing(_: Context, operator: RawOperator) -> None:
    """CALL_ONCE: its graph has been read before."""


def handle(context: Context, operator: RawOperator) -> None:
    """VAR_HANDLE: an output that names a state."""
    name = variable_name(operator)
    if name not in context.state_names:
        refuse(f"the variable '{name}' is never initialised")
    context.handles[operator.outputs[0]] = context.state_names[name]


def variable_name(operator: RawOperator) -> str:
    """Name of the variable that VAR_HANDLE stands for."""
    options = operator.options("VarHandleOptions") or refuse("has no options")
    return (options.SharedName() or b"").decode("utf-8", "replace")


def read(context: Context, operator: RawOperator) -> None:
    """READ_VARIABLE."""
    state = _state(context, operator)
    y = context.output(operator)
    _expect_state(y, context.states[state])
    context.add_operator(ReadState, operator, [], y, state=state)


def assign(context: Context, operator: RawOperator) -> None:
    """ASSIGN_VARIABLE."""
    state = _state(context, operator)
    x = context.input(operator.inputs[1])
    _expect_state(x, context.states[state])
    context.add_operator(WriteState, operator, [x], state=state)


def _expect_state(value: Value, state: State) -> None:
    """Refuse a value that is not of the shape and type of a state."""
    expect_shape(value, state.shape)
    if value.dtype != state.dtype:
        refuse(f"'{value.name}' is of {value.dtype}; the variable '{state.name}' holds {state.dtype}")


def _state(context: Context, operator: RawOperator) -> int:
    if operator.inputs[0] not in context.handles:
        refuse("its variable is not known")
    return context.handles[operator.inputs[0]]


def initial_states(
    graphs: Iterable[RawSubgraph], faults: FaultCollector, build: Callable[[Context, RawOperator], None]
) -> tuple[dict[str, int], list[State]]:
    """States that the graphs of CALL_ONCE initialise, by the names of their variables.

    Args:
        build: adds another operator of these graphs.
    """
    names: dict[str, int] = {}
    states: list[State] = []
    for index, graph in enumerate(graphs, start=1):
        handles: dict[int, str] = {}
        context = Context(graph, {}, [])
        for operator in graph.operators:
            try:
                flaw = flaw_of(graph, operator)
                if flaw:
                    refuse(flaw)
                if operator.kind == "VAR_HANDLE":
                    handles[operator.outputs[0]] = variable_name(operator)
                elif operator.kind == "ASSIGN_VARIABLE":
                    initial = context.input(operator.inputs[1])
                    name = handles[operator.inputs[0]]
                    names[name] = len(states)
                    data = np.array(constant(initial, "initial value"))
                    states.append(State(name=name, dtype=data.dtype, shape=data.shape, initial=data))
                else:
                    build(context, operator)
            except UNREADABLE as error:
                faults.add(
                    f"subgraphs[{index}] operator {operator.number} {operator.kind}", fault_text(error)
                )
    return names, states
