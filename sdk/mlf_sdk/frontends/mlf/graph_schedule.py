# SPDX-License-Identifier: Apache-2.0
"""A model of the graph executor: one step a call node, aliases for ``__nop``."""

from __future__ import annotations

from mlf_sdk.frontends.mlf.extension import KEY, STATED, stated_step, without_permissions
from mlf_sdk.frontends.mlf.rawgraph import NOP, GraphEntry, GraphNode, RawGraph, share_memory
from mlf_sdk.frontends.mlf.schedule import BuildInput, Schedule
from mlf_sdk.ir.model import Quantisation, Step, TensorKind
from mlf_sdk.ir.tensor import TensorTable
from mlf_sdk.tools.checks import shown


def schedule_graph(source: BuildInput, graph: RawGraph) -> Schedule:
    """Tensors and steps of ``graph``. Faults go to the collector of ``source``."""
    return _GraphBuilder(source, graph).schedule()


class _GraphBuilder:
    def __init__(self, source: BuildInput, graph: RawGraph) -> None:
        self.source = source
        self.graph = graph
        self.member = source.module.graph_member or "graph"
        self.table = TensorTable()
        self.tensor_of: dict[int, int] = {}  # entry -> tensor id
        self.flat: dict[int, int] = {}
        self.steps: list[Step] = []
        self.inputs: list[int] = []
        self.extension = source.module.metadata.extension
        self.shares = self._writes_states_only()

    def schedule(self) -> Schedule:
        for index, node in enumerate(self.graph.nodes):
            if node.op == "null":
                self._placeholder(index, node)
            elif node.func_name == NOP:
                self._alias(index, node)
            else:
                self._call(index, node)
        self._unused_parameters()
        self._unknown_names()
        outputs = tuple(self.tensor_of[self.graph.entry_index(head)] for head in self.graph.heads)
        return Schedule(
            tensors=tuple(self.table.tensors),
            inputs=tuple(self.inputs),
            outputs=outputs,
            output_names=output_names(self.source, [self.table.tensors[o].size_bytes for o in outputs]),
            steps=tuple(self.steps),
            executor="graph",
            is_analysed=self.extension is not None
            and all(step.opaque_reason == STATED for step in self.steps),
        )

    def _placeholder(self, index: int, node: GraphNode) -> None:
        entry_index = self.graph.row_ptr[index]
        entry = self.graph.entries[entry_index]
        params = {p.name: p for p in self.source.module.params}
        result = params.get(node.name)
        if result is None:
            scale = self._quantisation(node.name)
            tensor = self.table.add(node.name, entry.dtype, entry.shape, TensorKind.INPUT, quantisation=scale)
            self.inputs.append(tensor)
        else:
            stateful = self.extension is not None and node.name in self.extension.states
            kind = TensorKind.STATE if stateful else TensorKind.CONSTANT
            tensor = self.table.add(node.name, entry.dtype, entry.shape, kind, data=result.data)
        self.tensor_of[entry_index] = tensor

    def _alias(self, index: int, node: GraphNode) -> None:
        entry_index = self.graph.row_ptr[index]
        entry = self.graph.entries[entry_index]
        target = self.tensor_of[self.graph.entry_index(node.inputs[0])]
        self.tensor_of[entry_index] = self.table.add(
            node.name,
            entry.dtype,
            entry.shape,
            TensorKind.INTERMEDIATE,
            alias_of=target,
            quantisation=self._quantisation(node.name),
        )

    def _call(self, index: int, node: GraphNode) -> None:
        symbol = node.func_name or ""
        if not self.source.code.defines(symbol):
            self.source.faults.add(
                self.member,
                f"calls '{symbol[:128]}', which no source or object of the archive defines",
                field=f"$.nodes[{index}].attrs.func_name",
            )
        inputs = [self.tensor_of[self.graph.entry_index(ref)] for ref in node.inputs]
        outputs = []
        for output in range(node.num_outputs):
            entry_index = self.graph.row_ptr[index] + output
            outputs.append(self._result(entry_index, node.name, output))
        if node.flatten_data:
            inputs, outputs = [self._flatten(i) for i in inputs], [self._flatten(o) for o in outputs]
        index = len(self.steps)
        stated = self.extension.calls.get(node.name) if self.extension else None
        if stated is not None:
            if self.shares and share_memory(stated, self.table.tensors, inputs, outputs):
                return
            step = stated_step(stated, index, node.name, symbol, tuple(inputs), tuple(outputs))
            self.steps.append(step if self.source.archive.is_sealed else without_permissions(step))
            return
        self.steps.append(
            Step(index=index, name=node.name, symbol=symbol, inputs=tuple(inputs), outputs=tuple(outputs))
        )

    def _result(self, entry_index: int, name: str, output: int) -> int:
        entry: GraphEntry = self.graph.entries[entry_index]
        label = name if output == 0 else f"{name}:{output}"
        tensor = self.table.add(
            label, entry.dtype, entry.shape, TensorKind.INTERMEDIATE, quantisation=self._quantisation(label)
        )
        self.tensor_of[entry_index] = tensor
        return tensor

    def _quantisation(self, name: str) -> Quantisation | None:
        return self.extension.quantisation.get(name) if self.extension else None

    def _flatten(self, tensor: int) -> int:
        """The same storage as one dimension, for nodes with ``flatten_data``."""
        if tensor not in self.flat:
            result = self.table.tensors[tensor]
            self.flat[tensor] = self.table.add(
                result.name, result.dtype, (result.elements,), TensorKind.INTERMEDIATE, alias_of=tensor
            )
        return self.flat[tensor]

    def _writes_states_only(self) -> bool:
        """Return whether calls write to states only; a part of another input would have to be a copy."""
        if self.extension is None:
            return True
        return self.source.archive.is_sealed and all(
            self.graph.nodes[node.inputs[position][0]].name in self.extension.states
            for node in self.graph.nodes
            if (facts := self.extension.calls.get(node.name)) is not None
            for position in facts.writes
            if position < len(node.inputs)
        )

    def _unknown_names(self) -> None:
        """Report facts about calls and parameters that the graph does not have."""
        if self.extension is None:
            return
        calls = {node.name for node in self.graph.nodes if node.op != "null"}
        params = {param.name for param in self.source.module.params}
        for name in sorted(self.extension.calls.keys() - calls):
            self.source.faults.add(
                "metadata.json", f"the graph has no call {shown(name)}", field=f"{KEY}.calls"
            )
        for name in sorted(set(self.extension.states) - params):
            self.source.faults.add(
                "metadata.json", f"there is no parameter {shown(name)}", field=f"{KEY}.states"
            )

    def _unused_parameters(self) -> None:
        names = {node.name for node in self.graph.nodes if node.op == "null"}
        for param in self.source.module.params:
            if param.name not in names:
                self.source.faults.add(
                    f"parameters/{self.source.module.metadata.name}.params",
                    f"holds '{param.name[:128]}', which the graph does not know",
                )


def output_names(source: BuildInput, sizes: list[int]) -> tuple[str, ...]:
    """Names of the outputs from the metadata where stated, else ``output0``...

    The metadata is a map without order: names count only when they fit the sizes in one way, or are
    numbered.
    """
    default = tuple(f"output{i}" for i in range(len(sizes))) if len(sizes) > 1 else ("output",)
    extension = source.module.metadata.extension
    if extension and len(extension.output_names) == len(sizes):
        return extension.output_names
    main = source.module.metadata.main[0] if source.module.metadata.main else None
    named = main.outputs if main else None
    if not named or len(named) != len(sizes):
        return default
    if set(default) == set(named):
        return default
    by_size: dict[int, list[str]] = {}
    for name, stated in named.items():
        by_size.setdefault(stated.size_bytes, []).append(name)
    if any(len(by_size.get(size, ())) != 1 for size in sizes):
        return default
    return tuple(by_size[size][0] for size in sizes)
