# SPDX-License-Identifier: Apache-2.0
"""Body of a Scan on all slices at once, where none needs what came of another: distances of neighbours."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.pointwise import ARITHMETIC, NARY, PARAMETERS, PLAIN, TRUTH, UNARY
from mlf_sdk.compiler.onnx.raw import RawGraph, RawNode
from mlf_sdk.compiler.onnx.rows import BUILDERS as _REDUCTIONS
from mlf_sdk.compiler.onnx.steps import Steps
from mlf_sdk.compiler.onnx.tensor import axis_of

_ELEMENTWISE: Final = frozenset((*UNARY, *PARAMETERS, *PLAIN, *TRUTH, *ARITHMETIC, *NARY, "Identity"))


@dataclasses.dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor of the body.

    Attributes:
        name: in the graph around it.
        rank: axes of what one slice has.
        stacked: there is one for each slice, along a first axis more.
    """

    name: str
    rank: int
    stacked: bool = False


def all_at_once(
    context: Context, raw: RawNode, body: RawGraph, axes: Sequence[int], output_axes: Sequence[int]
) -> list[RawNode] | None:
    """Nodes that stand for a Scan whose slices are taken forward; None where they don't stand for themselves.

    Args:
        axes: along which each input is scanned.
        output_axes: along which results are collected.
    """
    count = len(raw.inputs) - len(axes)
    steps, known = Steps(context, raw), {}
    for name, data in body.constants.items():
        known[name] = _Tensor(steps.constant(data, data.dtype.type), data.ndim)
    for name in raw.captured:
        if name not in context.tensors:
            return None
        known[name] = _Tensor(name, context.tensors[name].rank)
    for inner, name in zip(body.parameters, raw.inputs, strict=True):
        known[inner] = _Tensor(name, context.tensors[name].rank)
    for inner, axis in zip(body.parameters[count:], axes, strict=True):
        known[inner] = _stacked(steps, known[inner], axis)
    for node in body.nodes:
        result = _result(steps, node, known, body)
        if result is None:
            return None
        known[node.outputs[0]] = result
    states, results = body.outputs[:count], body.outputs[count:]
    kept = all(known[s].name == name for s, name in zip(states, raw.inputs, strict=False))
    if not kept or not all(known[r].stacked for r in results):
        return None
    for name, output in zip(raw.inputs, raw.outputs[:count], strict=False):
        if output:
            steps.add("Identity", name, output=output)
    for inner, output, axis in zip(results, raw.outputs[count:], output_axes, strict=True):
        if output:
            order = list(range(1, known[inner].rank + 1))
            order.insert(axis_of(axis, known[inner].rank + 1), 0)
            steps.add("Transpose", known[inner].name, output=output, perm=order)
    return steps.nodes


def _stacked(steps: Steps, x: _Tensor, axis: int) -> _Tensor:
    """Scanned tensor with the axis of its slices first."""
    order = [axis, *(a for a in range(x.rank) if a != axis)]
    name = steps.add("Transpose", x.name, perm=order) if axis else x.name
    return _Tensor(name, x.rank - 1, stacked=True)


def _result(steps: Steps, node: RawNode, known: dict[str, _Tensor], body: RawGraph) -> _Tensor | None:
    """A node on all slices; None where it is neither elementwise nor a reduction along stated axes."""
    if len(node.outputs) != 1 or any(name not in known for name in node.inputs):
        return None
    inputs, attributes = [known[name] for name in node.inputs], dict(node.attributes)
    if node.kind == "Identity":
        return inputs[0]
    rank = max(x.rank for x in inputs)
    if node.kind in _ELEMENTWISE:
        names = [_broadcast(steps, x, rank) for x in inputs]
        stacked = any(x.stacked for x in inputs)
        return _Tensor(steps.add(node.kind, *names, **attributes), rank, stacked)
    given = body.constants.get(node.inputs[1]) if len(node.inputs) > 1 else attributes.get("axes")
    if node.kind not in _REDUCTIONS or not node.kind.startswith("Reduce") or given is None or not len(given):
        return None
    x, kept = inputs[0], int(attributes.get("keepdims", 1))
    shift = int(x.stacked)
    axes = [axis_of(int(axis), x.rank) + shift for axis in given]
    name = steps.add(node.kind, x.name, axes=axes, keepdims=kept)
    return _Tensor(name, x.rank if kept else x.rank - len(axes), x.stacked)


def _broadcast(steps: Steps, x: _Tensor, rank: int) -> str:
    """A stacked tensor whose slices have axes of one element in front, as broadcast would give them."""
    if not x.stacked or x.rank == rank:
        return x.name
    return steps.add("Unsqueeze", x.name, axes=list(range(1, rank - x.rank + 1)))
