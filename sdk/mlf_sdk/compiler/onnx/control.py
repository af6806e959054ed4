# SPDX-License-Identifier: Apache-2.0
"""Control flow that is known when the model is read: the chosen branch of an If in the place of the node."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.qoperators import expand_quantised
from mlf_sdk.compiler.onnx.raw import RawGraph, RawNode


def spliced(context: Context, raw: RawNode) -> tuple[RawNode, ...] | None:
    """Nodes that a node with graphs stands for; None for any other.

    Raises:
        UnsupportedError: the input of a run decides which.
    """
    if raw.kind != "If" or raw.inputs[0] not in context.tensors:
        return None
    condition = context.tensors[raw.inputs[0]].data
    if condition is None:
        refuse(
            "its condition is computed at run time; only one that follows from shapes and constants is "
            "supported. Export the model without it"
        )
    branch = raw.attributes.get("then_branch" if bool(np.all(condition)) else "else_branch")
    if not isinstance(branch, RawGraph) or len(branch.outputs) != len(raw.outputs):
        refuse("its branch is missing, or has another number of results")
    return _placed(context, raw, branch)


def _placed(context: Context, raw: RawNode, graph: RawGraph) -> tuple[RawNode, ...]:
    """Nodes of a graph, which write the results of a node; names inside of it are made its own."""
    graph = expand_quantised(graph)
    inside = [*graph.constants, *(o for node in graph.nodes for o in node.outputs if o)]
    names = {name: f"{raw.outputs[0]}/{name}" for name in inside}
    for name, data in graph.constants.items():
        context.constant(names[name], data)
    nodes = (
        *(_renamed(node, names, raw.number) for node in graph.nodes),
        *(_bound(names.get(o, o), result, raw) for o, result in zip(graph.outputs, raw.outputs, strict=True)),
    )
    context.replace_reader(raw, nodes)
    return nodes


def _bound(name: str, result: str, raw: RawNode) -> RawNode:
    """A node that gives a result of a branch the name of the node's."""
    return RawNode(
        number=raw.number, kind="Identity", name=raw.name, inputs=(name,), outputs=(result,), attributes={},
        proto=None,
    )  # fmt: skip


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
