# SPDX-License-Identifier: Apache-2.0
"""Nodes and graphs of an ONNX file as plain data, and an order in which nodes can run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.errors import FaultCollector
from mlf_sdk.tools.checks import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class RawNode:
    """A node as the file describes it; an empty name among the inputs is one that is left out.

    Attributes:
        attributes: by name; a graph is a `RawGraph`.
        captured: names that its graphs read from outside of them.
    """

    number: int
    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(repr=False)
    proto: Any = field(repr=False)
    captured: tuple[str, ...] = ()

    def replaced(self, kind: str, inputs: Iterable[str], output: str, /, **attributes: Any) -> RawNode:  # noqa: ANN401
        """A node of a standard operator, one of those that stand for this one."""
        return RawNode(
            number=self.number, kind=kind, name=self.name, inputs=tuple(inputs), outputs=(output,),
            attributes=attributes, proto=None,
        )  # fmt: skip

    @property
    def place(self) -> str:
        """The node in a message."""
        return f"node {self.number} {self.kind} ({shown(self.name or ', '.join(self.outputs[:3]))})"

    @property
    def reads(self) -> tuple[str, ...]:
        """Names that must be written before the node runs."""
        return (*filter(None, self.inputs), *self.captured)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawGraph:
    """A graph: that of the model, a branch, or the body of a loop.

    Attributes:
        parameters: names of what a body is given; those of a model are its inputs.
    """

    nodes: tuple[RawNode, ...]
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawInput:
    """An input of the model; an extent is a number, or a name where it is chosen later."""

    name: str
    dtype: np.dtype[Any]
    extents: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawModel(RawGraph):
    """The file's graph.

    Attributes:
        stated: element types that the file states, by the names of tensors.
    """

    opset: int
    inputs: tuple[RawInput, ...]
    stated: dict[str, np.dtype[Any]]
    producer: str = ""


def captured(graph: RawGraph) -> tuple[str, ...]:
    """Names that a graph reads and nothing in it writes."""
    own = {*graph.parameters, *graph.constants, *(o for n in graph.nodes for o in n.outputs)}
    read = [*(i for n in graph.nodes for i in n.reads), *filter(None, graph.outputs)]
    return tuple(dict.fromkeys(name for name in read if name not in own))


def ordered(nodes: tuple[RawNode, ...], known: set[str], faults: FaultCollector) -> tuple[RawNode, ...]:
    """Nodes in an order in which each reads what was written before; faults for those without one."""
    written: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if name in written or name in known:
                faults.add(node.place, f"writes {shown(name)}, which is written already")
            written[name] = position
    before: dict[int, set[int]] = {}
    for position, node in enumerate(nodes):
        reads = [name for name in node.reads if name not in known]
        for name in reads:
            if name not in written:
                faults.add(node.place, f"reads {shown(name)}, which nothing writes")
        before[position] = {written[name] for name in reads if name in written}
    if all(max(needed, default=-1) < position for position, needed in before.items()):
        return nodes
    try:
        return tuple(nodes[position] for position in TopologicalSorter(before).static_order())
    except CycleError as error:
        place = nodes[min(error.args[1])].place
        faults.add(place, "reads its own result, by way of other nodes: the graph has a cycle")
        return nodes


def text_of(values: Iterable[Any]) -> tuple[str, ...]:
    """Strings of an attribute, which are bytes in the file."""
    return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values)
