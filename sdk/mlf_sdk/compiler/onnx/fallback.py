# SPDX-License-Identifier: Apache-2.0
"""Nodes that this package has no kernel for: TVM reads each as a model of its own and generates its code.

TVM's reading is not taken on trust: a node's Relax function is run and compared with ONNX Runtime, or with
ONNX's own reference, before its code is used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from mlf_sdk.compiler.generated import Generated
from mlf_sdk.compiler.graph import FLOAT32, INT64, Graph, Value, refuse
from mlf_sdk.compiler.onnx.context import Context
from mlf_sdk.compiler.onnx.file import require_onnx
from mlf_sdk.compiler.onnx.node import Node
from mlf_sdk.compiler.onnx.raw import RawModel, RawNode
from mlf_sdk.compiler.onnx.tensor import Tensor
from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.options import Generation, Kernels
from mlf_sdk.compiler.passes.rewrite import remove_unread
from mlf_sdk.compiler.relax.package import TvmObject, require_tvm, tvm_fault
from mlf_sdk.errors import FaultCollector, InputError

_TOLERANCE: Final = 1e-4
_IR_VERSION: Final = 8


def fallback_to_tvm(
    context: Context, raw: RawNode, what: str, faults: FaultCollector, generation: Generation, *, known: bool
) -> bool:
    """Let TVM generate a node's kernels where that may be; otherwise record a fault and return False.

    Args:
        what: the reason why there is no own kernel.
        known: everything that the node reads was read.
    """
    if generation.kernels is not Kernels.AUTO:
        faults.add(raw.place, what)
    elif reason := tvm_fault():
        faults.add(raw.place, what)
        faults.hint = f"TVM can compile more operators. {reason}."
    elif known:
        try:
            generate(context, raw, generation)
        except InputError as error:
            faults.add(raw.place, f"{what}; by TVM neither: {error.what}")
        else:
            return True
    return False


def generate(context: Context, raw: RawNode, generation: Generation) -> None:
    """Add the operators of a node with kernels that TVM generates.

    Raises:
        InputError: TVM has no such operator, reads it in another way than ONNX, or can't express it in C.
    """
    from mlf_sdk.compiler.relax.translate import append

    if raw.proto is None or "." in raw.kind:
        refuse("not a standard operator")
    node = Node(context, raw)
    if raw.kind in _DIFFER and _DIFFER[raw.kind][0](node):
        refuse(_DIFFER[raw.kind][1])
    constants = {n: a for n in raw.inputs if n and (a := context.tensors[n].known) is not None}
    inputs = {n: context.value(context.tensors[n]) for n in raw.inputs if n and n not in constants}
    model = _model(context, raw, constants, inputs)
    module = imported(model)
    _compare(module, model, inputs)
    results = append(module, context, list(inputs.values()), raw.kind, unroll=generation.unroll)
    names = [n for n in raw.outputs if n]
    if len(results) < len(names):
        refuse(f"TVM computes {len(results)} of its results")
    for name, value in zip(names, results, strict=False):
        tensor = Tensor(name=name, dtype=value.dtype, shape=value.shape, data=value.data)
        tensor.nchw = None if value.data is not None else value
        node.context.bind(name, tensor)


_DIFFER: Final[dict[str, tuple[Callable[[Node], bool], str]]] = {  # what random numbers don't show
    "RoiAlign": (lambda node: node.attribute("mode") == "max", "TVM's maximum of RoiAlign is another"),
}


def _model(
    context: Context, raw: RawNode, constants: dict[str, Array], inputs: dict[str, Value]
) -> TvmObject:
    """A model of the one node, its constants inside."""
    onnx = require_onnx()
    helper = onnx.helper
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in inputs.items()
    ]
    held = [onnx.numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in constants.items()]
    made = [helper.make_empty_tensor_value_info(n) for n in raw.outputs if n]
    graph = helper.make_graph([raw.proto], "node", given, made, held)
    opsets = [helper.make_opsetid("", context.opset)]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    )


def imported(model: TvmObject, shapes: dict[str, tuple[int, ...]] | None = None) -> TvmObject:
    """Relax module of a model; UnsupportedError where TVM can't read it."""
    require_tvm("ONNX model")
    from tvm.relax.frontend.onnx import from_onnx

    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return from_onnx(model, shape_dict=shapes, keep_params_in_input=False)
    except Exception as error:  # whatever its converters raise
        return refuse(f"TVM can't read it: {_last_line(error)}")


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:200]


def _compare(module: TvmObject, model: TvmObject, inputs: dict[str, Value]) -> None:
    """Refuse a module that computes something else than the node; skipped where the reference can't say."""
    random = np.random.default_rng(1)
    given = {name: _numbers(random, value) for name, value in inputs.items()}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = _by_runtime(model, given)
        wanted = _by_reference(model, given) if wanted is None else wanted
    if wanted is None:
        return
    try:
        result = _run(module, list(given.values()))
    except Exception as error:
        refuse(f"TVM can't compile it: {_last_line(error)}")
    for got, expected in zip(result, wanted, strict=False):
        most = max(1.0, float(np.abs(expected).max())) if expected.size else 1.0
        near = got.shape == expected.shape and np.allclose(
            got.astype(np.float64),
            expected.astype(np.float64),
            rtol=0,
            atol=_TOLERANCE * most,
            equal_nan=True,
        )
        if not near:
            refuse("TVM reads it in another way than ONNX Runtime or ONNX's reference")


def _by_runtime(model: TvmObject, given: dict[str, Array]) -> list[Array] | None:
    """Results of ONNX Runtime; None where it is not installed, or can't run this node on these numbers."""
    try:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, given))
    except Exception:  # its own classes, and ImportError
        return None


def _by_reference(model: TvmObject, given: dict[str, Array]) -> list[Array] | None:
    """Results of ONNX's reference; None where it has no such operator, or not for these numbers."""
    from onnx.reference import ReferenceEvaluator

    try:
        return list(ReferenceEvaluator(model).run(None, given))
    except Exception:  # whatever its operators raise
        return None


def _numbers(random: np.random.Generator, value: Value) -> Array:
    """Numbers for an input; whole ones are small, for they may be indices."""
    if value.dtype == FLOAT32:
        return random.standard_normal(value.shape).astype(value.dtype)
    high = 1 if value.dtype == INT64 else 2
    return random.integers(0, high + 1, value.shape).astype(value.dtype)


def _run(module: TvmObject, inputs: list[Array]) -> list[Array]:
    tvm = require_tvm("ONNX model")
    device = tvm.cpu()
    machine = tvm.relax.VirtualMachine(tvm.compile(module, target="llvm"), device)
    result = machine["main"](*(tvm.runtime.tensor(np.ascontiguousarray(a), device) for a in inputs))
    return [result.numpy()] if hasattr(result, "numpy") else [one.numpy() for one in result]


def without_unread(graph: Graph) -> Graph:
    """The graph without operators whose results nothing reads: what was begun for a node and left to TVM."""
    generated = any(isinstance(operator, Generated) for operator in graph.operators)
    return remove_unread(graph) if generated else graph


__all__ = ["fallback_to_tvm", "imported", "without_unread"]


def whole_graph(
    path: Path, raw: RawModel, name: str, shapes: list[tuple[int, ...]], generation: Generation
) -> Graph:
    """The graph of a model as TVM reads it.

    Args:
        raw: the model as it was read and checked.
        shapes: of its inputs.

    Raises:
        InputError: TVM is not installed, can't read the model, or can't express it in C.
    """
    from mlf_sdk.compiler.relax.translate import relax_graph

    require_tvm("--kernels tvm")
    fixed = {given.name: shape for given, shape in zip(raw.inputs, shapes, strict=True)}
    try:
        module = imported(require_onnx().load(path), fixed)
        graph = relax_graph(module, None, name, unroll=generation.unroll, schedule=generation.schedule)
    except InputError as error:
        raise InputError(error.what, where=str(path), hint="Leave out --kernels tvm.") from error
    values = list(graph.values)
    names = zip((*graph.inputs, *graph.outputs), (*(i.name for i in raw.inputs), *raw.outputs), strict=True)
    for number, stated in names:
        values[number] = dataclasses.replace(values[number], name=stated)
    return dataclasses.replace(graph, values=tuple(values))
