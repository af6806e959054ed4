# SPDX-License-Identifier: Apache-2.0
"""Graphs drawn up node by node, with kernels that compute, as archives.

net = Net()
x = net.input("x")
y = net.call("scale", [x], "2.0f * in0[i]")
files = net.files(y)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from analysed import load_model
from archives import dump, tar_bytes
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.params import write_params
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import Model

PREAMBLE = (
    '#include "tvm/runtime/c_runtime_api.h"\n#include "tvm/runtime/c_backend_api.h"\n#include <math.h>\n'
)
SIGNATURE = (
    "(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, "
    "int32_t* out_ret_tcode, void* resource_handle)"
)
CTYPES = {"float32": "float", "int8": "int8_t", "int32": "int32_t", "int64": "int64_t", "float64": "double"}


@dataclass(frozen=True, slots=True)
class Ref:
    """One output of a node, with its shape and type."""

    node: int
    output: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(slots=True)
class Net:
    """A graph under construction: float32 unless told otherwise."""

    name: str = "net"
    nodes: list[dict[str, Any]] = field(default_factory=list)
    entries: list[Ref] = field(default_factory=list)
    constants: list[NamedTensor] = field(default_factory=list)
    kernels: dict[str, str] = field(default_factory=dict)
    main: dict[str, Any] = field(default_factory=dict)
    operators: list[dict[str, Any]] = field(default_factory=list)

    def input(self, name: str, shape: Sequence[int] = (1, 8), dtype: str = "float32") -> Ref:
        return self._add({"op": "null", "name": name, "inputs": []}, [(tuple(shape), dtype)])[0]

    def constant(self, name: str, value: np.ndarray[Any, Any]) -> Ref:
        dtype = DType.parse(value.dtype.name)
        self.constants.append(NamedTensor(name=name, dtype=dtype, shape=value.shape, data=value.tobytes()))
        return self.input(name, value.shape, value.dtype.name)

    def nop(self, source: Ref, shape: Sequence[int], name: str = "reshape_nop") -> Ref:
        return self._call_node(name, "__nop", [source], [tuple(shape)], source.dtype, flatten=False)[0]

    def call(
        self,
        function: str,
        inputs: Sequence[Ref],
        *expressions: str,
        shape: Sequence[int] | None = None,
        flatten: bool = False,
        name: str = "",
        define: bool = True,
    ) -> Any:
        """A call whose output k is ``expressions[k]`` of ``in0[i]``, ``in1[i]``...; one Ref or a list."""
        symbol = self.symbol(function)
        shapes = [tuple(shape) if shape is not None else inputs[0].shape] * max(len(expressions), 1)
        if define:
            self.kernels[symbol] = self.kernel(symbol, inputs, shapes, expressions)
        refs = self._call_node(name or symbol, symbol, inputs, shapes, inputs[0].dtype, flatten=flatten)
        return refs[0] if len(refs) == 1 else refs

    def symbol(self, function: str) -> str:
        stem = "".join(c if c.isascii() and c.isalnum() else "_" for c in self.name)
        return f"tvmgen_{stem}_{function}"

    def kernel(
        self,
        symbol: str,
        inputs: Sequence[Ref],
        shapes: Sequence[tuple[int, ...]],
        expressions: Sequence[str],
    ) -> str:
        """A packed kernel as TVM writes them: unpack, then one loop an output."""
        names = [f"in{i}" for i in range(len(inputs))] + [f"out{i}" for i in range(len(shapes))]
        types = [CTYPES[ref.dtype] for ref in inputs] + [CTYPES[inputs[0].dtype]] * len(shapes)
        lines = []
        for index, name in enumerate(names):
            lines += [f"  void* arg{index} = (((TVMValue*)args)[{index}].v_handle);"]
            lines += [f"  void* {name} = (((DLTensor*)arg{index})[0].data);"]
        for index, (shape, expression) in enumerate(zip(shapes, expressions, strict=False)):
            value = expression
            for name, type_ in zip(names, types, strict=True):
                value = value.replace(f"{name}[", f"(({type_}*){name})[")
            lines += [f"  for (int32_t i = 0; i < {int(np.prod(shape, dtype=int))}; ++i) {{"]
            lines += [f"    (({types[-1]}*)out{index})[i] = {value};", "  }"]
        head = f'#ifdef __cplusplus\nextern "C"\n#endif\nTVM_DLL int32_t {symbol}{SIGNATURE} {{\n'
        return head + "\n".join(lines) + "\n  return 0;\n}\n\n"

    def files(self, *heads: Ref, suffix: str = "c") -> dict[str, bytes]:
        """The members of an archive of version 7 with these outputs."""
        stem = "".join(c if c.isascii() and c.isalnum() else "_" for c in self.name)[:40]
        module = {
            "model_name": self.name,
            "memory": {"functions": {"main": [self._main()], "operator_functions": self.operators}},
            "target": ["c -keys=cpu"],
            "executors": ["graph"],
            "style": "full-model",
        }
        return {
            "metadata.json": dump({"modules": {self.name: module}, "version": 7}),
            f"codegen/host/src/{stem}_lib1.{suffix}": (PREAMBLE + "".join(self.kernels.values())).encode(),
            f"executor-config/graph/{stem}.graph": dump(self.graph(*heads)),
            f"parameters/{stem}.params": write_params(self.constants),
        }

    def graph(self, *heads: Ref) -> dict[str, Any]:
        row_ptr = [0]
        for node in self.nodes:
            row_ptr.append(row_ptr[-1] + int(node.get("attrs", {}).get("num_outputs", 1)))
        return {
            "nodes": self.nodes,
            "arg_nodes": [i for i, node in enumerate(self.nodes) if node["op"] == "null"],
            "heads": [[head.node, head.output, 0] for head in heads],
            "attrs": {
                "dltype": ["list_str", [ref.dtype for ref in self.entries]],
                "shape": ["list_shape", [list(ref.shape) for ref in self.entries]],
                "storage_id": ["list_int", list(range(len(self.entries)))],
                "device_index": ["list_int", [1] * len(self.entries)],
            },
            "node_row_ptr": row_ptr,
        }

    def write(self, path: Path, *heads: Ref, suffix: str = "c") -> Path:
        path.write_bytes(tar_bytes(self.files(*heads, suffix=suffix)))
        return path

    def load(self, tmp_path: Path, *heads: Ref) -> Model:
        return load_model(self.write(tmp_path / "net.tar", *heads))

    def _main(self) -> dict[str, Any]:
        sizes = {"workspace_size_bytes": 0, "constants_size_bytes": 0, "io_size_bytes": 0}
        return {"device": 1, **sizes, **self.main}

    def _call_node(
        self,
        name: str,
        function: str,
        inputs: Sequence[Ref],
        shapes: Sequence[tuple[int, ...]],
        dtype: str,
        *,
        flatten: bool,
    ) -> list[Ref]:
        attrs = {
            "num_outputs": str(len(shapes)),
            "num_inputs": str(len(inputs)),
            "flatten_data": str(int(flatten)),
            "func_name": function,
        }
        refs = [[ref.node, ref.output, 0] for ref in inputs]
        node = {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": refs}
        return self._add(node, [(shape, dtype) for shape in shapes])

    def _add(self, node: dict[str, Any], outputs: Sequence[tuple[tuple[int, ...], str]]) -> list[Ref]:
        self.nodes.append(node)
        refs = [Ref(len(self.nodes) - 1, i, shape, dtype) for i, (shape, dtype) in enumerate(outputs)]
        self.entries += refs
        return refs


def by_name(model: Model, name: str) -> Any:
    """The first tensor of that name."""
    return next(tensor for tensor in model.tensors if tensor.name == name)
