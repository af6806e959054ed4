# SPDX-License-Identifier: Apache-2.0
"""Hostile archives: the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archives import edit_json, tar_bytes, without
from hostile_base import GOOD, GRAPH, SPELLS, add


def add_graph() -> None:
    def change(name: str, edit: Callable[[Any], Any], says: str) -> None:
        add(f"graph: {name}", tar_bytes(edit_json(GOOD, GRAPH, edit)), says)

    def bad(name: str, data: bytes, says: str) -> None:
        add(f"graph: {name}", tar_bytes({**GOOD, GRAPH: data}), says)

    def node(name: str, index: int, says: str, /, **fields: Any) -> None:
        change(name, lambda top: top["nodes"][index].update(fields), says)

    def attrs(name: str, index: int, says: str, /, **fields: Any) -> None:
        change(name, lambda top: top["nodes"][index]["attrs"].update(fields), says)

    def listed(name: str, key: str, index: int, value: Any, says: str) -> None:
        change(name, lambda top: top["attrs"][key][1].__setitem__(index, value), says)

    add("graph: missing", tar_bytes(without(GOOD, GRAPH)), "no graph of module 'tiny'")
    bad("empty", b"", f"{GRAPH}: line 1 column 1")
    bad("cut", GOOD[GRAPH][:-100], "not JSON")
    bad("deep", b'{"nodes":' + b"[" * 100_000, "nested too deeply")
    bad("deep in what is ignored", b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply")
    bad("null", b"null", "$: Expected `object`")
    bad("no keys", b"{}", "missing required field")
    change("no nodes", lambda top: top.update(nodes=[]), "0 nodes")
    change("nodes is text", lambda top: top.update(nodes="x"), "$.nodes: Expected `array`")
    change("node is a number", lambda top: top["nodes"].__setitem__(1, 5), "$.nodes[1]: Expected `object`")
    node("unknown op", 2, "$.nodes[2].op: unknown op 'exec'", op="exec")
    node("name of a node with a newline", 2, "$.nodes[2].name", name="a\nb")
    node("name of an input is empty", 0, "$.nodes[0].name", name="")
    node("name of an input is long", 0, "is longer than 1024 bytes", name="x" * 1025)
    node("name of an input is long in UTF-8", 0, "is longer than 1024 bytes", name="\u20ac" * 400)
    node("two inputs alike", 1, "two null nodes are called 'x'", name="x")
    node("input reads others", 5, "$.nodes[5].inputs", inputs=[[0, 0, 0]])
    node("cycle", 2, "$.nodes[2].inputs[0]: node 2 reads node 3", inputs=[[3, 0, 0], [1, 0, 0]])
    node("reads itself", 2, "node 2 reads node 2", inputs=[[2, 0, 0], [1, 0, 0]])
    node("reads beyond the end", 2, "there is no node 99", inputs=[[0, 0, 0], [99, 0, 0]])
    node("reads before the start", 2, "there is no node -1", inputs=[[0, 0, 0], [-1, 0, 0]])
    node("reads an output that is not", 3, "node 2 has no output 1", inputs=[[2, 1, 0]])
    node("reads a negative output", 3, "node 2 has no output -1", inputs=[[2, -1, 0]])
    node("reference of one number", 3, "$.nodes[3].inputs[0]: 1 numbers", inputs=[[2]])
    node("reference is a float", 3, "got `float`", inputs=[[2.0, 0, 0]])
    node("reference is a bool", 3, "got `bool`", inputs=[[True, 0, 0]])
    node("reference of 2^62", 3, "there is no node", inputs=[[2**62, 0, 0]])
    for name, spell in SPELLS.items():
        attrs(f"function with {name}", 2, "is not a C identifier", func_name=spell)
    attrs("function is a call", 2, "is not a C identifier", func_name='system("evil")')
    attrs("function is empty", 2, "is not a C identifier", func_name="")
    attrs("function is long", 2, "is longer than", func_name="x" * 5000)
    attrs("function is a keyword", 2, "is reserved in C", func_name="while")
    attrs(
        "function without code",
        2,
        "'tvmgen_tiny_fused_other' is in no code file",
        func_name="tvmgen_tiny_fused_other",
    )
    attrs("function is part of a name", 2, "is in no code file", func_name="tvmgen_tiny_fused_mul")
    attrs("function is a number", 2, "func_name", func_name=5)
    change("function missing", lambda top: top["nodes"][2]["attrs"].pop("func_name") and None, "`func_name`")
    change("attributes missing", lambda top: top["nodes"][2].pop("attrs") and None, "$.nodes[2].attrs")
    attrs("more inputs stated", 2, "3 stated, the node has 2", num_inputs="3")
    attrs("inputs are text", 2, "'many' is not a small number", num_inputs="many")
    attrs("no outputs", 2, "$.node_row_ptr[3]", num_outputs="0")
    attrs("2^31 outputs", 2, "is not a small number", num_outputs=str(2**31))
    attrs("99999 outputs", 2, "99999 outputs", num_outputs=99999)
    attrs("negative outputs", 2, "'-1' is not a small number", num_outputs=-1)
    attrs("two outputs of which one is described", 2, "$.node_row_ptr[3]", num_outputs=2)
    change("alias of two inputs", _alias_of_two, "$.nodes[4]: __nop takes one input")
    listed("alias of another size", "shape", 4, [2, 5], "__nop cannot turn 32 bytes into 40")
    change("no outputs of the model", lambda top: top.update(heads=[]), "$.heads: the graph has no outputs")
    change(
        "output beyond the end", lambda top: top.update(heads=[[7, 0, 0]]), "$.heads[0]: there is no node 7"
    )
    change(
        "output that is not", lambda top: top.update(heads=[[6, 1, 0]]), "$.heads[0]: node 6 has no output 1"
    )
    change("output is empty", lambda top: top.update(heads=[[]]), "$.heads[0]: 0 numbers")
    change("arguments lack one", lambda top: top.update(arg_nodes=[0, 1]), "$.arg_nodes")
    change("argument is a call", lambda top: top.update(arg_nodes=[0, 1, 2, 5]), "$.arg_nodes")
    change("argument beyond the end", lambda top: top.update(arg_nodes=[0, 1, 99]), "$.arg_nodes")
    change("arguments twice", lambda top: top.update(arg_nodes=[0, 0, 1, 5]), "$.arg_nodes")
    change("row pointers are too few", lambda top: top["node_row_ptr"].pop() and None, "$.node_row_ptr")
    change("row pointers fall", lambda top: top["node_row_ptr"].__setitem__(2, 9), "$.node_row_ptr[2]: 9")
    change(
        "row pointers are negative",
        lambda top: top["node_row_ptr"].__setitem__(0, -1),
        "$.node_row_ptr[0]: -1",
    )
    listed("extent of -1", "shape", 2, [1, -8], "$.attrs.shape[1][2]: an extent that is not positive")
    listed("extent of 0", "shape", 2, [0, 8], "an extent that is not positive")
    listed("shape of 2^62 elements", "shape", 2, [2**31, 2**31], "takes more than")
    listed("shape that overflows 64 bits", "shape", 2, [2**33, 2**33, 2], "takes more than")
    listed("shape of 2 GiB", "shape", 2, [2**29], "takes more than")
    listed("shape of 17 dimensions", "shape", 2, [1] * 17, "17 dimensions")
    listed("shape is a number", "shape", 2, 8, "$.attrs.shape")
    listed("extent is text", "shape", 2, ["8"], "$.attrs.shape")
    listed("extent of 20 digits", "shape", 2, [10**19], "an integer of 20 digits")
    listed("unknown type", "dltype", 2, "float128", "$.attrs.dltype[1][2]: no such element type")
    listed("type is code", "dltype", 2, 'float32"; evil', "no such element type")
    listed("type of 65536 lanes", "dltype", 2, "float32x9999", "$.attrs.dltype[1][2]")
    listed("tensor of handles", "dltype", 2, "handle", "a tensor of handles")
    listed("storage id of -1", "storage_id", 2, -1, "$.attrs.storage_id[1][2]: -1")
    listed("storage id beyond", "storage_id", 2, 7, "$.attrs.storage_id[1][2]: 7 is not within 0 and 6")
    listed("storage id of 2^40", "storage_id", 2, 2**40, "$.attrs.storage_id[1][2]")
    listed("device of 0", "device_index", 2, 0, "$.attrs.device_index[1][2]")
    change(
        "lists differ in length", lambda top: top["attrs"]["dltype"][1].pop() and None, "different lengths"
    )
    change("all lists are short", _shorten, "$.attrs: 6 entries are described, the nodes have 7")
    change("shapes missing", lambda top: top["attrs"].pop("shape") and None, "$.attrs.shape: is missing")
    change(
        "list of another kind",
        lambda top: top["attrs"]["shape"].__setitem__(0, "list_int"),
        "instead of 'list_shape'",
    )


def _alias_of_two(top: Any) -> None:
    top["nodes"][4]["inputs"].append([0, 0, 0])
    top["nodes"][4]["attrs"]["num_inputs"] = "2"


def _shorten(top: Any) -> None:
    for tagged in top["attrs"].values():
        tagged[1].pop()
