# SPDX-License-Identifier: Apache-2.0
"""Writer of archives in the Model Library Format, version 7."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mlf_sdk.frontends.mlf.content import ArchiveContent, Call, Type
from mlf_sdk.frontends.mlf.extension import KEY, Extension
from mlf_sdk.frontends.mlf.metadata_memory import MEMBER
from mlf_sdk.frontends.mlf.params import write_params
from mlf_sdk.frontends.mlf.rawgraph import NOP
from mlf_sdk.frontends.mlf.seal import seal_of

STAMP: Final = "1970-01-01 00:00:00Z"
"""Date of every archive: equal inputs give equal archives, byte for byte."""


def archive_files(content: ArchiveContent) -> dict[str, bytes]:
    """Members of the archive, by name; it is sealed."""
    params = (*content.params, *content.states)
    document = _metadata(content)
    files = {**content.code, MEMBER: _json(document)}
    if content.model is None:
        files[f"executor-config/graph/{content.name}.graph"] = _json(_Graph(content).document())
    if params or content.model is None:
        files[f"parameters/{content.name}.params"] = write_params(params)
    document["modules"][content.name][KEY]["seal"] = seal_of(files)
    return {**files, MEMBER: _json(document)}


def tar_of(files: Mapping[str, bytes]) -> bytes:
    """A tar of the members, the same bytes for the same members."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            info = tarfile.TarInfo(f"./{name}")
            info.size, info.mode = len(files[name]), 0o644
            tar.addfile(info, io.BytesIO(files[name]))
    return stream.getvalue()


def _json(document: Any) -> bytes:  # noqa: ANN401 - a JSON document
    return json.dumps(document, indent=1).encode() + b"\n"


class _Graph:
    """Nodes and entries of the graph executor's JSON."""

    def __init__(self, content: ArchiveContent) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.pointers = [0]
        self.types: list[Type] = []
        self.entry: dict[str, tuple[int, int]] = {}
        tensors = (*content.params, *content.states)
        placeholders = dict(content.inputs) | {t.name: (t.dtype, t.shape) for t in tensors}
        calls = {call.name: call for call in content.calls}
        for name in content.sequence or (*placeholders, *calls):
            if name in calls:
                self._call(calls[name])
            else:
                self._null(name, placeholders[name])
        self.heads = [[*self.entry[name], 0] for name, _, _ in content.outputs]

    def _null(self, name: str, type_: Type) -> None:
        self.entry[name] = (len(self.nodes), 0)
        self.nodes.append({"op": "null", "name": name, "inputs": []})
        self.types.append(type_)
        self.pointers.append(len(self.types))

    def _call(self, call: Call) -> None:
        attributes = {
            "func_name": call.symbol,
            "num_inputs": str(len(call.inputs)),
            "num_outputs": str(len(call.outputs)),
            "flatten_data": "0",
        }
        self.nodes.append(
            {
                "op": "tvm_op",
                "name": call.name,
                "attrs": attributes,
                "inputs": [[*self.entry[name], 0] for name in call.inputs],
            }
        )
        for position, type_ in enumerate(call.outputs):
            name = call.name if position == 0 else f"{call.name}:{position}"
            self.entry[name] = (len(self.nodes) - 1, position)
            self.types.append(type_)
        self.pointers.append(len(self.types))

    def document(self) -> dict[str, Any]:
        """The graph as TVM writes it."""
        numbers = range(len(self.types))
        return {
            "nodes": self.nodes,
            "arg_nodes": [i for i, node in enumerate(self.nodes) if node["op"] == "null"],
            "heads": self.heads,
            "attrs": {
                "dltype": ["list_str", [dtype.name for dtype, _ in self.types]],
                "shape": ["list_shape", [list(shape) for _, shape in self.types]],
                "storage_id": ["list_int", list(numbers)],
                "device_index": ["list_int", [1 for _ in numbers]],
            },
            "node_row_ptr": self.pointers,
        }


def _size(type_: Type) -> int:
    dtype, shape = type_
    return dtype.bytes_of(shape)


def _metadata(content: ArchiveContent) -> dict[str, Any]:
    workspaces = content.workspaces
    module = {
        "model_name": content.name,
        "export_datetime": STAMP,
        "executors": ["graph" if content.model is None else "aot"],
        "target": list(content.targets),
        "style": "full-model",
        "external_dependencies": [],
        "memory": {
            "functions": {
                "main": [_main(content, sum(workspaces.values()))],
                "operator_functions": [
                    {"function_name": symbol, "workspace": [{"device": 1, "workspace_size_bytes": size}]}
                    for symbol, size in workspaces.items()
                ],
            },
            "sids": [],
        },
        KEY: msgspec.to_builtins(_extension(content)),
    }
    return {"version": 7, "modules": {content.name: module}}


def _main(content: ArchiveContent, workspace_bytes: int) -> dict[str, Any]:
    """Memory as TVM counts it: inputs and outputs beside the sum of all others."""
    inputs = {name: _described(type_) for name, type_ in content.inputs}
    outputs = {shown: _described(type_) for _, shown, type_ in content.outputs}
    computed = [_size(t) for call in content.calls if call.symbol != NOP for t in call.outputs]
    counted = {
        "workspace_size_bytes": sum(computed) + workspace_bytes,
        "constants_size_bytes": sum(p.size_bytes for p in content.params),
        "io_size_bytes": sum(row["size"] for row in (*inputs.values(), *outputs.values())),
    }
    summary = content.summary
    stated = (summary.workspace_bytes, summary.constants_bytes, summary.io_bytes)
    sizes = zip(counted.items(), stated, strict=True)
    return {
        "device": 1,
        **{key: count if size is None else size for (key, count), size in sizes},
        "inputs": inputs,
        "outputs": outputs,
    }


def _described(type_: Type) -> dict[str, Any]:
    return {"size": _size(type_), "dtype": type_[0].name}


def _extension(content: ArchiveContent) -> Extension:
    return Extension(
        compiler=content.compiler,
        compiler_version=content.compiler_version,
        calls={call.name: call.facts for call in content.calls if call.facts is not None},
        states=tuple(s.name for s in content.states),
        output_names=tuple(shown for _, shown, _ in content.outputs),
        quantisation=dict(content.quantisation),
        options=dict(content.options),
        symbol_prefix=content.symbol_prefix,
        model=content.model,
        made_from=content.made_from,
        clean=content.clean,
    )
