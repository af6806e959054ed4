# SPDX-License-Identifier: Apache-2.0
"""Linked code of a model, read as the build of a project compiles it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mlf_sdk.analysis.c.effects import EffectsOfCode
from mlf_sdk.analysis.c.preprocess import Preprocessed, as_written, preprocess
from mlf_sdk.analysis.c.source import scan_source
from mlf_sdk.analysis.c.stackpeak import allocating_functions
from mlf_sdk.analysis.c.unit import FunctionDefinition, SourceScan
from mlf_sdk.analysis.elf.objects import read_object
from mlf_sdk.errors import CodeError, FaultCollector, MissingToolError
from mlf_sdk.ir.model import CodeUnit, Model, UnitKind
from mlf_sdk.tools.programs import Compiler

if TYPE_CHECKING:
    from mlf_sdk.analysis.machine.registry import ObjectWorkspace

NO_COMPILER = "there is no compiler here to preprocess its code"


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """Linked code of a model, as the build compiles it.

    Attributes:
        functions: those with external linkage, by name.
        kernels: functions of objects.
        macros: of headers, where nothing was preprocessed.
        whole: reason to take each kernel as a whole; empty for none.
        reader: how it was read, for people.
    """

    scans: Mapping[str, SourceScan]
    functions: Mapping[str, FunctionDefinition]
    effects: EffectsOfCode
    kernels: Mapping[str, ObjectWorkspace]
    allocating: frozenset[str]
    macros: frozenset[str] = msgspec.field(default=frozenset())
    whole: str = ""
    reader: str = ""


def read_code(model: Model, compiler: Compiler | None, faults: FaultCollector) -> Code:
    """Read the linked sources and objects of a model; symbols that are defined twice are faults."""
    texts, whole, reader = _texts(model, compiler)
    scans = {member: scan_source(t.text, member, doubt=t.reason) for member, t in texts.items()}
    linked = [unit for unit in model.units if unit.linked]
    scans |= {u.member: scan_source(_text(u), u.member) for u in linked if u.kind is UnitKind.CXX}
    headers = [u for u in model.units if u.kind is UnitKind.HEADER] if whole else []
    objects = [unit for unit in linked if unit.kind is UnitKind.OBJECT]
    _check_definitions(scans, objects, faults)
    return Code(
        scans=scans,
        functions={f.name: f for scan in scans.values() for f in scan.functions if not f.is_static},
        effects=EffectsOfCode(scans.values()),
        kernels=_workspaces(objects),
        allocating=allocating_functions(scans.values()),
        macros=frozenset().union(*(scan_source(_text(u), u.member).macros for u in headers)),
        whole=whole,
        reader=reader,
    )


def _workspaces(objects: Sequence[CodeUnit]) -> dict[str, ObjectWorkspace]:
    if not objects:
        return {}
    from mlf_sdk.analysis.machine.workspaces import object_workspaces  # few models have objects

    return {name: result for unit in objects for name, result in object_workspaces(unit.data).items()}


def _check_definitions(
    scans: Mapping[str, SourceScan], objects: Iterable[CodeUnit], faults: FaultCollector
) -> None:
    """Find symbols that two linked files define, as the linker does."""
    result = [
        (scan.member, f.name)
        for scan in scans.values()
        for f in scan.functions
        if not f.is_static and not f.doubts
    ]
    for unit in objects:
        info = read_object(unit.data, unit.member, faults)
        result += [(unit.member, symbol) for symbol in (info.strong if info is not None else ())]
    defined: dict[str, str] = {}
    for member, symbol in result:
        if symbol in defined:
            faults.add(member, f"'{symbol[:128]}' is defined in {defined[symbol]} as well")
        defined[symbol] = member


def _texts(model: Model, compiler: Compiler | None) -> tuple[Mapping[str, Preprocessed], str, str]:
    """Texts of the linked C sources, the reason to take kernels as a whole, and how they were read."""
    files = {u.member: u.data for u in model.units if u.kind in (UnitKind.C, UnitKind.HEADER)}
    sources = [u.member for u in model.units if u.linked and u.kind is UnitKind.C]
    if not sources:
        return {}, "", ""
    stubs = () if compiler is not None and compiler.library_dirs else model.external_headers
    reason = NO_COMPILER
    if compiler is not None:
        try:
            reader = f"preprocessed by {' '.join(compiler.argv)}"
            reader += "" if compiler.is_builds else ", which is not the build's compiler"
            return preprocess(compiler, files, sources, stubs=stubs), "", reader
        except (CodeError, MissingToolError) as error:
            reason = f"the compiler can't preprocess its code: {error.what.splitlines()[0]}"
    return as_written(files, sources), reason, f"as written: {reason}"


def _text(unit: CodeUnit) -> str:
    return unit.data.decode("utf-8", "replace")
