# SPDX-License-Identifier: Apache-2.0
"""Functions of an ONNX model put in the places of their calls, behind bounds.

A few functions that call each other twice stand for more nodes than any memory holds: what they expand to is
counted before anything is expanded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mlf_sdk.errors import InputError
from mlf_sdk.tools.checks import shown

OnnxObject = Any  # messages of protobuf
STANDARD: Final = ("", "ai.onnx")
CLASSICAL: Final = "ai.onnx.ml"
MAX_NODES: Final = 1 << 16
MAX_DEPTH: Final = 64  # of functions that call functions
MAX_EXPANDED_BYTES: Final = 128 << 20  # beyond the file's own
_FOLDED: Final = frozenset(("Range", "SequenceMap", "Bernoulli"))  # defined by loops; constants are computed
_TYPED_BY: Final = {"QLinearConcat": 1, "QLinearConv": 7, "QGemm": 8}  # the input, if not the first
_MOST_OF_SCHEMA: Final = 100  # nodes of a definition that depends on the types of a node


def all_nodes(nodes: Iterable[OnnxObject]) -> Iterator[OnnxObject]:
    """Nodes and those of their graphs: branches and bodies of loops."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from all_nodes(graph.node)


def expanded(onnx: OnnxObject, model: OnnxObject, path: Path, known: frozenset[str]) -> OnnxObject:
    """The model with functions, its own ones and those that define operators of ONNX, put in their places.

    Args:
        known: operators that need not be replaced by those that ONNX defines them by.

    Raises:
        InputError: a function calls itself, or they expand to too much or not at all.
    """
    from onnx import inliner

    _Calls(model, path).check()
    try:
        if model.functions:
            _one_version(onnx, model)
            model = inliner.inline_local_functions(model, convert_version=True)
        chosen = _defined(onnx, model, path, known)
        if chosen:
            _state_defaults(onnx, model, chosen)
            model = _with_types(onnx, model)
            model = inliner.inline_selected_functions(
                model, [("", name) for name in chosen], inline_schema_functions=True
            )
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"its functions can't be expanded: {str(error)[:200]}", where=str(path)) from None
    return model


@dataclass(frozen=True, slots=True)
class _Size:
    """Nodes, bytes and depth of calls that a list of nodes expands to."""

    nodes: int = 0
    size_bytes: int = 0
    depth: int = 0


class _Calls:
    """Sizes of a model's own functions, each counted once."""

    def __init__(self, model: OnnxObject, path: Path) -> None:
        self.model, self.path = model, path
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self.sizes: dict[tuple[str, str, str], _Size] = {}
        self.open: list[tuple[str, str, str]] = []

    def check(self) -> None:
        """Refuse a model whose functions call themselves, or expand to too much."""
        if self.functions:
            self._bounded(self._expanded(self.model.graph.node), "the graph")

    def _expanded(self, nodes: Iterable[OnnxObject]) -> _Size:
        count = size_bytes = depth = 0
        for node in all_nodes(nodes):
            key = (node.domain, node.op_type, node.overload)
            inner = self._function(key) if key in self.functions else _Size(1, node.ByteSize())
            count, size_bytes = count + inner.nodes, size_bytes + inner.size_bytes
            depth = max(depth, inner.depth)
        return _Size(count, size_bytes, depth)

    def _function(self, key: tuple[str, str, str]) -> _Size:
        name = shown(".".join(filter(None, key)))
        if key in self.open:
            raise InputError(f"the function {name} calls itself", where=str(self.path))
        if key not in self.sizes:
            self._deep(len(self.open), name)
            self.open.append(key)
            result = self._expanded(self.functions[key].node)
            self.open.pop()
            self.sizes[key] = _Size(result.nodes, result.size_bytes, result.depth + 1)
            self._bounded(self.sizes[key], f"the function {name}")
        return self.sizes[key]

    def _bounded(self, size: _Size, what: str) -> None:
        self._deep(size.depth, what)
        most = self.model.ByteSize() + MAX_EXPANDED_BYTES
        if size.nodes > MAX_NODES or size.size_bytes > most:
            raise InputError(
                f"{what} expands to {size.nodes} nodes of {size.size_bytes} bytes; "
                f"at most {MAX_NODES} of {most} are read",
                where=str(self.path),
                hint="Inline the functions when the model is exported.",
            )

    def _deep(self, depth: int, what: str) -> None:
        if depth > MAX_DEPTH:
            raise InputError(f"{what}: functions call each other {depth} deep", where=str(self.path))


def _one_version(onnx: OnnxObject, model: OnnxObject) -> None:
    """State the model's version of operators for its functions, where theirs has the same operators."""
    given = [(f, o) for f in model.functions for o in f.opset_import if o.domain in STANDARD]
    version = next((o.version for o in model.opset_import if o.domain in STANDARD), 0)
    if given and not version:
        version = max(o.version for _, o in given)
        model.opset_import.append(onnx.helper.make_opsetid("", version))
    for function, stated in given:
        kinds = {n.op_type for n in all_nodes(function.node) if n.domain in STANDARD}
        if all(_since(onnx, kind, stated.version) == _since(onnx, kind, version) for kind in kinds):
            stated.version = version


def _since(onnx: OnnxObject, kind: str, version: int) -> int:
    """Version that defined an operator last; 0 for one that is not known."""
    try:
        return int(onnx.defs.get_schema(kind, version).since_version)
    except onnx.defs.SchemaError:
        return 0


def _defined(onnx: OnnxObject, model: OnnxObject, path: Path, known: frozenset[str]) -> list[str]:
    """Names of operators that are to be replaced by those that ONNX defines them by."""
    used: dict[str, int] = {}
    for node in all_nodes(model.graph.node):
        if node.domain in STANDARD and node.op_type not in known | _FOLDED:
            used[node.op_type] = used.get(node.op_type, 0) + 1
    chosen = sorted(name for name in used if _nodes_of_schema(onnx, name))
    count = sum(used[name] * _nodes_of_schema(onnx, name) for name in chosen)
    if count > MAX_NODES:
        raise InputError(
            f"{', '.join(chosen)} expand to {count} nodes; at most {MAX_NODES} are read", where=str(path)
        )
    return chosen


def _nodes_of_schema(onnx: OnnxObject, name: str) -> int:
    """Nodes that an operator is defined by, at most; 0 for one that is no function."""
    try:
        schema = onnx.defs.get_schema(name)
    except onnx.defs.SchemaError:
        return 0
    if schema.has_context_dependent_function:
        return _MOST_OF_SCHEMA
    return len(schema.function_body.node) if schema.has_function else 0


def _with_types(onnx: OnnxObject, model: OnnxObject) -> OnnxObject:
    """The model with the types of its tensors, also behind operators that ONNX does not know."""
    result = onnx.shape_inference.infer_shapes(model)
    nodes = [(node, _of_same_types(onnx, node)) for node in model.graph.node]
    if not any(others for _, others in nodes):
        return result
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    del plain.graph.node[:]
    plain.graph.node.extend(other for node, others in nodes for other in others or (node,))
    stated = {v.name for v in (*result.graph.value_info, *result.graph.output)}
    for value in onnx.shape_inference.infer_shapes(plain).graph.value_info:
        if value.name not in stated:
            value.type.tensor_type.ClearField("shape")  # that of the input
            result.graph.value_info.append(value)
    return result


def _of_same_types(onnx: OnnxObject, node: OnnxObject) -> list[OnnxObject]:
    """Nodes with results of the types of a node's, which ONNX doesn't infer; none where it does."""
    if node.domain == CLASSICAL:
        return _of_classical_types(onnx, node)
    kinds = ("Gelu", "QuickGelu", "QLinear", "QGemm")
    if node.domain == "com.microsoft" and node.op_type.startswith(kinds):
        typed_by = node.input[_TYPED_BY.get(node.op_type, 0) :][:1]
        return [onnx.helper.make_node("Identity", typed_by, node.output[:1])]
    return []


def _of_classical_types(onnx: OnnxObject, node: OnnxObject) -> list[OnnxObject]:
    """Nodes of the types that an operator of ai.onnx.ml is defined with; labels are int64 or strings."""
    try:
        schema = onnx.defs.get_schema(node.op_type, domain=CLASSICAL)
    except onnx.defs.SchemaError:
        return []
    real = [output.type_str == "tensor(float)" for output in schema.outputs]
    if not node.input or (schema.has_type_and_shape_inference_function and not any(real)):
        return []
    proto = onnx.TensorProto
    text = any(a.name == "classlabels_strings" and a.strings for a in node.attribute)
    nodes = []
    for name, output, is_real in zip(node.output, schema.outputs, real, strict=False):
        if output.type_str == schema.inputs[0].type_str:
            nodes.append(onnx.helper.make_node("Identity", node.input[:1], [name]))
        elif name:
            to = proto.FLOAT if is_real else proto.STRING if text else proto.INT64
            nodes.append(onnx.helper.make_node("Cast", node.input[:1], [name], to=to))
    return nodes


def _state_defaults(onnx: OnnxObject, model: OnnxObject, chosen: list[str]) -> None:
    """State the attributes that nodes leave out: those who expand functions don't know their defaults."""
    version = max((o.version for o in model.opset_import if o.domain in STANDARD), default=1)
    for node in all_nodes(model.graph.node):
        if node.op_type in chosen and node.domain in STANDARD:
            given = {a.name for a in node.attribute}
            for name, stated in onnx.defs.get_schema(node.op_type, version).attributes.items():
                if name not in given and stated.default_value.name:
                    node.attribute.append(stated.default_value)
