# SPDX-License-Identifier: Apache-2.0
"""Analysis of a model's code for one compiler: facts about its steps that memory planning needs.

Loading a model says which functions it calls; what they do depends on the compiler that the build uses, and
is found here, in the preprocessed text of the linked sources. A kernel that can't be read is taken as a
whole: everything that it gets is in use in all of its run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mlf_sdk.analysis.c.effects import Effects, EffectsOfCode
from mlf_sdk.analysis.c.extents import kernel_extents
from mlf_sdk.analysis.c.liveness import allocating_functions, analyse_kernel, stack_peak, written_arguments
from mlf_sdk.analysis.c.preprocess import Compiler, Preprocessed, as_written, preprocess
from mlf_sdk.analysis.c.source import FunctionDefinition, SourceScan, scan_source
from mlf_sdk.analysis.elf.objects import ObjectWorkspace, object_workspaces, read_object
from mlf_sdk.errors import FaultCollector, ToolError
from mlf_sdk.ir.model import CodeUnit, Model, Span, Step, UnitKind, Workspace

STACK_ALIGNMENT = 16  # MLF_STACK_ALIGN of crt/include/mlf/mlf_adapter.h
NO_COMPILER = "there is no compiler here to preprocess its code"

# Bytes of C's types of numbers on every target; of those that differ, the smaller size.
_SIZES = {"char": 1, "short": 2, "int": 4, "long": 4, "float": 4, "double": 8, "half": 2, "__fp16": 2}
_SIZES |= {"_Float16": 2, "bool": 1, "_Bool": 1, "size_t": 4, "intptr_t": 4, "uintptr_t": 4}
_SIZES |= {f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)}


def analyse(model: Model, compiler: Compiler | None) -> Model:
    """Read the code of a model's steps.

    Args:
        model: as loaded; one that is analysed already is returned as it is.
        compiler: the build's, or another one where that is not known or not here; None: there is none.

    Raises:
        ArchiveError: functions that are defined twice, workspaces that nothing tells, kernels that reach
            beyond their tensors; all of them at once.
        InputError: a kernel writes to a parameter, or the code is recursive.
    """
    if model.is_analysed:
        return model
    faults = FaultCollector(model.provenance.source)
    code = _read_code(model, compiler, faults)
    read = _entry if model.executor == "aot" else _kernel
    steps = tuple(read(model, step, code, faults) for step in model.steps)
    faults.raise_if_any()
    return dataclasses.replace(model, steps=steps, is_analysed=True, reader=code.reader)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
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
    macros: frozenset[str] = field(default=frozenset())
    whole: str = ""
    reader: str = ""


def _read_code(model: Model, compiler: Compiler | None, faults: FaultCollector) -> _Code:
    texts, whole, reader = _texts(model, compiler)
    scans = {member: scan_source(t.text, member, doubt=t.reason) for member, t in texts.items()}
    linked = [unit for unit in model.units if unit.linked]
    scans |= {u.member: scan_source(_text(u), u.member) for u in linked if u.kind is UnitKind.CXX}
    headers = [u for u in model.units if u.kind is UnitKind.HEADER] if whole else []
    objects = [unit for unit in linked if unit.kind is UnitKind.OBJECT]
    _check_definitions(scans, objects, faults)
    return _Code(
        scans=scans,
        functions={f.name: f for scan in scans.values() for f in scan.functions if not f.is_static},
        effects=EffectsOfCode(scans.values()),
        kernels={name: found for u in objects for name, found in object_workspaces(u.data).items()},
        allocating=allocating_functions(scans.values()),
        macros=frozenset().union(*(scan_source(_text(u), u.member).macros for u in headers)),
        whole=whole,
        reader=reader,
    )


def _check_definitions(
    scans: Mapping[str, SourceScan], objects: Iterable[CodeUnit], faults: FaultCollector
) -> None:
    """Find symbols that two linked files define, as the linker does."""
    found = [
        (scan.member, f.name)
        for scan in scans.values()
        for f in scan.functions
        if not f.is_static and not f.doubts
    ]
    for unit in objects:
        info = read_object(unit.data, unit.member, faults)
        found += [(unit.member, symbol) for symbol in (info.strong if info is not None else ())]
    defined: dict[str, str] = {}
    for member, symbol in found:
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
        except ToolError as error:
            reason = f"the compiler can't preprocess its code: {error.what.splitlines()[0]}"
    return as_written(files, sources), reason, f"as written: {reason}"


def _text(unit: CodeUnit) -> str:
    return unit.data.decode("utf-8", "replace")


# ---- an entry that runs everything ----


def _entry(model: Model, step: Step, code: _Code, _faults: FaultCollector) -> Step:
    """The single step of an ahead-of-time model: its workspaces are replayed."""
    peak = stack_peak(tuple(code.scans.values()), step.symbol, alignment=STACK_ALIGNMENT)
    objects = [u for u in model.units if u.linked and u.kind is UnitKind.OBJECT]
    faults = FaultCollector("")
    opaque = any(getattr(read_object(u.data, u.member, faults), "allocator_sites", ()) for u in objects)
    is_known = peak.bytes is not None and not opaque
    return dataclasses.replace(
        step,
        workspace_stack_bytes=(peak.bytes or 0) if is_known else model.summary.workspace_bytes or 0,
        exact=peak.exact and is_known,
        whole="one call runs all kernels",
    )


# ---- kernels ----


def _kernel(model: Model, step: Step, code: _Code, faults: FaultCollector) -> Step:
    """The step that calls one kernel.

    A kernel whose workspaces are not known gets the archive's figure as one last-in-first-out region,
    a bound; where there is no figure either, that is a fault.
    """
    if not step.takes_tensors:
        return step  # the archive states its facts
    function = code.functions.get(step.symbol)
    if function is not None and not step.is_packed:
        return _of_ffi(step, code, faults)
    found = _of_object(step, code) if function is None else _of_source(step, function, code)
    if function is not None and not function.doubts:
        _check_reach(model, step, function, faults)
        if model.executor == "operator":
            _check_written(step, function, faults)
    if found.exact:
        return found
    bound = model.summary.operators.get(step.symbol) if model.executor == "graph" else None
    if not bound and (bound is None or step.symbol in code.allocating):
        faults.add(
            "./metadata.json",
            f"the workspace of '{step.symbol[:128]}' is told neither by its code ({found.whole}) nor here",
            field="memory.functions.operator_functions",
        )
    return dataclasses.replace(found, workspaces=(), workspace_stack_bytes=bound or 0)


def _of_object(step: Step, code: _Code) -> Step:
    whole = Span(first=0, last=0)
    found = code.kernels.get(step.symbol)
    known = found is None or found.exact
    sizes = found.slots if found is not None and known else ()
    return dataclasses.replace(
        step,
        workspaces=tuple(Workspace(slot=i, size_bytes=size, span=whole) for i, size in enumerate(sizes)),
        exact=known,
        whole="it is machine code" if found is None or known else found.reason,
    )


def _of_ffi(step: Step, code: _Code, faults: FaultCollector) -> Step:
    """A kernel that checks its arguments at run time: a whole, whose workspaces are replayed."""
    peak = stack_peak(tuple(code.scans.values()), step.symbol, alignment=STACK_ALIGNMENT)
    if peak.bytes is None:
        faults.add(
            code.functions[step.symbol].member,
            f"the workspace of '{step.symbol[:128]}' is not told by its code ({peak.reason})",
        )
    return dataclasses.replace(
        step,
        workspace_stack_bytes=peak.bytes or 0,
        exact=peak.exact,
        whole="it takes its arguments by tvm-ffi's convention",
    )


def _of_source(step: Step, function: FunctionDefinition, code: _Code) -> Step:
    found = analyse_kernel(function, allocating=code.allocating, macros=code.macros, whole=code.whole)
    effects = _effects(function, code)
    whole = Span(first=0, last=found.phases - 1)
    arguments = [found.argument(index) for index in range(len(step.arguments))]
    return dataclasses.replace(
        step,
        writes=tuple(i for i in range(len(step.inputs)) if i in effects.written),
        phases=found.phases,
        spans=tuple(_span(a.first, a.last, whole) for a in arguments),
        workspaces=tuple(
            Workspace(slot=slot, size_bytes=w.size_bytes, span=_span(w.first, w.last, whole))
            for slot, w in enumerate(found.slots)
        ),
        exact=found.workspace_known,
        kept=tuple(i for i in range(len(step.arguments)) if i in effects.kept),
        lasting=tuple(sorted(effects.lasting)),
        whole=found.reason,
    )


def _effects(function: FunctionDefinition, code: _Code) -> Effects:
    """Effects of a kernel; an address that a call leaves behind matters if anything can use it later."""
    if not function.member.endswith(".c"):
        return Effects()
    found = code.effects.of(function)
    return found if found.lasting else dataclasses.replace(found, kept=frozenset())


def _span(first: int | None, last: int | None, whole: Span) -> Span:
    """A span of phases; what is never accessed stays live throughout, which is always safe."""
    return whole if first is None or last is None else Span(first=first, last=last)


def _check_reach(model: Model, step: Step, function: FunctionDefinition, faults: FaultCollector) -> None:
    """Compare the elements that a kernel certainly reaches with the tensors that it gets."""
    for argument in kernel_extents(function).arguments[: len(step.arguments)]:
        tensor = model.tensors[step.arguments[argument.index]]
        size = min((_SIZES.get(word, 8) for word in argument.element_type.split()), default=0)
        what = f"the kernel '{step.symbol[:128]}' {{}} of '{tensor.name[:80]}', which has {tensor.size_bytes}"
        if argument.at_least * size > tensor.size_bytes:
            faults.add(function.member, what.format(f"reaches byte {argument.at_least * size}"))
        if argument.before:
            faults.add(
                function.member, what.format(f"reaches {argument.before * size} bytes before the first")
            )


def _check_written(step: Step, function: FunctionDefinition, faults: FaultCollector) -> None:
    """Compare the outputs of a single operator, as its code is written, with what is compiled."""
    written = {index for index in written_arguments(function) if index < len(step.arguments)}
    outputs = set(range(len(step.inputs), len(step.arguments)))
    if written and written != outputs:
        faults.add(
            function.member, f"conditions of the preprocessor change what '{step.symbol[:128]}' writes"
        )
