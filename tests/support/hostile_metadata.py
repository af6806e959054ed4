# SPDX-License-Identifier: Apache-2.0
"""Hostile archives: ``metadata.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from archives import edit_json, tar_bytes, without
from hostile_base import GOOD, OPERATOR, add


def add_metadata() -> None:
    def bad(name: str, data: bytes, says: str) -> None:
        add(f"metadata: {name}", tar_bytes({**GOOD, "metadata.json": data}), says)

    def change(name: str, edit: Callable[[Any], Any], says: str, files: Mapping[str, bytes] = GOOD) -> None:
        add(f"metadata: {name}", tar_bytes(edit_json(files, "metadata.json", edit)), says)

    def module(name: str, says: str, /, **fields: Any) -> None:
        change(name, lambda top: top["modules"]["tiny"].update(fields), says)

    add("metadata: missing", tar_bytes(without(GOOD, "metadata.json")), "metadata.json: is missing")
    nested = {f"digits/{name}": data for name, data in GOOD.items()}
    add("metadata: one folder down", tar_bytes(nested), "digits/metadata.json")
    bad("empty", b"", "metadata.json: line 1 column 1")
    bad("not JSON", b"{'version': 7}", "not JSON")
    bad("cut", GOOD["metadata.json"][:100], "not JSON")
    bad("not UTF-8", b'{"version": 7, "x": "\xff"}', "byte 21: invalid UTF-8")
    bad("deep lists", b"[" * 200_000, "nested too deeply")
    bad("deep objects", b'{"a":' * 200_000, "nested too deeply")
    bad("two keys alike", b'{"version": 7, "version": 5}', "'version' occurs twice")
    bad("NaN", b'{"version": NaN}', "NaN")
    bad("infinity", b'{"version": 1e999}', "out of range")
    bad("a million digits", b'{"version": ' + b"9" * 1_000_000 + b"}", "an integer of 1000000 digits")
    bad("17 MB", b" " * (17 << 20), "JSON of")
    bad("a list", b"[7]", "Expected `object`")
    bad("null", b"null", "Expected `object`")
    for name, value in {
        "text": "7",
        "a float": 7.0,
        "a bool": True,
        "null": None,
        "0": 0,
        "8": 8,
        "2^40": 2**40,
        "negative": -1,
    }.items():
        change(f"version is {name}", lambda top, value=value: top.update(version=value), "$.version")
    change("version missing", lambda top: top.pop("version") and None, "$.version: is missing")
    change("no modules", lambda top: top.update(modules={}), "0 modules")
    change("modules missing", lambda top: top.pop("modules") and None, "$.modules: is missing")
    change("modules is a list", lambda top: top.update(modules=[]), "$.modules: Expected `object`")
    change("module is text", lambda top: top.update(modules={"tiny": "x"}), "Expected `object`")
    change("65 modules", lambda top: top.update(modules={f"m{i}": {} for i in range(65)}), "65 modules")
    for name, bad_name in {
        "newline": "a\nb",
        "slash": "../../evil",
        "backslash": "a\\b",
        "two dots": "..",
        "empty": "",
        "long": "x" * 129,
        "surrogate": "a\ud800",
    }.items():
        renamed = lambda top, bad_name=bad_name: top.update(modules={bad_name: top["modules"]["tiny"]})  # noqa: E731
        change(f"name of a module: {name}", renamed, "the name of a module")
    module("unknown style", "unknown style 'half'", style="half")
    module("style is a number", "style: Expected `str`", style=1)
    module("unknown executor", "unknown executor 'vm'", executors=["vm"])
    module("no executor", "no executor", executors=[])
    module("executors is text", "Expected `array`", executors="graph")
    change(
        "executors missing",
        lambda top: top["modules"]["tiny"].pop("executors") and None,
        "executors: is missing",
    )
    module("memory is a number", "memory: Expected `object`", memory=5)
    module("functions is a list", "functions: Expected `object`", memory={"functions": []})
    module("target has numbers", "target[0]: Expected `str`", target=[5])
    module("target with a newline", "target[0]", target=["c -keys=cpu\n#include <evil.h>"])
    module("date is a number", "export_datetime", export_datetime=5)
    module("date with control characters", "export_datetime", export_datetime="\x1b[2J")
    module("dependencies are text", "external_dependencies", external_dependencies="x")
    module("TVM version is a number", "version_spec", external_dependencies=[{"version_spec": 0.11}])
    main = {"device": 1, "workspace_size_bytes": 1}

    def memory(name: str, says: str, /, **functions: Any) -> None:
        module(name, says, memory={"functions": functions})

    memory("main is a map", "main: Expected `array`", main={})
    memory("main without a size", "missing required field", main=[{"device": 1}])
    memory("main with a negative size", "-1 is out of range", main=[{**main, "workspace_size_bytes": -1}])
    memory("main with a size of 2^62", "is out of range", main=[{**main, "io_size_bytes": 2**62}])
    memory("main with a float", "got `float`", main=[{**main, "constants_size_bytes": 1.5}])
    memory("inputs is a list", "inputs", main=[{**main, "inputs": []}])
    memory("input of no type", "dtype", main=[{**main, "inputs": {"x": {"size": 1, "dtype": "float33"}}}])
    memory("input without a size", "`size`", main=[{**main, "inputs": {"x": {"dtype": "int8"}}}])
    odd = {"x\ny": {"size": 1, "dtype": "int8"}}
    memory("output with a newline", "the name of a tensor", main=[{**main, "outputs": odd}])
    memory("functions are text", "operator_functions", operator_functions="x")
    memory("a function without a name", "function_name", operator_functions=[{}])
    memory("a workspace of no size", "workspace[0]", operator_functions={"f": [{"device": 1}]})
    memory("a function is code", "is not a C identifier", operator_functions={"f(){}": []})

    def operator(name: str, value: Any, says: str) -> None:
        change(f"operator: {name}", lambda top: top.update(memory=value), says, OPERATOR)

    argument = {"size_bytes": 32, "shape": [8], "dtype": "float32", "input_binding": "A"}
    operator("no function", {}, "describes no function")
    operator("memory is a list", [], "memory: Expected `object`")
    operator("function without code", {"other": [argument]}, "'other' of module 'tiny' is in no code file")
    operator("function is code", {"scale; evil()": [argument]}, "is not a C identifier")
    operator("sizes differ", {"scale": [{**argument, "size_bytes": 31}]}, "31 bytes stated")
    operator("shape overflows", {"scale": [{**argument, "shape": [2**31, 2**31]}]}, "takes more than")
    operator("unknown type", {"scale": [{**argument, "dtype": "x"}]}, "no such element type")
    operator("name with a newline", {"scale": [{**argument, "input_binding": "A\n"}]}, "input_binding")
    operator("argument is null", {"scale": [None]}, "Expected `object`")
