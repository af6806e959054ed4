# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as plain data: parsed behind bounds, nodes in an order in which they can run.

The file is hostile input: external data is read from the model's own folder alone, every name must be
written before it is read, and nothing is allocated that the file does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.operators import Array
from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.tools.checks import shown

MAX_FILE_BYTES: Final = 512 << 20
MAX_NODES: Final = 1 << 16
MAX_RANK: Final = 8
MAX_ELEMENTS: Final = 1 << 28
FIRST_OPSET: Final = 7
Whatever = Any  # messages of protobuf, and values of attributes
STANDARD: Final = ("", "ai.onnx")
_TAGS: Final = frozenset(range(0x0A, 0xAB, 8)) | {0x28}
_FOLDED: Final = frozenset(("Range", "SequenceMap", "Bernoulli"))  # defined by loops; constants are computed
_INSTALL: Final = "Install what reads ONNX files: pip install 'mlf-sdk[onnx]'."


@dataclass(frozen=True, slots=True, kw_only=True)
class RawNode:
    """A node as the file describes it; an empty name among the inputs is one that is left out."""

    number: int
    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(repr=False)
    proto: Any = field(repr=False)

    @property
    def place(self) -> str:
        """The node in a message."""
        return f"node {self.number} {self.kind} ({shown(self.name or ', '.join(self.outputs[:3]))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawInput:
    """An input of the model; an extent is a number, or a name where it is chosen later."""

    name: str
    dtype: np.dtype[Any]
    extents: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawModel:
    """The file's graph."""

    opset: int
    nodes: tuple[RawNode, ...]
    inputs: tuple[RawInput, ...]
    outputs: tuple[str, ...]
    constants: dict[str, Array]
    producer: str = ""


def is_onnx(path: Path) -> bool:
    """Return whether the file looks like an ONNX model: its name, or its first two fields."""
    if not path.is_file():
        return False
    if path.suffix == ".onnx":
        return True
    with path.open("rb") as stream:
        head = stream.read(3)
    return len(head) == 3 and head[0] == 0x08 and 0 < head[1] < 32 and head[2] in _TAGS


def require_onnx() -> Whatever:
    """The package ``onnx``.

    Raises:
        InputError: it is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise InputError("the package 'onnx' is not installed", where="ONNX model", hint=_INSTALL) from None
    return onnx


def read_onnx(path: Path, faults: FaultCollector, known: frozenset[str] = frozenset()) -> RawModel:
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
        raise InputError("not an ONNX model: it has no graph", where=str(path))
    return _Reader(onnx, path, faults).model(_expanded(onnx, model, path, known))


def external_files(path: Path) -> tuple[Path, ...]:
    """Files beside the model that hold data of it."""
    onnx = require_onnx()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except Exception:  # `read_onnx` says what is wrong
        return ()
    folder = path.resolve().parent
    names = {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}
    files = ((folder / name).resolve() for name in sorted(names))
    return tuple(f for f in files if folder in f.parents and f.is_file())


def _expanded(onnx: Whatever, model: Whatever, path: Path, known: frozenset[str]) -> Whatever:
    """The model with functions, its own ones and those that define operators of ONNX, put in their places."""
    from onnx import inliner

    try:
        if model.functions:
            model = inliner.inline_local_functions(model)
        used = {n.op_type for n in model.graph.node if n.domain in STANDARD} - known - _FOLDED
        chosen = sorted(name for name in used if _is_function(onnx, name))
        if chosen:
            _state_defaults(onnx, model, chosen)
            model = onnx.shape_inference.infer_shapes(model)
            model = inliner.inline_selected_functions(
                model, [("", name) for name in chosen], inline_schema_functions=True
            )
    except Exception as error:
        raise InputError(f"its functions can't be expanded: {str(error)[:200]}", where=str(path)) from None
    return model


def _state_defaults(onnx: Whatever, model: Whatever, chosen: list[str]) -> None:
    """State the attributes that nodes leave out: those who expand functions don't know their defaults."""
    version = max((o.version for o in model.opset_import if o.domain in STANDARD), default=1)
    for node in model.graph.node:
        if node.op_type in chosen and node.domain in STANDARD:
            given = {a.name for a in node.attribute}
            for name, stated in onnx.defs.get_schema(node.op_type, version).attributes.items():
                if name not in given and stated.default_value.name:
                    node.attribute.append(stated.default_value)


def _is_function(onnx: Whatever, name: str) -> bool:
    try:
        schema = onnx.defs.get_schema(name)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


class _Reader:
    def __init__(self, onnx: Whatever, path: Path, faults: FaultCollector) -> None:
        self.onnx, self.path, self.faults = onnx, path, faults

    def model(self, model: Whatever) -> RawModel:
        opset = self._opset(model)
        graph = model.graph
        if len(graph.node) > MAX_NODES:
            raise InputError(f"{len(graph.node)} nodes; at most {MAX_NODES} are read", where=str(self.path))
        constants = {}
        for tensor in graph.initializer:
            array = self.array(tensor, f"initializer {shown(tensor.name)}")
            if array is not None:
                constants[tensor.name] = array
        if graph.sparse_initializer:
            self.faults.add("sparse_initializer", "sparse tensors are not supported; store them densely")
        inputs = tuple(
            found for v in graph.input if v.name not in constants and (found := self._input(v)) is not None
        )
        nodes = tuple(self._nodes(graph, opset))
        outputs = tuple(v.name for v in graph.output)
        return RawModel(
            opset=opset,
            nodes=self._ordered(nodes, {i.name for i in inputs} | set(constants)),
            inputs=inputs,
            outputs=outputs,
            constants=constants,
            producer=model.producer_name,
        )

    def _opset(self, model: Whatever) -> int:
        newest = self.onnx.defs.onnx_opset_version()
        found = [o.version for o in model.opset_import if o.domain in STANDARD]
        if not found:
            self.faults.add("opset_import", "no version of the standard operators is stated")
            return int(newest)
        if not FIRST_OPSET <= found[0] <= newest:
            self.faults.add(
                "opset_import",
                f"operators of version {found[0]}; {FIRST_OPSET} to {newest} are known. "
                "Export the model again, or upgrade the package onnx",
            )
        return int(found[0])

    def _input(self, value: Whatever) -> RawInput | None:
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
            d.dim_value if d.WhichOneof("value") == "dim_value" else d.dim_param or "?"
            for d in tensor.shape.dim
        )
        return RawInput(name=value.name, dtype=dtype, extents=extents)

    def _dtype(self, code: int, place: str) -> np.dtype[Any] | None:
        try:
            found = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(code))
        except (KeyError, ValueError):
            self.faults.add(place, f"has the unknown type {code}")
            return None
        if found.kind not in "fiub":
            self.faults.add(place, f"has the type {found}, which is not supported")
            return None
        return found

    def array(self, tensor: Whatever, place: str) -> Array | None:
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

    def _external(self, tensor: Whatever, place: str) -> Array | None:
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

    def _nodes(self, graph: Whatever, opset: int) -> Iterator[RawNode]:
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
            )

    def _attribute(self, attribute: Whatever, place: str) -> Whatever:
        if attribute.type == self.onnx.AttributeProto.TENSOR:
            return self.array(attribute.t, place)
        try:
            value = self.onnx.helper.get_attribute_value(attribute)
        except ValueError:
            self.faults.add(place, "damaged")
            return None
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def _ordered(self, nodes: tuple[RawNode, ...], known: set[str]) -> tuple[RawNode, ...]:
        """Nodes in an order in which each reads what was written before; faults for those without one."""
        written: dict[str, int] = {}
        for node in nodes:
            for name in filter(None, node.outputs):
                if name in written or name in known:
                    self.faults.add(node.place, f"writes {shown(name)}, which is written already")
                written[name] = node.number
        waiting = {n.number: {i for i in n.inputs if i and i not in known} for n in nodes}
        readers: dict[str, list[int]] = {}
        for node in nodes:
            for name in waiting[node.number]:
                if name not in written:
                    self.faults.add(node.place, f"reads {shown(name)}, which nothing writes")
                readers.setdefault(name, []).append(node.number)
        ready = [n.number for n in nodes if not waiting[n.number]]
        order: list[RawNode] = []
        for number in ready:
            order.append(nodes[number])
            for name in nodes[number].outputs:
                for reader in readers.pop(name, ()):
                    waiting[reader].discard(name)
                    if not waiting[reader]:
                        ready.append(reader)
        if len(order) < len(nodes) and not self.faults.faults:
            stuck = [n.place for n in nodes if waiting[n.number]]
            self.faults.add(stuck[0], "reads its own result, by way of other nodes: the graph has a cycle")
        return tuple(sorted(order, key=lambda n: n.number)) if _is_sorted(order) else tuple(order)


def _is_sorted(order: list[RawNode]) -> bool:
    """True where the order of the file is one in which the nodes can run."""
    written: dict[str, int] = {}
    for node in order:
        for name in node.outputs:
            written[name] = node.number
    return all(written.get(i, -1) < n.number for n in order for i in n.inputs)
