# SPDX-License-Identifier: Apache-2.0
"""Graph of data flow of a model from the lock of its project."""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.codegen.lock import LockModel, LockNode, LockTensor
from mlf_sdk.reporting.html.data import Flow, FlowEdge, FlowNode


def flow_of(model: LockModel, labels: Sequence[str]) -> Flow:
    """Make the graph: inputs, steps and outputs are nodes, tensors between them are edges.

    Args:
        model: with steps in the order of execution.
        labels: short name of each step.
    """
    return _Builder(model).build(labels)


class _Builder:
    def __init__(self, model: LockModel) -> None:
        self.model = model
        self.nodes: list[FlowNode] = []
        self.edges: dict[FlowEdge, None] = {}
        self.writer: dict[int, int] = {}  # root of a tensor -> node that wrote it last

    def build(self, labels: Sequence[str]) -> Flow:
        model = self.model
        roots = [tensor.root for tensor in model.tensors]
        for number, tensor in zip(model.input_tensors, model.inputs, strict=True):
            self.writer[roots[number]] = self._add(tensor.name, _type(tensor), None)
        for index, step in enumerate(model.steps):
            made = [model.tensors[i] for i in step.outputs]
            node = self._add(step.name, ", ".join(_type(t) for t in made), index, labels[index])
            for number in step.inputs:
                self._edge(roots[number], node, model.tensors[number].name)
            for number in step.outputs:
                self.writer[roots[number]] = node
        for number, output in zip(model.output_tensors, model.outputs, strict=True):
            self._edge(roots[number], self._add(output.name, _type(output), None), output.name)
        return Flow(nodes=tuple(self.nodes), edges=tuple(self.edges))

    def _add(self, name: str, detail: str, step: int | None, label: str = "") -> int:
        self.nodes.append(FlowNode(label=label or name, name=name, detail=detail, step=step))
        return len(self.nodes) - 1

    def _edge(self, root: int, target: int, tensor: str) -> None:
        source = self.writer.get(root)
        if source is not None and source != target:
            self.edges[FlowEdge(source=source, target=target, tensor=tensor)] = None


def _type(tensor: LockTensor | LockNode) -> str:
    return f"{tensor.dtype} {'×'.join(map(str, tensor.shape)) or 'scalar'}"
