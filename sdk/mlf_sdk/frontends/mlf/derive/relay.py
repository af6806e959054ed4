# SPDX-License-Identifier: Apache-2.0
"""The part of a relay graph that runs: what is constant, what is used, and by what."""

from __future__ import annotations

from mlf_sdk.frontends.mlf.derive.rules import is_inlined
from mlf_sdk.frontends.mlf.relay.graph import Node, NodeKind, RelayGraph, TensorType, Use
from mlf_sdk.frontends.mlf.relay.shapes import complete_types


class LiveGraph:
    """A relay graph for one choice of which arguments of main are parameters.

    Attributes:
        live: calls that the results need and that are not constant (those were folded).
        consumers: live calls that use a node.
        given: nodes that give a result of main.
    """

    def __init__(self, graph: RelayGraph, parameters: frozenset[int]) -> None:
        self.graph = graph
        self.types = complete_types(graph)
        self.parameters = parameters
        self.constant = self._constants()
        self.given = frozenset(use.node for use in graph.results)
        self.consumers: dict[int, set[int]] = {index: set() for index in range(len(graph.nodes))}
        self.live: set[int] = set()
        for index in range(len(graph.nodes) - 1, -1, -1):
            node = graph.nodes[index]
            needed = index in self.given or self.consumers[index]
            if node.kind is NodeKind.CALL and needed and index not in self.constant:
                self.live.add(index)
                for use in node.args:
                    self.consumers[use.node].add(index)

    def _constants(self) -> frozenset[int]:
        constant: set[int] = set()
        for index, node in enumerate(self.graph.nodes):
            folded = bool(node.args) and all(use.node in constant for use in node.args)
            if node.kind is NodeKind.LITERAL or index in self.parameters or folded:
                constant.add(index)
        return frozenset(constant)

    def node(self, index: int) -> Node:
        """A node."""
        return self.graph.nodes[index]

    def type_of(self, use: Use) -> TensorType | None:
        """The type of a value in the layout of the relay text, where it is known."""
        types = self.types[use.node]
        return types[use.output] if use.output < len(types) else None

    def is_constant(self, use: Use) -> bool:
        """Whether a value is known when the model is compiled."""
        return use.node in self.constant

    def is_inlined(self, use: Use) -> bool:
        """Whether a value is a constant that TVM prints into the code."""
        if use.node not in self.constant:
            return False
        literal = self.node(use.node).kind is NodeKind.LITERAL
        number = literal and not self.node(use.node).name.startswith("meta[")
        return is_inlined(self.type_of(use), is_number=number)

    def varying_inputs(self, index: int) -> int:
        """How many inputs of a call are no constants."""
        return sum(use.node not in self.constant for use in self.node(index).args)
