# SPDX-License-Identifier: Apache-2.0
"""Draws of operators with graphs: branches, and bodies that are repeated."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from onnx_draws import axis_of, draws, put, real
from onnx_network import Network, Unfit, Value


def _graph(nodes: list[Any], given: dict[str, Any], results: dict[str, Any], **held: Any) -> Any:
    """A graph; inputs with their types and shapes (None: any), results with their types."""
    stated = {**given, **{name: (dtype, None) for name, dtype in results.items()}}
    info = {
        name: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        for name, (dtype, shape) in stated.items()
    }
    constants = [numpy_helper.from_array(np.asarray(data), name) for name, data in held.items()]
    inputs, outputs = ([info[name] for name in side] for side in (given, results))
    return helper.make_graph(nodes, "graph", inputs, outputs, constants)


def _varying(n: Network, *ranks: int) -> Value:
    x = real(n, *ranks)
    if x.constant:
        raise Unfit("constant")
    return x


def _branch(n: Network, x: Value, name: str) -> Any:
    """A function of a captured value, or a constant of its shape."""
    if n.chance(0.2):
        return _graph(
            [], {}, {name: "float32"}, **{name: n.random.uniform(-2, 2, x.shape).astype(np.float32)}
        )
    middle = f"{name}.middle"
    nodes = [
        helper.make_node(n.choice(("Tanh", "Abs", "Neg")), [x.name], [middle]),
        helper.make_node(n.choice(("Add", "Sub", "Mul")), [middle, f"{name}.c"], [name]),
    ]
    return _graph(nodes, {}, {name: "float32"}, **{f"{name}.c": np.float32(n.random.uniform(0.5, 2))})


@draws("If", styles=("float",))
def choice(n: Network) -> None:
    x = _varying(n, 1, 2, 3, 4)
    name = n.name("branch")
    condition = n.fresh((1,) if n.chance(0.3) else (), "bool")
    branches = {"then_branch": _branch(n, x, name), "else_branch": _branch(n, x, name)}
    put(n, n.node("If", condition, captured=[x], **branches))


def running(n: Network) -> None:
    """A running sum of slices, and its hyperbolic tangent at each."""
    x = _varying(n, 2, 3, 4)
    axis = axis_of(n, x.rank)
    if x.shape[axis] > 12:
        raise Unfit("too many slices")
    nodes = [
        helper.make_node("Add", ["sum", "slice"], ["next"]),
        helper.make_node("Tanh", ["next"], ["small"]),
    ]
    body = _graph(
        nodes, {"sum": ("float32", None), "slice": ("float32", None)}, {"next": "float32", "small": "float32"}
    )
    found: dict[str, Any] = {}
    if axis or n.chance(0.2):
        found["scan_input_axes"] = [axis]
    for name in ("scan_input_directions", "scan_output_directions"):
        if n.chance(0.4):
            found[name] = [n.integer(0, 1)]
    if n.chance(0.4):
        found["scan_output_axes"] = [axis_of(n, x.rank)]
    start = n.constant(n.random.uniform(-1, 1, np.take(x.data, 0, axis).shape).astype(np.float32))
    put(n, *n.node("Scan", start, x, outputs=2, body=body, num_scan_inputs=1, **found))


def distances(n: Network) -> None:
    """Functions of each slice and of a value that stays as it is, reduced along an axis."""
    x = _varying(n, 2, 3)
    axis, wide = axis_of(n, x.rank), n.chance(0.5)
    shape = np.take(x.data, 0, axis).shape
    if x.shape[axis] > 12:
        raise Unfit("too many slices")
    known = n.constant(n.random.uniform(-1, 1, (3,) * wide + shape).astype(np.float32))
    names, axes = ["slice", "known"], [n.choice((-1, len(shape) - 1 + wide))]
    kind, more = n.choice(("ReduceSumSquare", "ReduceMax", "ReduceL1")), n.chance(0.4)
    given, held = ({"axes": axes}, {}) if n.opset < 18 else ({}, {"along": np.array(axes)})
    if more:
        given["keepdims"] = n.integer(0, 1)
    nodes = [
        helper.make_node("Identity", ["known"], ["same"]),
        helper.make_node(n.choice(("Sub", "Mul", "Max")), n.choice((names, names[::-1])), ["d"]),
        helper.make_node("Tanh", ["d"], ["small"]),
        helper.make_node(kind, ["small", *held], ["far"], **given),
    ]
    body = _graph(
        nodes, {"known": ("float32", None), "slice": ("float32", None)},
        {"same": "float32", "far": "float32", "small": "float32"}, **held,
    )  # fmt: skip
    found = {"scan_input_axes": [axis]} if axis or n.chance(0.2) else {}
    if n.chance(0.4):
        found["scan_output_axes"] = [0, axis_of(n, len(shape) + wide + 1)]
    put(n, *n.node("Scan", known, x, outputs=3, body=body, num_scan_inputs=1, **found))


@draws("Scan", styles=("float",))
def scan(n: Network) -> None:
    n.choice((running, distances))(n)


@draws("Loop", styles=("float",))
def loop(n: Network) -> None:
    """A value that is scaled each time, by a number of its own; it may end before its limit."""
    x, times = _varying(n, 1, 2, 3), n.integer(1, 5)
    until = times - 1 if times > 1 and n.chance(0.4) else times + 1
    nodes = [
        helper.make_node("Cast", ["step"], ["real"], to=1),
        helper.make_node("Sub", ["value", "real"], ["less"]),
        helper.make_node("Mul", ["less", "factor"], ["next"]),
        helper.make_node("Less", ["real", "until"], ["again"]),
    ]
    types = {"step": ("int64", ()), "before": ("bool", ()), "value": ("float32", x.shape)}
    results = {"again": "bool", "next": "float32", "less": "float32"}
    body = _graph(nodes, types, results, factor=np.float32(0.75), until=np.float32(until))
    limit = n.constant(np.array(times)) if until >= times or n.chance(0.7) else None
    condition = n.constant(np.array(True)) if n.chance(0.6) else None
    put(n, *n.node("Loop", limit, condition, x, outputs=2, body=body))
