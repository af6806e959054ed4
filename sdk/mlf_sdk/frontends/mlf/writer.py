# SPDX-License-Identifier: Apache-2.0
"""Writer of archives in the Model Library Format, version 7, graph executor."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mlf_sdk.frontends.mlf.extension import KEY, CallFacts, Extension, Scale
from mlf_sdk.frontends.mlf.params import NamedTensor, write_params
from mlf_sdk.frontends.mlf.rawgraph import NOP
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.tensor import Quantisation

STAMP: Final = "1970-01-01 00:00:00Z"
"""Date of every archive: equal inputs give equal archives, byte for byte."""

Type = tuple[DType, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a kernel, or a node that only renames (``__nop``).

    Attributes:
        inputs: names of inputs, parameters, states and results of earlier calls, in argument order.
        outputs: type and shape of each; the first is called as the node, the others ``name:1``...
    """

    name: str
    symbol: str
    inputs: tuple[str, ...]
    outputs: tuple[Type, ...]
    facts: CallFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveContent:
    """Everything that an archive holds.

    Attributes:
        source: C text of all kernels.
        inputs: name and type of each.
        outputs: name of the value, and the name that the caller sees.
        quantisation: of inputs and outputs, by the names of their values.
        params, states: contents by name.
        options: of the compiler.
    """

    name: str
    compiler: str
    compiler_version: str
    source: str
    inputs: tuple[tuple[str, Type], ...]
    outputs: tuple[tuple[str, str], ...]
    quantisation: Mapping[str, Quantisation]
    params: tuple[NamedTensor, ...]
    states: tuple[NamedTensor, ...]
    calls: tuple[Call, ...]
    options: Mapping[str, str]


def archive_files(content: ArchiveContent) -> dict[str, bytes]:
    """Members of the archive, by name."""
    graph = _Graph(content)
    params = (*content.params, *content.states)
    return {
        f"codegen/host/src/{content.name}_lib0.c": content.source.encode(),
        f"executor-config/graph/{content.name}.graph": _json(graph.document()),
        "metadata.json": _json(_metadata(content, graph)),
        f"parameters/{content.name}.params": write_params(params),
    }


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
        for name, type_ in content.inputs:
            self._null(name, type_)
        for tensor in (*content.params, *content.states):
            self._null(tensor.name, (tensor.dtype, tensor.shape))
        for call in content.calls:
            self._call(call)
        self.heads = [[*self.entry[name], 0] for name, _ in content.outputs]

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
    size = type_[0].size_bytes
    for extent in type_[1]:
        size *= extent
    return size


def _metadata(content: ArchiveContent, graph: _Graph) -> dict[str, Any]:
    types = {
        name: graph.types[graph.pointers[node] + position] for name, (node, position) in graph.entry.items()
    }
    inputs = {name: {"size": _size(type_), "dtype": type_[0].name} for name, type_ in content.inputs}
    outputs = {
        shown: {"size": _size(types[name]), "dtype": types[name][0].name} for name, shown in content.outputs
    }
    computed = [_size(t) for call in content.calls if call.symbol != NOP for t in call.outputs]
    workspaces: dict[str, int] = {}
    for call in content.calls:
        if call.symbol != NOP:
            workspaces[call.symbol] = max(workspaces.get(call.symbol, 0), call.facts.workspace_bytes)
    main = {
        "device": 1,
        "workspace_size_bytes": sum(computed) + sum(workspaces.values()),
        "constants_size_bytes": sum(p.size_bytes for p in content.params),
        "io_size_bytes": sum(_size(types[name]) for name, _ in (*content.inputs, *content.outputs)),
        "inputs": inputs,
        "outputs": outputs,
    }
    operators = [
        {"function_name": symbol, "workspace": [{"device": 1, "workspace_size_bytes": size}]}
        for symbol, size in workspaces.items()
    ]
    extension = Extension(
        compiler=content.compiler,
        compiler_version=content.compiler_version,
        calls={call.name: call.facts for call in content.calls if call.symbol != NOP},
        states=tuple(s.name for s in content.states),
        output_names=tuple(shown for _, shown in content.outputs),
        quantisation={
            name: Scale(scale=q.scale, zero_point=q.zero_point, axis=q.axis)
            for name, q in content.quantisation.items()
        },
        options=dict(content.options),
    )
    module = {
        "model_name": content.name,
        "export_datetime": STAMP,
        "executors": ["graph"],
        "target": ["c -keys=cpu"],
        "style": "full-model",
        "external_dependencies": [],
        "memory": {"functions": {"main": [main], "operator_functions": operators}, "sids": []},
        KEY: msgspec.to_builtins(extension),
    }
    return {"version": 7, "modules": {content.name: module}}
