# SPDX-License-Identifier: Apache-2.0
"""The graph executor's graph (``graph.json`` or ``<module>.graph``): decoded, and checked to make sense.

A graph that passes is in execution order, all its indices are in range, and every entry (output of a
node) has an element type, a positive shape and a size below 2 GiB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.frontends.mlf.rawgraph import NOP, GraphEntry, GraphNode, RawGraph, shape_problem
from mlf_sdk.ir.dtype import HANDLE, DType
from mlf_sdk.tools.checks import function_name_problem, shown, tensor_name_problem
from mlf_sdk.tools.jsontext import convert, load_json

MAX_NODES: Final = 65536
MAX_OUTPUTS: Final = 1024
MAX_DEVICE_TYPE: Final = 1 << 15

_COUNT: Final = re.compile("[0-9]{1,5}", re.ASCII)


class _Graph(msgspec.Struct):
    """The top level; keys that no executor needs are left alone."""

    nodes: list[Any]
    arg_nodes: list[int]
    heads: list[list[int]]
    node_row_ptr: list[int]
    attrs: dict[str, Any]


class _Node(msgspec.Struct):
    op: str
    name: str
    inputs: list[list[int]] = msgspec.field(default_factory=list)
    attrs: dict[str, Any] = msgspec.field(default_factory=dict)


class _CallAttrs(msgspec.Struct):
    """Attributes of a call; TVM writes numbers as strings."""

    func_name: str
    num_inputs: str | int
    num_outputs: str | int
    flatten_data: str | int = 0


_LISTS: Final[dict[str, tuple[str, Any]]] = {
    "dltype": ("list_str", tuple[str, list[str]]),
    "shape": ("list_shape", tuple[str, list[list[int]]]),
    "storage_id": ("list_int", tuple[str, list[int]]),
    "device_index": ("list_int", tuple[str, list[int]]),
}
_REQUIRED: Final = {"dltype", "shape", "storage_id"}


def parse_graph(data: bytes, member: str, faults: FaultCollector) -> RawGraph | None:
    """Decode and check a graph; None when anything is wrong, with a fault for each thing."""
    document = load_json(data, member, faults)
    if document is msgspec.UNSET:
        return None
    top = convert(document, _Graph, member, "$", faults)
    return None if top is None else _Reader(top, member, faults).graph()


class _Reader:
    """Turns the decoded JSON of one graph into a RawGraph and reports everything that is wrong."""

    def __init__(self, top: _Graph, member: str, faults: FaultCollector) -> None:
        self.top = top
        self.member = member
        self.faults = faults
        self.clean = True

    def fault(self, field: str, what: str) -> None:
        self.clean = False
        self.faults.add(self.member, what, field=field)

    def convert(self, value: object, type_: Any, field: str) -> Any:  # noqa: ANN401 - a type is data here
        result = convert(value, type_, self.member, field, self.faults)
        self.clean = self.clean and result is not None
        return result

    def graph(self) -> RawGraph | None:
        """All checks in order of dependence: structure first, then what refers to it."""
        count = len(self.top.nodes)
        if not 0 < count <= MAX_NODES:
            self.fault("$.nodes", f"{count} nodes; 1 to {MAX_NODES} are read")
            return None
        nodes = [node for index in range(count) if (node := self.node(index)) is not None]
        entries = self.entries()
        if not self.clean:
            return None
        self.check_row_ptr(nodes, len(entries))
        self.check_arguments(nodes)
        for index, node in enumerate(nodes):
            self.check_reads(index, node, nodes)
        heads = self.heads(nodes)
        if not self.clean:
            return None
        graph = RawGraph(
            nodes=tuple(nodes),
            arg_nodes=tuple(self.top.arg_nodes),
            heads=heads,
            row_ptr=tuple(self.top.node_row_ptr),
            entries=tuple(entries),
        )
        self.check_aliases(graph)
        return graph if self.clean else None

    def node(self, index: int) -> GraphNode | None:
        """Decode one node; its references are checked later."""
        field = f"$.nodes[{index}]"
        raw: _Node | None = self.convert(self.top.nodes[index], _Node, field)
        if raw is None:
            return None
        problem = tensor_name_problem(raw.name)
        if problem is not None:
            self.fault(f"{field}.name", f"the name of a node {problem}")
        inputs = tuple(self.pair(f"{field}.inputs[{i}]", ref) for i, ref in enumerate(raw.inputs))
        if raw.op == "tvm_op":
            return self.call(raw, inputs, field)
        if raw.op != "null":
            self.fault(f"{field}.op", f"unknown op {shown(raw.op)}; null and tvm_op are known")
        elif inputs:
            self.fault(f"{field}.inputs", "a node that is an input or a parameter reads others")
        return GraphNode(
            op=raw.op, name=raw.name, func_name=None, inputs=inputs, num_outputs=1, flatten_data=False
        )

    def call(self, raw: _Node, inputs: tuple[tuple[int, int], ...], field: str) -> GraphNode | None:
        """Decode the attributes of a call."""
        attrs: _CallAttrs | None = self.convert(raw.attrs, _CallAttrs, f"{field}.attrs")
        if attrs is None:
            return None
        problem = None if attrs.func_name == NOP else function_name_problem(attrs.func_name)
        if problem is not None:
            self.fault(f"{field}.attrs.func_name", f"the name of a function {problem}")
        num_inputs = self.count(attrs.num_inputs, f"{field}.attrs.num_inputs")
        if num_inputs != len(inputs):
            self.fault(f"{field}.attrs.num_inputs", f"{num_inputs} stated, the node has {len(inputs)}")
        num_outputs = self.count(attrs.num_outputs, f"{field}.attrs.num_outputs")
        if num_outputs > MAX_OUTPUTS:
            self.fault(f"{field}.attrs.num_outputs", f"{num_outputs} outputs; at most {MAX_OUTPUTS} are read")
        flatten = self.count(attrs.flatten_data, f"{field}.attrs.flatten_data")
        return GraphNode(
            op=raw.op,
            name=raw.name,
            func_name=attrs.func_name,
            inputs=inputs,
            num_outputs=num_outputs,
            flatten_data=flatten != 0,
        )

    def count(self, value: str | int, field: str) -> int:
        """A small number, written as a number or as a string; 0 with a fault when it is neither."""
        text = str(value)
        if not _COUNT.fullmatch(text):
            self.fault(field, f"{shown(text)} is not a small number")
            return 0
        return int(text)

    def pair(self, field: str, ref: Sequence[int]) -> tuple[int, int]:
        """(node, output index) of a reference, which may carry a version as its third number."""
        if len(ref) not in (2, 3):
            self.fault(field, f"{len(ref)} numbers; a reference has node, output index and maybe a version")
            return (0, 0)
        return (ref[0], ref[1])

    def entries(self) -> list[GraphEntry]:
        """Decode the attributes of all entries."""
        lists = {key: values for key in _LISTS if (values := self.attribute(key)) is not None}
        sizes = {key: len(values) for key, values in lists.items()}
        if len(set(sizes.values())) > 1:
            self.fault("$.attrs", f"lists of different lengths: {sizes}")
        if len(set(sizes.values())) != 1 or not lists.keys() >= _REQUIRED:
            return []
        count = sizes["dltype"]
        devices = lists.get("device_index", [1] * count)
        columns = zip(lists["dltype"], lists["shape"], lists["storage_id"], devices, strict=True)
        return [e for i, row in enumerate(columns) if (e := self.entry(i, count, *row)) is not None]

    def attribute(self, key: str) -> Any:  # noqa: ANN401 - a list of what the key says
        """One tagged list of the graph's attributes; None when it is absent or wrong."""
        tag, type_ = _LISTS[key]
        if key not in self.top.attrs:
            if key in _REQUIRED:
                self.fault(f"$.attrs.{key}", "is missing")
            return None
        pair = self.convert(self.top.attrs[key], type_, f"$.attrs.{key}")
        if pair is None:
            return None
        if pair[0] != tag:
            self.fault(f"$.attrs.{key}[0]", f"{shown(pair[0])} instead of {tag!r}")
        return pair[1]

    def entry(
        self, index: int, count: int, dltype: str, shape: list[int], storage_id: int, device: int
    ) -> GraphEntry | None:
        """Check the attributes of one entry."""
        try:
            dtype = DType.parse(dltype)
        except InputError as error:
            self.fault(f"$.attrs.dltype[1][{index}]", error.what)
            return None
        if dtype.code == HANDLE:
            self.fault(f"$.attrs.dltype[1][{index}]", "a tensor of handles")
        problem = shape_problem(shape, dtype)
        if problem is not None:
            self.fault(f"$.attrs.shape[1][{index}]", problem)
        if not 0 <= storage_id < count:
            self.fault(f"$.attrs.storage_id[1][{index}]", f"{storage_id} is not within 0 and {count - 1}")
        if not 0 < device < MAX_DEVICE_TYPE:
            self.fault(f"$.attrs.device_index[1][{index}]", f"{device} is not a device type")
        return GraphEntry(dtype=dtype, shape=tuple(shape), storage_id=storage_id)

    def check_row_ptr(self, nodes: Sequence[GraphNode], entries: int) -> None:
        """Check the row pointers: the entries of each node follow those of the node before it."""
        pointers = self.top.node_row_ptr
        expected = [0]
        for node in nodes:
            expected.append(expected[-1] + node.num_outputs)
        if len(pointers) != len(expected):
            self.fault("$.node_row_ptr", f"{len(pointers)} numbers for {len(nodes)} nodes")
        elif pointers != expected:
            index = next(
                i for i, pair in enumerate(zip(pointers, expected, strict=True)) if len(set(pair)) > 1
            )
            self.fault(
                f"$.node_row_ptr[{index}]",
                f"{pointers[index]}, the outputs of the nodes make {expected[index]}",
            )
        elif expected[-1] != entries:
            self.fault("$.attrs", f"{entries} entries are described, the nodes have {expected[-1]}")

    def check_arguments(self, nodes: Sequence[GraphNode]) -> None:
        """arg_nodes is the list of all null nodes, whose names differ."""
        null = [index for index, node in enumerate(nodes) if node.op == "null"]
        given = self.top.arg_nodes
        if sorted(given) != null:
            self.fault("$.arg_nodes", "is not the list of all null nodes")
        names = Counter(nodes[index].name for index in null)
        for index in null:
            if names[nodes[index].name] > 1:
                self.fault(f"$.nodes[{index}].name", f"two null nodes are called {shown(nodes[index].name)}")

    def check_reads(self, index: int, node: GraphNode, nodes: Sequence[GraphNode]) -> None:
        """A node reads outputs of earlier nodes only."""
        for number, (source, output) in enumerate(node.inputs):
            field = f"$.nodes[{index}].inputs[{number}]"
            if self.check_ref(field, source, output, nodes) and source >= index:
                self.fault(
                    field, f"node {index} reads node {source}: a cycle, or not in the order of execution"
                )

    def check_ref(self, field: str, source: int, output: int, nodes: Sequence[GraphNode]) -> bool:
        if not 0 <= source < len(nodes):
            self.fault(field, f"there is no node {source}; the graph has {len(nodes)}")
            return False
        if not 0 <= output < nodes[source].num_outputs:
            self.fault(field, f"node {source} has no output {output}; it has {nodes[source].num_outputs}")
            return False
        return True

    def heads(self, nodes: Sequence[GraphNode]) -> tuple[tuple[int, int], ...]:
        """The model's outputs, at least one."""
        if not self.top.heads:
            self.fault("$.heads", "the graph has no outputs")
        heads = tuple(self.pair(f"$.heads[{i}]", ref) for i, ref in enumerate(self.top.heads))
        for number, (source, output) in enumerate(heads):
            self.check_ref(f"$.heads[{number}]", source, output, nodes)
        return heads

    def check_aliases(self, graph: RawGraph) -> None:
        """A __nop has one input and one output of the same size."""
        for index, node in enumerate(graph.nodes):
            if node.func_name != NOP:
                continue
            if len(node.inputs) != 1 or node.num_outputs != 1:
                self.fault(f"$.nodes[{index}]", f"{NOP} takes one input and gives one output")
                continue
            source, result = graph.entry(node.inputs[0]), graph.entry((index, 0))
            if source.size_bytes != result.size_bytes:
                what = f"{NOP} cannot turn {source.size_bytes} bytes into {result.size_bytes}"
                self.fault(f"$.nodes[{index}]", what)
