# SPDX-License-Identifier: Apache-2.0
"""The model of a graph that was compiled in this process: no archive is written, no code of ours is read.

What the compiler states of its own kernels is taken from the compiler. Reading the archive of the same graph
gives the same tensors, steps and code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import msgspec

from mlf_sdk.compiler.build import CompiledGraph
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.frontends.mlf.content import ArchiveContent, Call, Type
from mlf_sdk.frontends.mlf.extension import stated_step
from mlf_sdk.frontends.mlf.graphcontent import content_of, custom_code
from mlf_sdk.frontends.mlf.rawgraph import NOP, share_memory
from mlf_sdk.ir.model import (
    CodeUnit,
    FileDigest,
    MemorySummary,
    Model,
    Provenance,
    Step,
    TensorKind,
    UnitKind,
)
from mlf_sdk.ir.names import model_c_name
from mlf_sdk.ir.tensor import TensorTable


def model_of(compiled: CompiledGraph, options: CompileOptions, made_from: FileDigest, title: str) -> Model:
    """The model of a compiled graph.

    Args:
        options: that it was compiled with.
        made_from: the model file.
        title: short name of the file's format.

    Raises:
        ArchiveError: the code of a custom operator is broken.
        InputError: the parts contradict each other.
    """
    content = content_of(compiled, options, made_from)
    built = _Builder(content)
    outputs = [(built.ids[name], shown) for name, shown, _ in content.outputs]
    c_name = model_c_name(content.name)
    return Model(
        name=content.name,
        c_name=c_name,
        provenance=Provenance(
            format=title,
            format_version="",
            compiler=content.compiler,
            compiler_version=content.compiler_version,
            sha256=hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest(),
            source=made_from.name,
            options=content.options,
            made_from=made_from,
        ),
        executor="graph",
        targets=content.targets,
        tensors=tuple(built.table.tensors),
        inputs=tuple(built.ids[name] for name, _ in content.inputs),
        outputs=tuple(number for number, _ in outputs),
        output_names=tuple(shown for _, shown in outputs),
        steps=tuple(built.steps),
        units=tuple(_units(compiled, content)),
        summary=MemorySummary(operators=content.workspaces),
        symbol_prefix=f"{c_name}_",
    )


class _Builder:
    """Tensors and steps of a graph, in the order in which an archive lists them."""

    def __init__(self, content: ArchiveContent) -> None:
        self.table = TensorTable()
        self.ids: dict[str, int] = {}
        self.steps: list[Step] = []
        self._quantisation = content.quantisation
        for name, type_ in content.inputs:
            self._add(name, type_, TensorKind.INPUT)
        for kind, held in ((TensorKind.CONSTANT, content.params), (TensorKind.STATE, content.states)):
            for one in held:
                self.ids[one.name] = self.table.add(one.name, one.dtype, one.shape, kind, data=one.data)
        for call in content.calls:
            self._call(call)

    def _add(self, name: str, type_: Type, kind: TensorKind, alias_of: int | None = None) -> int:
        known = self._quantisation.get(name)
        result = self.table.add(name, *type_, kind, alias_of=alias_of, quantisation=known)
        self.ids[name] = result
        return result

    def _call(self, call: Call) -> None:
        inputs = tuple(self.ids[name] for name in call.inputs)
        of = inputs[0] if call.symbol == NOP else None
        outputs = tuple(
            self._add(f"{call.name}:{i}" if i else call.name, type_, TensorKind.INTERMEDIATE, of)
            for i, type_ in enumerate(call.outputs)
        )
        if call.facts is None or share_memory(call.facts, self.table.tensors, inputs, outputs):
            return
        self.steps.append(stated_step(call.facts, len(self.steps), call.name, call.symbol, inputs, outputs))


def _units(compiled: CompiledGraph, content: ArchiveContent) -> Iterator[CodeUnit]:
    """Code by the names of its files; the compiler says what its own defines, the user's is read."""
    symbols = {True: dict[str, None](), False: dict[str, None]()}
    for operator in compiled.operators:
        if operator.kernel is not None:
            symbols[not operator.kernel.origin][operator.symbol] = None
    given = {unit.member: unit for unit in _given(custom_code(compiled.graph))}
    for member, data in sorted(content.code.items()):
        kind, clean = UnitKind(member.rpartition(".")[2]), member in content.clean
        mine = tuple(symbols[clean]) if kind is UnitKind.C else ()
        mine = compiled.code.assembly_symbols if kind is UnitKind.ASSEMBLY else mine
        own = CodeUnit(member=member, kind=kind, data=data, linked=bool(mine), symbols=mine, clean=clean)
        yield given.get(member, own)


def _given(code: Mapping[str, bytes]) -> tuple[CodeUnit, ...]:
    """Code that the user gave for custom operators."""
    if not code:
        return ()
    from mlf_sdk.frontends.sources import units_of  # the scanner of C takes time to load

    return units_of(code, "--custom")
