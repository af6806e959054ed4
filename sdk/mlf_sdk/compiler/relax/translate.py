# SPDX-License-Identifier: Apache-2.0
"""Calls of a Relax function to operators of a graph, each with the kernel that TVM generates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlf_sdk.compiler.generated import Generated
from mlf_sdk.compiler.graph import Graph, GraphBuilder, Value
from mlf_sdk.compiler.kernels.kernel import C_TYPES, Kernel
from mlf_sdk.compiler.operators import Array, Reshape
from mlf_sdk.compiler.relax.lower import legalised
from mlf_sdk.compiler.relax.package import TvmObject, require_tvm
from mlf_sdk.compiler.relax.source import kernel_of
from mlf_sdk.errors import InputError

_WHERE = "Relax module"


def relax_graph(
    module: TvmObject,
    params: Mapping[str, Array] | None = None,
    name: str = "model",
    *,
    unroll: bool = True,
    schedule: bool = True,
) -> Graph:
    """The graph of a Relax module: every operator a kernel that TVM generates.

    Args:
        module: its function ``main`` is the model; all shapes are fixed.
        params: numbers of those parameters of ``main`` that are constant, by name.
        name: of the model.
        unroll, schedule: as in `legalised`.

    Raises:
        InputError: it has no ``main``, or needs what can't be generated.
    """
    tvm = require_tvm(_WHERE)
    if not isinstance(module, tvm.IRModule) or "main" not in [v.name_hint for v in module.get_global_vars()]:
        raise InputError("not an IRModule with a function 'main'", where=_WHERE)
    given = {key: tvm.runtime.tensor(np.ascontiguousarray(a)) for key, a in (params or {}).items()}
    names = [str(p.name) for p in module["main"].params]
    if unknown := sorted(set(given) - set(names)):
        raise InputError(
            f"main has no parameter {', '.join(map(repr, unknown))}; it has {', '.join(names)}", where=_WHERE
        )
    if given:
        module = tvm.relax.transform.BindParams("main", given)(module)
    sink = GraphBuilder()
    inputs = []
    for parameter in module["main"].params:
        dtype, shape = _type(parameter.ty)
        inputs.append(sink.add(str(parameter.name), dtype, shape))
    outputs = append(module, sink, inputs, "", unroll=unroll, schedule=schedule)
    held: list[int] = []
    for position, value in enumerate(outputs):
        held.append(_result(sink, value, f"output{position}", {*held, *(v.id for v in inputs)}))
    return Graph(
        name=name,
        values=tuple(sink.values),
        operators=tuple(sink.operators),
        inputs=tuple(v.id for v in inputs),
        outputs=tuple(held),
    )


def _result(sink: GraphBuilder, value: Value, name: str, taken: set[int]) -> int:
    """An output of the model: a value that it computes, under a name of its own."""
    if value.data is not None:
        raise InputError(f"{name} is constant", where=_WHERE, hint="Leave it out of the results of main.")
    if value.id not in taken:
        sink.values[value.id] = Value(id=value.id, name=name, dtype=value.dtype, shape=value.shape)
        return value.id
    result = sink.add(name, value.dtype, value.shape)
    sink.emit(Reshape(**sink.common("copy", [value], result)))
    return result.id


def append(
    module: TvmObject,
    sink: GraphBuilder,
    inputs: Sequence[Value],
    kind: str,
    *,
    unroll: bool = True,
    schedule: bool = True,
) -> list[Value]:
    """Add the operators of a module's ``main``.

    Args:
        inputs: values of its parameters, in order.
        kind: of the operators, for reports; empty: the names of TVM's functions.

    Returns:
        Values of its results.

    Raises:
        InputError: it needs what can't be generated; all reasons at once.
    """
    lowered = legalised(module, unroll=unroll, schedule=schedule)
    return _Translation(lowered, sink, kind).run(inputs)


def _type(ty: TvmObject) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Element type and shape of a tensor; InputError where either is open or not supported."""
    shape = getattr(getattr(ty, "shape", None), "values", getattr(ty, "shape", None))
    try:
        dtype = np.dtype(str(ty.dtype))
        extents = tuple(int(e) for e in shape)  # type: ignore[union-attr]
    except (TypeError, ValueError, AttributeError):
        raise InputError(f"not a tensor of a fixed shape: {ty}", where=_WHERE) from None
    if dtype.name not in C_TYPES:
        raise InputError(f"tensors of {dtype} are not supported", where=_WHERE)
    return dtype, extents


class _Translation:
    """Bindings of ``main``, one after another."""

    def __init__(self, module: TvmObject, sink: GraphBuilder, kind: str) -> None:
        self.tvm = require_tvm(_WHERE)
        self.module, self.sink, self.kind = module, sink, kind
        self.found: dict[Any, Any] = {}
        self.kernels: dict[str, Kernel] = {}
        self.faults: list[str] = []

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        main = self.module["main"]
        self.found.update(zip(main.params, inputs, strict=True))
        for block in main.body.blocks:
            for binding in block.bindings:
                self.found[binding.var] = self.value(binding.value)
        if self.faults:
            raise InputError("; ".join(dict.fromkeys(self.faults)), where=_WHERE)
        result = self.value(main.body.body)
        return result if isinstance(result, list) else [result]

    def value(self, expression: TvmObject) -> Any:  # noqa: ANN401 - a value, or a list
        relax = self.tvm.relax
        if isinstance(expression, relax.Var):
            return self.found[expression]
        if isinstance(expression, relax.Tuple):
            return [self.value(field) for field in expression.fields]
        if isinstance(expression, relax.TupleGetItem):
            return self.value(expression.tuple_value)[expression.index]
        if isinstance(expression, relax.Call):
            return self.call(expression)
        constant: TvmObject = getattr(expression, "value", getattr(expression, "data", None))
        if hasattr(constant, "numpy"):
            data = constant.numpy()
            return self.sink.add_constant("constant", data)
        raise InputError(f"{type(expression).__name__} is not supported", where=_WHERE)

    def call(self, call: TvmObject) -> Any:  # noqa: ANN401 - a value, or a list
        name = str(getattr(call.op, "name", getattr(call.op, "name_hint", call.op)))
        if name == "relax.call_tir" and len(call.args) == 2:
            return self.loops(call)
        dtype, shape = _type(call.ty)
        if name in ("relax.reshape", "relax.memory.view"):
            source = self.value(call.args[0])
            made = self.sink.add(source.name, dtype, shape)
            self.sink.emit(Reshape(**self.common("reshape", [source], made)))
            return made
        self.faults.append(f"TVM has no loops for {name.removeprefix('relax.')}")
        return self.sink.add("", dtype, shape)

    def loops(self, call: TvmObject) -> Any:  # noqa: ANN401 - a value, or a list
        name = call.args[0].name_hint
        inputs = [self.value(a) for a in call.args[1].fields]
        type_ = call.ty_args[0] if hasattr(call, "ty_args") else call.sinfo_args[0]
        fields = list(getattr(type_, "fields", [type_]))
        outputs = [self.sink.add(name, *_type(one)) for one in fields]
        try:
            if name not in self.kernels:
                self.kernels[name] = kernel_of(self.module[name], name, inputs, outputs)
            self.sink.emit(Generated(**self.common(name, inputs, *outputs), kernel=self.kernels[name]))
        except InputError as error:
            self.faults.append(f"{name}: {error.what}")
        return outputs if hasattr(type_, "fields") else outputs[0]

    def common(self, name: str, inputs: Sequence[Value], *outputs: Value) -> dict[str, Any]:
        """Fields of `Operator`; the name is that of TVM's function where no kind was given."""
        return self.sink.common(self.kind or re.sub(r"\W", "_", name), inputs, *outputs)
