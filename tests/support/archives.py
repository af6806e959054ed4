# SPDX-License-Identifier: Apache-2.0
"""Tiny Model Library Format archives, built in code: small C kernels that really compute.

The model, on 8 elements, float32 or int8::

    product = x * w                      kernel fused_multiply
    smooth  = sum of 3 neighbours        kernel fused_smooth, with a workspace of 10 elements
    (2, 4)  = reshape                    only with nop=True
    y       = relu(smooth + b)           kernel fused_add_relu

    files = build(version=5, dtype="int8")          # {"metadata.json": b"...", ...}
    write(files, tmp_path / "tiny.tar.gz")          # or .tar, .tar.xz, or a folder
    files = edit_json(files, "metadata.json", lambda top: top.update(version=9))
    y = reference(Spec(dtype="int8"), x)
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import archives_c as c
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.params import write_params
from mlf_sdk.ir.dtype import DType

KINDS = ("graph", "aot-c", "aot-packed", "operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What to build: format version 1 to 7, one of KINDS, float32 or int8; nop only with graph."""

    version: int = 7
    kind: str = "graph"
    name: str = "tiny"
    dtype: str = "float32"
    nop: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (1, 8)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (2, 4) if self.nop else (1, 8)

    @property
    def element(self) -> DType:
        return DType.parse(self.dtype)

    @property
    def prefix(self) -> str:
        """What the names of functions begin with: mangled from version 3 on."""
        return f"tvmgen_{legal(self.name)}_" if self.version >= 3 else ""

    @property
    def stem(self) -> str:
        """What the names of code files begin with."""
        return f"{self.name}_" if self.version >= 3 and self.kind != "operator" else ""


def legal(name: str) -> str:
    """A module's name as a part of a C identifier."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


# ---- the model in numbers ----


def parameters(spec: Spec) -> dict[str, np.ndarray[Any, Any]]:
    """w and b of the model."""
    if spec.dtype == "int8":
        w, b = [16, -32, 48, 64, -80, 96, 112, 127], [1, -2, 3, -4, 5, -6, 7, 8]
    else:
        w, b = [1.0, -2.0, 0.5, 4.0, -0.25, 3.0, 1.5, 2.0], [0.5, -1.0, 0.25, 2.0, -4.0, 1.0, 8.0, -0.5]
    return {"p0": np.array([w], spec.element.numpy), "p1": np.array([b], spec.element.numpy)}


def sample(spec: Spec) -> np.ndarray[Any, Any]:
    """An input of the model that gives zero and positive outputs."""
    values = [3, -5, 7, 11, -13, 17, -19, 23]
    return np.array([values], spec.element.numpy)


def reference(spec: Spec, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The output for ``x`` of shape (1, 8); of the operator kind, twice the input."""
    if spec.kind == "operator":
        return (x * 2).astype(x.dtype)
    p = parameters(spec)
    if spec.dtype == "int8":
        product = np.clip((x.astype(np.int32) * p["p0"].astype(np.int32)) >> 4, -128, 127)
    else:
        product = x * p["p0"]
    padded = np.pad(product, ((0, 0), (1, 1)))
    smooth = (padded[:, :8] + padded[:, 1:9]) + padded[:, 2:]
    if spec.dtype == "int8":
        smooth = np.clip(smooth >> 1, -128, 127)
        y = np.clip(smooth + p["p1"].astype(np.int32), 0, 127).astype(np.int8)
    else:
        y = np.maximum(smooth + p["p1"], np.float32(0))
    return y.reshape(spec.output_shape)


# ---- members ----


def build(spec: Spec | None = None, /, **changes: Any) -> dict[str, bytes]:
    """The members of an archive by name, e.g. ``build(version=2)``, ``build(kind="operator")``."""
    spec = replace(spec or Spec(), **changes)
    if spec.kind not in KINDS:
        raise ValueError(spec.kind)
    files = {
        "metadata.json": dump(metadata(spec)),
        **{f"codegen/host/{name}": text.encode() for name, text in c.code(spec).items()},
    }
    if spec.kind == "operator":
        files["src/tir-1.txt"] = b"primfn(A, B)\n"
        return files
    files[f"src/{spec.name}.relay" if spec.version == 7 else "src/relay.txt"] = c.relay(spec).encode()
    files[f"parameters/{spec.name}.params"] = write_params(tensors(spec) if spec.kind == "graph" else ())
    if spec.kind == "graph":
        files[graph_member(spec)] = dump(graph(spec))
    return files


def merge(*specs: Spec) -> dict[str, bytes]:
    """One archive of version 7 with several modules."""
    merged: dict[str, bytes] = {}
    modules: dict[str, Any] = {}
    for spec in specs:
        files = build(spec)
        modules.update(json.loads(files.pop("metadata.json"))["modules"])
        merged |= files
    return {"metadata.json": dump({"modules": modules, "version": 7}), **merged}


def tensors(spec: Spec) -> tuple[NamedTensor, ...]:
    """The parameters as the file holds them."""
    return tuple(
        NamedTensor(name=name, dtype=spec.element, shape=value.shape, data=value.tobytes())
        for name, value in parameters(spec).items()
    )


def graph_member(spec: Spec) -> str:
    """Where this version keeps the graph."""
    if spec.version == 7:
        return f"executor-config/graph/{spec.name}.graph"
    return f"{'executor' if spec.version >= 5 else 'runtime'}-config/graph/graph.json"


def dump(value: Any) -> bytes:
    """JSON as the builder writes it."""
    return json.dumps(value, indent=2).encode()


def graph(spec: Spec) -> dict[str, Any]:
    """The graph as decoded JSON."""
    call = c.call_node
    nodes = [c.null_node("x"), c.null_node("p0"), call(spec, "fused_multiply", [0, 1])]
    nodes += [call(spec, "fused_smooth", [2])]
    if spec.nop:
        nodes += [c.nop_node(3)]
    nodes += [c.null_node("p1"), call(spec, "fused_add_relu", [len(nodes) - 1, len(nodes)])]
    last = len(nodes) - 1
    shapes = [list(spec.shape) for _ in nodes]
    shapes[last] = list(spec.output_shape)
    storage = [0, 1, 2, 3, 4, 2]
    if spec.nop:
        shapes[4] = list(spec.output_shape)
        storage = [0, 1, 2, 3, 3, 4, 2]
    return {
        "nodes": nodes,
        "arg_nodes": [index for index, node in enumerate(nodes) if node["op"] == "null"],
        "heads": [[last, 0, 0]],
        "attrs": {
            "dltype": ["list_str", [spec.dtype] * len(nodes)],
            "device_index": ["list_int", [1] * len(nodes)],
            "storage_id": ["list_int", storage],
            "shape": ["list_shape", shapes],
        },
        "node_row_ptr": list(range(len(nodes) + 1)),
    }


def metadata(spec: Spec) -> dict[str, Any]:
    """metadata.json of the spec's version, decoded."""
    target = "c -keys=cpu"
    module: dict[str, Any] = {
        "model_name": spec.name,
        "export_datetime": "2021-02-03 04:05:06Z",
        "memory": _memory(spec),
        "target": [target] if spec.version >= 6 else {"1": target},
    }
    executors = {"graph": ["graph"], "operator": []}.get(spec.kind, ["aot"])
    module["executors" if spec.version >= 5 else "runtimes"] = executors
    if spec.version >= 4:
        module["style"] = "operator" if spec.kind == "operator" else "full-model"
    if spec.kind.startswith("aot"):
        module["external_dependencies"] = [
            {"short_name": "tvm_standalone_crt", "url": "./runtime", "version_spec": "0.11.1"}
        ]
    if spec.version == 7 and spec.kind != "operator":
        return {"modules": {spec.name: module}, "version": 7}
    return {**module, "version": spec.version}


def _memory(spec: Spec) -> Any:
    element_bytes = spec.element.size_bytes
    size = 8 * element_bytes
    if spec.kind == "operator":
        argument = {"size_bytes": size, "shape": [8], "dtype": spec.dtype}
        return {"scale": [{**argument, "input_binding": name} for name in ("A", "B")]}
    sids = [{"storage_id": index, "size_bytes": size} for index in range(5)]
    if spec.version == 1:
        return sids
    workspace = 10 * (4 if spec.dtype == "int8" else element_bytes)
    main = {
        "device": 1,
        "workspace_size_bytes": 2 * size + workspace,
        "constants_size_bytes": 2 * size,
        "io_size_bytes": 2 * size,
    }
    if spec.version == 7:
        main["inputs"] = {"x": {"size": size, "dtype": spec.dtype}}
        main["outputs"] = {"output": {"size": size, "dtype": spec.dtype}}
    functions = [
        {"function_name": spec.prefix + name, "workspace": [{"device": 1, "workspace_size_bytes": used}]}
        for name, used in (("fused_multiply", 0), ("fused_smooth", workspace), ("fused_add_relu", 0))
    ]
    memory: dict[str, Any] = {"functions": {"main": [main], "operator_functions": functions}}
    return {**memory, "sids": sids} if spec.kind == "graph" else memory


# ---- changing members ----


def edit_json(files: Mapping[str, bytes], member: str, change: Callable[[Any], Any]) -> dict[str, bytes]:
    """A copy of ``files`` with one JSON member changed: in place, or by what ``change`` returns."""
    value = json.loads(files[member])
    result = change(value)
    return {**files, member: dump(value if result is None else result)}


def without(files: Mapping[str, bytes], *members: str) -> dict[str, bytes]:
    """A copy of ``files`` that lacks some members."""
    return {name: data for name, data in files.items() if name not in members}


# ---- containers ----


def entry(
    name: str, data: bytes = b"", type_: bytes = tarfile.REGTYPE, **fields: Any
) -> tuple[tarfile.TarInfo, bytes]:
    """One member of a tar, of any kind and with any fields of TarInfo."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = type_, len(data), 0o755 if type_ == tarfile.DIRTYPE else 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def tar_of(entries: Iterable[tuple[tarfile.TarInfo, bytes]], format_: int = tarfile.USTAR_FORMAT) -> bytes:
    """A tar of these members, with its end mark; nothing about them is checked."""
    out = io.BytesIO()
    for info, data in entries:
        out.write(info.tobuf(format_, "utf-8", "surrogateescape"))
        out.write(data + bytes(-len(data) % tarfile.BLOCKSIZE))
    out.write(bytes(2 * tarfile.BLOCKSIZE))
    return out.getvalue() + bytes(-len(out.getvalue()) % tarfile.RECORDSIZE)


def tar_bytes(files: Mapping[str, bytes], compression: str = "") -> bytes:
    """A deterministic archive with ``./`` names and folders; compression is "", "gz" or "xz"."""
    folders = {parent for name in files for parent in _parents(name)}
    entries = [entry("./", type_=tarfile.DIRTYPE)]
    entries += [entry(f"./{name}", type_=tarfile.DIRTYPE) for name in sorted(folders)]
    entries += [entry(f"./{name}", files[name]) for name in sorted(files)]
    data = tar_of(entries)
    if compression == "gz":
        return gzip.compress(data, mtime=0)
    return lzma.compress(data) if compression == "xz" else data


def write(files: Mapping[str, bytes], path: Path) -> Path:
    """Write an archive: by its suffix ``.tar``, ``.tar.gz``, ``.tar.xz``; without one, a folder."""
    if path.suffix in (".tar", ".gz", ".xz"):
        path.write_bytes(tar_bytes(files, "" if path.suffix == ".tar" else path.suffix[1:]))
        return path
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def _parents(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]
