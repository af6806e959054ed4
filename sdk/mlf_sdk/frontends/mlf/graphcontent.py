# SPDX-License-Identifier: Apache-2.0
"""Content of the archive of a compiled graph: kernels, calls, parameters and facts."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

from mlf_sdk.compiler.build import CompiledGraph, CompiledOperator
from mlf_sdk.compiler.emit import Code
from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Role
from mlf_sdk.compiler.layer import constant_name, detail_of, macs_of, node_name
from mlf_sdk.compiler.operators import Array, Custom, Fused, Operator, ReadState
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.compiler.recurrences import AppendRows
from mlf_sdk.frontends.mlf.content import ArchiveContent, Call, NamedTensor
from mlf_sdk.frontends.mlf.extension import (
    CallFacts,
    InnerLayer,
    KernelCost,
    LayerFacts,
    OverlapFact,
    StreamFact,
)
from mlf_sdk.frontends.mlf.rawgraph import NOP
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import OWN_COMPILER, FileDigest
from mlf_sdk.ir.step import WINDOW, Stream, window_text
from mlf_sdk.version import __version__

_SOURCES: Final = "codegen/host/src/"
_INCLUDE: Final = "codegen/host/include/"


def content_of(
    compiled: CompiledGraph, options: CompileOptions | None = None, made_from: FileDigest | None = None
) -> ArchiveContent:
    """Everything that is to be said of the compiled graph, its options and the file it was made from."""
    builder = _Builder(compiled.graph, f"{_INCLUDE}{compiled.code.header_name}")
    for operator in compiled.operators:
        builder.add(operator)
    content = builder.content(compiled.code, options or CompileOptions())
    return msgspec.structs.replace(content, made_from=made_from)


class _Builder:
    """Collects tensors and calls in the archive's terms."""

    def __init__(self, graph: Graph, header: str) -> None:
        self.graph = graph
        self.header = header
        self.taken: set[str] = set()
        self.tensors: dict[int, str] = {}
        self.params: dict[str, Array] = {}
        self.calls: list[Call] = []
        for number in graph.inputs:
            self.tensors[number] = self._unique(graph.values[number].name or f"input{number}")
        self.states = [self._unique(f"state_{s.name}") for s in graph.states]

    def _unique(self, name: str) -> str:
        """``name``, with a number behind it where another node has it."""
        result, number = name, 0
        while result in self.taken:
            number += 1
            result = f"{name}#{number}"
        self.taken.add(result)
        return result

    def add(self, compiled: CompiledOperator) -> None:
        """Add a call of a kernel, or a node that only renames."""
        operator, kernel = compiled.operator, compiled.kernel
        if kernel is None:
            self._node(operator, NOP, [self._value(operator.inputs[0])])
            return
        arguments = []
        for parameter in kernel.parameters:
            if parameter.role is Role.INPUT:
                arguments.append(self._value(operator.inputs[parameter.number]))
            elif parameter.role is Role.CONSTANT:
                name = self._unique(constant_name(operator, parameter.number))
                self.params[name] = kernel.constants[parameter.number]
                arguments.append(name)
            elif parameter.role is Role.STATE:
                arguments.append(self.states[operator.states[parameter.number]])
        writes = not isinstance(operator, ReadState)
        facts = CallFacts(
            writes=tuple(i for i, p in enumerate(kernel.parameters) if writes and p.role is Role.STATE),
            workspace_bytes=kernel.workspace_bytes,
            overlaps=tuple(
                OverlapFact(input=position, output=number, distance_bytes=kernel.overlaps[parameter.number])
                for position, parameter in enumerate(kernel.parameters)
                if parameter.role is Role.INPUT and parameter.number in kernel.overlaps
                if arguments[position] not in self.states
                for number in range(len(operator.outputs))
            ),
            joins=kernel.joins,
            slices=kernel.slices,
            macs=macs_of(self.graph, operator),
            header=self.header,
            layer=LayerFacts(
                number=operator.number,
                operator=operator.kind,
                detail=detail_of(operator),
                kernel=kernel.label,
                counted=tuple(
                    KernelCost(kernel=one.kernel.label, cost=one.cost)
                    for one in compiled.counted
                    if one.cost is not None
                ),
                origin=kernel.origin,
                inside=self._inside(operator),
                tile=kernel.tile[:2] if kernel.tile else (1, 1),
            ),
            stream=self._stream(operator, kernel.stream),
        )
        self._node(operator, compiled.symbol, arguments, facts)

    def _inside(self, operator: Operator) -> tuple[InnerLayer, ...]:
        """Layers of a region; operators that passes made of one layer are one."""
        parts: dict[int, list[Operator]] = {}
        for one in operator.operators if isinstance(operator, Fused) else ():
            parts.setdefault(one.number, []).append(one)
        result = []
        for number, operators in parts.items():
            macs = [macs_of(self.graph, one) for one in operators]
            main = operators[macs.index(max(macs))]
            result.append(
                InnerLayer(number=number, operator=main.kind, detail=detail_of(main), macs=sum(macs))
            )
        return tuple(result)

    def _stream(self, operator: Operator, stream: Stream | None) -> StreamFact | None:
        if stream is None:
            return None
        position = self.graph.inputs.index(operator.inputs[stream.input])
        return StreamFact(**{**msgspec.structs.asdict(stream), "input": position})

    def _node(
        self, operator: Operator, symbol: str, arguments: list[str], facts: CallFacts | None = None
    ) -> None:
        outputs = []
        name = self._unique(node_name(operator))
        in_state = isinstance(operator, AppendRows)
        if isinstance(operator, AppendRows):
            self.tensors[operator.outputs[0]] = self.states[operator.state]
        for position, number in enumerate(() if in_state else operator.outputs):
            self.tensors[number] = name if not position else f"{name}:{position}"
            value = self.graph.values[number]
            outputs.append((_dtype(value.dtype), value.shape))
        self.calls.append(
            Call(name=name, symbol=symbol, inputs=tuple(arguments), outputs=tuple(outputs), facts=facts)
        )

    def _value(self, number: int) -> str:
        """Name of a value; a constant that is an operand becomes a parameter."""
        value = self.graph.values[number]
        if number not in self.tensors:
            name = self.tensors[number] = self._unique(f"constant_{number}")
            self.params[name] = value.constant
        return self.tensors[number]

    def content(self, code: Code, options: CompileOptions) -> ArchiveContent:
        """Everything that the archive holds."""
        graph = self.graph
        inputs = [graph.values[i] for i in graph.inputs]
        outputs = [(self._value(i), graph.values[i]) for i in graph.outputs]
        sources = {f"{_SOURCES}{graph.name}_lib0.c": code.own, self.header: code.header}
        if code.assembly:
            sources[f"{_SOURCES}{graph.name}_lib0_asm.S"] = code.assembly
        clean = tuple(sources)
        if code.foreign:
            sources[f"{_SOURCES}{graph.name}_lib1.c"] = code.foreign
        seen: list[tuple[str, Value]] = [(self.tensors[v.id], v) for v in inputs] + outputs
        return ArchiveContent(
            name=graph.name,
            compiler=OWN_COMPILER,
            compiler_version=__version__,
            code={member: text.encode() for member, text in sources.items()} | custom_code(graph),
            clean=clean,
            inputs=tuple((self.tensors[v.id], (_dtype(v.dtype), v.shape)) for v in inputs),
            outputs=tuple(
                (name, v.name or f"output{index}", (_dtype(v.dtype), v.shape))
                for index, (name, v) in enumerate(outputs)
            ),
            quantisation={name: v.quantisation for name, v in seen if v.quantisation is not None},
            params=tuple(_tensor(name, data) for name, data in self.params.items()),
            states=tuple(_tensor(n, s.initial) for n, s in zip(self.states, graph.states, strict=True)),
            calls=tuple(self.calls),
            options=options.texts() | ({WINDOW: window_text(graph.window)} if graph.window else {}),
        )


def custom_code(graph: Graph) -> dict[str, bytes]:
    """Sources of custom operators, by member of the archive."""
    operators = [operator for operator in graph.operators if isinstance(operator, Custom)]
    return {f"{_SOURCES}custom_{one.symbol}.c": one.source for one in operators}


def _dtype(dtype: np.dtype[Any]) -> DType:
    return DType.parse(dtype.name)


def _tensor(name: str, data: Array) -> NamedTensor:
    return NamedTensor(
        name=name, dtype=_dtype(data.dtype), shape=data.shape, data=np.ascontiguousarray(data).tobytes()
    )
