# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from archives import Spec, dump, graph
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.mlf.graph import parse_graph
from mlf_sdk.frontends.mlf.rawgraph import GraphEntry, GraphNode, RawGraph
from mlf_sdk.ir.dtype import DType
from mlf_sdk.tools.checks import MAX_FAULTS, BoundedFaults

SPEC = Spec(nop=True)


def parse(value: Any) -> tuple[RawGraph | None, list[str]]:
    faults = FaultCollector("a.tar")
    found = parse_graph(value if isinstance(value, bytes) else dump(value), "g", faults)
    return found, [str(fault) for fault in faults.faults]


def changed(edit: Callable[[Any], Any]) -> Any:
    top = graph(SPEC)
    edit(top)
    return top


def good(value: Any) -> RawGraph:
    found, faults = parse(value)
    assert faults == []
    assert found is not None
    return found


def test_nodes_and_entries() -> None:
    found = good(graph(SPEC))
    assert [node.op for node in found.nodes] == [
        "null",
        "null",
        "tvm_op",
        "tvm_op",
        "tvm_op",
        "null",
        "tvm_op",
    ]
    assert found.nodes[2] == GraphNode(
        op="tvm_op",
        name="tvmgen_tiny_fused_multiply",
        func_name="tvmgen_tiny_fused_multiply",
        inputs=((0, 0), (1, 0)),
        num_outputs=1,
        flatten_data=False,
    )
    assert found.nodes[0].func_name is None
    assert found.nodes[4].func_name == "__nop"
    assert found.arg_nodes == (0, 1, 5)
    assert found.heads == ((6, 0),)
    assert found.row_ptr == (0, 1, 2, 3, 4, 5, 6, 7)
    entry = GraphEntry(dtype=DType.parse("float32"), shape=(2, 4), storage_id=2)
    assert found.entries[6] == entry == found.entry((6, 0))
    assert entry.size_bytes == 32


def test_a_node_with_two_outputs() -> None:
    def edit(top: Any) -> None:
        top["nodes"][2]["attrs"].update(num_outputs="2", flatten_data="1")
        top["nodes"][3]["inputs"] = [[2, 1]]
        top["node_row_ptr"] = [0, 1, 2, 4, 5, 6, 7, 8]
        for tagged in top["attrs"].values():
            tagged[1].insert(3, tagged[1][3])
        top["attrs"]["shape"][1][3] = []
        top["heads"] = [[6, 0], [2, 0, 0]]

    found = good(changed(edit))
    assert found.nodes[2].flatten_data
    assert found.nodes[3].inputs == ((2, 1),)
    assert found.entry_index((2, 1)) == 3
    assert found.entry((2, 1)).shape == ()
    assert found.entry((2, 1)).size_bytes == 4
    assert found.heads == ((6, 0), (2, 0))


def test_numbers_need_not_be_text() -> None:
    attrs = {"num_inputs": 2, "num_outputs": 1, "flatten_data": 0}
    assert good(changed(lambda top: top["nodes"][2]["attrs"].update(attrs))) == good(graph(SPEC))


def test_flatten_data_and_devices_may_be_missing() -> None:
    def edit(top: Any) -> None:
        del top["attrs"]["device_index"]
        del top["nodes"][2]["attrs"]["flatten_data"]
        top["nodes"][0].pop("inputs")

    assert good(changed(edit)) == good(graph(SPEC))


def test_keys_that_no_executor_needs_are_left_alone() -> None:
    def edit(top: Any) -> None:
        top["metadata"] = {"x": [1, 2.5, None]}
        top["attrs"]["storage_scope"] = ["list_str", ["global"]]
        top["nodes"][2]["attrs"]["hash"] = "0123"
        top["nodes"][2]["control_deps"] = []

    assert good(changed(edit)) == good(graph(SPEC))


def test_a_parameter_may_be_node_0_and_nodes_may_share_a_function() -> None:
    def edit(top: Any) -> None:
        top["nodes"][0]["name"], top["nodes"][1]["name"] = "p0", 'image:0 "odd" ${x} */'
        top["nodes"][2]["name"] = top["nodes"][3]["name"]

    assert good(changed(edit)).nodes[1].name == 'image:0 "odd" ${x} */'


def test_an_output_may_be_an_input() -> None:
    assert good(changed(lambda top: top.update(heads=[[0, 0, 0]]))).heads == ((0, 0),)


def test_all_faults_of_one_stage_are_reported_together() -> None:
    def edit(top: Any) -> None:
        top["nodes"][0]["name"] = "\n"
        top["nodes"][2]["op"] = "call"
        top["nodes"][3]["attrs"]["func_name"] = "f()"
        top["nodes"][6] = 7
        top["attrs"]["shape"][1][0] = [-1]
        top["attrs"]["storage_id"][1][1] = 99

    found, faults = parse(changed(edit))
    assert found is None
    assert [fault.split(":")[1] for fault in faults] == [
        " $.nodes[0].name",
        " $.nodes[2].op",
        " $.nodes[3].attrs.func_name",
        " $.nodes[6]",
        " $.attrs.shape[1][0]",
        " $.attrs.storage_id[1][1]",
    ]


def test_all_faults_of_references_are_reported_together() -> None:
    def edit(top: Any) -> None:
        top["nodes"][2]["inputs"] = [[6, 0, 0], [9, 0, 0]]
        top["heads"] = [[9, 0, 0], [0, 1, 0]]
        top["arg_nodes"] = []
        top["node_row_ptr"][3] = 0

    found, faults = parse(changed(edit))
    assert found is None
    assert faults == [
        "g: $.node_row_ptr[3]: 0, the outputs of the nodes make 3",
        "g: $.arg_nodes: is not the list of all null nodes",
        "g: $.nodes[2].inputs[0]: node 2 reads node 6: a cycle, or not in the order of execution",
        "g: $.nodes[2].inputs[1]: there is no node 9; the graph has 7",
        "g: $.heads[0]: there is no node 9; the graph has 7",
        "g: $.heads[1]: node 0 has no output 1; it has 1",
    ]


def test_devices_of_another_length() -> None:
    found, faults = parse(changed(lambda top: top["attrs"].update(device_index=["list_int", []])))
    assert found is None
    assert "$.attrs: lists of different lengths" in faults[0]


def test_a_full_collector_hides_no_fault() -> None:
    """The graph is refused also when the collector has no room for one more fault."""
    faults = BoundedFaults("a.tar")
    for number in range(MAX_FAULTS):
        faults.add("m", str(number))
    for edit in (
        lambda top: top.update(heads=[]),
        lambda top: top["nodes"].__setitem__(0, 1),
        lambda top: top["attrs"]["shape"][1].__setitem__(4, [9]),
    ):
        assert parse_graph(dump(changed(edit)), "g", faults) is None
    assert parse_graph(b"{", "g", faults) is None


def test_every_cut_is_refused() -> None:
    data = json.dumps(graph(SPEC)).encode()
    for end in range(0, len(data), 7):
        found, faults = parse(data[:end])
        assert found is None
        assert len(faults) == 1
