# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as a graph: every node by its builder, every defect and gap reported together."""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlf_sdk.compiler import regions
from mlf_sdk.compiler.graph import UNREADABLE, Graph, UnsupportedError, Value
from mlf_sdk.compiler.onnx.budget import Budget, BudgetError, elements_of
from mlf_sdk.compiler.onnx.builders import BUILDERS, is_supported, reason_of_refusal
from mlf_sdk.compiler.onnx.classical import expand_operator
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.control import spliced
from mlf_sdk.compiler.onnx.fallback import fallback_to_tvm, whole_graph, without_unread
from mlf_sdk.compiler.onnx.file import MAX_ELEMENTS, MAX_RANK, read_onnx
from mlf_sdk.compiler.onnx.fold import fold
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.qoperators import expand_quantised
from mlf_sdk.compiler.onnx.raw import RawInput, RawModel, RawNode
from mlf_sdk.compiler.onnx.strings import carry_strings, named_labels
from mlf_sdk.compiler.onnx.tensor import Tensor, kept_type
from mlf_sdk.compiler.operators import Move, Reshape
from mlf_sdk.compiler.options import Generation, Kernels
from mlf_sdk.compiler.passes.integer_layers import settled
from mlf_sdk.errors import FaultCollector
from mlf_sdk.tools.checks import BoundedFaults, shown

Shapes = Mapping[str, Sequence[int]]


def load_onnx(
    path: Path,
    name: str = "",
    shapes: Shapes | None = None,
    batch: int = 1,
    generation: Generation = Generation(),  # noqa: B008 - frozen
) -> Graph:
    """Read a model.

    Args:
        name: of the model; by default the file's, as a C identifier.
        shapes: of inputs whose shape the file leaves open; the first axis is otherwise the batch.
        batch: extent of a first axis that the file leaves open.
        generation: use of TVM's kernels.

    Raises:
        ArchiveError: the file is damaged, or has operators that are not supported; all at once.
        InputError: it is no ONNX file, or a shape is missing.
    """
    faults = model_faults(path)
    if generation.kernels is Kernels.TVM:
        return _whole(path, name, shapes or {}, batch, faults, generation)
    graph = read_graph(path, name, shapes or {}, batch, faults, generation)
    faults.raise_if_any()
    return settled(without_unread(graph.graph))


def model_faults(path: Path) -> BoundedFaults:
    """Collector of the faults of a model."""
    hint = "Export the model again, with fixed shapes and standard operators."
    return BoundedFaults(str(path), subject="model", hint=hint)


def _whole(
    path: Path, name: str, shapes: Shapes, batch: int, faults: FaultCollector, generation: Generation
) -> Graph:
    raw = read_onnx(path, faults, frozenset(BUILDERS))
    faults.raise_if_any()
    fixed = [_input_type(i, shapes, batch, faults)[1] for i in raw.inputs]
    faults.raise_if_any()
    return whole_graph(path, raw, name or _name_of(path), fixed, generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Graph of a model as far as it could be read.

    Attributes:
        graph: of the nodes that can be compiled.
        nodes: of the file, in the order of the run.
        node_of: for each operator of the graph, the number of its node.
        refused: numbers of nodes that can't be compiled.
        blocked_downstream: numbers of nodes that read what those write.
        tensors: those that are known, by name.
    """

    graph: Graph
    nodes: tuple[RawNode, ...]
    node_of: tuple[int, ...]
    refused: frozenset[int]
    blocked_downstream: frozenset[int]
    tensors: Mapping[str, Tensor]


def read_graph(
    path: Path,
    name: str,
    shapes: Shapes,
    batch: int,
    faults: FaultCollector,
    generation: Generation = Generation(),  # noqa: B008 - frozen
) -> Reading:
    """Read what can be read of a model.

    Args:
        faults: gets every node that can't be compiled.

    Raises:
        ArchiveError: the file is damaged, or a shape is missing; all faults at once.
        InputError: it is no ONNX file.
    """
    raw = read_onnx(path, faults, frozenset(BUILDERS))
    faults.raise_if_any()
    return build_graph(expand_quantised(raw), name or _name_of(path), shapes, batch, faults, generation)


def labels_of(path: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Places that give strings, and the strings; raises InputError when the file can't be parsed at all."""
    return named_labels(read_onnx(path, FaultCollector(str(path)), frozenset(BUILDERS)))


def _name_of(path: Path) -> str:
    return re.sub(r"\W", "_", path.stem, flags=re.ASCII)


def build_graph(
    raw: RawModel, name: str, shapes: Shapes, batch: int, faults: FaultCollector, generation: Generation
) -> Reading:
    """The graph of a model that was read, as far as its nodes are supported."""
    context = Context(raw.opset, Budget(elements_of(raw.constants)))
    context.read_by(raw.nodes)
    context.results = frozenset(raw.outputs)
    for key, array in raw.constants.items():
        context.constant(key, array)
    inputs = [_placeholder(context, i, *_input_type(i, shapes, batch, faults)) for i in raw.inputs]
    unknown = set(shapes) - {i.name for i in raw.inputs}
    for key in sorted(unknown):
        faults.add(
            f"shape of {shown(key)}", f"no such input; there are {', '.join(i.name for i in raw.inputs)}"
        )
    faults.raise_if_any()
    node_of, refused, blocked = _build(context, raw.nodes, faults, generation)
    _check_types(context, raw, faults)
    outputs: list[int] = []
    for key in raw.outputs:
        if key in context.tensors:
            outputs.append(_result(context, context.tensors[key], key, {*outputs, *(v.id for v in inputs)}))
        elif not refused:
            faults.add("outputs", f"{shown(key)} is written by no node")
    last = raw.nodes[-1].number if raw.nodes else 0
    graph = Graph(
        name=name,
        values=tuple(context.values),
        operators=tuple(context.operators),
        inputs=tuple(v.id for v in inputs),
        outputs=tuple(outputs),
        labels=tuple(context.strings.get(key, ()) for key in raw.outputs),
    )
    return Reading(
        graph=graph,
        nodes=raw.nodes,
        node_of=(*node_of, *[last] * (len(graph.operators) - len(node_of))),
        refused=refused,
        blocked_downstream=blocked,
        tensors=context.tensors,
    )


def _check_types(context: Context, raw: RawModel, faults: FaultCollector) -> None:
    """Compare element types that the file states with those of its nodes; of shapes, the nodes' count."""
    for name, stated in raw.stated.items():
        tensor = context.tensors.get(name)
        if tensor is not None and tensor.dtype != kept_type(stated):
            faults.add(f"tensor {shown(name)}", f"is stated as {stated}, and its node writes {tensor.dtype}")


def _placeholder(context: Context, given: RawInput, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Value:
    return context.output(given.name, dtype, shape)[1]


def _input_type(
    given: RawInput, shapes: Shapes, batch: int, faults: FaultCollector
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Type and shape of an input; (1,) and a fault where it is left open."""
    place = f"input {shown(given.name)}"
    shape = tuple(int(e) for e in shapes.get(given.name, ()))
    if given.name not in shapes:
        shape = tuple(
            e if isinstance(e, int) else batch if axis == 0 else 0 for axis, e in enumerate(given.extents)
        )
        if any(isinstance(e, str) for e in given.extents[1:]):
            open_ = ",".join(str(e) for e in given.extents)
            example = ",".join(str(e) if isinstance(e, int) else "N" for e in given.extents)
            faults.add(place, f"its shape is left open: {open_}. Give it: --shape {given.name}={example}")
            shape = (1,)
    elif len(shape) != len(given.extents) or any(
        isinstance(e, int) and e not in (s, 0) for e, s in zip(given.extents, shape, strict=True)
    ):
        faults.add(place, f"the shape {shape} doesn't fit that of the file: {given.extents}")
    if any(e < 1 for e in shape) or len(shape) > MAX_RANK or np.prod(shape, dtype=np.float64) > MAX_ELEMENTS:
        faults.add(place, f"has the shape {shape}")
        shape = (1,)
    return kept_type(given.dtype), shape


def _build(
    context: Context, nodes: tuple[RawNode, ...], faults: FaultCollector, generation: Generation
) -> tuple[list[int], frozenset[int], frozenset[int]]:
    """Add each node; one that follows a failed one is not reported again, one without a builder is.

    Returns:
        Number of the node of each operator; numbers of the nodes that failed, and of those behind them.
    """
    node_of: list[int] = []
    refused: set[int] = set()
    blocked: set[int] = set()
    pending = deque(nodes)
    while pending:
        raw = pending.popleft()
        known = all(not n or n in context.tensors for n in raw.inputs)
        try:
            if known and (carry_strings(context, raw) or fold(context, raw)):
                continue
            if known and (branch := spliced(context, raw)) is not None:
                pending.extendleft(reversed(branch))
                continue
            if known and (simple := expand_operator(context, raw)) is not None:
                pending.extendleft(reversed(simple))
                continue
            if not is_supported(raw.kind):
                raise UnsupportedError(reason_of_refusal(raw.kind))
            if known:
                BUILDERS[raw.kind](context, Node(context, raw))
            else:
                blocked.add(raw.number)
        except UnsupportedError as error:
            if not fallback_to_tvm(context, raw, error.what, faults, generation, known=known):
                refused.add(raw.number)
        except BudgetError as error:
            faults.add(raw.place, error.what)
            faults.raise_if_any()
        except UNREADABLE as error:
            faults.add(raw.place, f"damaged, or of a form that is not known: {str(error)[:200]}")
            refused.add(raw.number)
        node_of += [raw.number] * (len(context.operators) - len(node_of))
        large = [v for v in context.values[-4:] if v.elements > MAX_ELEMENTS or len(v.shape) > 16]
        if large:
            faults.add(raw.place, f"its result has the shape {large[0].shape}, which is too large")
            faults.raise_if_any()
    return node_of, frozenset(refused), frozenset(blocked)


def _result(context: Context, tensor: Tensor, name: str, taken: set[int]) -> int:
    """Value of an output; a copy where it is an input, a constant, or an output already."""
    value = context.value(tensor)
    if value.id in taken or value.data is not None:
        result = context.add(name, value.dtype, value.shape, value.quantisation)
        if value.data is None:
            context.emit(Reshape(**context.common("Identity", [value], result)))
        else:
            steps = regions.strides(value.shape)
            parts = (regions.box(value.shape, steps, steps),)  # also of no elements: an output is written
            context.operators.append(Move(**context.common("Constant", [value], result), regions=parts))
        return result.id
    if value.name != name:
        context.values[value.id] = dataclasses.replace(value, name=name)
    return value.id


__all__ = ["BUILDERS", "Reading", "build_graph", "load_onnx", "model_faults", "read_graph"]
