# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as plain data: parsed behind bounds, nodes in an order in which they can run.

The file is hostile input: external data is read from the model's own folder alone, every name must be
written before it is read, and nothing is allocated that the file does not hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.onnx.inline import MAX_NODES, STANDARD, all_nodes, expanded
from mlf_sdk.compiler.onnx.raw import RawGraph, RawInput, RawModel, RawNode, captured, ordered
from mlf_sdk.compiler.operators import Array
from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.tools.checks import shown

MAX_FILE_BYTES: Final = 512 << 20
MAX_RANK: Final = 8
MAX_ELEMENTS: Final = 1 << 28
FIRST_OPSET: Final = 7
OnnxObject = Any  # modules and messages of onnx, which state no types
AttributeValue = Any
_TAGS: Final = frozenset(range(0x0A, 0xAB, 8)) | {0x28}
_INSTALL: Final = "Install what reads ONNX files: pip install 'mlf-sdk[onnx]'."


def is_onnx(path: Path) -> bool:
    """Return whether the file looks like an ONNX model: its name, or its first two fields."""
    if not path.is_file():
        return False
    if path.suffix == ".onnx":
        return True
    with path.open("rb") as stream:
        head = stream.read(3)
    return len(head) == 3 and head[0] == 0x08 and 0 < head[1] < 32 and head[2] in _TAGS


def require_onnx() -> OnnxObject:
    """The package ``onnx``.

    Raises:
        InputError: it is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise InputError("the package 'onnx' is not installed", where="ONNX model", hint=_INSTALL) from None
    return onnx


def foldable(node: RawNode) -> RawNode:
    """A node of a standard operator, computed when the model is read where its inputs are constant."""
    proto = require_onnx().helper.make_node(node.kind, node.inputs, node.outputs, **node.attributes)
    return dataclasses.replace(node, proto=proto)


def read_onnx(path: Path, faults: FaultCollector, known: frozenset[str]) -> RawModel:
    """Parse the file; raises InputError when it can't be parsed at all.

    Args:
        known: operators that need not be replaced by those that ONNX defines them by.
    """
    onnx = require_onnx()
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise InputError(f"{size} bytes; at most {MAX_FILE_BYTES} are read", where=str(path))
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf's class of this differs between its versions
        raise InputError(f"not an ONNX model: {str(error)[:200]}", where=str(path)) from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        hint = "Compare the file's size with that at its source, and copy or export it again."
        raise InputError("not an ONNX model: it has no graph", where=str(path), hint=hint)
    return _Reader(onnx, path, faults).model(expanded(onnx, model, path, known))


def external_files(path: Path) -> tuple[Path, ...]:
    """Files beside the model that hold data of it."""
    onnx = require_onnx()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except Exception:  # `read_onnx` says what is wrong
        return ()
    folder = path.resolve().parent
    branches = [a.g for node in all_nodes(model.graph.node) for a in node.attribute]
    tensors = [t for graph in (model.graph, *branches) for t in graph.initializer]
    names = {e.value for t in tensors for e in t.external_data if e.key == "location"}
    files = ((folder / name).resolve() for name in sorted(names))
    return tuple(f for f in files if folder in f.parents and f.is_file())


class _Reader:
    def __init__(self, onnx: OnnxObject, path: Path, faults: FaultCollector) -> None:
        self.onnx, self.path, self.faults = onnx, path, faults

    def model(self, model: OnnxObject) -> RawModel:
        opset = self._opset(model)
        count = sum(1 for _ in all_nodes(model.graph.node))
        if count > MAX_NODES:
            raise InputError(f"{count} nodes; at most {MAX_NODES} are read", where=str(self.path))
        constants = self._constants(model.graph)
        inputs = tuple(
            result
            for v in model.graph.input
            if v.name not in constants and (result := self._input(v)) is not None
        )
        nodes = tuple(self._nodes(model.graph))
        return RawModel(
            opset=opset,
            nodes=ordered(nodes, {i.name for i in inputs} | set(constants), self.faults),
            parameters=tuple(i.name for i in inputs),
            inputs=inputs,
            outputs=tuple(v.name for v in model.graph.output),
            constants=constants,
            stated=dict(self._stated(model.graph)),
            producer=model.producer_name,
        )

    def _graph(self, graph: OnnxObject) -> RawGraph:
        """A branch or the body of a loop; what it captures is known when it runs."""
        nodes, constants = tuple(self._nodes(graph)), self._constants(graph)
        parameters = tuple(v.name for v in graph.input if v.name not in constants)
        raw_graph = RawGraph(
            nodes=nodes,
            parameters=parameters,
            outputs=tuple(v.name for v in graph.output),
            constants=constants,
        )
        known = {*parameters, *constants, *captured(raw_graph)}
        return dataclasses.replace(raw_graph, nodes=ordered(nodes, known, self.faults))

    def _constants(self, graph: OnnxObject) -> dict[str, Array]:
        result = {}
        for tensor in graph.initializer:
            array = self.array(tensor, f"initializer {shown(tensor.name)}")
            if array is not None:
                result[tensor.name] = array
        if graph.sparse_initializer:
            self.faults.add("sparse_initializer", "sparse tensors are not supported; store them densely")
        return result

    def _stated(self, graph: OnnxObject) -> Iterator[tuple[str, np.dtype[Any]]]:
        """Element types of tensors that the file states; unknown ones are left to the nodes that use them."""
        for value in (*graph.value_info, *graph.output):
            code = value.type.tensor_type.elem_type
            if code == self.onnx.TensorProto.STRING:  # a label, which becomes the place of its class
                continue
            if code in self.onnx.TensorProto.DataType.values() and code:
                yield value.name, np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(code))

    def _opset(self, model: OnnxObject) -> int:
        """Version of the standard operators that nodes are read in."""
        newest = self.onnx.defs.onnx_opset_version()
        result = [o.version for o in model.opset_import if o.domain in STANDARD]
        if not result:
            if any(node.domain in STANDARD for node in all_nodes(model.graph.node)):
                self.faults.add("opset_import", "no version of the standard operators is stated")
            return int(newest)
        changed = self._changed(model, result[0]) if 1 <= result[0] < FIRST_OPSET else []
        if changed:
            self.faults.add(
                "opset_import",
                f"operators of version {result[0]}, of which {', '.join(changed)} changed until version "
                f"{FIRST_OPSET}. Convert the model with onnx.version_converter, or export it again",
            )
        elif not 1 <= result[0] <= newest:
            self.faults.add(
                "opset_import",
                f"operators of version {result[0]}; 1 to {newest} are known. "
                "Export the model again, or upgrade the package onnx",
            )
        return max(int(result[0]), FIRST_OPSET)

    def _changed(self, model: OnnxObject, version: int) -> list[str]:
        """Standard operators of an old model that are others in the first version that is read."""
        defs = self.onnx.defs
        kinds = {n.op_type for n in all_nodes(model.graph.node) if n.domain in STANDARD}
        known = sorted(kind for kind in kinds if defs.has(kind, FIRST_OPSET, ""))
        return [
            kind
            for kind in known
            if not defs.has(kind, version, "")
            or defs.get_schema(kind, version, "").since_version
            != defs.get_schema(kind, FIRST_OPSET, "").since_version
        ]

    def _input(self, value: OnnxObject) -> RawInput | None:
        place = f"input {shown(value.name)}"
        tensor = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type":
            self.faults.add(place, "not a tensor")
            return None
        dtype = self._dtype(tensor.elem_type, place)
        if dtype is None:
            return None
        if not tensor.HasField("shape"):
            self.faults.add(place, "has no shape; give it with --shape")
            return None
        extents = tuple(
            d.dim_value if d.dim_value > 0 else d.dim_param or "?"  # exporters state a free one by 0 or -1
            for d in tensor.shape.dim
        )
        return RawInput(name=value.name, dtype=dtype, extents=extents)

    def _dtype(self, code: int, place: str) -> np.dtype[Any] | None:
        try:
            dtype = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(code))
        except (KeyError, ValueError):
            self.faults.add(place, f"has the unknown type {code}")
            return None
        if dtype.kind not in "fiub":
            self.faults.add(place, f"has the type {dtype}, which is not supported")
            return None
        return dtype

    def array(self, tensor: OnnxObject, place: str) -> Array | None:
        """Data of a tensor; None and a fault where it is damaged or elsewhere."""
        try:
            if tensor.data_location == self.onnx.TensorProto.EXTERNAL:
                return self._external(tensor, place)
            return np.asarray(self.onnx.numpy_helper.to_array(tensor))
        except InputError as error:
            self.faults.add(place, error.what)
        except Exception as error:
            self.faults.add(place, f"damaged: {str(error)[:200]}")
        return None

    def _external(self, tensor: OnnxObject, place: str) -> Array | None:
        entries = {e.key: e.value for e in tensor.external_data}
        location = entries.get("location", "")
        folder = self.path.resolve().parent
        file = (folder / location).resolve()
        if not location or Path(location).is_absolute() or folder not in file.parents:
            self.faults.add(place, f"its data is at {shown(location)}, outside of the model's folder")
            return None
        if not file.is_file():
            self.faults.add(place, f"its data is missing: {shown(location)}")
            return None
        dtype = self._dtype(tensor.data_type, place)
        if dtype is None:
            return None
        shape = tuple(tensor.dims)
        count = int(np.prod(shape, dtype=np.float64)) if all(d >= 0 for d in shape) else -1
        if not 0 <= count <= MAX_ELEMENTS:
            self.faults.add(place, f"has the shape {shape}")
            return None
        offset, needed = int(entries.get("offset", 0)), count * dtype.itemsize
        if offset < 0 or file.stat().st_size < offset + needed:
            self.faults.add(place, f"{needed} bytes at {offset} are needed; {shown(location)} is shorter")
            return None
        with file.open("rb") as stream:
            stream.seek(offset)
            return np.frombuffer(stream.read(needed), dtype.newbyteorder("<")).astype(dtype).reshape(shape)

    def _nodes(self, graph: OnnxObject) -> Iterator[RawNode]:
        for number, node in enumerate(graph.node):
            standard = node.domain in STANDARD
            attributes = {}
            for attribute in node.attribute:
                place = f"node {number} {node.op_type}, attribute {shown(attribute.name)}"
                attributes[attribute.name] = self._attribute(attribute, place)
            yield RawNode(
                number=number,
                kind=node.op_type if standard else f"{node.domain}.{node.op_type}",
                name=node.name,
                inputs=tuple(node.input),
                outputs=tuple(node.output),
                attributes=attributes,
                proto=node,
                captured=tuple(
                    name for a in attributes.values() if isinstance(a, RawGraph) for name in captured(a)
                ),
            )

    def _attribute(self, attribute: OnnxObject, place: str) -> AttributeValue:
        if attribute.type == self.onnx.AttributeProto.TENSOR:
            return self.array(attribute.t, place)
        if attribute.type == self.onnx.AttributeProto.GRAPH:
            return self._graph(attribute.g)
        try:
            value = self.onnx.helper.get_attribute_value(attribute)
        except ValueError:
            self.faults.add(place, "damaged")
            return None
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
