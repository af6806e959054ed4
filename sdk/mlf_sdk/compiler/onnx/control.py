# SPDX-License-Identifier: Apache-2.0
"""Control flow: nodes in the place of one that has graphs, and a result that is chosen from two.

The branch of an If whose condition is known stands for the node; of one that a run decides both do. The body
of a Scan or Loop is repeated as often as it runs, which has to be known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.file import foldable
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.qoperators import expand_quantised
from mlf_sdk.compiler.onnx.raw import RawGraph, RawNode
from mlf_sdk.compiler.onnx.tensor import axis_of
from mlf_sdk.compiler.operators import Call, Map

_AT: Final = "repetition"  # attribute of what is left of a Loop: how often it ran


def spliced(context: Context, raw: RawNode) -> tuple[RawNode, ...] | None:
    """Nodes that a node with graphs stands for; None for any other.

    Raises:
        UnsupportedError: a graph is missing, or the input of a run decides how often a body runs.
    """
    if raw.kind not in _SPLICED or (raw.kind == "If" and len(raw.inputs) == 3):
        return None
    nodes = tuple(_SPLICED[raw.kind](context, raw))
    context.replace_reader(raw, nodes)
    return nodes


def choose(context: Context, node: Node) -> None:
    """If with both results as inputs, which `spliced` leaves of one that a run decides."""
    condition, first, second = node.input(0), node.input(1), node.input(2)
    if condition.elements != 1:
        refuse(f"its condition has {condition.elements} elements")
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        refuse(
            f"its branches give {first.dtype} {first.shape} and {second.dtype} {second.shape}; "
            "where a run decides, results of one type and shape are supported"
        )
    inputs = (context.reshaped("", condition, ()), first, second)
    node.emit(Map, inputs, first.dtype, first.shape, expression=Call.of("where", 3))


def _if(context: Context, raw: RawNode) -> Iterator[RawNode]:
    condition = context.tensors[raw.inputs[0]].data
    branches = [_body(raw, name, len(raw.outputs)) for name in ("then_branch", "else_branch")]
    if condition is not None:
        yield from _placed(context, raw, branches[0 if bool(np.all(condition)) else 1], "", raw.outputs)
        return
    sides = [[f"{_own(raw)}/{side}.{n}" for n in range(len(raw.outputs))] for side in ("then", "else")]
    for branch, side, results in zip(branches, ("then/", "else/"), sides, strict=True):
        yield from _placed(context, raw, branch, side, results)
    for result, *chosen in zip(raw.outputs, *sides, strict=True):
        if result:
            yield _node(raw, "If", (raw.inputs[0], *chosen), result)


def _scan(context: Context, raw: RawNode) -> Iterator[RawNode]:
    """Slices of what is scanned, one after the other, through the body."""
    scanned = int(raw.attributes.get("num_scan_inputs", 0))
    count = len(raw.inputs) - scanned
    if context.opset < 9 or not 0 < scanned <= len(raw.inputs):
        refuse("its form is not supported")
    states, given, collected = list(raw.inputs[:count]), raw.inputs[count:], len(raw.outputs) - count
    body = _body(raw, "body", len(raw.outputs), len(raw.inputs))
    axes = [
        axis_of(axis, context.tensors[name].rank)
        for axis, name in zip(_ints(raw, "scan_input_axes", 0, scanned), given, strict=True)
    ]
    times = {context.tensors[name].shape[axis] for name, axis in zip(given, axes, strict=True)}
    if len(times) != 1:
        refuse(f"what it scans has {sorted(times)} slices")
    (steps,) = times
    backward = _directions(raw, "scan_input_directions", scanned)
    if not any(backward) and not any(_directions(raw, "scan_output_directions", collected)):
        from mlf_sdk.compiler.onnx.slices import all_at_once

        nodes = all_at_once(context, raw, body, axes, _ints(raw, "scan_output_axes", 0, collected))
        if nodes is not None:
            yield from nodes
            return
    context.budget.repeat(steps * _size(body))
    pieces: list[list[str]] = [[] for _ in range(collected)]
    for step in range(steps):
        prefix, slices = f"{step}/", []
        for number, (name, axis) in enumerate(zip(given, axes, strict=True)):
            place = f"{_own(raw)}/{prefix}place.{number}"
            context.constant(place, np.array(steps - 1 - step if backward[number] else step, np.int64))
            slices.append(f"{_own(raw)}/{prefix}slice.{number}")
            yield _node(raw, "Gather", (name, place), slices[-1], axis=axis)
        results = [f"{_own(raw)}/{prefix}result.{n}" for n in range(len(raw.outputs))]
        yield from _placed(context, raw, body, prefix, results, (*states, *slices))
        states = results[:count]
        for number, result in enumerate(results[count:]):
            pieces[number].append(result)
    yield from _ends(raw, states, pieces, context)


def _loop(context: Context, raw: RawNode) -> Iterator[RawNode]:
    """One repetition, and the rest of the loop behind it; or what it gives in the end."""
    most, condition, *states = (*raw.inputs, "", "")[: max(len(raw.inputs), 2)]
    step, pieces = raw.attributes.get(_AT, (0, [[] for _ in range(len(raw.outputs) - len(states))]))
    body = _body(raw, "body", len(raw.outputs) + 1, len(states) + 2)
    limit, goes_on = (context.tensors[n].data if n else None for n in (most, condition))
    if (most and limit is None) or (condition and goes_on is None):
        refuse(
            "the input of a run decides how often it repeats; only a number that follows from shapes and "
            "constants is supported. Export the model without it"
        )
    if (limit is not None and step >= int(limit.reshape(-1)[0])) or (
        goes_on is not None and not bool(goes_on.reshape(-1)[0])
    ):
        yield from _ends(raw, states, pieces, context)
        return
    context.budget.repeat(_size(body))
    prefix = f"{step}/"
    known = [f"{_own(raw)}/{prefix}{name}" for name in ("step", "goes_on")]
    for name, value in zip(known, (np.array(step, np.int64), np.array(True)), strict=True):
        context.constant(name, value)
    results = [f"{_own(raw)}/{prefix}result.{n}" for n in range(len(raw.outputs) + 1)]
    yield from _placed(context, raw, body, prefix, results, (*known, *states))
    pieces = [[*before, piece] for before, piece in zip(pieces, results[1 + len(states) :], strict=True)]
    yield dataclasses.replace(
        raw,
        inputs=(most, *results[: 1 + len(states)]),
        attributes={**raw.attributes, _AT: (step + 1, pieces)},
    )


def _ends(
    raw: RawNode, states: Sequence[str], pieces: list[list[str]], context: Context
) -> Iterator[RawNode]:
    """Last states, and what was collected along a new axis."""
    for name, result in zip(states, raw.outputs, strict=False):
        if result:
            yield _node(raw, "Identity", (name,), result)
    axes = _ints(raw, "scan_output_axes", 0, len(pieces))
    backward = _directions(raw, "scan_output_directions", len(pieces))
    for number, (parts, result) in enumerate(zip(pieces, raw.outputs[len(states) :], strict=True)):
        if result not in context.readers and result not in context.results:
            continue
        if not parts:
            refuse("it never runs, and its results have no elements")
        wide = [f"{part}/wide" for part in parts]
        for part, name in zip(parts, wide, strict=True):
            yield _unsqueezed(context, raw, part, name, axes[number])
        order = tuple(reversed(wide)) if backward[number] else tuple(wide)
        yield _node(raw, "Concat", order, result, axis=axes[number])


def _unsqueezed(context: Context, raw: RawNode, name: str, result: str, axis: int) -> RawNode:
    if context.opset < 13:
        return _node(raw, "Unsqueeze", (name,), result, axes=[axis])
    context.constant(f"{result}.axes", np.array([axis], np.int64))
    return _node(raw, "Unsqueeze", (name, f"{result}.axes"), result)


def _size(graph: RawGraph) -> int:
    """Nodes of a graph and of those inside of it, which are placed once or more; itself is one."""
    graphs = (v for node in graph.nodes for v in node.attributes.values() if isinstance(v, RawGraph))
    return 1 + len(graph.nodes) + sum(map(_size, graphs))


def _ints(raw: RawNode, name: str, default: int, count: int) -> list[int]:
    values = [int(v) for v in raw.attributes.get(name) or [default] * count]
    if len(values) != count:
        refuse(f"its attribute {name} has {len(values)} numbers, and {count} are needed")
    return values


def _directions(raw: RawNode, name: str, count: int) -> list[int]:
    """1 for each that is taken from its end on."""
    values = _ints(raw, name, 0, count)
    if not {0, 1}.issuperset(values):
        refuse(f"its attribute {name} is {values}; 0 and 1 are supported")
    return values


def _body(raw: RawNode, name: str, results: int, parameters: int = 0) -> RawGraph:
    graph = raw.attributes.get(name)
    if (
        not isinstance(graph, RawGraph)
        or len(graph.outputs) != results
        or len(graph.parameters) != parameters
    ):
        refuse(f"its {name} is missing, or has another number of inputs or results")
    return graph


def _own(raw: RawNode) -> str:
    """Name in front of those of a node's graphs."""
    return next(filter(None, raw.outputs), "")


def _node(raw: RawNode, kind: str, inputs: tuple[str, ...], output: str, **attributes: Any) -> RawNode:  # noqa: ANN401
    """A node in the place of one with graphs."""
    node = raw.replaced(kind, inputs, output, **attributes)
    return node if kind == "If" else foldable(node)


def _placed(
    context: Context,
    raw: RawNode,
    graph: RawGraph,
    prefix: str,
    results: Sequence[str],
    given: Sequence[str] = (),
) -> Iterator[RawNode]:
    """Nodes of a graph, which write ``results``; names inside of it are made its own.

    Args:
        given: what its parameters stand for.
    """
    graph = expand_quantised(graph)
    inside = [*graph.constants, *(o for node in graph.nodes for o in node.outputs if o)]
    names = {name: f"{_own(raw)}/{prefix}{name}" for name in inside}
    names |= dict(zip(graph.parameters, given, strict=True))
    for name, data in graph.constants.items():
        context.constant(names[name], data)
    yield from (_renamed(node, names, raw.number) for node in graph.nodes)
    for output, result in zip(graph.outputs, results, strict=True):
        if result:
            yield _node(raw, "Identity", (names.get(output, output),), result)


def _renamed(node: RawNode, names: Mapping[str, str], number: int) -> RawNode:
    proto = node.proto
    inputs, outputs = (tuple(names.get(n, n) for n in part) for part in (node.inputs, node.outputs))
    if proto is not None and node.kind != "Constant":
        proto = type(proto)()
        proto.CopyFrom(node.proto)
        proto.input[:], proto.output[:] = inputs, outputs
    graphs = {k: _within(v, names) for k, v in node.attributes.items() if isinstance(v, RawGraph)}
    return dataclasses.replace(
        node,
        number=number,
        inputs=inputs,
        outputs=outputs,
        proto=proto,
        captured=tuple(names.get(n, n) for n in node.captured),
        attributes=node.attributes | graphs,
    )


def _within(graph: RawGraph, names: Mapping[str, str]) -> RawGraph:
    """A graph inside of a renamed one, with the names that it captures."""
    own = {*graph.parameters, *graph.constants, *(o for n in graph.nodes for o in n.outputs)}
    outer = {k: v for k, v in names.items() if k not in own}
    return dataclasses.replace(
        graph,
        nodes=tuple(_renamed(n, outer, n.number) for n in graph.nodes),
        outputs=tuple(outer.get(o, o) for o in graph.outputs),
    )


_SPLICED: Final = {"If": _if, "Loop": _loop, "Scan": _scan}
