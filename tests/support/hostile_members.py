# SPDX-License-Identifier: Apache-2.0
"""Hostile archives: parameters, code, and several faults at once."""

from __future__ import annotations

import json
from collections.abc import Mapping

from archives import Spec, edit_json, entry, merge, tar_bytes, tar_of, without
from hostile_base import AOT, GOOD, GRAPH, HEADER, PARAMS, SOURCE, add, patched


def add_params() -> None:
    good = GOOD[PARAMS]
    first = 52
    places = {
        "magic": 4,
        "reserved word": 12,
        "number of names": 20,
        "length of a name": 28,
        "name": 33,
        "second name": 43,
        "number of tensors": 48,
        "tensor magic": first + 4,
        "device": first + 18,
        "dimensions": first + 26,
        "type": first + 30,
        "shape": first + 40,
        "size": first + 52,
        "data": first + 70,
        "second tensor": first + 100,
        "last data": len(good) - 1,
    }

    def bad(name: str, data: bytes, says: str) -> None:
        add(f"parameters: {name}", tar_bytes({**GOOD, PARAMS: data}), says)

    for name, offset in places.items():
        bad(f"cut in the {name}", good[:offset], f"{PARAMS}: byte ")
    patches: dict[str, tuple[int, str, int, str]] = {
        "wrong magic": (0, "<Q", 1, "byte 0: not a parameter file"),
        "reserved": (8, "<Q", 1, "byte 8: the reserved word"),
        "2^60 names": (16, "<Q", 2**60, "byte 16"),
        "a million names": (16, "<Q", 10**6, "byte 16"),
        "a name of 2^63 bytes": (24, "<Q", 2**63, "byte 32: a name needs"),
        "a name of 4 GB": (24, "<Q", 2**32, "byte 32: a name needs"),
        "a name that is not UTF-8": (32, "<B", 0xFF, "byte 32: a parameter's name is not valid UTF-8"),
        "a name with a newline": (32, "<B", 10, "byte 32: a parameter's name has control"),
        "a name with a NUL": (33, "<B", 0, "byte 32: a parameter's name has control"),
        "two names alike": (43, "<B", ord("0"), "2 parameters are called 'p0'"),
        "more tensors than names": (44, "<Q", 3, "byte 44: 3 tensors for 2 names"),
        "wrong tensor magic": (first, "<Q", 0, "byte 52"),
        "reserved in a tensor": (first + 8, "<Q", 5, "byte 60"),
        "on a GPU": (first + 16, "<i", 2, "byte 68"),
        "on CPU 1": (first + 20, "<i", 1, "byte 68"),
        "-1 dimensions": (first + 24, "<i", -1, "byte 76: tensor 'p0': -1 dimensions"),
        "2^31 dimensions": (first + 24, "<i", 2**31 - 1, "byte 76"),
        "17 dimensions": (first + 24, "<i", 17, "byte 76"),
        "no such type code": (first + 28, "<B", 9, "byte 80"),
        "handles": (first + 28, "<B", 3, "byte 80"),
        "7 bits": (first + 29, "<B", 7, "byte 80"),
        "no lanes": (first + 30, "<H", 0, "byte 80"),
        "4 lanes": (first + 30, "<H", 4, "byte 80: tensor 'p0': a parameter cannot be float32x4"),
        "extent of -1": (first + 32, "<q", -1, "byte 84: tensor 'p0': a negative extent"),
        "shape that overflows": (first + 32, "<q", 2**62, "byte 100"),
        "size of another shape": (first + 48, "<q", 31, "byte 100: tensor 'p0': 31 bytes stated, 32"),
        "negative size": (first + 48, "<q", -32, "byte 100"),
    }
    for name, (offset, layout, value, says) in patches.items():
        bad(name, patched(good, offset, layout, value), says)
    beyond = patched(patched(good, first + 32, "<q", 1 << 28), first + 48, "<q", 1 << 33)
    bad("data beyond the end", beyond, "byte 108: tensor 'p0' needs 8589934592 bytes")
    bad("more behind", good + b"x", f"byte {len(good)}: 1 bytes behind")
    bad("empty", b"", "byte 0: the header needs 24 bytes")
    bad("name is empty", good[:24] + bytes(8) + good[34:], "byte 32: a parameter's name is empty")
    shape = patched(good, first + 32, "<2q", 8, 1)
    bad("shape is not the graph's", shape, "parameter 'p0' is float32 (8, 1), the graph reads float32 (1, 8)")
    add("parameters: missing", tar_bytes(without(GOOD, PARAMS)), "no parameters of module 'tiny'")


def add_code() -> None:
    def bad(name: str, member: str, data: bytes, says: str, files: Mapping[str, bytes] = GOOD) -> None:
        add(f"code: {name}", tar_bytes({**files, member: data}), says)

    none = without(GOOD, SOURCE, "codegen/host/src/tiny_lib0.c")
    add("code: none", tar_bytes(none), "no code of module 'tiny'")
    bad("NUL in a source", SOURCE, GOOD[SOURCE] + b"\x00", f"{SOURCE}: byte")
    bad("not UTF-8", SOURCE, GOOD[SOURCE] + b"\xff", "invalid UTF-8")
    bad("empty source", "codegen/host/src/tiny_lib2.c", b"", "is empty")
    bad("object is text", "codegen/host/lib/tiny_lib2.o", b"int main;", "is not an ELF object")
    bad("shell script", "codegen/host/src/evil.sh", b"rm -rf /", "unknown kind of code")
    bad("for another device", "codegen/npu/src/lib0.c", b"int x;", "unknown kind of code")
    bad("relay is not UTF-8", "src/tiny.relay", b"\xff", "src/tiny.relay: byte 0: invalid UTF-8")
    two = {**merge(Spec(name="a"), Spec(name="b")), "codegen/host/src/c_lib0.c": b"int x;"}
    add("code: of no module", tar_bytes(two), "belongs to none of the modules")

    good = AOT[HEADER]
    for name, data, says in (
        ("without a run function", good.replace(b"tiny_run(", b"tiny_walk("), "no function ends in '_run'"),
        ("two run functions", good + b"int32_t x_run(void);", "two functions end in '_run'"),
        ("unknown parameter", good.replace(b"outputs* outputs", b"extras* extras"), "is not known"),
        (
            "parameter twice",
            good.replace(b"_outputs* outputs", b"_inputs* outputs"),
            "two parameters of one kind",
        ),
        (
            "struct missing",
            good.replace(b"struct tvmgen_tiny_outputs {", b"struct y {"),
            "the struct of outputs",
        ),
        ("field twice", good.replace(b"void* x;", b"void* x; void* x;"), "two fields have one name"),
        ("field is a keyword", good.replace(b"void* x;", b"void* while;"), "a field is reserved in C"),
        ("field is not a name", good.replace(b"void* x;", b"void* x[3];"), "a field is not a C identifier"),
        (
            "run function is not ASCII",
            good.replace(b"tiny_run(", b"tiny_\xc3\xa9_run("),
            "is not understood",
        ),
        ("not UTF-8", good + b"\xff", "invalid UTF-8"),
        ("2 MB", good + b"/" * (2 << 20), "a header of"),
        ("open comment", good.replace(b"int32_t", b"/* int32_t"), "a comment does not end"),
    ):
        bad(f"interface {name}", HEADER, data, says, AOT)


def add_several() -> None:
    """Archives with more than one fault, which are reported together."""
    broken = edit_json(GOOD, GRAPH, lambda top: top.update(heads=[]))
    broken = edit_json(broken, "metadata.json", lambda top: top["modules"]["tiny"].update(style="x"))
    broken[PARAMS] = broken[PARAMS][:30]
    data = tar_of([*(entry(name, data) for name, data in broken.items()), entry("../x", b"")])
    add("several: one in each member", data, "the archive has 4 faults")
    noisy = json.loads(GOOD[GRAPH])
    noisy["nodes"] = [{"op": "evil", "name": f"n{i}", "inputs": [[9, 9, 9, 9]] * 9} for i in range(4000)]
    add(
        "several: eighty thousand",
        tar_bytes({**GOOD, GRAPH: json.dumps(noisy).encode()}),
        "the archive has 100 faults",
    )
